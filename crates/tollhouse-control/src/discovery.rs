//! Sources of discovered nodes: where upstreams with a `discovery_type` get their nodes.
//!
//! Each source is one file in this folder and one row of the table in
//! `tollhouse-model/src/upstream/discovery/source.rs`. A source follows the services of upstreams
//! and publishes their nodes in the upstreams' own cells, so that no route is recompiled and each
//! worker's next request uses them. Sources of registered instances share [`service_nodes`], which
//! selects the instances that serve and reports the result.

mod consul;
mod consul_kv;
mod dns;
mod eureka;
mod kubernetes;
mod nacos;
mod registry;
mod remote;
mod service_nodes;

use std::sync::Arc;

use tollhouse_config::Bootstrap;
use tollhouse_model::Problem;
use tollhouse_model::upstream::DiscoverySource;
use tollhouse_upstream::{UpstreamChange, UpstreamState};

pub use self::service_nodes::{SourceState, UpstreamReport};
use crate::console::bound::BoundAddresses;

/// A source of nodes. Each file of this folder implements it for its type `Source`.
pub trait NodeSource: Send + Sync {
    /// Creates the source, which follows nothing yet.
    fn open(settings: &SourceSettings<'_>) -> Self
    where
        Self: Sized;

    /// Follows the service of an upstream whose snapshot is about to go into service; replaces
    /// another upstream of the same key. Nodes that are known already are published before this
    /// returns.
    fn follow(&self, upstream: &Arc<UpstreamState>);

    /// Stops following the service of the upstream `key`, if it is followed.
    fn leave(&self, key: &str);

    /// Returns the keys of followed upstreams that have no nodes because the bootstrap file lacks their
    /// registry.
    fn unconfigured(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the state of the followed upstreams, for the control API. Called only if the row of
    /// the source has `is_reported`.
    fn report(&self, _: Detail) -> Vec<UpstreamReport> {
        Vec::new()
    }
}

/// Settings of the process that sources are created from.
#[derive(Debug)]
pub struct SourceSettings<'a> {
    pub bootstrap: &'a Bootstrap,
    /// Addresses of this process's listeners.
    pub bound: &'a Arc<BoundAddresses>,
}

/// Level of detail of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Report the number of nodes only.
    Counts,
    /// Report the number of nodes and all nodes.
    Nodes,
}

macro_rules! node_sources {
    ($(
        $(#[$doc:meta])*
        $module:ident: $source:ident $name:literal $facts:tt
    )+) => {
        /// The sources of this process.
        #[derive(Debug)]
        pub struct NodeSources {
            $($(#[$doc])* pub $module: $module::Source,)+
        }

        impl NodeSources {
            pub fn open(settings: &SourceSettings<'_>) -> Self {
                Self { $($module: NodeSource::open(settings),)+ }
            }

            fn get(&self, source: DiscoverySource) -> &dyn NodeSource {
                match source {
                    $(DiscoverySource::$source => &self.$module,)+
                }
            }
        }
    };
}

tollhouse_model::discovery_sources!(node_sources);

impl NodeSources {
    /// Applies the upstream changes of a snapshot that is about to go into service.
    pub fn change_upstreams(&self, changes: &[UpstreamChange]) {
        for UpstreamChange { key, state } in changes {
            let discovery = state.as_ref().and_then(|state| state.discovery());
            let current = discovery.map(|discovery| discovery.service.source);
            for source in DiscoverySource::ALL {
                match state {
                    Some(state) if current == Some(*source) => self.get(*source).follow(state),
                    _ => self.get(*source).leave(key),
                }
            }
        }
    }

    /// Returns the problems of upstreams whose registry is not configured.
    pub fn problems(&self) -> Vec<Problem> {
        let problems = DiscoverySource::ALL.iter().flat_map(|source| {
            self.get(*source).unconfigured().into_iter().map(|key| {
                let reason = format!("{} is not configured", source.origin());
                let name = source.name();
                Problem::warning(key, reason).with_hint(format!(
                    "requests are answered 503; set discovery.{name} in the bootstrap file and restart"
                ))
            })
        });
        problems.collect()
    }

    /// Returns the state of all upstreams of a source.
    pub fn report(&self, source: DiscoverySource, detail: Detail) -> Vec<UpstreamReport> {
        self.get(source).report(detail)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use tokio::runtime::Handle;
    use tollhouse_model::Upstream;
    use tollhouse_net::resolve::{Lookup, Question, ResolveError, Resolver, ResolverSettings};

    use super::*;

    struct NoNames;

    impl tollhouse_net::resolve::Source for NoNames {
        fn lookup<'a>(&'a self, _: &'a Question) -> Lookup<'a> {
            Box::pin(async { Err(ResolveError::Denied) })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_upstream_is_followed_by_its_current_source_only() {
        let settings = ResolverSettings::default();
        let resolver = Resolver::with_source(Arc::new(NoNames), settings, Handle::current());
        let (bootstrap, bound) = (Bootstrap::default(), Arc::default());
        let settings = SourceSettings { bootstrap: &bootstrap, bound: &bound };
        let sources = NodeSources::open(&settings);
        for (conf, in_registry, in_dns) in [
            (json!({"discovery_type": "dns", "service_name": "a.example"}), 0, 1),
            (json!({"discovery_type": "polaris", "service_name": "a"}), 1, 0),
            (json!({"discovery_type": "dns", "service_name": "b.example"}), 0, 1),
            (json!({"nodes": {"10.0.0.1:80": 1}}), 0, 0),
        ] {
            let (upstream, problems) = Upstream::parse(None, &conf, "");
            assert_eq!(problems.to_string(), "");
            let upstream = upstream.expect("it is good");
            let state = UpstreamState::build(&upstream, "routes/1", None, &resolver);
            sources.change_upstreams(&[UpstreamChange::to(&state)]);
            assert_eq!(sources.problems(), [], "{conf}");
            // Lets the runtime drop tasks that were aborted.
            tokio::time::sleep(Duration::from_millis(1)).await;
            let reports = sources.report(DiscoverySource::Registry, Detail::Counts);
            assert_eq!((reports.len(), resolver.names_in_use()), (in_registry, in_dns), "{conf}");
        }
        sources.change_upstreams(&[UpstreamChange::gone("routes/1")]);
    }

    #[tokio::test]
    async fn an_upstream_whose_registry_is_not_configured_has_a_problem_until_it_changes() {
        let settings = ResolverSettings::default();
        let resolver = Resolver::with_source(Arc::new(NoNames), settings, Handle::current());
        let (bootstrap, bound) = (Bootstrap::default(), Arc::default());
        let sources = NodeSources::open(&SourceSettings { bootstrap: &bootstrap, bound: &bound });
        let conf = json!({"discovery_type": "eureka", "service_name": "a"});
        let upstream = Upstream::parse(None, &conf, "").0.expect("it is good");
        let state = UpstreamState::build(&upstream, "routes/1", None, &resolver);
        sources.change_upstreams(&[UpstreamChange::to(&state)]);
        let problems = sources.problems();
        let text = problems.first().map(ToString::to_string).expect("a problem");
        assert!(text.starts_with("routes/1: Eureka is not configured"), "{text}");
        assert!(text.contains("set discovery.eureka"), "{text}");
        sources.change_upstreams(&[UpstreamChange::gone("routes/1")]);
        assert_eq!(sources.problems(), []);
    }
}
