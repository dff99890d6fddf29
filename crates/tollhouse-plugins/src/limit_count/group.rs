//! Confs that count together must say the same.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use tollhouse_plugin::{ConfError, Scope};

/// How long a group outlives its last conf. The Admin API judges a conf a little before it is used,
/// and the next one that is written must meet it already.
const HELD_FOR: Duration = Duration::from_secs(1);
/// Groups held at once; more are not written within that time by anybody who needs the refusal.
const HELD_MAX: usize = 1_024;

/// The groups judged last, oldest first.
static RECENT: Mutex<VecDeque<(Instant, Arc<Group>)>> = Mutex::new(VecDeque::new());

/// What all confs of a group say; known for as long as one of them is in use, and
/// a moment longer.
#[derive(Debug)]
pub(super) struct Group {
    conf: Value,
}

impl Group {
    /// Joins a group, or begins it.
    ///
    /// # Errors
    /// Its members say something else.
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

/// Without what is said about the plugin rather than to it.
fn own_fields(conf: &Value) -> Value {
    let mut conf = conf.clone();
    if let Some(fields) = conf.as_object_mut() {
        fields.shift_remove("_meta");
    }
    conf
}
