//! Files of the configuration centre, for clients and for the console. Files here and there have
//! the same rules: `write` has what both change, `read` and `watch` what clients ask for.

pub(crate) mod format;
pub(crate) mod messages;
mod read;
pub(crate) mod sealing;
pub(crate) mod value;
mod watch;
pub(crate) mod write;

use std::net::IpAddr;

use prost::Message;
use tollhouse_registry::Metadata;
use tollhouse_registry::config::ConfigFileKey;

use super::CallReply;
use crate::code::Code;
use crate::failure::Failure;
use crate::v1;

/// Label of the client's address, by which gray releases choose clients in the first place.
const CLIENT_IP: &str = "CLIENT_IP";

/// A `ConfigClientResponse` with a code.
fn client_reply(failure: &Failure, file: Option<v1::ClientConfigFileInfo>) -> CallReply {
    let response = v1::ConfigClientResponse {
        code: Some(failure.code.number()),
        info: Some(failure.info().into_owned()),
        config_file: file,
    };
    CallReply::made(failure.code, response.encode_to_vec())
}

/// Returns the labels of a client: those that it sent, and its address unless it sent another.
fn labels_of(tags: &[v1::ConfigFileTag], address: Option<&str>) -> Metadata {
    let tags = tags.iter().map(|tag| {
        let text = |text: &Option<String>| Box::from(text.as_deref().unwrap_or_default());
        (text(&tag.key), text(&tag.value))
    });
    let mut labels: Metadata = tags.collect();
    if let Some(address) = address {
        labels.entry(CLIENT_IP.into()).or_insert_with(|| address.into());
    }
    labels
}

fn address_text(address: Option<IpAddr>) -> Option<String> {
    // An address of IPv4 that arrived over IPv6 is written as what it is.
    address.map(|address| address.to_canonical().to_string())
}

/// Returns the name of a file, all of whose parts a client must give.
fn key_of(asked: &v1::ClientConfigFileInfo) -> Result<ConfigFileKey, Failure> {
    let part = |text: &Option<String>, what: &'static str| match text.as_deref() {
        Some(text) if !text.is_empty() => Ok(text.to_owned()),
        _ => Err(Failure::with(Code::BadRequest, what)),
    };
    let namespace = part(&asked.namespace, "namespace is empty")?;
    let group = part(&asked.group, "file group is empty")?;
    let name = part(&asked.file_name, "filename is empty")?;
    Ok(ConfigFileKey::new(&namespace, &group, &name))
}
