//! Changes of responses that plugins prepare while a request passes the chain.

use std::fmt::Debug;
use std::sync::Arc;

use tollhouse_plugin as plugin;
use tollhouse_plugin::response::ResponseContext;
use tollhouse_shenyu::answer::Statuses;

/// Change of a response.
pub(crate) trait ResponseEdit: Debug + Send + Sync {
    /// Applies the change to the response of a node.
    fn edit(self: Arc<Self>, statuses: Statuses, cx: &mut ResponseContext<'_>);

    /// Applies the change to an answer that a plugin created from a call. By default, such answers
    /// stay unchanged.
    fn edit_answer(&self, _: Statuses, _: &mut plugin::Answer<'_>) {}
}
