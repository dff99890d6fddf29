//! The answer to `OPTIONS *` (RFC 9110 §9.3.7): the gateway is there, and speaks HTTP/1.1.

use crate::plugins::state::PluginState;

/// Methods that some route could take.
const ALLOW: &str = "GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS, PURGE";

/// Prepares it: 200 without a body.
pub(crate) fn prepare(plugins: &mut PluginState) {
    // What is prepared is forgotten with what plugins leave, also where there are none.
    plugins.is_active = true;
    plugins.prepared.clear();
    plugins.prepared.status = 200;
    plugins.prepared.headers.set("Allow", ALLOW.as_bytes());
}
