//! Plugin metadata: settings that apply to all uses of a plugin.

use tollhouse_plugin::absent;

use super::definition::{Candidate, Layout, Resource, no_guard};
use crate::reply::Reply;

pub(crate) const RESOURCE: Resource = Resource {
    name: "plugin_metadata",
    kind: "plugin",
    summary: "Settings for all uses of a plugin; the id is the plugin's name.",
    schema: "plugin_metadata",
    layout: Layout::PluginName,
    further: &[],
    plugins: None,
    check,
    guard: no_guard,
};

fn check(metadata: &Candidate<'_>) -> Result<(), Reply> {
    let name = metadata.path.rsplit('/').next().unwrap_or_default();
    let plugin = metadata.parts.catalogue.get(name);
    let plugin = plugin.ok_or_else(|| match absent::is_of_apisix(name) {
        true => Reply::bad(format!("plugin [{name}] is not part of this build")),
        false => Reply::bad("invalid plugin name"),
    })?;
    super::definition::check_shape("plugin_metadata", metadata.value)?;
    plugin
        .check_metadata(metadata.value)
        .map_err(|error| Reply::bad(format!("invalid configuration: {error}")))
}
