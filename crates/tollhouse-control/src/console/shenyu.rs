//! The console's access to ShenYu's objects, through the interface of ShenYu's admin, while that
//! admin is running.

use std::sync::{Arc, PoisonError, RwLock};

use serde_json::Value;
use tokio::sync::Semaphore;
use tollhouse_admin::{ShenyuCall, ShenyuChange, ShenyuFuture, ShenyuSource};
use tollhouse_shenyu_admin::{ChangeRecord, Operator, OperatorRequest, ShenyuAdmin};
use tollhouse_shenyu_gateway::forms;

/// Limit of concurrent calls, because each may hold some megabytes. Further calls wait.
const CALLS_MAX: usize = 8;

/// Access to the current ShenYu admin, if there is one.
pub struct ShenyuAccess {
    admin: RwLock<Option<ShenyuAdmin>>,
    permits: Semaphore,
}

impl Default for ShenyuAccess {
    fn default() -> Self {
        Self { admin: RwLock::default(), permits: Semaphore::new(CALLS_MAX) }
    }
}

impl std::fmt::Debug for ShenyuAccess {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("ShenyuAccess")
    }
}

impl ShenyuAccess {
    /// Sets or removes the admin.
    pub fn set(&self, admin: Option<ShenyuAdmin>) {
        *self.admin.write().unwrap_or_else(PoisonError::into_inner) = admin;
    }

    fn admin(&self) -> Option<ShenyuAdmin> {
        self.admin.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ShenyuSource for ShenyuAccess {
    fn forms(&self) -> &'static Value {
        forms::forms()
    }

    fn call(&self, call: ShenyuCall) -> ShenyuFuture<'_> {
        Box::pin(async move {
            let admin = self.admin()?;
            // The semaphore is never closed, so that this cannot fail.
            let _permit = self.permits.acquire().await.ok()?;
            let segments: Vec<&str> = call.segments.iter().map(String::as_str).collect();
            let operator = Operator { name: call.operator, sees_secrets: call.sees_secrets };
            let (method, arguments, body) = (call.method, call.arguments, call.body);
            let request = OperatorRequest { method, segments: &segments, arguments, body };
            Some(admin.call_as(&operator, request).await)
        })
    }

    fn changes(&self) -> Vec<ShenyuChange> {
        let records = self.admin().map(|admin| admin.change_records()).unwrap_or_default();
        records.into_iter().map(change).collect()
    }

    fn change(&self, id: &str) -> Option<(ShenyuChange, Value)> {
        let (record, changes) = self.admin()?.change_record_in_full(id)?;
        Some((change(record), changes))
    }
}

fn change(record: ChangeRecord) -> ShenyuChange {
    let ChangeRecord { id, revision, at_ms, operator, way, context, deed, object } = record;
    ShenyuChange { id, revision, at_ms, actor: operator, way, context, deed, object }
}

/// Returns the data access for the Admin API.
pub fn source(access: &Arc<ShenyuAccess>) -> Arc<dyn ShenyuSource> {
    Arc::<ShenyuAccess>::clone(access)
}
