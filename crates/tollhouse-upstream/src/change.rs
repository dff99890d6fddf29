//! Notification of changed upstreams, for the parts that change nodes outside requests.

use std::sync::Arc;

use crate::state::UpstreamState;

/// An upstream that is new, changed or removed.
#[derive(Debug, Clone)]
pub struct UpstreamChange {
    /// Key of the upstream, such as `routes/1`.
    pub key: String,
    /// New state; `None` if the upstream is removed or no longer needs work outside requests.
    pub state: Option<Arc<UpstreamState>>,
}

impl UpstreamChange {
    /// Creates the notification of a new or changed upstream.
    pub fn to(state: &Arc<UpstreamState>) -> Self {
        Self { key: state.key().to_owned(), state: Some(Arc::clone(state)) }
    }

    /// Creates the notification that the upstream with this key was removed.
    pub fn gone(key: &str) -> Self {
        Self { key: key.to_owned(), state: None }
    }
}
