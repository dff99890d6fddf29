//! Registry metrics: registered objects, client calls, and commits.
//!
//! The gateway's metrics page shows them as `tollhouse_registry_*`. The page of the registry's own
//! listener uses Polaris' names where they exist, so that Polaris dashboards keep working, and
//! `tollhouse_registry_*` otherwise. Rendering reads the published state and counters.

mod last_minute;
mod polaris_names;

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tollhouse_admin::RegistryPart;
use tollhouse_polaris::dialect::{Dialect, LATENCY_BOUNDS_US, MethodReading};
use tollhouse_polaris::grpc;
use tollhouse_registry::{Counts, Registry, State};
use tollhouse_telemetry::catalogue::{Metric, registry as catalogue};

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
        let mut page = Page::default();
        let state = self.registry.state_full();
        polaris_names::write(&mut page, self, &state);
        let calls = Metric { name: "client_rq_total", ..catalogue::CALLS };
        let seconds = Metric { name: "client_rq_duration_seconds", ..catalogue::CALL_SECONDS };
        page.calls(&calls, &seconds, "api", &self.dialect.readings());
        self.add_common(&mut page, &state);
        page.text
    }

    /// Returns the registry's part of the gateway's metrics page.
    pub fn own_page(&self) -> String {
        let mut page = Page::default();
        let state = self.registry.state_full();
        page.instances(&state);
        page.single(&catalogue::CLIENTS, self.registry.client_count());
        page.single(&catalogue::WATCHES, self.part.watches_open());
        let readings = self.dialect.readings();
        page.calls(&catalogue::CALLS, &catalogue::CALL_SECONDS, "method", &readings);
        self.add_common(&mut page, &state);
        page.text
    }

    fn add_common(&self, page: &mut Page, state: &State) {
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

    /// Returns the registry's part of the page; empty without a registry.
    pub fn page(&self) -> String {
        let sources = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        sources.map(|sources| sources.own_page()).unwrap_or_default()
    }
}

impl std::fmt::Debug for RegistrySlot {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("RegistrySlot").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn heading(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.text, "{name}{labels} {value}");
    }

    fn head(&mut self, metric: &Metric) {
        self.heading(metric.name, metric.kind, metric.help);
    }

    fn single(&mut self, metric: &Metric, value: impl std::fmt::Display) {
        self.head(metric);
        self.sample(metric.name, "", value);
    }

    fn by<const LABELS: usize>(
        &mut self,
        metric: &Metric,
        label: &str,
        values: [(&str, u64); LABELS],
    ) {
        self.head(metric);
        for (text, value) in values {
            self.sample(metric.name, &format!("{{{label}=\"{text}\"}}"), value);
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
                let labels = format!("{{namespace=\"{namespace}\",state=\"{state}\"}}");
                self.sample(catalogue::INSTANCES.name, &labels, count);
            }
        }
        self.head(&catalogue::SERVICES);
        for (namespace, _, services) in &namespaces {
            let labels = format!("{{namespace=\"{namespace}\"}}");
            self.sample(catalogue::SERVICES.name, &labels, services);
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
                let (method, code) = (reading.method, code.number());
                let labels = format!("{{{label}=\"{method}\",code=\"{code}\"}}");
                self.sample(calls.name, &labels, count);
            }
        }
        self.head(seconds);
        for reading in readings {
            self.latency(seconds.name, label, reading);
        }
    }

    fn latency(&mut self, name: &str, label: &str, reading: &MethodReading) {
        let method = reading.method;
        let mut below = 0;
        for (count, bound_us) in reading.classes.iter().zip(LATENCY_BOUNDS_US) {
            below += count;
            let bound = bound_us as f64 / 1e6;
            let labels = format!("{{{label}=\"{method}\",le=\"{bound}\"}}");
            self.sample(&format!("{name}_bucket"), &labels, below);
        }
        let all: u64 = reading.classes.iter().sum();
        let labels = format!("{{{label}=\"{method}\"}}");
        self.sample(
            &format!("{name}_bucket"),
            &format!("{{{label}=\"{method}\",le=\"+Inf\"}}"),
            all,
        );
        self.sample(&format!("{name}_sum"), &labels, reading.total_us as f64 / 1e6);
        self.sample(&format!("{name}_count"), &labels, all);
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
