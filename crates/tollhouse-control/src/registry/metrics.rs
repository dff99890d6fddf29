//! Registry metrics: registered objects, client calls, and commits.
//!
//! The gateway's metrics page shows them as `tollhouse_registry_*`. The page of the registry's own
//! listener uses Polaris' names where they exist, so that Polaris dashboards keep working, and
//! `tollhouse_registry_*` otherwise. Rendering reads the published state and counters.

mod last_minute;
mod polaris_names;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tollhouse_admin::RegistryPart;
use tollhouse_polaris::dialect::{Dialect, LATENCY_BOUNDS_US, MethodReading};
use tollhouse_polaris::grpc;
use tollhouse_registry::{Counts, Registry, State};
use tollhouse_telemetry::catalogue::{Metric, registry as catalogue};
use tollhouse_telemetry::exposition::{Exposition, Format, HistogramSample, Number, labels};

pub use self::last_minute::LastMinute;

/// Limit of namespaces with their own series. The others are added up under one name, so that
/// invented names do not flood a time-series database.
const NAMESPACES_SHOWN_MAX: usize = 100;

/// Name for the sum of the remaining namespaces.
const OTHER_NAMESPACES: &str = "__other__";

/// Sources from which the registry's metrics are rendered.
#[derive(Clone)]
pub struct Sources {
    pub registry: Registry,
    pub dialect: Dialect,
    pub connections: Arc<grpc::Counts>,
    /// Counters of the Admin API's registry part.
    pub part: RegistryPart,
    /// Calls by the registry's clients in the last minute.
    pub last_minute: Arc<LastMinute>,
}

impl Sources {
    /// Returns the page of the registry's own listener, with Polaris' names where they exist.
    pub fn polaris_page(&self) -> String {
        let mut page = Exposition::new(Format::Text);
        let mut page = Page(&mut page);
        let state = self.registry.state_full();
        polaris_names::write(&mut page, self, &state);
        let calls = Metric { name: "client_rq_total", ..catalogue::CALLS };
        let seconds = Metric { name: "client_rq_duration_seconds", ..catalogue::CALL_SECONDS };
        page.calls(&calls, &seconds, "api", &self.dialect.readings());
        self.add_common(&mut page, &state);
        String::from_utf8(page.0.take()).unwrap_or_default()
    }

    /// Writes the registry's part of the gateway's metrics page.
    pub fn write(&self, page: &mut Exposition) {
        let mut page = Page(page);
        let state = self.registry.state_full();
        page.instances(&state);
        page.single(&catalogue::CLIENTS, self.registry.client_count());
        page.single(&catalogue::WATCHES, self.part.watches_open());
        let readings = self.dialect.readings();
        page.calls(&catalogue::CALLS, &catalogue::CALL_SECONDS, "method", &readings);
        self.add_common(&mut page, &state);
    }

    fn add_common(&self, page: &mut Page<'_>, state: &State) {
        let members = self.registry.members().map_or(1, |members| members.len());
        page.single(&catalogue::MEMBERS, members);
        page.totals(state);
        page.statistics(&self.registry);
        page.connections(&self.connections);
    }
}

/// The running registry's sources, for the gateway's metrics page; empty while none is running.
#[derive(Default)]
pub struct RegistrySlot(Mutex<Option<Sources>>);

impl RegistrySlot {
    pub fn set(&self, sources: Option<Sources>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = sources;
    }

    /// Returns the running registry, if any.
    pub fn registry(&self) -> Option<Registry> {
        let sources = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sources.as_ref().map(|sources| sources.registry.clone())
    }

    /// Writes the registry's part of the page; nothing without a registry.
    pub fn write(&self, page: &mut Exposition) {
        let sources = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(sources) = sources {
            sources.write(page);
        }
    }
}

impl std::fmt::Debug for RegistrySlot {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("RegistrySlot").finish_non_exhaustive()
    }
}

struct Page<'a>(&'a mut Exposition);

