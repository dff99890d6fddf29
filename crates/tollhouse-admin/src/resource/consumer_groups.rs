//! Consumer groups: plugins that several consumers share.

use super::definition::{Layout, Owner, Resource, Verb, no_check, user_text};
use crate::index::Contents;

pub(crate) const RESOURCE: Resource = Resource {
    name: "consumer_groups",
    kind: "consumer group",
    summary: "Plugins that several consumers have in common.",
    schema: "consumer_group",
    layout: Layout::Id,
    further: &[Verb::Patch],
    plugins: Some(Owner::Route),
    check: no_check,
    guard,
};

fn guard(path: &str, contents: &Contents) -> Option<String> {
    let (place, user) = contents.user_of(path, &["consumers"])?;
    let user = user_text(place, user);
    Some(format!("can not delete this consumer group, {user} is still using it now"))
}
