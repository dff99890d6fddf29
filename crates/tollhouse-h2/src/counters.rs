//! Statistics of a connection, for metrics and for finding out why it was closed.

/// Totals since the connection began. Everything that [`crate::Limits`] bounds is counted here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Number of frames received, of any type.
    pub frames: u64,
    /// Streams that reached the application or were opened by it.
    pub streams: u64,
    /// Streams refused because too many were open.
    pub refused_streams: u64,
    /// Number of RST_STREAM frames received.
    pub resets_received: u64,
    /// RST_STREAM frames sent because of errors by the peer.
    pub resets_caused: u64,
    /// Number of malformed messages that were refused.
    pub malformed_messages: u64,
    /// Malformed messages with too many or too large fields.
    pub oversized_heads: u64,
    /// Number of CONTINUATION frames received.
    pub continuations: u64,
    /// Number of empty DATA frames without END_STREAM.
    pub empty_data: u64,
    /// Number of PING frames received, replies excluded.
    pub pings: u64,
    /// Number of SETTINGS frames received, acknowledgements excluded.
    pub settings: u64,
    /// Number of PRIORITY and PRIORITY_UPDATE frames received.
    pub priorities: u64,
    /// Number of WINDOW_UPDATE frames received.
    pub window_updates: u64,
    /// Number of frames of unknown types, which are ignored.
    pub unknown_frames: u64,
    /// Frames for streams that were already closed.
    pub late_frames: u64,
    /// Times a stream's window was widened.
    pub widened_windows: u64,
    /// Times a window was not widened because the budget was exhausted.
    pub unwidened_windows: u64,
    /// Number of streams that ended without a reset.
    pub completed_streams: u64,
    /// Streams reset because the budget had no room for their unread bytes.
    pub unbudgeted_streams: u64,
    /// Streams reset because the peer did not open a window for them in time.
    pub stalled_streams: u64,
    /// Highest number of control frames pending at once.
    pub queued_control_frames_max: u32,
}
