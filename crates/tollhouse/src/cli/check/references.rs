//! References to missing objects: services, upstreams, plugin configs, plugins, nodes.
//!
//! All problems are warnings: the objects serve, as in APISIX, and requests that need the missing
//! object are refused, or pass without it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use tollhouse_config::Document;
use tollhouse_model::{
    Id, Kind, PluginSet, Problem, Problems, Route, Service, StreamRoute, Upstream,
};
use tollhouse_stdx::nearest;
use tollhouse_telemetry::ErrorCode;
use tollhouse_transcode::{Definition, Protos};

/// Index of the objects in a document, to look up references between them.
#[derive(Debug, Default)]
pub(super) struct References {
    ids: BTreeMap<Kind, Vec<Id>>,
    /// Kinds whose list is unreadable; references to them are not checked.
    unknown: Vec<Kind>,
    /// Services without an upstream, inline or by id.
    bare_services: Vec<Id>,
    /// Metadata of plugins, by plugin name.
    metadata: BTreeMap<String, Value>,
    /// Valid definitions of gRPC services (`protos` objects).
    protos: Protos,
    /// Ssl objects by the host names that they serve.
    owners: BTreeMap<String, Vec<Id>>,
}

/// Name of the plugin whose confs refer to `protos` objects.
const TRANSCODE: &str = "grpc-transcode";

/// Reference to another object whose existence is checked.
struct Name<'a> {
    kind: Kind,
    id: Option<&'a Id>,
    field: &'a str,
    code: ErrorCode,
    /// Traffic that needs the referenced object.
    traffic: Traffic,
}

/// An upstream as objects name it: inline, or by id. The inline one takes precedence.
#[derive(Clone, Copy)]
struct UpstreamRef<'a> {
    inline: Option<&'a Upstream>,
    id: Option<&'a Id>,
}

impl<'a> UpstreamRef<'a> {
    fn new(inline: &'a Option<Arc<Upstream>>, id: &'a Option<Id>) -> Self {
        Self { inline: inline.as_deref(), id: id.as_ref() }
    }
}

/// Kind of traffic that an object handles.
#[derive(Debug, Clone, Copy)]
enum Traffic {
    Requests,
    Connections,
}

impl Traffic {
    /// Returns the consequence of a missing object for the traffic, as part of a warning.
    fn outcome(self, code: ErrorCode) -> String {
        match self {
            Self::Requests => format!("its requests are answered {} ({code})", code.status()),
            Self::Connections => format!("its connections are closed ({code})"),
        }
    }
}

impl References {
    /// Indexes a document; invalid objects count as existing.
    pub(super) fn from_document(document: &Document) -> Self {
        let mut ids: BTreeMap<Kind, Vec<Id>> = BTreeMap::new();
        for item in &document.items {
            ids.entry(item.kind).or_default().push(item.id.clone());
        }
        for withheld in &document.withheld {
            ids.entry(withheld.kind).or_default().push(withheld.id.clone());
        }
        // Sorted once, because every reference needs a binary search.
        ids.values_mut().for_each(|ids| ids.sort());
        let services = document.items.iter().filter(|item| item.kind == Kind::Service);
        let bare = services.filter(|item| item.value().is_ok_and(|value| is_bare(&value)));
        let mut bare_services: Vec<Id> = bare.map(|item| item.id.clone()).collect();
        bare_services.sort();
        let metadata = document.items.iter().filter(|item| item.kind == Kind::PluginMetadata);
        let metadata = metadata.filter_map(|item| Some((item.id.to_string(), item.value().ok()?)));
        let unknown = document.withheld_kinds.clone();
        let mut protos = Protos::default();
        for item in document.items.iter().filter(|item| item.kind == Kind::Proto) {
            let value = item.value().unwrap_or_default();
            let content = value.get("content").and_then(Value::as_str).unwrap_or_default();
            if let Ok(definition) = Definition::compile(content) {
                protos.insert(item.id.clone(), definition);
            }
        }
        let mut owners: BTreeMap<String, Vec<Id>> = BTreeMap::new();
        for item in document.items.iter().filter(|item| item.kind == Kind::Ssl) {
            for name in item.value().map(|value| served_names(&value)).unwrap_or_default() {
                owners.entry(name).or_default().push(item.id.clone());
            }
        }
        owners.values_mut().for_each(|ids| ids.sort());
        Self { ids, unknown, bare_services, metadata: metadata.collect(), protos, owners }
    }

