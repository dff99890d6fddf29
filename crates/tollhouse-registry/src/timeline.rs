//! What has happened to instances of late, for people who ask why one is not served: registered, gone, silent, heard
//! of again, isolated. A ring in memory: it begins with the process, and holds no metadata.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use crate::event::InstanceEvent;
use crate::instance::Instance;
use crate::key::ServiceKey;

/// Happenings that are kept: with some 300 bytes each, three megabytes.
const KEPT_MAX: usize = 10_000;

/// What has happened to an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happening {
    /// It was registered.
    Registered,
    /// It was registered again, in place of what was there.
    Replaced,
    /// It was deregistered, or deleted by somebody.
    Deregistered,
    /// It fell silent, and counts as unhealthy.
    Expired,
    /// It was heard of again.
    Recovered,
    /// Somebody said that it is healthy.
    SetHealthy,
    /// Somebody said that it is not.
    SetUnhealthy,
    /// An operator keeps traffic from it.
    Isolated,
    /// An operator lets traffic to it again.
    Rejoined,
    /// It has another weight.
    Weighted,
    /// Something else of it was changed.
    Changed,
}

impl Happening {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Registered => "registered",
            Self::Replaced => "replaced",
            Self::Deregistered => "deregistered",
            Self::Expired => "expired",
            Self::Recovered => "recovered",
            Self::SetHealthy => "set_healthy",
            Self::SetUnhealthy => "set_unhealthy",
            Self::Isolated => "isolated",
            Self::Rejoined => "rejoined",
            Self::Weighted => "weighted",
            Self::Changed => "changed",
        }
    }

    /// What tells a version of an instance from the one before.
    fn between(before: &Instance, after: &Instance) -> Self {
        match (before, after) {
            _ if before.isolated != after.isolated => {
                if after.isolated {
                    Self::Isolated
                } else {
                    Self::Rejoined
                }
            }
            // Where several nodes keep the registry, silence is a change like any other.
            _ if before.healthy && !after.healthy && after.expired_after_beat.is_some() => {
                Self::Expired
            }
            _ if !before.healthy && after.healthy && before.expired_after_beat.is_some() => {
                Self::Recovered
            }
            _ if before.healthy != after.healthy => {
                if after.healthy {
                    Self::SetHealthy
                } else {
                    Self::SetUnhealthy
                }
            }
            _ if before.weight != after.weight => Self::Weighted,
            _ => Self::Changed,
        }
    }
}

/// One line of the timeline.
#[derive(Debug, Clone)]
pub struct TimelineEntry {
    /// Rises with every line.
    pub number: u64,
    /// When, in milliseconds of Unix time.
    pub at_ms: u64,
    /// What.
    pub happening: Happening,
    /// Of which service.
    pub service: ServiceKey,
    /// To which instance.
    pub instance: Arc<str>,
    /// Where it is.
    pub host: Box<str>,
    /// Its port.
    pub port: u16,
    /// Its weight from then on.
    pub weight: u16,
    /// Of one that fell silent, the second of its last heartbeat, if there was one.
    pub last_beat_s: Option<u64>,
}

/// The timeline.
#[derive(Debug, Default)]
pub struct Timeline(Mutex<Lines>);

#[derive(Debug, Default)]
struct Lines {
    kept: VecDeque<TimelineEntry>,
    next: u64,
}

impl Timeline {
    /// Takes in what a command did.
    pub(crate) fn note_event(&self, event: &InstanceEvent, now_ms: u64) {
        let (happening, instance) = match event {
            InstanceEvent::Registered(instance, None) => (Happening::Registered, instance),
            // A node that says of itself again what is known tells nobody anything.
            InstanceEvent::Registered(instance, Some(before)) => {
                match Happening::between(before, instance) {
                    Happening::Changed => (Happening::Replaced, instance),
                    other => (other, instance),
                }
            }
            InstanceEvent::Changed(instance, before) => {
                (Happening::between(before, instance), instance)
            }
            InstanceEvent::Deregistered(instance) => (Happening::Deregistered, instance),
        };
        self.note(happening, instance, now_ms);
    }

    /// Takes in what has happened to an instance.
    pub(crate) fn note(&self, happening: Happening, instance: &Instance, now_ms: u64) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.kept.len() == KEPT_MAX {
            lines.kept.pop_front();
        }
        let number = lines.next;
        lines.next += 1;
        let last_beat_s = instance.expired_after_beat.filter(|beat| *beat > 0);
        lines.kept.push_back(TimelineEntry {
            number,
            at_ms: now_ms,
            happening,
            service: instance.service.clone(),
            instance: Arc::clone(&instance.id),
            host: instance.host.clone(),
            port: instance.port,
            weight: instance.weight,
            last_beat_s: last_beat_s.filter(|_| happening == Happening::Expired),
        });
    }

    /// The newest lines that are wanted, the newest first, at most so many; and how many are kept of all.
    pub fn newest(
        &self,
        max: usize,
        is_wanted: impl Fn(&TimelineEntry) -> bool,
    ) -> (Vec<TimelineEntry>, usize) {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = lines.kept.iter().rev().filter(|line| is_wanted(line)).take(max);
        (wanted.cloned().collect(), lines.kept.len())
    }
}
