//! State of the configuration in service: its problems, its readiness, and the source from which
//! its objects can be read. The listeners for operators (control, metrics, status) show it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tollhouse_config::Fingerprints;
use tollhouse_shenyu_admin::ProblemSource;
use tollhouse_store::Store;

use crate::resources::dangling::Unused;

/// Shared state of the configuration in service.
#[derive(Debug, Default)]
pub struct Configuration {
    state: Mutex<State>,
    is_ready: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    status: Status,
    /// Revision of the last change, with its time in milliseconds since 1970.
    changed: Option<(u64, u64)>,
    objects: ObjectSource,
}

/// Revision and problems. The lists are shared, because most changes leave them as they are.
#[derive(Debug, Clone, Default)]
pub struct Status {
    /// Revision of the snapshot in service.
    pub revision: u64,
    /// Number of routes in service.
    pub routes: usize,
    /// Problems of objects that were set aside.
    pub problems: Arc<[Value]>,
    /// Reasons why the last document was rejected as a whole.
    pub refused: Arc<[Value]>,
    /// Objects of a store that no other object refers to.
    pub unused: Unused,
}

/// Place from which the objects in service can be read.
#[derive(Clone, Default)]
pub enum ObjectSource {
    /// No objects yet, or another process has taken the store over.
    #[default]
    None,
    /// Store of objects, and the prefix of their keys.
    Store(Arc<dyn Store>, String),
    /// Last document that was put into service.
    Document(Arc<Fingerprints>),
}

impl std::fmt::Debug for ObjectSource {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            ObjectSource::None => "None",
            ObjectSource::Store(..) => "Store",
            ObjectSource::Document(_) => "Document",
        })
    }
}

impl Configuration {
    pub fn set(&self, status: Status) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut state = self.lock();
        if state.changed.is_none_or(|(revision, _)| revision != status.revision) {
            let now_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
            state.changed = Some((status.revision, now_ms));
        }
        state.status = status;
    }

    /// Returns the revision in service, and the time since which it is, in milliseconds since 1970;
    /// `None` before the first configuration.
    pub fn last_change(&self) -> Option<(u64, u64)> {
        self.lock().changed
    }

    /// Returns the revision in service and the problems as JSON.
    pub fn status(&self) -> Value {
        let Status { revision, routes, problems, refused, .. } = self.lock().status.clone();
        json!({"revision": revision, "routes": routes, "problems": *problems, "refused": *refused})
    }

    /// Objects that have no effect, because no other refers to them.
    pub fn unused(&self) -> Unused {
        self.lock().status.unused.clone()
    }

    /// Problems whose path starts with `beginning`.
    pub fn problems_at(&self, beginning: &str) -> Vec<Value> {
        self.problems_with(&|path| path.starts_with(beginning))
    }

    /// Replaces the place of the objects. The previous store is released.
    pub fn set_objects(&self, objects: ObjectSource) {
        self.lock().objects = objects;
    }

    /// Returns the source from which the objects in service can be read.
    pub fn objects(&self) -> ObjectSource {
        self.lock().objects.clone()
    }

    /// Marks the configuration as ready. Every worker's next request uses it.
    pub fn set_ready(&self) {
        self.is_ready.store(true, Ordering::Release);
    }

    /// Whether a configuration is in service.
    pub fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Acquire)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // Every statement leaves the state consistent, so that a poisoned lock can be used.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ProblemSource for Configuration {
    fn problems_with(&self, is_meant: &dyn Fn(&str) -> bool) -> Vec<Value> {
        let problems = Arc::clone(&self.lock().status.problems);
        let is_wanted = |problem: &&Value| problem["path"].as_str().is_some_and(is_meant);
        problems.iter().filter(is_wanted).cloned().collect()
    }
}
