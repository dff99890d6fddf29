//! Objects of the configured store, for commands that read it. The conversion between store and
//! documents is in `tollhouse_admin::transfer`.

pub use tollhouse_admin::transfer::{Object, Objects, from_document, from_listing, open_document};
use tollhouse_config::{Bootstrap, Document, Format, declarative};
use tollhouse_model::Problems;

use super::configured_store;

/// Returns the configured prefix of all object keys in the store, such as `/apisix`.
pub fn prefix(bootstrap: &Bootstrap) -> &str {
    bootstrap.admin.prefix.trim_end_matches('/')
}

/// Reads the configured store as a document; gateways may use it meanwhile.
///
/// # Errors
/// If the store cannot be read.
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
    // Stored values are literal: variables in them are not replaced.
    let document = declarative::parse_literal(&text)
        .map_err(|problems| anyhow::anyhow!("the store holds what no document can: {problems}"))?;
    Ok((document, wrong))
}
