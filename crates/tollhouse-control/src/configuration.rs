//! What the side listeners show of the configuration in service: its problems, whether there is one
//! yet, and where its objects can be read.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tollhouse_config::Fingerprints;
use tollhouse_store::Store;

/// See the module.
#[derive(Debug, Default)]
pub struct Configuration {
    state: Mutex<State>,
    is_ready: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    status: Status,
    objects: ObjectSource,
}

/// Revision and problems. What is listed is shared: most changes change neither list.
#[derive(Debug, Clone, Default)]
pub struct Status {
    /// The revision of the snapshot that serves.
    pub revision: u64,
    /// How many routes it has.
    pub routes: usize,
    /// What is wrong with its objects.
    pub problems: Arc<[Value]>,
    /// Why the last document could not be read at all.
    pub refused: Arc<[Value]>,
}

/// Where the objects in service can be read.
#[derive(Clone, Default)]
pub enum ObjectSource {
    /// Nowhere: there are none yet, or another process has taken them over.
    #[default]
    None,
    /// In the store, under this prefix.
    Store(Arc<dyn Store>, String),
    /// In the last document.
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
    /// Replaces revision and problems.
    pub fn set(&self, status: Status) {
        self.lock().status = status;
    }

    /// Revision and problems.
    pub fn status(&self) -> Value {
        let Status { revision, routes, problems, refused } = self.lock().status.clone();
        json!({"revision": revision, "routes": routes, "problems": *problems, "refused": *refused})
    }

    /// The problems whose path begins so.
    pub fn problems_at(&self, beginning: &str) -> Vec<Value> {
        let problems = Arc::clone(&self.lock().status.problems);
        let begins =
            |problem: &&Value| problem["path"].as_str().is_some_and(|it| it.starts_with(beginning));
        problems.iter().filter(begins).cloned().collect()
    }

    /// Replaces where objects are read. A store is held until then.
    pub fn set_objects(&self, objects: ObjectSource) {
        self.lock().objects = objects;
    }

    /// Where objects are read.
    pub fn objects(&self) -> ObjectSource {
        self.lock().objects.clone()
    }

    /// From now on there is a configuration to serve, and every core's next request meets it.
    pub fn set_ready(&self) {
        self.is_ready.store(true, Ordering::Release);
    }

    /// Whether there is a configuration to serve.
    pub fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Acquire)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // Each statement leaves it whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
