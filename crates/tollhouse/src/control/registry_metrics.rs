//! The page of the registry's metrics: what is registered, what clients call, what is made durable.
//!
//! Polaris' names where it has some, so that its dashboards go on to work; `tollhouse_registry_*` for the
//! rest. Made of published state and of counters when it is asked for.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use tollhouse_polaris::dialect::{Dialect, LATENCY_BOUNDS_US, MethodReading};
use tollhouse_polaris::grpc;
use tollhouse_registry::{Counts, Registry, State};

/// Namespaces shown one by one; the rest are added up under one name, so that made-up names do not fill
/// a time-series database.
const NAMESPACES_SHOWN_MAX: usize = 100;

/// What the namespaces that are not shown one by one are called.
const OTHER_NAMESPACES: &str = "__other__";

/// The page, in the text format of Prometheus.
pub fn page(registry: &Registry, dialect: &Dialect, connections: &grpc::Counts) -> String {
    let mut page = Page::default();
    let state = registry.state_full();
    page.instances(&state);
    page.totals(&state);
    page.statistics(registry);
    page.connections(connections);
    page.calls(&dialect.readings());
    page.text
}

#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn heading(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a text does not fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.text, "{name}{labels} {value}");
    }

    fn single(&mut self, name: &str, kind: &str, help: &str, value: impl std::fmt::Display) {
        self.heading(name, kind, help);
        self.sample(name, "", value);
    }

    fn instances(&mut self, state: &State) {
        type Field = fn(Counts) -> u32;
        let families: [(&str, &str, Field); 4] = [
            ("instance_count", "Registered instances.", |counts| counts.total),
            ("instance_online_count", "Instances that get traffic.", |counts| counts.healthy),
            ("instance_abnormal_count", "Unhealthy instances.", Counts::unhealthy),
            ("instance_isolate_count", "Isolated instances.", |counts| counts.isolated),
        ];
        let shown = shown(state);
        for (name, help, field) in families {
            self.heading(name, "gauge", help);
            for (namespace, counts, _) in &shown {
                self.sample(name, &format!("{{namespace=\"{namespace}\"}}"), field(*counts));
            }
        }
        self.heading("service_count", "gauge", "Registered services.");
        for (namespace, _, services) in &shown {
            self.sample("service_count", &format!("{{namespace=\"{namespace}\"}}"), services);
        }
    }

    fn totals(&mut self, state: &State) {
        let totals = state.totals();
        let gauges = [
            ("tollhouse_registry_namespaces", "Namespaces.", totals.namespaces),
            ("tollhouse_registry_services", "Services.", totals.services),
            ("tollhouse_registry_aliases", "Aliases.", totals.aliases),
            ("tollhouse_registry_rules", "Governance rules.", totals.rules),
            ("tollhouse_registry_contracts", "Service contracts.", totals.contracts),
            (
                "tollhouse_registry_mass_expiries",
                "Services whose silent instances are kept.",
                totals.mass_expiries,
            ),
        ];
        for (name, help, value) in gauges {
            self.single(name, "gauge", help, value);
        }
        let help = "Published versions since the start.";
        self.single("tollhouse_registry_version", "counter", help, state.version());
    }

    fn statistics(&mut self, registry: &Registry) {
        let statistics = registry.statistics();
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let name = "tollhouse_registry_transitions_total";
        self.heading(name, "counter", "Changes of health.");
        self.sample(name, "{to=\"unhealthy\"}", read(&statistics.expired));
        self.sample(name, "{to=\"healthy\"}", read(&statistics.recovered));
        let name = "tollhouse_registry_heartbeats_total";
        self.heading(name, "counter", "Heartbeats, by whether their instance is registered.");
        self.sample(name, "{instance=\"registered\"}", read(&statistics.beats));
        self.sample(name, "{instance=\"unknown\"}", read(&statistics.stranger_beats));
        let name = "tollhouse_registry_commands_total";
        self.heading(name, "counter", "Commands that change the registry.");
        self.sample(name, "{outcome=\"done\"}", read(&statistics.commands));
        self.sample(name, "{outcome=\"refused\"}", read(&statistics.refused));
        let help = "Groups of commands made durable.";
        let commits = read(&statistics.commits);
        self.single("tollhouse_registry_commits_total", "counter", help, commits);
        let seconds = read(&statistics.commit_us) as f64 / 1e6;
        let help = "Time that making them durable took.";
        self.single("tollhouse_registry_commit_seconds_total", "counter", help, seconds);
        let clients = registry.clients().len();
        self.single(
            "sdk_client_total",
            "gauge",
            "Clients that reported themselves lately.",
            clients,
        );
    }

    fn connections(&mut self, counts: &grpc::Counts) {
        let opened = counts.connections.get();
        let help = "Connections over gRPC accepted.";
        self.single("tollhouse_registry_connections_total", "counter", help, opened);
        let open = opened.saturating_sub(counts.connections_ended.get());
        let help = "Connections over gRPC that are open.";
        self.single("tollhouse_registry_connections", "gauge", help, open);
        let help = "Calls over gRPC that ended with another status than OK.";
        let failed = counts.calls_failed.get();
        self.single("tollhouse_registry_calls_failed_total", "counter", help, failed);
    }

    fn calls(&mut self, readings: &[MethodReading]) {
        let name = "client_rq_total";
        self.heading(name, "counter", "Calls of clients, by method and code of the answer.");
        for reading in readings {
            for (code, count) in &reading.calls {
                let labels = format!("{{api=\"{}\",code=\"{}\"}}", reading.method, code.number());
                self.sample(name, &labels, count);
            }
        }
        let name = "client_rq_duration_seconds";
        self.heading(name, "histogram", "How long the registry took over calls of clients.");
        for reading in readings {
            self.latency(name, reading);
        }
    }

    fn latency(&mut self, name: &str, reading: &MethodReading) {
        let method = reading.method;
        let mut below = 0;
        for (count, bound_us) in reading.classes.iter().zip(LATENCY_BOUNDS_US) {
            below += count;
            let bound = bound_us as f64 / 1e6;
            let labels = format!("{{api=\"{method}\",le=\"{bound}\"}}");
            self.sample(&format!("{name}_bucket"), &labels, below);
        }
        let all: u64 = reading.classes.iter().sum();
        let labels = format!("{{api=\"{method}\"}}");
        self.sample(&format!("{name}_bucket"), &format!("{{api=\"{method}\",le=\"+Inf\"}}"), all);
        self.sample(&format!("{name}_sum"), &labels, reading.total_us as f64 / 1e6);
        self.sample(&format!("{name}_count"), &labels, all);
    }
}

/// Namespaces by name with their counts; those beyond the bound together. Names have no characters
/// that would have to be escaped.
fn shown(state: &State) -> Vec<(String, Counts, u32)> {
    let mut all: Vec<_> = state.namespaces().collect();
    all.sort_by(|first, second| first.namespace.name.cmp(&second.namespace.name));
    let line = |name: &str, counts, services| (name.to_owned(), counts, services);
    let first = all.iter().take(NAMESPACES_SHOWN_MAX);
    let mut shown: Vec<_> =
        first.map(|view| line(&view.namespace.name, view.counts, view.services)).collect();
    if all.len() > NAMESPACES_SHOWN_MAX {
        let mut rest = (Counts::default(), 0);
        for view in &all[NAMESPACES_SHOWN_MAX..] {
            rest.0.total += view.counts.total;
            rest.0.healthy += view.counts.healthy;
            rest.0.isolated += view.counts.isolated;
            rest.1 += view.services;
        }
        shown.push(line(OTHER_NAMESPACES, rest.0, rest.1));
    }
    shown
}
