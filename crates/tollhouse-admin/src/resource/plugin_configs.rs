//! Plugin configs: plugins that several routes share.

use super::definition::{Layout, Owner, Resource, Verb, no_check, user_text};
use crate::index::Contents;

pub(crate) const RESOURCE: Resource = Resource {
    name: "plugin_configs",
    kind: "plugin config",
    summary: "Plugins that several routes have in common.",
    schema: "plugin_config",
    layout: Layout::Id,
    further: &[Verb::Patch],
    plugins: Some(Owner::Route),
    check: no_check,
    guard,
};

fn guard(path: &str, contents: &Contents) -> Option<String> {
    let (place, user) = contents.user_of(path, &["routes"])?;
    let user = user_text(place, user);
    Some(format!("can not delete this plugin config, {user} is still using it now"))
}
