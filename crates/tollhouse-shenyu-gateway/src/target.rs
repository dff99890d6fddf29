//! Targets of proxy rules.

use std::sync::Arc;
use std::time::Duration;

use tollhouse_model::upstream::{
    Balance, Discovery, DiscoverySource, HashOn, HttpVersion, Node, NodeTrust, PassHost, Policy,
    Scheme, WarmUp,
};
use tollhouse_model::{Timeouts, Upstream};
use tollhouse_shenyu::matching::RpcType;

use crate::error::NodesError;
use crate::shared::nodes::{DivideNode, DivideRule, LoadBalance, RetryStrategy};

/// Shortest effective warm-up, because weights rise in steps of a second. The default in ShenYu's
/// discovery is 10 ms.
const WARM_UP_MIN: Duration = Duration::from_secs(1);

/// Initial weight of a node during warm-up, in percent.
const WARM_UP_FIRST_PERCENT: u8 = 1;

/// Maximum connect timeout, even if the rule's timeout is longer.
const CONNECT_MAX: Duration = Duration::from_secs(45);

/// Maximum time for all retries of a request. ShenYu limits only their number.
const RETRY_TIME_MAX: Duration = Duration::from_secs(60);

/// Nodes of a proxy rule, and how requests are sent to them.
#[derive(Debug)]
pub struct Target {
    /// Id of the rule, or of the selector if that applies without rules.
    pub id: String,
    /// Key shared by all targets with equal nodes and settings.
    pub key: Arc<str>,
    pub upstream: Arc<Upstream>,
    pub carries: RpcType,
    /// Timeout of an attempt until its response begins.
    pub timeout: Duration,
    /// Destination and pause of a retry.
    pub again: Again,
}

/// Destination and pause of a retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// Retry on another node, without a pause.
    Elsewhere,
    /// Retry on the same node, after a pause that doubles from `first` to `longest`.
    Same {
        /// Pause before the first retry.
        first: Duration,
        /// Maximum pause; the doubling ends there.
        longest: Duration,
    },
}

impl Again {
    pub(crate) fn from_strategy(strategy: RetryStrategy) -> Self {
        let millis = Duration::from_millis;
        match strategy {
            RetryStrategy::Failover => Self::Elsewhere,
            RetryStrategy::Current => Self::Same { first: millis(20), longest: millis(20_000) },
            RetryStrategy::Fixed => Self::Same { first: millis(2000), longest: millis(2000) },
            RetryStrategy::Exponential => Self::Same { first: millis(500), longest: millis(5000) },
        }
    }

    /// Returns the pause before retry `number`, counted from 0.
    pub fn pause(self, number: u32) -> Duration {
        match self {
            Self::Elsewhere => Duration::ZERO,
            Self::Same { first, longest } => first.saturating_mul(1 << number.min(16)).min(longest),
        }
    }
}

#[derive(Debug)]
pub(crate) enum Nodes {
    Listed(Vec<DivideNode>),
    /// Instances of a service in the gateway's own registry.
    Registered(Discovery),
}

impl Nodes {
    /// Refers to the service with a Spring Cloud id: `orders`, or with a namespace `prod/orders`.
    ///
    /// # Errors
    ///
    /// If the id is not a valid service name of the registry.
    pub(crate) fn registered(service_id: &str) -> Result<Self, NodesError> {
        let (namespace, service) = service_id.split_once('/').unwrap_or(("default", service_id));
        let is_name = |name: &str| {
            let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-.:_".contains(&byte);
            !name.is_empty() && name.bytes().all(letter)
        };
        if service_id.is_empty() {
            return Err(NodesError::NoService);
        }
        if !is_name(namespace) || !is_name(service) {
            return Err(NodesError::ServiceName(service_id.to_owned()));
        }
        Ok(Self::Registered(Discovery::new(DiscoverySource::Registry, namespace, service)))
    }
}

/// Builds the upstream of `nodes` with the settings of `rule`.
///
/// # Errors
///
/// If only some of the nodes use TLS.
pub(crate) fn upstream(
    nodes: &Nodes,
    rule: &DivideRule,
    carries: RpcType,
) -> Result<Upstream, NodesError> {
    let (nodes, service) = match nodes {
        Nodes::Listed(nodes) => (nodes.as_slice(), None),
        Nodes::Registered(service) => (&[][..], Some(service.clone())),
    };
    let tls = nodes.first().is_some_and(|node| node.tls);
    if nodes.iter().any(|node| node.tls != tls) {
        return Err(NodesError::MixedTls);
    }
    let has_weight = nodes.iter().any(|node| node.weight > 0);
    let timeout = Duration::from_millis(rule.timeout_ms.into());
    let policy = match rule.load_balance {
        // Turns give the same shares as random choice, and distribute requests more evenly.
        LoadBalance::Random | LoadBalance::RoundRobin => Policy::RoundRobin,
        LoadBalance::Hash => Policy::ConsistentHash,
        LoadBalance::LeastActive => Policy::LeastConnections,
        LoadBalance::P2c | LoadBalance::ShortestResponse => Policy::Ewma,
    };
    Ok(Upstream {
        id: None,
        nodes: nodes
            .iter()
            .map(|node| {
                let (host, port) = node.url.rsplit_once(':').unwrap_or((&node.url, ""));
                Node {
                    host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
                    port: port.parse().unwrap_or(if tls { 443 } else { 80 }),
                    socket: None,
                    weight: if has_weight { node.weight } else { 1 },
                    priority: 0,
                }
            })
            .collect(),
        discovery: service,
        balance: Balance {
            policy,
            hash_on: policy.hashes_key().then(|| HashOn::Variable("remote_addr".to_owned())),
        },
        warm_up: warm_up(nodes).filter(|_| policy.has_slow_start()),
        scheme: match (carries, tls) {
            (RpcType::Grpc, false) => Scheme::Grpc,
            (RpcType::Grpc, true) => Scheme::Grpcs,
            (_, false) => Scheme::Http,
            (_, true) => Scheme::Https,
        },
        http_version: HttpVersion::Http11,
        retries: Some(rule.retries),
        retry_timeout: Some(RETRY_TIME_MAX),
        timeout: Some(Timeouts { connect: timeout.min(CONNECT_MAX), send: timeout, read: timeout }),
        pass_host: PassHost::Node,
        proxy_protocol: None,
        keepalive_pool: None,
        tls: None,
        node_trust: NodeTrust::Anybody,
        checks: None,
        name: None,
        desc: None,
        labels: Default::default(),
    })
}

/// Returns the longest warm-up of the nodes, if it is effective.
fn warm_up(nodes: &[DivideNode]) -> Option<WarmUp> {
    let window = Duration::from_millis(nodes.iter().map(|node| node.warm_up_ms).max()?);
    (window >= WARM_UP_MIN).then_some(WarmUp {
        window,
        minimum_weight_percent: WARM_UP_FIRST_PERCENT,
        aggression: 1.0,
        interval: (window / 50).max(WARM_UP_MIN),
        startup_grace: Duration::ZERO,
    })
}
