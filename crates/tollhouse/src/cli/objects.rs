//! The objects of the configured store, for the commands that read it. What an object is on its way between a store and a
//! document is said where the Admin API does the same: `tollhouse_admin::transfer`.

pub use tollhouse_admin::transfer::{Object, Objects, from_document, from_listing, open_document};
use tollhouse_config::{Bootstrap, Document, Format, declarative};
use tollhouse_model::Problems;

use super::configured_store;

/// What the keys of the store begin with.
pub fn prefix(bootstrap: &Bootstrap) -> &str {
    bootstrap.admin.prefix.trim_end_matches('/')
}

/// The store that `bootstrap` names as a document; gateways may have it open meanwhile.
///
/// # Errors
/// The store cannot be read.
pub fn document_of_store(bootstrap: &Bootstrap) -> anyhow::Result<(Document, Problems)> {
    let prefix = prefix(bootstrap);
    let listing = configured_store::read(bootstrap)?;
    let (mut objects, wrong) = from_listing(&listing, prefix);
    let keyring = tollhouse_control::secrets::keyring_if_any(bootstrap)?;
    let catalogue = tollhouse_control::plugins::catalogue();
    for ((kind, _), object) in &mut objects {
        object.unseal(*kind, &catalogue, keyring.as_ref());
    }
    let items: Vec<_> = objects.into_iter().map(|((kind, _), it)| (kind, it.value)).collect();
    let text = declarative::write(&items, Format::Json);
    // What the store holds stands for itself: nothing in it is taken from the environment.
    let document = declarative::parse_literal(&text)
        .map_err(|problems| anyhow::anyhow!("the store holds what no document can: {problems}"))?;
    Ok((document, wrong))
}