    pub(super) fn metadata(&self) -> &BTreeMap<String, Value> {
        &self.metadata
    }

    pub(super) fn protos(&self) -> &Protos {
        &self.protos
    }

    /// Checks that the definition, service and method exist that a conf of `grpc-transcode` names.
    pub(super) fn transcoding(&self, plugins: &PluginSet, path: &str, problems: &mut Problems) {
        let Some(conf) = plugins.get(TRANSCODE).filter(|conf| !conf.meta.disable) else { return };
        let text = |name: &str| conf.conf.get(name).and_then(Value::as_str).unwrap_or_default();
        let named = conf.conf.get("proto_id");
        let Some(id) = named.and_then(|id| Id::parse(id, path, &mut Problems::new())) else {
            return;
        };
        let path = format!("{path}.plugins.{TRANSCODE}");
        let ids = self.ids.get(&Kind::Proto).map(Vec::as_slice).unwrap_or_default();
        if ids.binary_search(&id).is_err() {
            // An unreadable list is a problem already; references to it would only repeat it.
            if !self.unknown.contains(&Kind::Proto) {
                let mut hint = "its requests pass on as they are".to_owned();
                if let Some(near) = nearest(id.as_str(), ids.iter().map(Id::as_str)) {
                    hint = format!("did you mean \"{near}\"? {hint}");
                }
                let reason = "no object of that id in protos";
                let problem = Problem::warning(format!("{path}.proto_id"), reason);
                problems.push(problem.with_value(&id.as_str().into()).with_hint(hint));
            }
            return;
        }
        let (service, method) = (text("service"), text("method"));
        let lacks = |definition: &Definition| definition.method(service, method).is_none();
        if self.protos.get(&id).is_some_and(|definition| lacks(definition)) {
            let reason = format!("protos/{id} has no method {service}/{method}");
            let hint = "its requests are answered 503; a service is named with its package";
            problems.push(Problem::warning(path, reason).with_hint(hint));
        }
    }

    /// Checks the references of a route. Of several ways to name an upstream only the effective one
    /// is checked.
    pub(super) fn route(&self, route: &Route, path: &str, problems: &mut Problems) {
        let service = Name {
            kind: Kind::Service,
            id: route.service_id.as_ref(),
            field: "service_id",
            code: ErrorCode::ServiceNotFound,
            traffic: Traffic::Requests,
        };
        let config = Name {
            kind: Kind::PluginConfig,
            id: route.plugin_config_id.as_ref(),
            field: "plugin_config_id",
            code: ErrorCode::PluginConfigNotFound,
            traffic: Traffic::Requests,
        };
        self.follow(&service, path, problems);
        self.follow(&config, path, problems);
        let upstream = UpstreamRef::new(&route.upstream, &route.upstream_id);
        self.upstream_ref(upstream, Traffic::Requests, path, problems);
        if self.leads_nowhere(route) && route.plugins.values().all(|conf| conf.meta.disable) {
            let reason = "it leads to no upstream, and it has no plugin that could answer";
            let hint = Traffic::Requests.outcome(ErrorCode::NoNodes);
            problems.push(Problem::warning(path, reason).with_hint(hint));
        }
    }

    /// Checks the references of a stream route.
    pub(super) fn stream_route(&self, route: &StreamRoute, path: &str, problems: &mut Problems) {
        let service = Name {
            kind: Kind::Service,
            id: route.service_id.as_ref(),
            field: "service_id",
            code: ErrorCode::ServiceNotFound,
            traffic: Traffic::Connections,
        };
        self.follow(&service, path, problems);
        let upstream = UpstreamRef::new(&route.upstream, &route.upstream_id);
        self.upstream_ref(upstream, Traffic::Connections, path, problems);
        let is_bare = |service: &Id| self.bare_services.binary_search(service).is_ok();
        let names_none = route.upstream.is_none() && route.upstream_id.is_none();
        let protects_nothing = route.plugins.values().all(|conf| conf.meta.disable);
        if names_none && route.service_id.as_ref().is_none_or(is_bare) && protects_nothing {
            let reason = "it leads to no upstream, and it has no plugin that could choose one";
            let hint = Traffic::Connections.outcome(ErrorCode::NoNodes);
            problems.push(Problem::warning(path, reason).with_hint(hint));
        }
    }

