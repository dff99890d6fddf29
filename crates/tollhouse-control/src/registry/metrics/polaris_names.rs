//! The names that Polaris' dashboards query, on the page of the registry's own listener.
//!
//! Every series has the label `polaris_server_instance`, by which they choose a server. Instances
//! are counted by namespace and not by service, whose names clients make up.

use std::collections::{BTreeMap, HashMap};

use tollhouse_registry::{Counts, NamespaceView, State};
use tollhouse_telemetry::exposition::Number;

use super::last_minute::Calls;
use super::{NAMESPACES_SHOWN_MAX, OTHER_NAMESPACES, Page, Sources, namespaces, open_connections};
use crate::identity::hostname;

/// The services of a namespace, by their instances.
#[derive(Debug, Clone, Copy, Default)]
struct Services {
    /// Number of services with a healthy instance.
    online: u32,
    /// Number of services that have instances, but no healthy one.
    abnormal: u32,
}

/// Writes all registry metrics under Polaris' names.
pub(super) fn write(page: &mut Page<'_>, sources: &Sources, state: &State) {
    let mut names = Names { page, server: hostname() };
    names.namespaces(state);
    let clients = sources.registry.client_count();
    let connections = open_connections(&sources.connections);
    names.gauge("client_total", "Clients that reported themselves lately.", clients);
    names.gauge("sdk_client_total", "Open connections of clients.", connections);
    names.gauge(
        "discovery_conn_total",
        "Open connections of clients of the registry.",
        connections,
    );
    // Files are served by the same listeners.
    names.gauge(
        "config_conn_total",
        "The same connections, which may read files too.",
        connections,
    );
    names.files(state);
    names.calls(&sources.last_minute.calls(&sources.dialect));
}

/// Number of configuration files of a namespace.
#[derive(Debug, Clone, Copy, Default)]
struct FileCounts {
    groups: u32,
    files: u32,
    released: u32,
}

impl FileCounts {
    fn add(&mut self, namespace: &NamespaceView) {
        for group in namespace.config_groups() {
            self.groups += 1;
            for view in group.files().filter(|view| view.file.is_some()) {
                self.files += 1;
                self.released += u32::from(view.active.is_some());
            }
        }
    }
}

/// Returns the files by the namespaces that metrics show, the others added up.
fn files(state: &State) -> BTreeMap<String, FileCounts> {
    let shown = namespaces(state);
    let mut counts: BTreeMap<String, FileCounts> =
        shown.iter().map(|(name, ..)| (name.clone(), FileCounts::default())).collect();
    for view in state.namespaces() {
        let name = &*view.namespace.name;
        let name = if counts.contains_key(name) { name } else { OTHER_NAMESPACES };
        counts.entry(name.to_owned()).or_default().add(view);
    }
    counts
}

struct Names<'a, 'p> {
    page: &'a mut Page<'p>,
    /// Host name of this machine, the label `server`.
    server: String,
}

impl Names<'_, '_> {
    fn heading(&mut self, name: &str, help: &str) {
        self.page.0.family(name, help, "gauge");
    }

    /// A sample of the current metric with labels, each with a comma behind it.
    fn sample(&mut self, labels: &str, value: impl Into<Number>) {
        let labels = format!("{labels}polaris_server_instance=\"{}\"", self.server);
        self.page.0.sample(&labels, value);
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Into<Number>) {
        self.heading(name, help);
        self.sample("", value);
    }

    fn files(&mut self, state: &State) {
        type Field = fn(&FileCounts) -> u32;
        let families: [(&str, &str, Field); 3] = [
            ("config_group_count", "Groups of configuration files.", |it| it.groups),
            ("config_file_count", "Configuration files.", |it| it.files),
            ("config_release_file_count", "Configuration files with a release.", |it| it.released),
        ];
        let counts = files(state);
        for (name, help, field) in families {
            self.heading(name, help);
            for (namespace, counts) in &counts {
                self.sample(&format!("namespace=\"{namespace}\","), field(counts));
            }
        }
    }

    fn namespaces(&mut self, state: &State) {
        type Field = fn(Counts, u32, Services) -> u32;
        let families: [(&str, &str, Field); 8] = [
            ("instance_count", "Registered instances.", |counts, _, _| counts.total),
            ("instance_online_count", "Instances that get traffic.", |counts, _, _| counts.healthy),
            ("instance_abnormal_count", "Unhealthy instances.", |counts, _, _| counts.unhealthy()),
            ("instance_isolate_count", "Isolated instances.", |counts, _, _| counts.isolated),
            ("service_count", "Registered services.", |_, services, _| services),
            ("service_online_count", "Services with a healthy instance.", |_, _, by| by.online),
            (
                "service_abnormal_count",
                "Services with instances, none of which is healthy.",
                |_, _, by| by.abnormal,
            ),
            ("service_offline_count", "Services without instances.", |_, services, by| {
                services.saturating_sub(by.online + by.abnormal)
            }),
        ];
        let namespaces = namespaces(state);
        let services = services(state, &namespaces);
        for (name, help, field) in families {
            self.heading(name, help);
            for (namespace, counts, count) in &namespaces {
                let by = services.get(&**namespace).copied().unwrap_or_default();
                let value = field(*counts, *count, by);
                self.sample(&format!("namespace=\"{namespace}\","), value);
            }
        }
    }

    fn calls(&mut self, calls: &[Calls]) {
        let name = "client_rq_interval_count";
        self.heading(name, "Calls of the last whole minute.");
        for calls in calls {
            for (code, count) in &calls.counts {
                let code = format!("err_code=\"{}\",", code.number());
                self.sample(&(api(calls) + &code), *count);
            }
        }
        type Duration = fn(&Calls) -> u64;
        let families: [(&str, &str, Duration); 4] = [
            ("client_rq_timeout", "Milliseconds of all calls of the last minute.", |calls| {
                calls.total_us
            }),
            ("client_rq_timeout_avg", "Average of a call of the last minute, in ms.", |calls| {
                calls.total_us / calls.count().max(1)
            }),
            ("client_rq_timeout_max", "Slowest call of the last minute, in ms.", |calls| {
                calls.extremes.map_or(0, |it| it.slowest_us)
            }),
            ("client_rq_timeout_min", "Fastest call of the last minute, in ms.", |calls| {
                calls.extremes.map_or(0, |it| it.fastest_us)
            }),
        ];
        for (name, help, duration) in families {
            self.heading(name, help);
            for calls in calls.iter().filter(|calls| !calls.counts.is_empty()) {
                self.sample(&api(calls), duration(calls) as f64 / 1e3);
            }
        }
    }
}

fn api(calls: &Calls) -> String {
    format!("api=\"/{}/{}\",", calls.service, calls.method)
}

/// Counts the services of each namespace in `shown`. Costs one pass over all services.
fn services(state: &State, shown: &[(String, Counts, u32)]) -> HashMap<String, Services> {
    let mut by_namespace: HashMap<String, Services> =
        shown.iter().map(|(name, _, _)| (name.clone(), Services::default())).collect();
    for view in state.services() {
        let name = &*view.service.key.namespace;
        let name = if by_namespace.contains_key(name) { name } else { OTHER_NAMESPACES };
        let Some(services) = by_namespace.get_mut(name) else { continue };
        services.online += u32::from(view.counts.healthy > 0);
        services.abnormal += u32::from(view.counts.total > 0 && view.counts.healthy == 0);
    }
    debug_assert!(by_namespace.len() <= NAMESPACES_SHOWN_MAX + 1, "the rest is one line");
    by_namespace
}
