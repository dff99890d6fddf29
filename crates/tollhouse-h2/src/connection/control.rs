//! Frames that carry no message: SETTINGS, PING, GOAWAY, WINDOW_UPDATE, RST_STREAM, priorities.

use super::Connection;
use crate::event::{Event, ResetCause};
use crate::frame::{self, FrameHeader, flag};
use crate::limits::{FaultScope, PRIORITIES_PER_STREAM, UPDATES_PER_STREAM};
use crate::stream::{Half, Reset, Waiting};
use crate::{ConnectionError, ErrorCode, Priority, Role, StreamId};

type ReceiveResult = Result<Option<Event<'static>>, ConnectionError>;

impl Connection {
    /// Whether stream errors end the connection.
    pub(super) fn fails_on_faults(&self) -> bool {
        self.limits.faults == FaultScope::Connection
    }

    /// Handles a stream error by ending the connection or resetting the stream. A stream that has
    /// not begun cannot be reset (RFC 9113 §5.1).
    fn fault(&mut self, number: u32, code: ErrorCode, reason: &'static str) -> ReceiveResult {
        if self.fails_on_faults() || self.is_idle(number) {
            return Err(ConnectionError::new(code, reason));
        }
        self.fault_of_stream(number, code)
    }

    /// Resets the stream; the connection ends only if there are too many resets.
    fn fault_of_stream(&mut self, number: u32, code: ErrorCode) -> ReceiveResult {
        let open = self
            .streams
            .find(number)
            .filter(|id| self.streams.get(*id).is_some_and(|stream| stream.reset == Reset::None));
        match open {
            Some(id) => self.reset_held(id, code).map(Some),
            None => self.write_caused_reset(number, code).map(|()| None),
        }
    }

    pub(super) fn take_reset_token(&mut self) -> Result<(), ConnectionError> {
        if self.buckets.resets.take(self.limits.resets, self.now_ms) {
            return Ok(());
        }
        Err(ConnectionError::calm("too many streams were reset"))
    }

    pub(super) fn take_reset(&mut self, header: FrameHeader, payload: &[u8]) -> ReceiveResult {
        let Ok(code) = <[u8; 4]>::try_from(payload) else {
            return Err(ConnectionError::frame_size("RST_STREAM with an invalid length"));
        };
        if header.stream == 0 || self.is_idle(header.stream) {
            return Err(ConnectionError::protocol("RST_STREAM for a stream that has not begun"));
        }
        self.counters.resets_received += 1;
        self.take_reset_token()?;
        let Some(id) = self.streams.find(header.stream) else { return Ok(None) };
        let Some(stream) = self.streams.get(id).filter(|stream| !stream.is_closed()) else {
            return Ok(None);
        };
        debug_assert!(stream.reset == Reset::None, "a reset closes both directions");
        self.close_stream(id, Reset::ByPeer);
        let code = ErrorCode(u32::from_be_bytes(code));
        Ok(Some(Event::Reset { stream: id, code, cause: ResetCause::Peer }))
    }

