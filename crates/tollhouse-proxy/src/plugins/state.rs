//! State of a request's plugins; reused by the next request.

use tollhouse_plugin::{BodyFilter, Effect, HeaderEdits, MaskedRequest, Memory, RequestEdits};
use tollhouse_telemetry::ErrorCode;

use super::prepared::PreparedResponse;

/// Filters of a response body, in order.
pub(crate) type Filters = Vec<(Effect, Box<dyn BodyFilter>)>;

/// State that plugins leave during a request.
#[derive(Default)]
pub(crate) struct PluginState {
    /// Whether the request has plugins; otherwise the other fields are unused.
    pub(crate) is_active: bool,
    pub(crate) edits: RequestEdits,
    pub(crate) response_edits: HeaderEdits,
    pub(crate) filters: Filters,
    /// Values that plugins store for later phases.
    pub(crate) memory: Memory,
    /// Whether the response phase has run; it runs once per request.
    pub(crate) has_seen_answer: bool,
    /// Error that ends the request, whatever the plugins answer.
    pub(crate) refused: Option<ErrorCode>,
    /// Name of the authenticated consumer; empty if none.
    pub(crate) consumer: String,
    pub(crate) consumer_group: String,
    /// Counter number of the consumer plus one; 0 without a consumer.
    pub(crate) consumer_count: u32,
    /// Parts of the request that the access log shows in another form.
    pub(crate) masked: Option<Box<MaskedRequest>>,
    /// Response of a plugin.
    pub(crate) prepared: PreparedResponse,
}

/// Puts back a value taken with `mem::take`. The empty value in its place is forgotten without a
/// drop, because checking its parts would cost more than the swap.
#[inline]
pub(super) fn put_back<T>(place: &mut T, taken: T) {
    std::mem::forget(std::mem::replace(place, taken));
}

impl std::fmt::Debug for PluginState {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "PluginState({:?}, {} filters)", self.edits, self.filters.len())
    }
}

impl PluginState {
    /// Resets the state after a request.
    #[inline]
    pub(crate) fn finish(&mut self) {
        if std::mem::take(&mut self.is_active) {
            self.clear();
        }
    }

    /// Variable that a plugin has set; the last value counts.
    pub(crate) fn variable(&self, name: &str) -> Option<&[u8]> {
        let mut set = self.edits.variables.iter().rev();
        set.find(|(other, _)| *other == name).map(|(_, value)| value.as_slice())
    }

    /// Discards the edits of a response that the client does not receive, because they apply to
    /// another body.
    pub(crate) fn forget_answer(&mut self) {
        self.response_edits.clear();
        self.filters.clear();
    }

    fn clear(&mut self) {
        self.edits.clear();
        self.response_edits.clear();
        self.filters.clear();
        self.memory.clear();
        self.has_seen_answer = false;
        self.refused = None;
        self.consumer.clear();
        self.consumer_group.clear();
        self.consumer_count = 0;
        self.masked = None;
        self.prepared.clear();
    }
}