impl Page<'_> {
    fn head(&mut self, metric: &Metric) {
        self.0.family(metric.name, metric.help, metric.kind);
    }

    fn single(&mut self, metric: &Metric, value: impl Into<Number>) {
        self.head(metric);
        self.0.sample("", value);
    }

    fn by<const LABELS: usize>(
        &mut self,
        metric: &Metric,
        label: &str,
        values: [(&str, u64); LABELS],
    ) {
        self.head(metric);
        for (text, value) in values {
            self.0.sample(&labels([(label, text)]), value);
        }
    }

    fn instances(&mut self, state: &State) {
        let namespaces = namespaces(state);
        self.head(&catalogue::INSTANCES);
        for (namespace, counts, _) in &namespaces {
            let states = [
                ("healthy", counts.healthy),
                ("unhealthy", counts.unhealthy()),
                ("isolated", counts.isolated),
            ];
            for (state, count) in states {
                let labels = labels([("namespace", namespace.as_str()), ("state", state)]);
                self.0.sample(&labels, count);
            }
        }
        self.head(&catalogue::SERVICES);
        for (namespace, _, services) in &namespaces {
            self.0.sample(&labels([("namespace", namespace.as_str())]), *services);
        }
    }

    fn totals(&mut self, state: &State) {
        let totals = state.totals();
        self.single(&catalogue::NAMESPACES, totals.namespaces);
        self.single(&catalogue::ALIASES, totals.aliases);
        self.single(&catalogue::RULES, totals.rules);
        self.single(&catalogue::CONTRACTS, totals.contracts);
        self.single(&catalogue::MEMORY, totals.held_bytes);
        self.single(&catalogue::MASS_EXPIRIES, totals.mass_expiries);
        self.single(&catalogue::VERSION, state.version());
    }

    fn statistics(&mut self, registry: &Registry) {
        let statistics = registry.statistics();
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let states =
            [("unhealthy", read(&statistics.expired)), ("healthy", read(&statistics.recovered))];
        self.by(&catalogue::TRANSITIONS, "to", states);
        let beats = [
            ("registered", read(&statistics.heartbeats)),
            ("unknown", read(&statistics.unregistered_heartbeats)),
        ];
        self.by(&catalogue::HEARTBEATS, "instance", beats);
        let is_down = statistics.is_channel_down.load(Ordering::Relaxed);
        self.single(&catalogue::REDIS_DOWN, u8::from(is_down));
        self.single(&catalogue::ROUND_LOSSES, read(&statistics.round_losses));
        let outcomes =
            [("done", read(&statistics.commands)), ("refused", read(&statistics.refused))];
        self.by(&catalogue::COMMANDS, "outcome", outcomes);
        self.single(&catalogue::COMMITS, read(&statistics.commits));
        self.single(&catalogue::COMMIT_SECONDS, read(&statistics.commit_us) as f64 / 1e6);
    }

    fn connections(&mut self, counts: &grpc::Counts) {
        let opened = counts.connections.get();
        self.single(&catalogue::CONNECTIONS, open_connections(counts));
        self.single(&catalogue::CONNECTIONS_OPENED, opened);
        self.single(&catalogue::CONNECTIONS_REFUSED, counts.connections_refused.get());
        self.single(&catalogue::CONNECTIONS_FAULTED, counts.connections_faulted.get());
        self.single(&catalogue::CALLS_FAILED, counts.calls_failed.get());
    }

    fn calls(&mut self, calls: &Metric, seconds: &Metric, label: &str, readings: &[MethodReading]) {
        self.head(calls);
        for reading in readings {
            for (code, count) in &reading.calls {
                let code = code.number().to_string();
                self.0.sample(&labels([(label, reading.method), ("code", &code)]), *count);
            }
        }
        self.head(seconds);
        let bounds = LATENCY_BOUNDS_US.map(|bound_us| bound_us as f64 / 1e6);
        for reading in readings {
            let sample = HistogramSample {
                bounds: &bounds,
                counts: &reading.classes,
                sum: reading.total_us as f64 / 1e6,
                native: None,
                exemplars: &[],
            };
            self.0.histogram(&labels([(label, reading.method)]), &sample);
        }
    }
}

/// Returns the number of open connections over gRPC.
fn open_connections(counts: &grpc::Counts) -> u64 {
    counts.connections.get().saturating_sub(counts.connections_ended.get())
}

/// Returns the namespaces sorted by name, with their counts. Those beyond the limit are added up.
/// Names need no escaping.
fn namespaces(state: &State) -> Vec<(String, Counts, u32)> {
    let mut all: Vec<_> = state.namespaces().collect();
    all.sort_by(|first, second| first.namespace.name.cmp(&second.namespace.name));
    let line = |name: &str, counts, services| (name.to_owned(), counts, services);
    let first = all.iter().take(NAMESPACES_SHOWN_MAX);
    let mut lines: Vec<_> =
        first.map(|view| line(&view.namespace.name, view.counts, view.services.len())).collect();
    if all.len() > NAMESPACES_SHOWN_MAX {
        let mut rest = (Counts::default(), 0);
        for view in &all[NAMESPACES_SHOWN_MAX..] {
            rest.0.total += view.counts.total;
            rest.0.healthy += view.counts.healthy;
            rest.0.isolated += view.counts.isolated;
            rest.1 += view.services.len();
        }
        lines.push(line(OTHER_NAMESPACES, rest.0, rest.1));
    }
    lines
}
