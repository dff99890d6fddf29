//! Protos: definitions of gRPC services.

use super::definition::{Layout, Resource, Verb, no_check, user_text};
use crate::index::Known;

pub(crate) const RESOURCE: Resource = Resource {
    name: "protos",
    kind: "proto",
    summary: "A definition of gRPC services.",
    schema: "proto",
    layout: Layout::Id,
    further: &[Verb::Post],
    plugins: None,
    check: no_check,
    guard,
};

fn guard(path: &str, known: &Known) -> Option<String> {
    let (place, user) = known.user_of(path, &["routes", "services"])?;
    let user = user_text(place, user);
    Some(format!("can not delete this proto, {user} is still using it now"))
}
