//! How a connection ends: by failure, or drained (RFC 9113 §6.8); and the deadlines that it has.

use super::Connection;
use crate::event::{Event, ResetCause};
use crate::frame;
use crate::stream::{Reset, Waiting};
use crate::{ConnectionError, ErrorCode, Role, StreamId};

/// What the PING between the two GOAWAYs carries.
const DRAIN_PING: [u8; 8] = *b"draining";

/// How far a server that is to end has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Drain {
    No,
    /// The first GOAWAY and a PING are out since then; streams that are in flight are still taken.
    Announced(u64),
    /// The last stream that is dealt with is named.
    Final(u32),
}

impl Connection {
    /// Ends the connection without losing anything: a server announces it, waits for what is in flight
    /// (a PING), names the last stream it takes, and serves what it has; a client opens no more streams.
    /// Done when [`Connection::is_finished`].
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

    /// Whether it has begun to drain.
    pub fn is_draining(&self) -> bool {
        self.drain != Drain::No
    }

    /// Whether nothing is left to do: all was written, and either nobody holds a stream of a connection
    /// that drains or that the peer leaves, or it failed.
    pub fn is_finished(&self) -> bool {
        let is_leaving = matches!(self.drain, Drain::Final(_))
            || (self.role == Role::Client && self.peer_last.is_some());
        let is_over = self.failure.is_some() || (is_leaving && self.streams.len() == 0);
        is_over && self.output.len() == 0
    }

    /// Ends the connection now, with a GOAWAY that names `code`.
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

    /// Sends a PING; its answer comes as [`Event::Pong`].
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

    /// Whether a stream is one that the peer opened after it was told to open no more.
    pub(super) fn is_beyond_goaway(&self, number: u32) -> bool {
        matches!(self.drain, Drain::Final(last) if number > last)
    }

    /// Looks at the deadlines, about once a second: call it until it gives `None`.
    ///
    /// # Errors
    /// One has passed that ends the connection.
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
            return timeout("preface and SETTINGS did not come in time");
        }
        if self.settings_sent_ms.is_some_and(|sent| passed(sent, limits.settings_ack_ms)) {
            return timeout("SETTINGS were not acknowledged in time");
        }
        if self.input.incomplete_since_ms.is_some_and(|since| passed(since, limits.frame_ms)) {
            return Err(ConnectionError::calm("a frame did not become whole in time"));
        }
        if matches!(self.drain, Drain::Announced(since) if passed(since, limits.settings_ack_ms)) {
            self.finish_drain();
        }
        Ok(())
    }

    /// Whether one of the deadlines that [`Connection::tick`] looks at may be under way. While there is
    /// none, nobody need wake for it.
    pub fn has_deadlines(&self) -> bool {
        self.failure.is_none()
            && (!self.has_peer_settings
                || self.settings_sent_ms.is_some()
                || self.input.incomplete_since_ms.is_some()
                || matches!(self.drain, Drain::Announced(_))
                || self.streams.len() > 0)
    }

    /// A stream with DATA that the peer has kept waiting too long.
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
