//! Response to `OPTIONS *` (RFC 9110 §9.3.7).

use crate::plugins::state::PluginState;

/// Methods that a route can match.
const ALLOW: &str = "GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS, PURGE";

/// Prepares a 200 response without a body.
pub(crate) fn prepare(plugins: &mut PluginState) {
    // Marks the plugin state as used, so that the prepared response is cleared after the request
    // even if the route has no plugins.
    plugins.is_active = true;
    plugins.prepared.clear();
    plugins.prepared.status = 200;
    plugins.prepared.headers.set("Allow", ALLOW.as_bytes());
}