    /// Closes both directions of a stream that the application keeps holding.
    pub(super) fn close_stream(&mut self, id: StreamId, reset: Reset) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        stream.close(reset);
        self.forget_waiting(id);
    }

    pub(super) fn take_settings(&mut self, header: FrameHeader, payload: &[u8]) -> ReceiveResult {
        if header.stream != 0 {
            return Err(ConnectionError::protocol("SETTINGS on a stream"));
        }
        if header.has(flag::ACK) {
            return self.take_settings_ack(payload).map(|()| None);
        }
        self.counters.settings += 1;
        if !self.buckets.settings.take(self.limits.settings, self.now_ms) {
            return Err(ConnectionError::calm("too many SETTINGS"));
        }
        let before = self.peer;
        let from = if self.role == Role::Server { Role::Client } else { Role::Server };
        if self.has_peer_settings {
            self.peer.apply_update(payload, from)?;
        } else {
            self.peer.apply_first(payload, from)?;
        }
        self.has_peer_settings = true;
        self.encoder.set_peer_limit(self.peer.header_table_bytes);
        self.shift_send_windows(before.initial_window_bytes)?;
        self.count_control()?;
        frame::write_settings_ack(&mut self.output.bytes);
        Ok(Some(Event::Settings))
    }

    fn take_settings_ack(&mut self, payload: &[u8]) -> Result<(), ConnectionError> {
        if !payload.is_empty() {
            return Err(ConnectionError::frame_size("an acknowledgement with a payload"));
        }
        if !self.has_peer_settings {
            return Err(ConnectionError::protocol("the first frame acknowledges SETTINGS"));
        }
        self.take_acknowledgement()?;
        // Our SETTINGS are sent once; further acknowledgements mean nothing.
        let Some(sent_ms) = self.settings_sent_ms.take() else { return Ok(()) };
        self.round_trip_ms = self.now_ms.saturating_sub(sent_ms).max(1);
        self.decoder.set_limit(self.local.header_table_bytes);
        Ok(())
    }

    /// Counts an acknowledgement, whether or not it was expected.
    fn take_acknowledgement(&mut self) -> Result<(), ConnectionError> {
        if self.buckets.acknowledgements.take(self.limits.acknowledgements, self.now_ms) {
            return Ok(());
        }
        Err(ConnectionError::calm("too many acknowledgements"))
    }

    /// Shifts the window of every stream by the change in the setting (RFC 9113 §6.9.2).
    fn shift_send_windows(&mut self, before: u32) -> Result<(), ConnectionError> {
        let shift = self.peer.initial_window_bytes as i32 - before as i32;
        if shift == 0 {
            return Ok(());
        }
        let Self { streams, ready, .. } = self;
        for (id, stream) in streams.iter_mut() {
            let window = stream.send_window.checked_add(shift);
            stream.send_window = window.ok_or(ConnectionError::flow_control(
                "SETTINGS_INITIAL_WINDOW_SIZE makes a window exceed the maximum",
            ))?;
            if stream.waiting == Waiting::ForWindow && stream.send_window > 0 {
                stream.waiting = Waiting::Ready;
                ready.push(id);
            }
        }
        Ok(())
    }

    pub(super) fn take_ping(&mut self, header: FrameHeader, payload: &[u8]) -> ReceiveResult {
        if header.stream != 0 {
            return Err(ConnectionError::protocol("PING on a stream"));
        }
        let Ok(payload) = <[u8; 8]>::try_from(payload) else {
            return Err(ConnectionError::frame_size("PING with an invalid length"));
        };
        if header.has(flag::ACK) {
            self.take_acknowledgement()?;
            return Ok(self.take_pong(payload));
        }
        self.counters.pings += 1;
        if !self.buckets.pings.take(self.limits.pings, self.now_ms) {
            return Err(ConnectionError::calm("too many PINGs"));
        }
        self.count_control()?;
        frame::write_ping(&mut self.output.bytes, flag::ACK, payload);
        Ok(None)
    }

    pub(super) fn take_goaway(&mut self, header: FrameHeader, payload: &[u8]) -> ReceiveResult {
        if header.stream != 0 {
            return Err(ConnectionError::protocol("GOAWAY on a stream"));
        }
        let Some((&[l0, l1, l2, l3, c0, c1, c2, c3], _)) = payload.split_first_chunk::<8>() else {
            return Err(ConnectionError::frame_size("GOAWAY with an invalid length"));
        };
        if !self.buckets.goaways.take(self.limits.goaways, self.now_ms) {
            return Err(ConnectionError::calm("too many GOAWAYs"));
        }
        let last_stream = u32::from_be_bytes([l0, l1, l2, l3]) & frame::U31_MAX;
        let code = ErrorCode(u32::from_be_bytes([c0, c1, c2, c3]));
        if self.peer_last.is_some_and(|last| last_stream > last) {
            return Err(ConnectionError::protocol("GOAWAY with a higher last stream than before"));
        }
        self.peer_last = Some(last_stream);
        if self.role == Role::Client {
            for (id, stream) in self.streams.iter_mut() {
                if id.number() > last_stream {
                    stream.close(Reset::ByPeer);
                    stream.waiting = Waiting::No;
                }
            }
            self.ready.retain(|id| id.number() <= last_stream);
        }
        Ok(Some(Event::GoAway { last_stream, code }))
    }

    pub(super) fn take_window_update(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
    ) -> ReceiveResult {
        let Ok(increment) = <[u8; 4]>::try_from(payload) else {
            return Err(ConnectionError::frame_size("WINDOW_UPDATE with an invalid length"));
        };
        let increment = (u32::from_be_bytes(increment) & frame::U31_MAX) as i32;
        self.counters.window_updates += 1;
        if !self.buckets.window_updates.take(self.limits.window_updates, self.now_ms) {
            return Err(ConnectionError::calm("too many WINDOW_UPDATEs"));
        }
        if header.stream == 0 {
            if increment == 0 {
                return Err(ConnectionError::protocol("WINDOW_UPDATE of 0"));
            }
            let window = self.windows.send.checked_add(increment);
            self.windows.send = window.ok_or(ConnectionError::flow_control(
                "the connection's window exceeds the maximum",
            ))?;
            return Ok(None);
        }
        if self.is_idle(header.stream) {
            return Err(ConnectionError::protocol("WINDOW_UPDATE for a stream that has not begun"));
        }
        let Some(id) = self.streams.find(header.stream) else { return Ok(None) };
        self.widen_stream(id, increment)
    }

    fn widen_stream(&mut self, id: StreamId, increment: i32) -> ReceiveResult {
        let Some(stream) = self.streams.get_mut(id) else { return Ok(None) };
        if stream.is_closed() {
            return Ok(None);
        }
        if increment == 0 {
            return self.fault(id.number(), ErrorCode::PROTOCOL_ERROR, "WINDOW_UPDATE of 0");
        }
        let Some(window) = stream.send_window.checked_add(increment) else {
            // The only error of this kind that requires RST_STREAM (RFC 9113 §6.9.1).
            return self.fault_of_stream(id.number(), ErrorCode::FLOW_CONTROL_ERROR);
        };
        stream.send_window = window;
        if stream.waiting == Waiting::ForWindow && window > 0 {
            stream.waiting = Waiting::Ready;
            self.ready.push(id);
        }
        Ok(None)
    }

    pub(super) fn take_priority(&mut self, header: FrameHeader, payload: &[u8]) -> ReceiveResult {
        if header.stream == 0 {
            return Err(ConnectionError::protocol("PRIORITY without a stream"));
        }
        self.take_priority_token()?;
        let Ok(priority) = <[u8; 5]>::try_from(payload) else {
            let reason = "PRIORITY with an invalid length";
            return self.fault(header.stream, ErrorCode::FRAME_SIZE_ERROR, reason);
        };
        if super::heads::dependency(&priority) == header.stream {
            let reason = "a stream depends on itself";
            return self.fault(header.stream, ErrorCode::PROTOCOL_ERROR, reason);
        }
        Ok(None)
    }

    fn take_priority_token(&mut self) -> Result<(), ConnectionError> {
        self.counters.priorities += 1;
        if self.buckets.priorities.take(self.limits.priorities, self.now_ms) {
            return Ok(());
        }
        Err(ConnectionError::calm("too many priorities"))
    }

    /// Handles RFC 9218 §7.1. A priority for a stream that has not begun is kept until it does;
    /// only the latest is kept.
    pub(super) fn take_priority_update(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
    ) -> ReceiveResult {
        if self.role == Role::Client || header.stream != 0 {
            return Err(ConnectionError::protocol("PRIORITY_UPDATE is not allowed here"));
        }
        let Some((target, text)) = payload.split_first_chunk::<4>() else {
            return Err(ConnectionError::frame_size("PRIORITY_UPDATE with an invalid length"));
        };
        let target = u32::from_be_bytes(*target) & frame::U31_MAX;
        if target == 0 || target.is_multiple_of(2) {
            return Err(ConnectionError::protocol("PRIORITY_UPDATE for an invalid stream"));
        }
        self.take_priority_token()?;
        let priority = Priority::parse(text);
        if let Some(id) = self.streams.find(target) {
            self.set_priority(id, priority);
        } else if self.is_idle(target) {
            self.early_priority = Some((target, priority));
        }
        Ok(None)
    }

    /// Inserts a new stream with the windows that both sides agreed on.
    pub(super) fn insert_stream(&mut self, number: u32) -> StreamId {
        let id = self.streams.insert(number);
        self.buckets.window_updates.pay(UPDATES_PER_STREAM);
        self.buckets.priorities.refund(PRIORITIES_PER_STREAM);
        self.buckets.empty_frames.refund(1);
        let (send_window, target) =
            (self.peer.initial_window_bytes as i32, self.limits.stream_window_bytes);
        let (is_early, now_ms) = (self.settings_sent_ms.is_some(), self.now_ms);
        if let Some(stream) = self.streams.get_mut(id) {
            stream.send_window = send_window;
            stream.receive_window = target as i32;
            stream.window_target = target;
            stream.is_early = is_early;
            stream.updated_ms = now_ms;
            debug_assert!(stream.sending == Half::Idle, "nothing was sent yet");
        }
        id
    }
}
