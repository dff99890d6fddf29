//! Stream routes: parsed, compiled and inserted into the snapshot's table of connections.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use serde_json::Value;
use tollhouse_model::stream_route::ListenedPorts;
use tollhouse_model::{Id, Kind, PluginSet, Problem, Problems, Service, StreamRoute, Upstream};

use super::object::Object;
use super::plugins::Fallback;
use super::{Compiler, TouchedObjects, reference};
use crate::l4::table::StreamEntry;
use crate::plugins::Chain;
use crate::snapshot::{Reference, Target};

#[derive(Debug, Default)]
pub(super) struct Streams {
    listened: ListenedPorts,
    routes: HashMap<Id, StoredRoute>,
    by_service: HashMap<Id, HashSet<Id>>,
    next_place: u64,
}

#[derive(Debug)]
struct StoredRoute {
    route: StreamRoute,
    /// Position in the order in which connections try routes.
    place: u64,
}

impl Streams {
    /// Creates an empty set; `listened` holds the ports on which connections arrive.
    pub(super) fn new(listened: ListenedPorts) -> Self {
        Self { listened, ..Self::default() }
    }

    pub(super) fn contains(&self, id: &Id) -> bool {
        self.routes.contains_key(id)
    }

    pub(super) fn plugins(&self) -> impl Iterator<Item = (&Id, &PluginSet)> {
        self.routes.iter().map(|(id, kept)| (id, &kept.route.plugins))
    }

    /// Returns the inline upstream of each route, if any.
    pub(super) fn upstreams(&self) -> impl Iterator<Item = (&Id, &Option<Arc<Upstream>>)> {
        self.routes.iter().map(|(id, kept)| (id, &kept.route.upstream))
    }

    /// Stores a route. A changed one keeps its place, a new one goes last.
    pub(super) fn keep(&mut self, route: StreamRoute) {
        let id = route.id.clone();
        let previous = self.forget(&id);
        let place = previous.unwrap_or_else(|| self.take_place());
        if let Some(service) = &route.service_id {
            self.by_service.entry(service.clone()).or_default().insert(id.clone());
        }
        self.routes.insert(id, StoredRoute { route, place });
    }

    /// Removes a route; returns its place.
    pub(super) fn forget(&mut self, id: &Id) -> Option<u64> {
        let stored = self.routes.remove(id)?;
        if let Some(service) = &stored.route.service_id
            && let Some(users) = self.by_service.get_mut(service)
        {
            users.remove(id);
            if users.is_empty() {
                self.by_service.remove(service);
            }
        }
        Some(stored.place)
    }

    /// Moves a route to the last place.
    pub(super) fn place_last(&mut self, id: &Id) {
        let place = self.take_place();
        if let Some(stored) = self.routes.get_mut(id) {
            stored.place = place;
        }
    }

    fn take_place(&mut self) -> u64 {
        self.next_place += 1;
        self.next_place
    }

    /// Returns the routes to compile, each once: changed ones and those of changed services.
    pub(super) fn touched_in_order(&self, touched: &TouchedObjects) -> Vec<Id> {
        let mut seen = HashSet::new();
        let services = touched.services.iter().filter_map(|id| self.by_service.get(id)).flatten();
        let all = touched.stream_routes.iter().chain(services);
        all.filter(|id| seen.insert((*id).clone())).cloned().collect()
    }
}

impl Compiler {
    pub(super) fn put_stream_route(
        &mut self,
        id: Id,
        value: &Value,
        path: &str,
        touched: &mut TouchedObjects,
    ) -> Problems {
        let (route, mut problems) = StreamRoute::parse(id.clone(), value, path);
        let object = Object { kind: Kind::StreamRoute, id: &id, path };
        let Some(route) = route else {
            self.refuse_in_place(object, value, touched, &mut problems);
            return problems;
        };
        let fallback = self.fallback(Kind::StreamRoute, &id);
        self.set_plugins(object, &route.plugins, &mut problems);
        if route.protocol.is_some() {
            let reason = "connections are passed through, and no protocol is taken apart";
            let problem = Problem::warning(format!("{path}.protocol"), reason);
            problems.push(problem.with_hint("it has no effect"));
        }
        problems
            .extend(self.streams.listened.warning(route.server_port, path).into_iter().collect());
        if !problems.has_errors() || fallback == Fallback::Refuse {
            self.streams.keep(route);
            touched.stream_routes.push(id);
        }
        problems
    }

    /// Updates the connection table for the stream route `id` and the objects that it references.
    pub(super) fn compile_stream_route(&mut self, id: &Id) {
        let Some(StoredRoute { route, place }) = self.streams.routes.get(id) else {
            self.snapshot.streams.remove(id);
            self.upstreams.remove_stream_route(id);
            return;
        };
        let (route, place) = (route.clone(), *place);
        let service = reference(route.service_id.as_ref(), |id| self.services.get(id).cloned());
        let target = self.stream_target(&route, &service);
        let of_service = route.service_id.as_ref().and_then(|id| self.plugins.for_connections(id));
        let own = self.plugins.get(Kind::StreamRoute, id);
        let chain = Chain::merge(own.into_iter().chain(&of_service));
        let entry = StreamEntry { route, service, target, chain };
        self.snapshot.streams.insert(place, Arc::new(entry));
    }

    /// Returns the target of a stream route. The route takes precedence over its service, and an id
    /// over an inline upstream, except in services, as in APISIX.
    fn stream_target(&mut self, route: &StreamRoute, service: &Reference<Arc<Service>>) -> Target {
        let slots = &mut self.snapshot.upstreams;
        if let (None, Some(upstream)) = (&route.upstream_id, &route.upstream) {
            return Target::Inline(self.upstreams.set_stream_route(&route.id, upstream));
        }
        self.upstreams.remove_stream_route(&route.id);
        if let Some(id) = &route.upstream_id {
            return Target::Slot(self.upstreams.slot(id, slots));
        }
        let Reference::Found(service) = service else { return Target::None };
        if let Some(upstream) = self.upstreams.service(&service.id) {
            return Target::Inline(upstream);
        }
        match &service.upstream_id {
            Some(id) => Target::Slot(self.upstreams.slot(id, slots)),
            None => Target::None,
        }
    }
}
