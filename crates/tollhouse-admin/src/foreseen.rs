//! Problems that the data plane would have with objects that are not written yet. The objects are
//! compiled together with those of the store, but the result does not serve requests.

use std::collections::HashSet;

use serde_json::Value;
use tollhouse_config::store_keys::parse_store_key;
use tollhouse_config::{Document, Item};

use crate::context::Admin;
use crate::reply::Reply;
use crate::transfer;

/// Start of the place of stored objects in a trial document. Problems at such places are known
/// already and are left out. Places in real documents never start with this text.
const IN_STORE: &str = "\0";

/// Returns the problems of the objects in a document, when compiled together with the stored
/// objects that stay.
///
/// Costs as much as starting the gateway with all of these objects, so that only one document is
/// compiled at a time.
///
/// # Errors
/// If the store cannot be read.
pub(crate) async fn problems(
    admin: &Admin,
    mut document: Document,
    stays: impl Fn(&str) -> bool,
) -> Result<Vec<Value>, Reply> {
    let Some(source) = admin.parts.console.clone() else { return Ok(Vec::new()) };
    let Ok(_turn) = admin.trial.acquire().await else { return Ok(Vec::new()) };
    // In a gateway without a store, the document would replace all objects, so that no stored
    // objects are added.
    if admin.document.is_none() {
        add_stored(admin, &mut document, stays).await?;
    }
    let compiled = tokio::task::spawn_blocking(move || source.foresee(&document)).await;
    let mut found = compiled.map_err(|error| Reply::unavailable(error.to_string()))?;
    found
        .retain(|problem| problem["path"].as_str().is_some_and(|path| !path.starts_with(IN_STORE)));
    Ok(found)
}

async fn add_stored(
    admin: &Admin,
    document: &mut Document,
    stays: impl Fn(&str) -> bool,
) -> Result<(), Reply> {
    let prefix = admin.parts.options.key_prefix.as_str();
    let listing = admin.parts.store.list(&format!("{prefix}/")).await?;
    let written: HashSet<_> = document.items.iter().map(|it| (it.kind, it.id.clone())).collect();
    for entry in listing.entries {
        let Some((kind, id)) = parse_store_key(prefix, &entry.key) else { continue };
        if written.contains(&(kind, id.clone())) || !stays(&transfer::path_of(kind, &id)) {
            continue;
        }
        let Ok(text) = std::str::from_utf8(&entry.value) else { continue };
        document.items.push(Item { kind, id, path: IN_STORE.to_owned(), text: text.into() });
    }
    Ok(())
}
