//! Problems that the data plane would have with objects that are not written yet. The objects are
//! compiled together with those of the store, but the result does not serve requests.

use std::collections::HashSet;

use serde_json::Value;
use tollhouse_config::store_keys::parse_store_key;
use tollhouse_config::{Document, Item};

use crate::context::Admin;
use crate::reply::Reply;
use crate::transfer;

/// Place of an object of the store in a document that is compiled: its problems are known and not asked for. No place in
/// a document begins so.
const IN_STORE: &str = "\0";

/// Problems of the objects of a document, beside the objects of the store that stay.
///
/// Costs as much as a start with all of these objects; one document is compiled at a time.
///
/// # Errors
/// The store cannot be read.
pub(crate) async fn problems(
    admin: &Admin,
    mut document: Document,
    stays: impl Fn(&str) -> bool,
) -> Result<Vec<Value>, Reply> {
    let Some(source) = admin.parts.console.clone() else { return Ok(Vec::new()) };
    let Ok(_turn) = admin.trial.acquire().await else { return Ok(Vec::new()) };
    // A gateway without a store has one document, which this one would replace.
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
