//! What a request with plugins needs besides; reused from request to request.

use tollhouse_plugin::{BodyFilter, Effect, HeaderEdits, Memory, RequestEdits};
use tollhouse_telemetry::ErrorCode;

use super::prepared::Prepared;

/// Filters of a response body, in order.
pub(crate) type Filters = Vec<(Effect, Box<dyn BodyFilter>)>;

/// Everything that plugins leave behind during a request.
#[derive(Default)]
pub(crate) struct PluginState {
    /// Whether the request has plugins at all; nothing else here means anything otherwise.
    pub(crate) is_active: bool,
    /// What changes about the request.
    pub(crate) edits: RequestEdits,
    /// What changes about the response's headers.
    pub(crate) response_edits: HeaderEdits,
    /// What happens to the response's body.
    pub(crate) filters: Filters,
    /// What plugins remember for later phases.
    pub(crate) memory: Memory,
    /// Whether the response phase has run: plugins see one answer of a request.
    pub(crate) has_seen_answer: bool,
    /// Why the request cannot go on, whatever plugins make of it.
    pub(crate) refused: Option<ErrorCode>,
    /// Who asks.
    pub(crate) consumer: String,
    pub(crate) consumer_group: String,
    /// One more than what the consumer's requests are counted by; 0 where there is none.
    pub(crate) consumer_count: u32,
    /// The answer that a plugin gave.
    pub(crate) prepared: Prepared,
}

/// Puts back what was taken out with `mem::take`. Nobody has touched the empty value in its place, so that there is
/// nothing to drop: looking for it in every part would cost more than the rest.
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
    /// Forgets the request.
    #[inline]
    pub(crate) fn finish(&mut self) {
        if std::mem::take(&mut self.is_active) {
            self.clear();
        }
    }

    /// Drops what plugins have said of an answer that the client does not get: it is about another body.
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
        self.prepared.clear();
    }
}
