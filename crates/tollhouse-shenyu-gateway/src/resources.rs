//! State that the rules of a chain share: connections, counts, and the targets of proxies.

use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use tollhouse_model::Upstream;
use tollhouse_shenyu::matching::RpcType;

use crate::counts::{Counts, Shared};
use crate::engines::Engines;
use crate::error::BuildError;
use crate::place::Place;
use crate::plugins::rate_limiter::limiter::{Limiter, LimiterRule};
use crate::shared::breaker::{Breaker, BreakerRule};
use crate::shared::nodes::DivideRule;
use crate::target::{self, Again, Nodes, Target};

/// State that rules share during a compilation: that of the previous chain, and that of the new
/// chain.
pub(crate) struct Resources<'a> {
    engines: Option<&'a Arc<dyn Engines>>,
    counts_before: &'a Counts,
    pub(crate) counts: Counts,
    pub(crate) targets: Vec<Arc<Target>>,
    /// Upstreams by key, shared by several rules.
    upstreams: HashMap<Arc<str>, Arc<Upstream>>,
    /// Target of the rule being compiled.
    target: Option<Arc<Target>>,
}

impl<'a> Resources<'a> {
    pub(crate) fn new(engines: Option<&'a Arc<dyn Engines>>, counts_before: &'a Counts) -> Self {
        let counts = Counts { cache: counts_before.cache.clone(), ..Counts::default() };
        let (targets, upstreams) = (Vec::new(), HashMap::default());
        Self { engines, counts_before, counts, targets, upstreams, target: None }
    }

    /// Returns the network connections, if available.
    pub(crate) fn any_engines(&self) -> Option<Arc<dyn Engines>> {
        self.engines.cloned()
    }

    /// Returns the network connections; `servers` names those that a rule needs.
    pub(crate) fn engines(&self, servers: &'static str) -> Result<&Arc<dyn Engines>, BuildError> {
        self.engines.ok_or(BuildError::NoConnections(servers))
    }

    /// Returns the counts of a rule of `rateLimiter`.
    pub(crate) fn limiter(&mut self, place: &Place<'_>, rule: LimiterRule) -> Shared<Limiter> {
        let before = &self.counts_before.limiters;
        self.counts.limiters.get(before, place.id(), rule, Limiter::new)
    }

    /// Returns the state of a breaker's rule.
    pub(crate) fn breaker(&mut self, place: &Place<'_>, rule: BreakerRule) -> Shared<Breaker> {
        let before = &self.counts_before.breakers;
        self.counts.breakers.get(before, place.id(), rule, Breaker::new)
    }

    /// Creates the target of a rule that sends requests to these nodes.
    ///
    /// # Errors
    ///
    /// If the nodes cannot be used together.
    pub(crate) fn add_target(
        &mut self,
        place: &Place<'_>,
        carries: RpcType,
        rule: &DivideRule,
        nodes: &Nodes,
    ) -> Result<(), BuildError> {
        let key: Arc<str> = format!(
            "shenyu/{}/{:?}/{:?}/{}/{}",
            place.selector.id,
            rule.load_balance,
            rule.retry_strategy,
            rule.retries,
            rule.timeout_ms
        )
        .into();
        // Rules that use a selector's nodes in the same way share balancing, health and
        // connections.
        let upstream = match self.upstreams.get(&key) {
            Some(upstream) => Arc::clone(upstream),
            None => {
                let upstream = Arc::new(target::upstream(nodes, rule, carries)?);
                self.upstreams.insert(Arc::clone(&key), Arc::clone(&upstream));
                upstream
            }
        };
        let again = match carries {
            // Calls of gRPC are not retried.
            RpcType::Grpc => Again::Elsewhere,
            _ => Again::from_strategy(rule.retry_strategy),
        };
        self.target = Some(Arc::new(Target {
            id: place.id().to_owned(),
            key,
            upstream,
            carries,
            timeout: Duration::from_millis(rule.timeout_ms.into()),
            again,
        }));
        Ok(())
    }

    /// Returns the target that the last compilation created, if any.
    pub(crate) fn take_target(&mut self) -> Option<Arc<Target>> {
        self.target.take()
    }

    /// Adds a target to those of the chain, and returns its index.
    pub(crate) fn place_target(&mut self, target: &Arc<Target>) -> usize {
        self.upstreams.insert(Arc::clone(&target.key), Arc::clone(&target.upstream));
        self.targets.push(Arc::clone(target));
        self.targets.len() - 1
    }

    /// Continues the counts of an unchanged rule.
    pub(crate) fn take_over_counts(&mut self, place: &Place<'_>) {
        self.counts.take_over(self.counts_before, place.id());
    }
}
