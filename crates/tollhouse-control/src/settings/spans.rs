//! Tracing of the process: the tracer that cores use, and the export behind it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use serde_json::Value;
use tollhouse_config::bootstrap::{self as config, Propagation, SpanProtocol, SpanSampler};
use tollhouse_plugin::Services;
use tollhouse_plugins::otlp::{
    ClientIdentity, Collector, CollectorTls, Compression, Protocol, ResourceValue,
};
use tollhouse_plugins::spans::{QueueBounds, SpanExport};
use tollhouse_trace::{Propagator, Propagators, Ratio, Root, Sampler, Tracer};

/// Time that the last spans get when the process ends. A collector answers within milliseconds; one
/// that is down should not hold up a restart.
const LAST_EXPORT_TIME: Duration = Duration::from_secs(3);

/// Tracing of a process, if it is on. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Spans {
    running: Option<(Arc<Tracer>, Arc<SpanExport>)>,
}

impl Spans {
    /// Opens the export. Nothing is connected before the first span.
    ///
    /// # Errors
    /// If a certificate for the collector cannot be used.
    pub fn open(settings: &config::Tracing, services: &Services) -> anyhow::Result<Self> {
        if !settings.enabled {
            return Ok(Self::default());
        }
        let bounds = QueueBounds {
            name: "tracing",
            spans_max: settings.queue_spans,
            batch_spans: settings.batch_spans.min(settings.queue_spans),
            batch_time: settings.batch_time,
            idle_time: settings.batch_time,
        };
        let export = tollhouse_plugins::spans::open(&collector(settings)?, &bounds, services);
        let tracer = Tracer {
            sampler: sampler(settings),
            propagators: propagators(&settings.propagators),
            has_inner_spans: settings.plugin_spans,
            sink: Arc::<SpanExport>::clone(&export),
        };
        Ok(Self { running: Some((Arc::new(tracer), export)) })
    }

    /// Tracer of this process; `None` if tracing is off.
    pub fn tracer(&self) -> Option<Arc<Tracer>> {
        self.running.as_ref().map(|(tracer, _)| Arc::clone(tracer))
    }

    /// Exports the last spans, for a few seconds at most.
    pub async fn finish(self) {
        let Some((_, export)) = self.running else { return };
        if tokio::time::timeout(LAST_EXPORT_TIME, export.flush()).await.is_err() {
            tracing::warn!("the last spans were not exported: the collector does not answer");
        }
    }
}

fn collector(settings: &config::Tracing) -> anyhow::Result<Collector> {
    let headers = settings.headers.iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok(Collector {
        endpoint: settings.url(),
        protocol: match settings.protocol {
            SpanProtocol::Http => Protocol::Http,
            SpanProtocol::Grpc => Protocol::Grpc,
        },
        headers: headers.map(|(name, value)| (name.clone(), text(value))).collect(),
        timeout: settings.timeout,
        compression: match settings.compression {
            config::Compression::None => Compression::None,
            config::Compression::Gzip => Compression::Gzip,
        },
        tls: collector_tls(&settings.tls)?,
        resource: resource(settings),
    })
}

/// Reads the certificates for connections to the collector.
fn collector_tls(settings: &config::CollectorTls) -> anyhow::Result<CollectorTls> {
    let read = |name: &str, path: Option<&Path>| {
        let pem = |path: &Path| {
            std::fs::read_to_string(path)
                .with_context(|| format!("{name}: {} cannot be read", path.display()))
        };
        path.map(pem).transpose()
    };
    let ca = read("tracing.tls.ca", settings.ca.as_deref())?;
    let certificate = read("tracing.tls.cert", settings.cert.as_deref())?;
    let key = read("tracing.tls.key", settings.key.as_deref())?;
    let identity =
        certificate.zip(key).map(|(certificate, key)| ClientIdentity { certificate, key });
    CollectorTls::new(ca, identity).context("tracing.tls cannot be used")
}

fn sampler(settings: &config::Tracing) -> Sampler {
    let ratio = Ratio::new(settings.ratio);
    match settings.sampler {
        SpanSampler::Always => Sampler::Always,
        SpanSampler::Never => Sampler::Never,
        SpanSampler::Ratio => Sampler::Ratio(ratio),
        SpanSampler::ParentAlways => Sampler::ParentBased(Root::Always),
        SpanSampler::ParentNever => Sampler::ParentBased(Root::Never),
        SpanSampler::ParentRatio => Sampler::ParentBased(Root::Ratio(ratio)),
    }
}

fn propagators(names: &[Propagation]) -> Propagators {
    Propagators::new(names.iter().map(|name| match name {
        Propagation::TraceContext => Propagator::TraceContext,
        Propagation::B3Single => Propagator::B3Single,
        Propagation::B3Multi => Propagator::B3Multi,
    }))
}

/// Attributes of the resource: the configured ones, then those of the process. Of equal names the
/// first counts.
fn resource(settings: &config::Tracing) -> Vec<(String, ResourceValue)> {
    const NAME: &str = "service.name";
    let text = |name: &str, value: &str| (name.to_owned(), ResourceValue::Text(value.to_owned()));
    let own_name = text(NAME, &settings.service_name);
    // A configured name of the service precedes the attribute of the resource, the default does not.
    let is_default = settings.service_name == config::Tracing::default().service_name;
    let first = (!is_default).then(|| own_name.clone());
    let configured = settings.resource.iter().map(|(name, value)| (name.clone(), plain(value)));
    let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let pid = ResourceValue::Number(i64::from(std::process::id()));
    let of_process = [
        own_name,
        text("service.version", env!("CARGO_PKG_VERSION")),
        text("host.name", hostname.trim()),
        ("process.pid".to_owned(), pid),
        text("telemetry.sdk.language", "rust"),
        text("telemetry.sdk.name", "tollhouse"),
        text("telemetry.sdk.version", env!("CARGO_PKG_VERSION")),
    ];
    first.into_iter().chain(configured).chain(of_process).collect()
}

fn plain(value: &Value) -> ResourceValue {
    match value {
        Value::Bool(flag) => ResourceValue::Flag(*flag),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => ResourceValue::Number(whole),
            None => ResourceValue::Real(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => ResourceValue::Text(text.clone()),
        other => ResourceValue::Text(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn names(service_name: &str, resource: Value) -> Vec<(String, ResourceValue)> {
        let Value::Object(resource) = resource else { panic!("a table") };
        let service_name = service_name.to_owned();
        super::resource(&config::Tracing { service_name, resource, ..config::Tracing::default() })
    }

    #[test]
    fn a_configured_name_of_the_service_precedes_the_resource() {
        let first = |resource: Vec<(String, ResourceValue)>| {
            resource.into_iter().find(|(name, _)| name == "service.name").map(|(_, value)| value)
        };
        let text = |name: &str| Some(ResourceValue::Text(name.to_owned()));
        let other = json!({"service.name": "other"});
        assert_eq!(first(names("tollhouse", json!({}))), text("tollhouse"));
        assert_eq!(first(names("tollhouse", other.clone())), text("other"));
        assert_eq!(first(names("edge", other)), text("edge"));
    }
}
