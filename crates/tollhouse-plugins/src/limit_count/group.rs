//! Groups of confs that share one count and must be identical.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use tollhouse_plugin::{ConfError, Scope};

/// Duration for which a group outlives its last conf. The Admin API validates a conf shortly before
/// it is used, and the next conf must already find the group.
const HELD_FOR: Duration = Duration::from_secs(1);
/// Largest number of recently validated groups that are kept; more are not written within
/// `HELD_FOR` by operators.
const HELD_MAX: usize = 1_024;

/// Recently validated groups of confs, oldest first.
static RECENT: Mutex<VecDeque<(Instant, Arc<Group>)>> = Mutex::new(VecDeque::new());

/// Conf of a group; exists as long as a member is in use, and `HELD_FOR` longer.
#[derive(Debug)]
pub(super) struct Group {
    conf: Value,
}

impl Group {
    /// Joins a group, or creates it.
    ///
    /// # Errors
    /// If the members of the group have a different conf.
    pub(super) fn join(name: &str, scope: &Scope<'_>) -> Result<Arc<Self>, ConfError> {
        let now = Instant::now();
        let mut recent = recent_groups();
        while recent.front().is_some_and(|(at, _)| now.duration_since(*at) > HELD_FOR) {
            recent.pop_front();
        }
        let conf = own_fields(scope.conf);
        let group =
            scope.keep(&format!("limit-count group {name}"), || Self { conf: conf.clone() });
        if group.conf != conf {
            return Err("group conf mismatched".into());
        }
        if recent.len() >= HELD_MAX {
            recent.pop_front();
        }
        recent.push_back((now, Arc::clone(&group)));
        Ok(group)
    }
}

fn recent_groups() -> MutexGuard<'static, VecDeque<(Instant, Arc<Group>)>> {
    RECENT.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
pub(super) fn forget_recent() {
    recent_groups().clear();
}

/// Returns the conf without `_meta`, which describes the plugin's use and not its settings.
fn own_fields(conf: &Value) -> Value {
    let mut conf = conf.clone();
    if let Some(fields) = conf.as_object_mut() {
        fields.shift_remove("_meta");
    }
    conf
}
