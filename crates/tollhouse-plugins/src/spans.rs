//! Export of spans to an OTLP collector, on the batch engine of the loggers: requests never wait, what
//! waits is bounded, and losses are counted.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use tollhouse_plugin::{Queues, Services};
use tollhouse_trace::otlp::Origin;
use tollhouse_trace::otlp::messages::collector::trace::v1::ExportTraceServiceResponse;
use tollhouse_trace::{SpanBlock, SpanSink};

use crate::logging::batch::{
    Batches, Delivery, DeliveryError, Failure, Outlet, QueueOptions, Settings,
};
use crate::logging::pending::EntryKind;
use crate::otlp::{Client, Collector, TRIES_MAX, Traces};

/// Bounds of what waits for export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueBounds {
    /// Name of the queue in messages of the gateway's log.
    pub name: &'static str,
    /// Largest number of waiting spans; further ones are dropped and counted.
    pub spans_max: usize,
    /// Number of spans at which a batch is sent at once.
    pub batch_spans: usize,
    /// Longest time for which a batch is collected.
    pub batch_time: Duration,
    /// Time without a new span after which a batch is sent.
    pub idle_time: Duration,
}

/// Opens the export of spans to `collector`. Nothing is connected before the first batch.
pub fn open(collector: &Collector, bounds: &QueueBounds, services: &Services) -> Arc<SpanExport> {
    Arc::new(SpanExport::new(collector, bounds, services))
}

/// Queue of spans for one collector.
pub struct SpanExport(Batches<Exporter>);

impl SpanExport {
    pub(crate) fn new(collector: &Collector, bounds: &QueueBounds, services: &Services) -> Self {
        let settings = Settings {
            name: bounds.name.to_owned(),
            tries_max: TRIES_MAX,
            retry_delay: Duration::from_secs(1),
            age_max: bounds.batch_time,
            pause_max: bounds.idle_time,
            entries_max: bounds.batch_spans,
        };
        let options = QueueOptions { owner: bounds.name, pending_max: bounds.spans_max };
        let exporter = Exporter::new(collector, Arc::clone(&services.queues));
        let outlet = Outlet::from_services(services);
        Self(Batches::with_settings(settings, exporter, outlet, options))
    }

    /// Sends what is waiting now; returns when the collector has answered or every try has failed.
    pub async fn flush(&self) {
        self.0.flush().await;
    }
}

impl std::fmt::Debug for SpanExport {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("SpanExport")
    }
}

impl SpanSink for SpanExport {
    fn take(&self, block: SpanBlock) {
        let bytes = block.bytes();
        self.0.push(block, bytes);
    }
}

/// Delivery of blocks as OTLP requests.
struct Exporter {
    origin: Origin,
    client: Client,
    queues: Arc<Queues>,
}

impl Exporter {
    fn new(collector: &Collector, queues: Arc<Queues>) -> Self {
        Self { origin: collector.origin(), client: Client::new(collector), queues }
    }

    /// Counts the spans of a batch that the collector answered. It may have rejected some of them.
    fn count(&self, spans: usize, answer: ExportTraceServiceResponse) {
        let partial = answer.partial_success.unwrap_or_default();
        let rejected = u64::try_from(partial.rejected_spans).unwrap_or(0).min(spans as u64);
        if rejected > 0 || !partial.error_message.is_empty() {
            let reason = partial.error_message.as_str();
            tracing::warn!(rejected, reason, "the collector rejected spans of a batch");
        }
        self.queues.note_lost_spans(rejected);
        self.queues.note_exported_spans(spans as u64 - rejected);
    }
}

impl Delivery for Exporter {
    type Entry = SpanBlock;
    const KIND: EntryKind = EntryKind::Span;

    fn count(entry: &SpanBlock) -> usize {
        entry.spans()
    }

    async fn deliver(&self, batch: &[SpanBlock]) -> Result<(), Failure> {
        match self.client.export::<Traces>(self.origin.request(batch)).await {
            Ok(answer) => {
                self.count(batch.iter().map(SpanBlock::spans).sum(), answer);
                Ok(())
            }
            // A refused batch is lost as a whole, and holds up no other.
            Err(error @ DeliveryError::Rejected(_)) => {
                Err(Failure { taken: batch.len(), lost: batch.len(), error })
            }
            Err(error) => Err(error.into()),
        }
    }
}
