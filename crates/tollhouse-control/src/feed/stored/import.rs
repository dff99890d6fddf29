//! Detection of imports in a followed store: the commits of an import are held back until all are
//! there.

use std::time::Duration;

use tokio::time::Instant;
use tollhouse_store::{Event, Listing};

use crate::feed::import_marker::ImportMarker;

/// Duration for which an interrupted import may be resumed before its incomplete result is served.
const RESUMPTION_WAIT: Duration = Duration::from_secs(60);

/// Progress of an import by another process.
#[derive(Debug)]
pub(super) struct Import {
    marker: ImportMarker,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// No import, or an abandoned one.
    None,
    /// Another process is importing objects.
    UnderWay,
    /// The importer died; another may resume until this time.
    BrokenOff(Instant),
}

/// Relation of a commit to an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    None,
    /// Part of an incomplete import, which must wait for the rest.
    Held,
    /// The last commit of an import.
    Last,
}

impl Import {
    pub(super) fn new(marker: ImportMarker) -> Self {
        Self { marker, state: State::None }
    }

    /// Classifies a commit, and updates the state.
    pub(super) fn note(&mut self, events: &[Event]) -> Part {
        let mut part = None;
        for event in events {
            let is_begun = *event.key() == *self.marker.begun;
            let is_alive = *event.key() == *self.marker.alive;
            match event {
                Event::Put(_) if is_begun || is_alive => self.state = State::UnderWay,
                Event::Delete { .. } if is_begun => {
                    let was = std::mem::replace(&mut self.state, State::None);
                    part = Some(if was == State::None { Part::None } else { Part::Last });
                }
                Event::Delete { .. } if is_alive && self.state == State::UnderWay => {
                    self.state = State::BrokenOff(Instant::now() + RESUMPTION_WAIT);
                }
                _ => {}
            }
        }
        part.unwrap_or(match self.state {
            State::None => Part::None,
            State::UnderWay | State::BrokenOff(_) => Part::Held,
        })
    }

    /// Classifies a full listing, and updates the state. If the listing is not complete, the
    /// previous configuration should stay.
    pub(super) fn read(&mut self, listing: &Listing) -> Whole {
        let has = |key: &str| listing.entries.iter().any(|entry| *entry.key == *key);
        let (is_begun, is_alive) = (has(&self.marker.begun), has(&self.marker.alive));
        self.state = match (is_begun, is_alive, self.state) {
            (true, true, _) => State::UnderWay,
            (true, false, State::UnderWay) => State::BrokenOff(Instant::now() + RESUMPTION_WAIT),
            (true, false, state) => state,
            (false, ..) => State::None,
        };
        match self.state {
            State::None if is_begun => Whole::GivenUp,
            State::None => Whole::Yes,
            State::UnderWay | State::BrokenOff(_) => Whole::NotYet,
        }
    }

    /// Returns the time at which an interrupted import is abandoned; `None` if no import was
    /// interrupted.
    pub(super) fn given_up_at(&self) -> Option<Instant> {
        match self.state {
            State::BrokenOff(until) => Some(until),
            State::None | State::UnderWay => None,
        }
    }

    /// Abandons the import, so that its objects are served as they are.
    pub(super) fn give_up(&mut self) {
        self.state = State::None;
    }

    /// Whether the configuration in service is deliberately older than the store.
    pub(super) fn is_held(&self) -> bool {
        self.state != State::None
    }
}

/// Completeness of the imported objects in a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whole {
    Yes,
    /// An import is running, or may still be resumed.
    NotYet,
    /// An import was interrupted and not resumed in time.
    GivenUp,
}
