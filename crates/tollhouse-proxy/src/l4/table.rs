//! Table that matches connections to stream routes, in APISIX's order: first the routes for the
//! client's server name (SNI), the most specific first; then the routes without a name, in the
//! order of the configuration. Of each kind, the first route whose addresses and port match is
//! taken.
//!
//! Immutable and shared by all cores; a change copies the routes of one port or name.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tollhouse_model::{Id, Service, StreamRoute};
use tollhouse_stdx::CowMap;

use crate::plugins::Chain;
use crate::snapshot::{Reference, Target};

/// Stream route with its upstream and plugins, ready for use.
#[derive(Debug)]
pub struct StreamEntry {
    pub route: StreamRoute,
    pub service: Reference<Arc<Service>>,
    /// Upstream of the route's connections.
    pub target: Target,
    /// Plugins of the route, in the order in which they run.
    pub chain: Chain,
}

/// Properties of a connection that routes match.
#[derive(Debug, Clone, Copy)]
pub struct Arrival<'a> {
    pub client: IpAddr,
    /// Gateway's address of the connection.
    pub local: SocketAddr,
    /// Server name (SNI) of the client's TLS hello, in lower case.
    pub server_name: Option<&'a str>,
}

/// Stream routes by name or port.
#[derive(Debug, Clone, Default)]
pub struct StreamTable {
    buckets: CowMap<Bucket, Arc<[PositionedRoute]>>,
    /// Bucket of each route, for its removal.
    homes: CowMap<Id, Bucket>,
}

/// Group of routes that are searched together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Bucket {
    /// Routes without a name, for this port.
    Port(u16),
    /// Routes without a name, for any port.
    AnyPort,
    /// Routes for this name, or for all names with this ending if it begins with a dot.
    Name(Box<str>),
}

/// A route with its position in the order of the configuration.
#[derive(Debug, Clone)]
struct PositionedRoute {
    place: u64,
    entry: Arc<StreamEntry>,
}

impl StreamTable {
    pub fn is_empty(&self) -> bool {
        self.homes.is_empty()
    }

    /// Returns all routes, in no particular order.
    pub fn routes(&self) -> impl Iterator<Item = &Arc<StreamEntry>> {
        self.buckets.values().flat_map(|routes| routes.iter().map(|placed| &placed.entry))
    }

    pub(crate) fn insert(&mut self, place: u64, entry: Arc<StreamEntry>) {
        let id = entry.route.id.clone();
        self.remove(&id);
        let bucket = Bucket::from_route(&entry.route);
        let mut routes = self.buckets.get(&bucket).map_or_else(Vec::new, |routes| routes.to_vec());
        let at = routes.partition_point(|other| other.place < place);
        routes.insert(at, PositionedRoute { place, entry });
        self.buckets.insert(bucket.clone(), routes.into());
        self.homes.insert(id, bucket);
    }

    pub(crate) fn remove(&mut self, id: &Id) {
        let Some(bucket) = self.homes.remove(id) else { return };
        let Some(routes) = self.buckets.get(&bucket) else { return };
        let left: Vec<PositionedRoute> =
            routes.iter().filter(|other| other.entry.route.id != *id).cloned().collect();
        if left.is_empty() {
            self.buckets.remove(&bucket);
        } else {
            self.buckets.insert(bucket, left.into());
        }
    }

    /// Finds the route that a connection matches; routes with a server name come first.
    pub fn find(&self, arrival: &Arrival<'_>) -> Option<&Arc<StreamEntry>> {
        let by_name = arrival.server_name.and_then(|name| self.find_by_name(name, arrival));
        by_name.or_else(|| self.find_by_port(arrival))
    }

    fn find_by_name(&self, name: &str, arrival: &Arrival<'_>) -> Option<&Arc<StreamEntry>> {
        let exact = self.first(&Bucket::Name(name.into()), arrival);
        let mut suffixes = name.match_indices('.').map(|(at, _)| &name[at..]);
        // The longest ending is tried first, because it is the most specific.
        let by_ending =
            || suffixes.find_map(|suffix| self.first(&Bucket::Name(suffix.into()), arrival));
        let any_name = || self.first(&Bucket::Name(".".into()), arrival);
        exact.or_else(by_ending).or_else(any_name).map(|placed| &placed.entry)
    }

    fn find_by_port(&self, arrival: &Arrival<'_>) -> Option<&Arc<StreamEntry>> {
        let of_port = self.first(&Bucket::Port(arrival.local.port()), arrival);
        let of_any = self.first(&Bucket::AnyPort, arrival);
        let found = match (of_port, of_any) {
            (Some(one), Some(other)) if other.place < one.place => Some(other),
            (one, other) => one.or(other),
        };
        found.map(|placed| &placed.entry)
    }

    fn first(&self, bucket: &Bucket, arrival: &Arrival<'_>) -> Option<&PositionedRoute> {
        let routes = self.buckets.get(bucket)?;
        routes.iter().find(|placed| takes(&placed.entry.route, arrival))
    }
}

impl Bucket {
    fn from_route(route: &StreamRoute) -> Self {
        match (&route.sni, route.server_port) {
            (Some(name), _) => {
                let ending = match name.strip_prefix('*') {
                    // `*` alone matches any name.
                    Some("") => ".",
                    Some(ending) => ending,
                    None => name,
                };
                Bucket::Name(ending.into())
            }
            (None, Some(port)) => Bucket::Port(port),
            (None, None) => Bucket::AnyPort,
        }
    }
}

/// Whether the addresses and port of a connection match the route.
fn takes(route: &StreamRoute, arrival: &Arrival<'_>) -> bool {
    route.server_port.is_none_or(|port| port == arrival.local.port())
        && route.remote_addr.is_none_or(|network| network.contains(&arrival.client))
        && route
            .server_addr
            .is_none_or(|network| network.contains(&arrival.local.ip().to_canonical()))
}

#[cfg(test)]
mod tests;
