//! What a connection has seen: for metrics, and for whoever asks why one was ended.

/// Sums since the connection began; each bound of [`crate::Limits`] has what it counts here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames received, of any type.
    pub frames: u64,
    /// Streams that reached the application, or were opened by it.
    pub streams: u64,
    /// Streams refused since too many were open.
    pub refused_streams: u64,
    /// RST_STREAM received.
    pub resets_received: u64,
    /// RST_STREAM that faults of the peer made us send.
    pub resets_caused: u64,
    /// Messages refused for what they were made of.
    pub malformed_messages: u64,
    /// Of those, the ones with too many or too large fields.
    pub oversized_heads: u64,
    /// CONTINUATION received.
    pub continuations: u64,
    /// DATA without bytes that ended nothing.
    pub empty_data: u64,
    /// PING received, answers aside.
    pub pings: u64,
    /// SETTINGS received, acknowledgements aside.
    pub settings: u64,
    /// PRIORITY and PRIORITY_UPDATE received.
    pub priorities: u64,
    /// WINDOW_UPDATE received.
    pub window_updates: u64,
    /// Frames of unknown types.
    pub unknown_frames: u64,
    /// Frames for streams that were closed before.
    pub late_frames: u64,
    /// Times that the window of a stream was widened.
    pub widened_windows: u64,
    /// Times that a window was not widened for want of budget.
    pub unwidened_windows: u64,
    /// Streams that a server answered to their end, or a client was.
    pub completed_streams: u64,
    /// Streams reset since the budget had no room for their unread bytes.
    pub unbudgeted_streams: u64,
    /// Streams reset since the peer opened no window for them in time.
    pub stalled_streams: u64,
    /// Most control frames that waited unsent at once.
    pub queued_control_frames_max: u32,
}
