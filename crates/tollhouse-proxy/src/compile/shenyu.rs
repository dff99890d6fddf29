//! ShenYu objects: stored by kind and id, and compiled together into one table of the snapshot.
//! Nodes keep their health and counters through a change as long as an object uses them.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;
use tollhouse_model::{Id, Problem, Problems, Route, StreamRoute};
use tollhouse_plugin::RunPolicy;
use tollhouse_plugin::handler::SharedHandler;
use tollhouse_shenyu::Kind;
use tollhouse_shenyu::matching::RpcType;
use tollhouse_shenyu_gateway::{Again, Chain, Sources, Target as Destination, Terms};
use tollhouse_telemetry::labels::ShenyuType;

use super::Compiler;
use super::numbers::Numbers;
use super::upstreams::Upstreams;
use crate::l4::table::StreamEntry;
use crate::plugins::Chain as PluginChain;
use crate::plugins::chain::{PluginStep, StepSet, StepUpstream};
use crate::settings::ShenyuSettings;
use crate::snapshot::{
    NodeHost, Reference, RouteEntry, RouteTerms, ShenyuTable, ShenyuTerms, Target,
};

/// Prefix of the ids of ShenYu's routes in logs and metrics; the id of the rule follows.
const ROUTE: &str = "shenyu";

/// Id under which the number of the chain's own route is kept. Neither a route of the configuration nor
/// a rule can have it.
const UNROUTED: &str = "shenyu/";

/// Change of an object of ShenYu.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShenyuChange {
    /// The object is new or has new content.
    Put {
        kind: Kind,
        id: String,
        /// Text of the object, as JSON.
        text: Arc<str>,
        /// Place in the configuration, for problem reports.
        path: String,
    },
    /// Deletion of the object with this id.
    Delete { kind: Kind, id: String },
    /// All objects are removed; the changes that follow are the complete set.
    Clear,
}

#[derive(Debug)]
pub(super) struct Shenyu {
    settings: ShenyuSettings,
    sources: Sources,
    /// Places of objects in the configuration, for problems found by later compilations.
    paths: BTreeMap<(Kind, String), String>,
    unreadable: BTreeMap<(Kind, String), Problem>,
    problems: Problems,
    has_changed: bool,
    /// Routes of the last compilation, by the address of their target.
    routes: Routes,
    /// Ids of the stream routes from the last compilation.
    stream_routes: Vec<Id>,
}

/// Targets and their routes, by the address of the target. The map owns the targets, so that an
/// address is not reused.
type Routes = HashMap<usize, (Arc<Destination>, Arc<RouteEntry>)>;

impl Shenyu {
    pub(super) fn new(settings: ShenyuSettings) -> Self {
        Self {
            sources: Sources::with_engines(settings.engines.clone())
                .with_local(settings.local.clone()),
            paths: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            problems: Problems::new(),
            // Filters of the settings take effect without any object.
            has_changed: !settings.terms.filters.is_empty(),
            routes: Routes::new(),
            stream_routes: Vec::new(),
            settings,
        }
    }

    pub(super) fn problems(&self) -> &Problems {
        &self.problems
    }

    /// Stores a change; it is compiled later.
    pub(super) fn take(&mut self, change: ShenyuChange) {
        self.has_changed = true;
        match change {
            ShenyuChange::Put { kind, id, text, path } => {
                self.unreadable.remove(&(kind, id.clone()));
                if let Err(error) = self.sources.put(kind, &id, &text) {
                    let problem = Problem::error(path.clone(), error.to_string());
                    let problem = problem.with_hint("its last good version stays in service");
                    self.unreadable.insert((kind, id.clone()), problem);
                }
                self.paths.insert((kind, id), path);
            }
            ShenyuChange::Delete { kind, id } => {
                self.sources.remove(kind, &id);
                self.unreadable.remove(&(kind, id.clone()));
                self.paths.remove(&(kind, id));
            }
            ShenyuChange::Clear => {
                self.sources.clear();
                self.unreadable.clear();
                self.paths.clear();
            }
        }
    }

    /// Compiles all objects; `None` if no plugin is enabled.
    fn compile(&mut self) -> Option<Arc<Chain>> {
        let (chain, found) = self.sources.compile(&self.settings.terms);
        let mut problems: Problems = self.unreadable.values().cloned().collect();
        for problem in found {
            let path = self.paths.get(&(problem.kind, problem.id.clone()));
            let path = path
                .cloned()
                .unwrap_or_else(|| format!("shenyu/{}/{}", problem.kind.segment(), problem.id));
            problems.push(Problem::error(path, problem.reason));
        }
        self.problems = problems;
        chain
    }
}

impl Compiler {
    /// Recompiles the table if a ShenYu object changed.
    pub(super) fn compile_shenyu(&mut self) {
        if !std::mem::take(&mut self.shenyu.has_changed) {
            return;
        }
        let before = self.shenyu.problems.clone();
        let chain = self.shenyu.compile();
        if before != self.shenyu.problems {
            self.problems_version += 1;
        }
        let comes_first = self.shenyu.settings.comes_first;
        let before = std::mem::take(&mut self.shenyu.routes);
        self.put_stream_routes(chain.as_deref());
        let Some(chain) = chain else {
            self.snapshot.shenyu = None;
            return;
        };
        let routes = routes(&chain, &before, &mut self.upstreams, &mut self.numbers);
        let targets: Box<[_]> = routes.iter().map(|(_, route)| Arc::clone(route)).collect();
        let mut entry = chain_route(&chain, &targets);
        entry.number = self.numbers.number_for(&Id::new(UNROUTED));
        let entry = Arc::new(entry);
        let table = ShenyuTable { chain, comes_first, entry, targets };
        self.snapshot.shenyu = Some(Arc::new(table));
        let place = |target: &Arc<Destination>| Arc::as_ptr(target).addr();
        self.shenyu.routes = routes.into_iter().map(|it| (place(&it.0), it)).collect();
    }
}

