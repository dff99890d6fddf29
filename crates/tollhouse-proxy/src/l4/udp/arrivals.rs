//! New sessions of a listener that wait for their start. A start opens a socket, which costs ten
//! times what it costs to receive a datagram.
//!
//! The newest sessions start first, so that a new client does not wait behind a flood that arrived
//! before it. Without a flood, all of them start within a millisecond.

use std::collections::VecDeque;
use std::sync::Arc;

use tollhouse_telemetry::ErrorCode;

use super::slot::SessionSlot;
use crate::l4::connection::FirstBytes;
use crate::l4::table::StreamEntry;

/// Number of sessions that a listener starts in one turn; takes a tenth of a millisecond.
pub(super) const STARTS_PER_TURN: usize = 4;

/// Maximum number of waiting sessions, which start within some tens of milliseconds. Beyond it, the
/// oldest one is dropped: its client has waited longest and repeats its datagram soonest.
pub(super) const WAITING_SESSIONS_MAX: usize = 1024;

/// Session that has its place, but no task yet.
pub(super) struct NewSession {
    pub(super) place: SessionSlot,
    pub(super) first: FirstBytes,
    pub(super) route: Arc<StreamEntry>,
}

/// New sessions in the order of their arrival.
#[derive(Default)]
pub(super) struct Arrivals(VecDeque<NewSession>);

impl Arrivals {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a session; drops the oldest ones if they were displaced or are too many.
    pub(super) fn push(&mut self, new: NewSession) {
        let is_full = self.0.len() >= WAITING_SESSIONS_MAX;
        let is_over = |oldest: &mut NewSession| is_full || oldest.place.session().is_displaced();
        if let Some(oldest) = self.0.pop_front_if(is_over) {
            oldest.place.count_failure(ErrorCode::ConnectionLimit);
        }
        self.0.push_back(new);
    }

    /// Removes the sessions that are started in one turn.
    pub(super) fn take_some(&mut self) -> impl Iterator<Item = NewSession> {
        self.take_all().take(STARTS_PER_TURN)
    }

    /// Removes all sessions, the newest first. Those that others have displaced are dropped, which
    /// costs no socket.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = NewSession> {
        std::iter::from_fn(|| {
            loop {
                let new = self.0.pop_back()?;
                if !new.place.session().is_displaced() {
                    return Some(new);
                }
                new.place.count_failure(ErrorCode::ConnectionLimit);
            }
        })
    }
}
