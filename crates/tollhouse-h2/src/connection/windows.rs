//! Flow control of received DATA (RFC 9113 §5.2, §6.9): returns credit and widens windows.
//!
//! The connection's credit is returned when DATA arrives, a stream's when the application has
//! consumed it; so an application that is slow with one stream only stops that stream. A stream's
//! window doubles when the peer uses up half of it in less than two round trips, if the budget
//! allows.

use super::Connection;
use crate::frame;
use crate::settings::{Settings, WINDOW_BYTES_DEFAULT};
use crate::stream::Half;
use crate::{ConnectionError, Role, StreamId};

/// Step size in which unread bytes are reserved from the budget.
const BUDGET_STEP_BYTES: u64 = 64 << 10;

impl Settings {
    /// Returns the bytes by which a peer that does not know our initial window yet may exceed it.
    pub(super) fn early_slack(&self) -> i32 {
        WINDOW_BYTES_DEFAULT.saturating_sub(self.initial_window_bytes) as i32
    }
}

impl Connection {
    /// Reports `bytes` of DATA as consumed, so that the peer may send as many more. Call this for
    /// every byte of every [`crate::Event::Data`] at some point; releasing the stream does it for
    /// the rest.
    pub fn consume(&mut self, stream: StreamId, bytes: usize) {
        let Some(held) = self.streams.get_mut(stream) else { return };
        let bytes = (bytes as u64).min(held.unread.into()) as u32;
        held.unread -= bytes;
        held.credit += bytes;
        self.windows.unread -= u64::from(bytes);
        self.give_back_unread();
        self.return_stream_credit(stream);
        self.return_connection_credit();
    }

    /// Widens the connection's window to the size in the limits.
    pub(super) fn widen_connection(&mut self) {
        let missing = self.limits.connection_window_bytes.saturating_sub(WINDOW_BYTES_DEFAULT);
        let missing = missing.min(frame::U31_MAX - WINDOW_BYTES_DEFAULT);
        if missing > 0 {
            frame::write_window_update(&mut self.output.bytes, 0, missing);
            self.windows.receive += missing as i32;
        }
    }

    /// Charges a DATA frame to the connection's window; its credit is returned in any case.
    pub(super) fn charge_connection(&mut self, length: u32) -> Result<(), ConnectionError> {
        self.windows.receive -= length as i32;
        if self.windows.receive < 0 {
            let reason = "more DATA than the connection's window allows";
            return Err(ConnectionError::flow_control(reason));
        }
        self.windows.credit += length;
        self.return_connection_credit();
        Ok(())
    }

    #[inline]
    fn return_connection_credit(&mut self) {
        let window = self.limits.connection_window_bytes.max(WINDOW_BYTES_DEFAULT);
        let is_due = self.windows.credit >= window / 2;
        if !is_due || self.windows.unread > u64::from(self.limits.unread_bytes) {
            return;
        }
        let credit = std::mem::take(&mut self.windows.credit);
        frame::write_window_update(&mut self.output.bytes, 0, credit);
        self.windows.receive += credit as i32;
    }

    /// Returns the credit for padding and its length octet at once, because the application never
    /// consumes them.
    pub(super) fn credit_padding(&mut self, id: StreamId, padding: u32) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        if padding > 0 {
            stream.credit += padding;
            self.return_stream_credit(id);
        }
    }

    fn return_stream_credit(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        // A closed direction needs no window.
        if stream.receiving == Half::Closed || stream.credit * 2 < stream.window_target {
            return;
        }
        let since = self.now_ms.saturating_sub(stream.updated_ms);
        stream.updated_ms = self.now_ms;
        let is_held_up = since < 2 * self.round_trip_ms;
        let widened = if is_held_up { self.widening(id) } else { 0 };
        let Some(stream) = self.streams.get_mut(id) else { return };
        stream.window_target += widened;
        let increment = std::mem::take(&mut stream.credit) + widened;
        stream.receive_window += increment as i32;
        frame::write_window_update(&mut self.output.bytes, id.number(), increment);
    }

    /// Returns the number of bytes to widen a stream's window by, reserved from the budgets.
    fn widening(&mut self, id: StreamId) -> u32 {
        let Some(stream) = self.streams.get(id) else { return 0 };
        let most = self.limits.stream_window_bytes_max.min(frame::U31_MAX / 2);
        let wanted = stream.window_target.min(most.saturating_sub(stream.window_target));
        let growth = self.windows.growth + wanted;
        if wanted == 0 {
            return 0;
        }
        let fits = growth <= self.limits.window_growth_bytes && self.reserve(growth);
        if !fits {
            self.counters.unwidened_windows += 1;
            return 0;
        }
        self.windows.growth = growth;
        self.counters.widened_windows += 1;
        wanted
    }

    /// Releases the reservation for a stream's widened window when the stream ends.
    pub(super) fn narrow(&mut self, target: u32) {
        let grown = target.saturating_sub(self.limits.stream_window_bytes);
        if grown > 0 {
            let growth = self.windows.growth - grown.min(self.windows.growth);
            self.windows.growth = growth;
            // Shrinking a reservation cannot fail.
            let _ = self.reserve(growth);
        }
    }

    /// Reserves the bytes from the budget that windows grown by `growth` and unread data need.
    /// Returns false if the budget is exhausted.
    fn reserve(&mut self, growth: u32) -> bool {
        let wanted = u64::from(growth).max(self.unread_beyond_free());
        wanted == self.windows.budget.bytes() || self.windows.budget.resize(wanted)
    }

    /// Returns the unread bytes to reserve from the budget, rounded up to steps so that it changes
    /// rarely.
    fn unread_beyond_free(&self) -> u64 {
        if self.role == Role::Client {
            return 0;
        }
        let beyond = self.windows.unread.saturating_sub(self.limits.unbudgeted_bytes.into());
        beyond.next_multiple_of(BUDGET_STEP_BYTES)
    }

    /// Adds unread bytes; `false` if the budget has no room for them.
    pub(super) fn book_unread(&mut self, bytes: u32) -> bool {
        self.windows.unread += u64::from(bytes);
        self.reserve(self.windows.growth)
    }

    /// Releases the reservation for unread bytes once a whole step is free.
    pub(super) fn give_back_unread(&mut self) {
        if self.windows.budget.bytes() > u64::from(self.windows.growth) {
            // Shrinking a reservation cannot fail.
            let _ = self.reserve(self.windows.growth);
        }
    }
}
