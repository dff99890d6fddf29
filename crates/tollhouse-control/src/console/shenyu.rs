//! The console's access to ShenYu's objects, through the interface of ShenYu's admin, while that
//! admin is running.

use std::sync::{Arc, PoisonError, RwLock};

use serde_json::Value;
use tokio::sync::Semaphore;
use tollhouse_admin::{ShenyuCall, ShenyuChange, ShenyuFuture, ShenyuSource};
use tollhouse_shenyu::forms;
use tollhouse_shenyu_admin::{Asked, Operator, Recorded, ShenyuAdmin};

/// Limit of concurrent calls, because each may hold some megabytes. Further calls wait.
const CALLS_MAX: usize = 8;

/// Access to the current ShenYu admin, if there is one.
pub struct ShenyuDesk {
    behind: RwLock<Option<ShenyuAdmin>>,
    places: Semaphore,
}

impl Default for ShenyuDesk {
    fn default() -> Self {
        Self { behind: RwLock::default(), places: Semaphore::new(CALLS_MAX) }
    }
}

impl std::fmt::Debug for ShenyuDesk {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("ShenyuDesk")
    }
}

impl ShenyuDesk {
    pub fn set(&self, admin: Option<ShenyuAdmin>) {
        *self.behind.write().unwrap_or_else(PoisonError::into_inner) = admin;
    }

    fn behind(&self) -> Option<ShenyuAdmin> {
        self.behind.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ShenyuSource for ShenyuDesk {
    fn forms(&self) -> &'static Value {
        forms::forms()
    }

    fn call(&self, call: ShenyuCall) -> ShenyuFuture<'_> {
        Box::pin(async move {
            let admin = self.behind()?;
            // The semaphore is never closed, so that this cannot fail.
            let _place = self.places.acquire().await.ok()?;
            let segments: Vec<&str> = call.segments.iter().map(String::as_str).collect();
            let operator = Operator { name: call.operator, sees_secrets: call.sees_secrets };
            let (method, arguments, body) = (call.method, call.arguments, call.body);
            let asked = Asked { method, segments: &segments, arguments, body };
            Some(admin.call_as(&operator, asked).await)
        })
    }

    fn changes(&self) -> Vec<ShenyuChange> {
        let recorded = self.behind().map(|admin| admin.recorded()).unwrap_or_default();
        recorded.into_iter().map(change).collect()
    }

    fn change(&self, id: &str) -> Option<(ShenyuChange, Value)> {
        let (recorded, changes) = self.behind()?.recorded_in_full(id)?;
        Some((change(recorded), changes))
    }
}

fn change(recorded: Recorded) -> ShenyuChange {
    let Recorded { id, revision, at_ms, operator, way, context, deed, object } = recorded;
    ShenyuChange { id, revision, at_ms, actor: operator, way, context, deed, object }
}

/// The access for the Admin API; `None` if ShenYu's admin is off.
pub fn source(desk: &Arc<ShenyuDesk>, is_on: bool) -> Option<Arc<dyn ShenyuSource>> {
    is_on.then(|| Arc::<ShenyuDesk>::clone(desk) as Arc<dyn ShenyuSource>)
}