impl Compiler {
    /// Adds a stream route for each port of the `tcp` plugin, before those of the configuration.
    fn put_stream_routes(&mut self, chain: Option<&Chain>) {
        for id in std::mem::take(&mut self.shenyu.stream_routes) {
            self.snapshot.streams.remove(&id);
        }
        for tcp in chain.map(Chain::tcp_targets).unwrap_or_default() {
            let id = Id::new(format!("{ROUTE}-tcp/{}", tcp.id));
            let upstream = self.upstreams.set_shared(
                id.as_str().to_owned(),
                &tcp.upstream,
                NodeHost::WithPort,
            );
            let route = StreamRoute {
                id: id.clone(),
                remote_addr: None,
                server_addr: None,
                server_port: Some(tcp.port),
                sni: None,
                upstream: None,
                upstream_id: None,
                service_id: None,
                plugins: Default::default(),
                protocol: None,
                name: None,
                desc: None,
                labels: Default::default(),
            };
            let entry = StreamEntry {
                route,
                service: Reference::Unnamed,
                target: Target::Inline(upstream),
                chain: PluginChain::default(),
            };
            // Placed before the configuration's own routes, because a route without a port would
            // match first.
            self.snapshot.streams.insert(0, Arc::new(entry));
            self.shenyu.stream_routes.push(id);
        }
    }
}

/// Returns a route for each target; unchanged targets keep their route.
fn routes(
    chain: &Chain,
    before: &Routes,
    upstreams: &mut Upstreams,
    numbers: &mut Numbers,
) -> Vec<(Arc<Destination>, Arc<RouteEntry>)> {
    let route = |to: &Arc<Destination>| {
        if let Some((_, route)) = before.get(&Arc::as_ptr(to).addr()) {
            return (Arc::clone(to), Arc::clone(route));
        }
        let mut route = target(to, chain.terms(), upstreams);
        route.number = numbers.number_for(&route.id);
        (Arc::clone(to), Arc::new(route))
    };
    chain.targets().iter().map(route).collect()
}

/// Returns the route that runs the chain.
fn chain_route(chain: &Arc<Chain>, targets: &[Arc<RouteEntry>]) -> RouteEntry {
    // One step and one route represent all ShenYu objects: the chain chooses a target at request
    // time, by its index in this list.
    let steps = targets.iter().map(|target| StepUpstream::Entry(Arc::clone(target))).collect();
    let handler: SharedHandler = Arc::<Chain>::clone(chain);
    let step = PluginStep {
        name: ROUTE.into(),
        refuses_with: None,
        phases: handler.phases(),
        priority: 0,
        owner: ROUTE,
        filter: None,
        error_response: None,
        is_auth: false,
        judges_path: chain.judges_paths(),
        run_policy: RunPolicy::Both,
        upstreams: steps,
        handler,
    };
    let set = StepSet { steps: vec![Arc::new(step)], off: Vec::new() };
    let terms = ShenyuTerms {
        statuses: chain.terms().statuses,
        counted_as: ShenyuType::Http,
        again: Again::Elsewhere,
        retries: 0,
        timeout: Default::default(),
    };
    let mut entry = entry(ROUTE.to_owned(), Target::None, terms);
    entry.chain = PluginChain::merge([&set]);
    entry
}

/// Returns the route to the target of one rule.
fn target(target: &Destination, terms: &Terms, upstreams: &mut Upstreams) -> RouteEntry {
    let upstream =
        upstreams.set_shared(target.key.to_string(), &target.upstream, NodeHost::WithPort);
    let terms = ShenyuTerms {
        statuses: terms.statuses,
        counted_as: counted_as(target.carries),
        again: target.again,
        retries: target.upstream.retries.unwrap_or(0),
        timeout: target.timeout,
    };
    let id = format!("{ROUTE}/{}", target.id);
    let mut entry = entry(id, Target::Inline(upstream), terms);
    entry.websocket = target.carries == RpcType::WebSocket;
    entry
}

fn counted_as(carries: RpcType) -> ShenyuType {
    match carries {
        RpcType::WebSocket => ShenyuType::WebSocket,
        RpcType::SpringCloud => ShenyuType::SpringCloud,
        RpcType::Grpc => ShenyuType::Grpc,
        RpcType::Dubbo => ShenyuType::Dubbo,
        RpcType::Http | RpcType::Sofa | RpcType::Tars | RpcType::Motan | RpcType::Brpc => {
            ShenyuType::Http
        }
    }
}

fn entry(id: String, target: Target, terms: ShenyuTerms) -> RouteEntry {
    let route = Route {
        id: Id::new(id),
        // Never matched by the router, because ShenYu's own engine chooses. The entry is a route
        // because the stages reach nodes only through routes.
        uris: vec!["/*".to_owned()],
        priority: 0,
        methods: None,
        hosts: Vec::new(),
        remote_addrs: Vec::new(),
        vars: None,
        filter_func: None,
        script: None,
        plugins: Default::default(),
        plugin_config_id: None,
        upstream: None,
        upstream_id: None,
        service_id: None,
        timeout: None,
        enable_websocket: None,
        enabled: true,
        name: None,
        desc: None,
        labels: Default::default(),
    };
    let terms = RouteTerms { shenyu: Some(terms), ..RouteTerms::default() };
    RouteEntry::new(Arc::new(route), target, terms)
}

#[cfg(test)]
mod tests;
