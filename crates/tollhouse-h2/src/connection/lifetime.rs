//! The end of a connection, by failure or by draining (RFC 9113 §6.8), and its deadlines.

use super::Connection;
use crate::event::{Event, ResetCause};
use crate::frame;
use crate::stream::{Reset, Waiting};
use crate::{ConnectionError, ErrorCode, Role, StreamId};

/// Payload of the PING between the two GOAWAYs.
const DRAIN_PING: [u8; 8] = *b"draining";

/// Progress of a graceful shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Drain {
    No,
    /// The first GOAWAY and a PING were sent at this time; new streams in flight are still
    /// accepted.
    Announced(u64),
    /// The final GOAWAY, with this last stream, was sent.
    Final(u32),
}

impl Connection {
    /// Ends the connection without losing requests. A server announces the end, waits for streams
    /// in flight (using a PING), names the last stream it accepts, and serves those it has; a
    /// client opens no more streams. Done when [`Connection::is_finished`].
    pub fn drain(&mut self) {
        if self.drain != Drain::No || self.failure.is_some() {
            return;
        }
        let out = &mut self.output.bytes;
        match self.role {
            Role::Server => {
                frame::write_goaway(out, frame::U31_MAX, ErrorCode::NO_ERROR, "");
                frame::write_ping(out, 0, DRAIN_PING);
                self.buckets.acknowledgements.refund(1);
                self.drain = Drain::Announced(self.now_ms);
            }
            Role::Client => {
                frame::write_goaway(out, 0, ErrorCode::NO_ERROR, "");
                self.drain = Drain::Final(0);
            }
        }
    }

    /// Whether a graceful shutdown has begun.
    pub fn is_draining(&self) -> bool {
        self.drain != Drain::No
    }

    /// Whether the connection can be closed. All output must be written. In addition, the
    /// connection has failed, or no streams are left after it was drained (or, on a client, after a
    /// GOAWAY of the peer).
    pub fn is_finished(&self) -> bool {
        let is_leaving = matches!(self.drain, Drain::Final(_))
            || (self.role == Role::Client && self.peer_last.is_some());
        let is_over = self.failure.is_some() || (is_leaving && self.streams.len() == 0);
        is_over && self.output.len() == 0
    }

    /// Ends the connection now, with a GOAWAY that carries `code`.
    pub fn close(&mut self, code: ErrorCode, reason: &'static str) {
        if self.failure.is_none() {
            self.fail(ConnectionError::new(code, reason));
        }
    }

    pub(super) fn fail(&mut self, error: ConnectionError) -> ConnectionError {
        self.failure = Some(error);
        let last = self.highest_peer;
        frame::write_goaway(&mut self.output.bytes, last, error.code, error.reason);
        error
    }

    /// Sends a PING; its reply arrives as [`Event::Pong`].
    pub fn ping(&mut self, payload: [u8; 8]) {
        if self.failure.is_none() {
            frame::write_ping(&mut self.output.bytes, 0, payload);
            self.buckets.acknowledgements.refund(1);
        }
    }

    pub(super) fn take_pong(&mut self, payload: [u8; 8]) -> Option<Event<'static>> {
        if payload == DRAIN_PING && matches!(self.drain, Drain::Announced(_)) {
            self.finish_drain();
            return None;
        }
        Some(Event::Pong { payload })
    }

    fn finish_drain(&mut self) {
        let last = self.highest_peer;
        frame::write_goaway(&mut self.output.bytes, last, ErrorCode::NO_ERROR, "");
        self.drain = Drain::Final(last);
    }

    /// Whether the peer opened a stream after the final GOAWAY.
    pub(super) fn is_beyond_goaway(&self, number: u32) -> bool {
        matches!(self.drain, Drain::Final(last) if number > last)
    }

    /// Checks the deadlines. Call it about once a second until it returns `None`.
    ///
    /// # Errors
    /// A deadline passed that ends the connection.
    pub fn tick(&mut self, now_ms: u64) -> Result<Option<Event<'static>>, ConnectionError> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        self.now_ms = self.now_ms.max(now_ms);
        self.check_deadlines().map_err(|error| self.fail(error))?;
        let Some(id) = self.stalled_stream() else { return Ok(None) };
        self.counters.stalled_streams += 1;
        let code = ErrorCode::CANCEL;
        frame::write_reset(&mut self.output.bytes, id.number(), code);
        self.close_stream(id, Reset::ByUs);
        Ok(Some(Event::Reset { stream: id, code, cause: ResetCause::Stall }))
    }

    fn check_deadlines(&mut self) -> Result<(), ConnectionError> {
        let limits = self.limits;
        let passed = |since_ms: u64, limit_ms: u64| self.now_ms.saturating_sub(since_ms) > limit_ms;
        let timeout = |reason| Err(ConnectionError::new(ErrorCode::SETTINGS_TIMEOUT, reason));
        if !self.has_peer_settings && passed(self.started_ms, limits.preface_ms) {
            return timeout("preface and SETTINGS did not arrive in time");
        }
        if self.settings_sent_ms.is_some_and(|sent| passed(sent, limits.settings_ack_ms)) {
            return timeout("SETTINGS were not acknowledged in time");
        }
        if self.input.incomplete_since_ms.is_some_and(|since| passed(since, limits.frame_ms)) {
            return Err(ConnectionError::calm("a frame did not arrive completely in time"));
        }
        if matches!(self.drain, Drain::Announced(since) if passed(since, limits.settings_ack_ms)) {
            self.finish_drain();
        }
        Ok(())
    }

    /// Whether any deadline that [`Connection::tick`] checks may be pending. If not, the caller
    /// need not wake up for it.
    pub fn has_deadlines(&self) -> bool {
        self.failure.is_none()
            && (!self.has_peer_settings
                || self.settings_sent_ms.is_some()
                || self.input.incomplete_since_ms.is_some()
                || matches!(self.drain, Drain::Announced(_))
                || self.streams.len() > 0)
    }

    /// Returns a stream with pending DATA that the peer has blocked for too long, if any.
    fn stalled_stream(&self) -> Option<StreamId> {
        let is_stalled = |stream: &crate::stream::Stream| {
            let is_closed = stream.waiting == Waiting::ForWindow
                || (stream.waiting == Waiting::Ready && self.windows.send <= 0);
            let since = stream.waiting_since_ms.unwrap_or(self.now_ms);
            is_closed && self.now_ms - since > self.limits.stall_ms
        };
        self.streams.iter().find(|(_, stream)| is_stalled(stream)).map(|(id, _)| id)
    }
}
