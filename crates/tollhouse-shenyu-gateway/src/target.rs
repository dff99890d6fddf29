//! Where a rule of a proxy sends requests.

use std::sync::Arc;
use std::time::Duration;

use tollhouse_model::upstream::{
    Balance, Discovery, HashOn, HttpVersion, Node, NodeTrust, PassHost, Policy, RegistryService,
    Scheme, WarmUp,
};
use tollhouse_model::{Timeouts, Upstream};
use tollhouse_shenyu::divide::{DivideNode, DivideRule, LoadBalance, RetryStrategy};
use tollhouse_shenyu::matching::RpcType;

use crate::error::NodesError;

/// Warm-up below this is none: weights rise in steps of a second. ShenYu's discovery says 10 ms where
/// nobody has said anything.
const WARM_UP_MIN: Duration = Duration::from_secs(1);

/// The weight that a node begins with, in hundredths of its own.
const WARM_UP_FIRST_PERCENT: u8 = 1;

/// Connecting takes no longer than this, whatever the rule allows the answer.
const CONNECT_MAX: Duration = Duration::from_secs(45);

/// How long a request is tried again at all. ShenYu would go on for as long as its rule's attempts take.
const RETRY_TIME_MAX: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Debug)]
pub struct Target {
    /// The id of its rule; of its selector where no rule was asked.
    pub id: String,
    /// The same for all targets that share nodes and the way they are used.
    pub key: Arc<str>,
    /// The nodes.
    pub upstream: Arc<Upstream>,
    /// How requests are carried to them.
    pub carries: RpcType,
    /// Until an attempt's answer has begun.
    pub timeout: Duration,
    /// Where a request goes that has failed.
    pub again: Again,
}

/// Where a request goes that has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// To another node, at once.
    Elsewhere,
    /// To the same node, after a pause that doubles from the first to the longest.
    Same {
        /// Before the second attempt.
        first: Duration,
        /// Before any.
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

    /// The pause before the attempt `number`, counted from 0 for the first repetition.
    pub fn pause(self, number: u32) -> Duration {
        match self {
            Self::Elsewhere => Duration::ZERO,
            Self::Same { first, longest } => first.saturating_mul(1 << number.min(16)).min(longest),
        }
    }
}

/// Where the nodes of a target come from.
#[derive(Debug)]
pub(crate) enum Nodes {
    /// They stand in ShenYu's objects.
    Listed(Vec<DivideNode>),
    /// They are the instances of a service of the gateway's own registry.
    Registered(RegistryService),
}

impl Nodes {
    /// The instances of the service that an id of Spring Cloud's names: `orders`, or with its namespace
    /// `prod/orders`.
    ///
    /// # Errors
    /// When the registry can have no service of that name.
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
        Ok(Self::Registered(RegistryService {
            namespace: namespace.to_owned(),
            service: service.to_owned(),
            metadata: Default::default(),
            version: None,
        }))
    }
}

/// The upstream of `nodes` used as `rule` says.
///
/// # Errors
/// When the nodes cannot be used together.
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
        // In the same shares; turns that alternate are as good as drawn lots, and even.
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
        discovery: service.map(Discovery::Registry),
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

/// As long as that of the slowest node.
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
