//! Recent events of instances, so that an operator can find out why an instance gets no traffic:
//! registered, removed, expired, recovered, isolated. A ring in memory; it starts with the process
//! and holds no metadata.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use crate::event::InstanceEvent;
use crate::instance::Instance;
use crate::key::ServiceKey;

/// Maximum number of events kept: at some 300 bytes each, three megabytes.
const KEPT_MAX: usize = 10_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// A new instance was registered.
    Registered,
    /// The instance was registered again and replaced.
    Replaced,
    /// The instance was removed, by its client, an operator or the cleaner.
    Deregistered,
    /// The instance sent no heartbeat in time and is unhealthy.
    Expired,
    /// A heartbeat arrived and the instance is healthy again.
    Recovered,
    /// A caller set the instance healthy.
    SetHealthy,
    /// A caller set the instance unhealthy.
    SetUnhealthy,
    /// An operator keeps traffic away from the instance.
    Isolated,
    Rejoined,
    Weighted,
    /// A field other than health, isolation and weight was changed.
    Changed,
}

impl EventKind {
    /// Returns the name used in the API.
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

    /// Returns the kind of change between two versions of an instance.
    fn between(before: &Instance, after: &Instance) -> Self {
        match (before, after) {
            _ if before.isolated != after.isolated => {
                if after.isolated {
                    Self::Isolated
                } else {
                    Self::Rejoined
                }
            }
            // In a cluster, expiry and recovery arrive as changes.
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

#[derive(Debug, Clone)]
pub struct TimelineEntry {
    /// Sequence number of the event, from 1.
    pub number: u64,
    /// Time of the event, in milliseconds of Unix time.
    pub at_ms: u64,
    pub happening: EventKind,
    pub service: ServiceKey,
    pub instance: Arc<str>,
    pub host: Box<str>,
    pub port: u16,
    /// Weight of the instance after the event.
    pub weight: u16,
    /// For an expired instance, the time of its last heartbeat in seconds of Unix time; `None` if
    /// it never sent a heartbeat.
    pub last_beat_s: Option<u64>,
}

/// Recent events, the oldest dropped first; see the module.
#[derive(Debug, Default)]
pub struct Timeline(Mutex<Lines>);

#[derive(Debug, Default)]
struct Lines {
    events: VecDeque<TimelineEntry>,
    next: u64,
}

impl Timeline {
    /// Adds the events that a command has caused.
    pub(crate) fn note_event(&self, event: &InstanceEvent, now_ms: u64) {
        let (happening, instance) = match event {
            InstanceEvent::Registered(instance, None) => (EventKind::Registered, instance),
            // A repeated registration counts as the change that it makes; without one it is
            // `Replaced`.
            InstanceEvent::Registered(instance, Some(before)) => {
                match EventKind::between(before, instance) {
                    EventKind::Changed => (EventKind::Replaced, instance),
                    other => (other, instance),
                }
            }
            InstanceEvent::Changed(instance, before) => {
                (EventKind::between(before, instance), instance)
            }
            InstanceEvent::Deregistered(instance) => (EventKind::Deregistered, instance),
        };
        self.note(happening, instance, now_ms);
    }

    /// Adds an event.
    pub(crate) fn note(&self, happening: EventKind, instance: &Instance, now_ms: u64) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.events.len() == KEPT_MAX {
            lines.events.pop_front();
        }
        let number = lines.next;
        lines.next += 1;
        let last_beat_s = instance.expired_after_beat.filter(|beat| *beat > 0);
        lines.events.push_back(TimelineEntry {
            number,
            at_ms: now_ms,
            happening,
            service: instance.service.clone(),
            instance: Arc::clone(&instance.id),
            host: instance.host.clone(),
            port: instance.port,
            weight: instance.weight,
            last_beat_s: last_beat_s.filter(|_| happening == EventKind::Expired),
        });
    }

    /// Returns at most `max` events that `is_wanted` accepts, newest first, and the number of all
    /// events kept.
    pub fn newest(
        &self,
        max: usize,
        is_wanted: impl Fn(&TimelineEntry) -> bool,
    ) -> (Vec<TimelineEntry>, usize) {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = lines.events.iter().rev().filter(|line| is_wanted(line)).take(max);
        (wanted.cloned().collect(), lines.events.len())
    }
}
