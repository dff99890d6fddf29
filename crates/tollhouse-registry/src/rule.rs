//! Governance rules: what clients fetch and enforce themselves. Kept as data; the body is the
//! dialect's.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::encoded::Encoded;
use crate::key::ServiceKey;
use crate::revision::Revision;

/// What a rule governs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuleKind {
    /// Routing of the first version: one object a service.
    RoutingV1,
    /// Routing by rule.
    Routing,
    /// Routing to what is near.
    NearbyRouting,
    /// Limits of rates and concurrency.
    RateLimit,
    /// Circuit breakers.
    CircuitBreaker,
    /// Probes for the breakers.
    FaultDetector,
    /// Lanes of coloured traffic.
    Lane,
    /// Going up and down without loss.
    Lossless,
    /// Lists of who may call.
    BlockAllow,
    /// Copies of traffic.
    TrafficMirroring,
    /// Faults for tests.
    FaultInjection,
}

impl RuleKind {
    /// Every kind.
    pub const ALL: [Self; 11] = [
        Self::RoutingV1,
        Self::Routing,
        Self::NearbyRouting,
        Self::RateLimit,
        Self::CircuitBreaker,
        Self::FaultDetector,
        Self::Lane,
        Self::Lossless,
        Self::BlockAllow,
        Self::TrafficMirroring,
        Self::FaultInjection,
    ];

    /// Its name in keys and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::RoutingV1 => "routing-v1",
            Self::Routing => "routing",
            Self::NearbyRouting => "nearby-routing",
            Self::RateLimit => "rate-limit",
            Self::CircuitBreaker => "circuit-breaker",
            Self::FaultDetector => "fault-detector",
            Self::Lane => "lane",
            Self::Lossless => "lossless",
            Self::BlockAllow => "block-allow",
            Self::TrafficMirroring => "traffic-mirroring",
            Self::FaultInjection => "fault-injection",
        }
    }
}

/// Among which rules of its kind a rule's name is its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameScope {
    /// None: names are for people.
    Free,
    /// Those of its namespace.
    Namespace,
    /// All of them.
    Kind,
}

impl RuleKind {
    /// Where no two rules of the kind have one name, as Polaris has it.
    pub fn name_scope(self) -> NameScope {
        match self {
            Self::CircuitBreaker | Self::FaultDetector => NameScope::Namespace,
            Self::Lane => NameScope::Kind,
            Self::RoutingV1
            | Self::Routing
            | Self::NearbyRouting
            | Self::RateLimit
            | Self::Lossless
            | Self::BlockAllow
            | Self::TrafficMirroring
            | Self::FaultInjection => NameScope::Free,
        }
    }
}

/// A rule at one version.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Rule {
    /// What it governs.
    pub kind: RuleKind,
    /// Its id: given, or 32 hex digits.
    pub id: Arc<str>,
    /// For people; among which rules it is the only one of that name is said by [`RuleKind::name_scope`].
    pub name: Box<str>,
    /// The namespace it is listed under.
    pub namespace: Box<str>,
    /// The services whose clients get it; a name of `*` stands for all of them.
    pub targets: Vec<ServiceKey>,
    /// Lower goes first.
    pub priority: u32,
    /// Whether clients should obey it.
    pub enabled: bool,
    /// Created at this second of Unix time.
    pub created_at: u64,
    /// Changed at this second of Unix time.
    pub modified_at: u64,
    /// Enabled at this second of Unix time; 0 if never.
    pub enabled_at: u64,
    /// Changes with every change.
    pub revision: Revision,
    /// The rule as the dialect writes it, without what stands above where that can change.
    #[serde(with = "crate::base64_bytes")]
    pub body: Bytes,
    /// Its encoded form.
    #[serde(skip)]
    pub encoded: Encoded,
}
