//! `/registry/v1/clients`: clients that reported themselves recently.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::listing::{Page, Pattern};
use super::request::Request;
use crate::reply::Reply;

/// A client that reported itself.
#[derive(JsonSchema, Serialize)]
pub(super) struct ClientOut<'a> {
    id: &'a str,
    first_seen_ms: u64,
    last_seen_ms: u64,
    #[schemars(with = "serde_json::Map<String, Value>")]
    client: Value,
}

pub(super) fn list(request: &Request<'_>) -> Result<Reply, Reply> {
    let page = Page::parse(&request.call.arguments)?;
    let pattern = Pattern::parse(&request.call.arguments)?;
    let mut clients = request.part.registry.clients();
    clients.retain(|client| pattern.admits(&client.id));
    let total = clients.len();
    let listed = clients.iter().enumerate().filter(|(place, _)| page.has(*place));
    let list = listed
        .map(|(_, client)| ClientOut {
            id: &client.id,
            first_seen_ms: client.first_seen_ms,
            last_seen_ms: client.last_seen_ms,
            client: request.part.dialect.show_client(client),
        })
        .collect();
    Ok(page.reply(request, list, total))
}
