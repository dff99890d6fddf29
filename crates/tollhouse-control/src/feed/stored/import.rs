//! Whether an import is under way in a store that is followed: what its commits bring is held back until all
//! of them are there.

use std::time::Duration;

use tokio::time::Instant;
use tollhouse_store::{Event, Listing};

use crate::feed::import_marker::ImportMarker;

/// How long an import whose importer has died may be taken up again before what there is of it is served.
const RESUMPTION_WAIT: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Debug)]
pub(super) struct Import {
    marker: ImportMarker,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// There is none, or it has been given up.
    None,
    /// Somebody writes.
    UnderWay,
    /// Nobody has written since; until when somebody may go on.
    BrokenOff(Instant),
}

/// What a commit has to do with an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Nothing.
    None,
    /// It is a part of one that is not whole yet.
    Held,
    /// It makes one whole.
    Last,
}

impl Import {
    pub(super) fn new(marker: ImportMarker) -> Self {
        Self { marker, state: State::None }
    }

    /// Takes note of a commit.
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

    /// Takes note of all there is. Whether it is half of something: then what came before it is the better.
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

    /// When an import that was broken off is waited for no more.
    pub(super) fn given_up_at(&self) -> Option<Instant> {
        match self.state {
            State::BrokenOff(until) => Some(until),
            State::None | State::UnderWay => None,
        }
    }

    /// Waits no more.
    pub(super) fn give_up(&mut self) {
        self.state = State::None;
    }

    /// Whether what is in service is older than the store on purpose.
    pub(super) fn is_held(&self) -> bool {
        self.state != State::None
    }
}

/// Whether a listing is whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whole {
    Yes,
    /// An import is under way, or may be taken up again.
    NotYet,
    /// An import was broken off, long ago.
    GivenUp,
}
