//! Queue of a conf, which survives changes of the object's other fields.

use std::sync::Arc;

use serde_json::Value;
use tollhouse_model::variable::Variable;
use tollhouse_plugin::queues::QueueOrigin;
use tollhouse_plugin::{LogContext, Scope};

use super::BatchFields;
use super::batch::{Batches, Delivery, Outlet, QueueOptions};
use super::pending::ENTRIES_MAX;

/// Fields of a conf about its queue, with the limit of entries.
pub(crate) struct QueueConf<'a> {
    plugin: &'static str,
    fields: &'a BatchFields,
    entries_max: u64,
    /// Settings of the destination that the conf does not contain, such as those of metadata.
    destination: String,
}

impl<'a> QueueConf<'a> {
    /// Returns the settings of a plugin's queue.
    pub(crate) fn new(plugin: &'static str, fields: &'a BatchFields) -> Self {
        Self { plugin, fields, entries_max: u64::MAX, destination: String::new() }
    }

    /// Sets an upper bound of waiting entries, whatever metadata says.
    pub(crate) fn limited_to(self, entries_max: u64) -> Self {
        Self { entries_max, ..self }
    }

    /// Names a destination that the conf does not contain; another one gets another queue.
    pub(crate) fn sent_to(self, destination: String) -> Self {
        Self { destination, ..self }
    }

    /// Returns the queue of this conf; `deliver` builds its destination.
    pub(crate) fn open<D: Delivery>(
        self,
        scope: &Scope<'_>,
        deliver: impl FnOnce() -> D,
    ) -> Arc<Batches<D>> {
        let pending_max = scope.metadata_field("max_pending_entries").and_then(Value::as_u64);
        let pending_max = pending_max.unwrap_or(ENTRIES_MAX as u64).min(self.entries_max);
        let pending_max = usize::try_from(pending_max).unwrap_or(usize::MAX);
        let identity = scope.identity(self.plugin);
        let key = format!("{identity}#{pending_max}#{}", self.destination);
        scope.keep(&key, || {
            let outlet = Outlet::from_services(scope.services);
            let options = QueueOptions { owner: scope.owner, pending_max };
            Batches::new(self.fields, deliver(), outlet, options)
        })
    }
}

impl<D: Delivery<Entry = String>> Batches<D> {
    /// Adds the entry of an exchange to the next batch.
    pub(crate) fn log(&self, cx: &LogContext<'_>, entry: String) {
        let bytes = entry.len();
        self.log_sized(cx, entry, bytes);
    }
}

impl<D: Delivery> Batches<D> {
    /// Adds the entry of an exchange, of `bytes` bytes, to the next batch.
    pub(crate) fn log_sized(&self, cx: &LogContext<'_>, entry: D::Entry, bytes: usize) {
        self.note_origin(|| origin(cx));
        self.push(entry, bytes);
    }
}

/// Returns the labels of a queue in metrics.
fn origin(cx: &LogContext<'_>) -> QueueOrigin {
    let address = cx.variables().variable(&Variable::parse("server_addr")).unwrap_or_default();
    QueueOrigin {
        route_id: cx.transfer().route_id.into(),
        server_addr: String::from_utf8_lossy(&address).into(),
    }
}
