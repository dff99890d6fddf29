//! Observers of calls to the registry, by all of its interfaces.

use std::sync::Arc;

use tollhouse_admin::AuditSink;
use tollhouse_trace::Tracer;

/// Observers that a registry starts with.
#[derive(Default)]
pub struct CallObservers {
    /// Tracing of gRPC calls, if it is on.
    pub tracer: Option<Arc<Tracer>>,
    /// Audit log for reads of tokens.
    pub audit: Option<Arc<dyn AuditSink>>,
}