    /// Whether the route has no upstream: neither the route nor its service names one.
    fn leads_nowhere(&self, route: &Route) -> bool {
        let is_bare = |service: &Id| self.bare_services.binary_search(service).is_ok();
        let names_none = route.upstream.is_none() && route.upstream_id.is_none();
        names_none && route.service_id.as_ref().is_none_or(is_bare)
    }

    /// Checks the references of a service.
    pub(super) fn service(&self, service: &Service, path: &str, problems: &mut Problems) {
        let upstream = UpstreamRef::new(&service.upstream, &service.upstream_id);
        self.upstream_ref(upstream, Traffic::Requests, path, problems);
    }

    /// Checks that an upstream has a usable node.
    pub(super) fn upstream(&self, upstream: &Upstream, path: &str, problems: &mut Problems) {
        check_nodes(upstream, Traffic::Requests, path, problems);
    }

    /// Warns if another ssl object has one of the host names of this one.
    pub(super) fn ssl(&self, id: &Id, value: &Value, path: &str, problems: &mut Problems) {
        for name in served_names(value) {
            let owners = self.owners.get(&name).map(Vec::as_slice).unwrap_or_default();
            let Some(other) = owners.iter().find(|owner| *owner != id) else { continue };
            let shown = owners.first().unwrap_or(id);
            let reason = format!("{name} stands in ssl {other} too");
            let hint = format!("clients are shown the certificate of the lowest id, {shown}");
            problems.push(Problem::warning(format!("{path}.snis"), reason).with_hint(hint));
        }
    }

    /// Checks the upstream that an object names.
    fn upstream_ref(
        &self,
        upstream: UpstreamRef<'_>,
        traffic: Traffic,
        path: &str,
        problems: &mut Problems,
    ) {
        if let (Some(inline), None) = (upstream.inline, upstream.id) {
            return check_nodes(inline, traffic, &format!("{path}.upstream"), problems);
        }
        let name = Name {
            kind: Kind::Upstream,
            id: upstream.id,
            field: "upstream_id",
            code: ErrorCode::UpstreamNotFound,
            traffic,
        };
        self.follow(&name, path, problems);
    }

    fn follow(&self, name: &Name<'_>, path: &str, problems: &mut Problems) {
        let Some(id) = name.id else { return };
        let ids = self.ids.get(&name.kind).map(Vec::as_slice).unwrap_or_default();
        if ids.binary_search(id).is_ok() || self.unknown.contains(&name.kind) {
            return;
        }
        let reason = format!("no object of that id in {}", name.kind);
        let mut hint = name.traffic.outcome(name.code);
        if let Some(near) = nearest(id.as_str(), ids.iter().map(Id::as_str)) {
            hint = format!("did you mean \"{near}\"? {hint}");
        }
        let problem = Problem::warning(format!("{path}.{}", name.field), reason);
        problems.push(problem.with_value(&id.as_str().into()).with_hint(hint));
    }
}

/// Returns the unique host names that an ssl object serves.
fn served_names(ssl: &Value) -> Vec<String> {
    let is_off = ssl.get("status").and_then(Value::as_i64) == Some(0);
    let is_for_nodes = ssl.get("type").and_then(Value::as_str) == Some("client");
    if is_off || is_for_nodes {
        return Vec::new();
    }
    let list = ssl.get("snis").and_then(Value::as_array).into_iter().flatten();
    let names = list.chain(ssl.get("sni")).filter_map(Value::as_str);
    let mut names: Vec<String> = names.map(str::to_ascii_lowercase).collect();
    names.sort();
    names.dedup();
    names
}

/// Whether a service has no upstream, inline or by id.
fn is_bare(service: &Value) -> bool {
    service.get("upstream").is_none() && service.get("upstream_id").is_none()
}

/// Warns if an upstream has no node with a weight above 0.
fn check_nodes(upstream: &Upstream, traffic: Traffic, path: &str, problems: &mut Problems) {
    if upstream.discovery.is_some() || upstream.nodes.iter().any(|node| node.weight > 0) {
        return;
    }
    let reason = "no node with a weight above 0";
    let hint = traffic.outcome(ErrorCode::NoNodes);
    problems.push(Problem::warning(format!("{path}.nodes"), reason).with_hint(hint));
}
