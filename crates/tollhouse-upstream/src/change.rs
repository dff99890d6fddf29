//! What those who change nodes beside requests are told of the upstreams in service.

use std::sync::Arc;

use crate::state::UpstreamState;

/// One upstream that is new, is another one now, or is gone.
#[derive(Debug, Clone)]
pub struct UpstreamChange {
    /// Its key, such as `routes/1`.
    pub key: String,
    /// Its state from now on; `None` when it is gone, or nobody need drive it any more.
    pub state: Option<Arc<UpstreamState>>,
}

impl UpstreamChange {
    /// An upstream is in service in this state.
    pub fn to(state: &Arc<UpstreamState>) -> Self {
        Self { key: state.key().to_owned(), state: Some(Arc::clone(state)) }
    }

    /// The upstream of that key is gone.
    pub fn gone(key: &str) -> Self {
        Self { key: key.to_owned(), state: None }
    }
}
