//! Governance rules, which clients fetch and enforce themselves. Tollhouse stores them; the body is
//! encoded by the dialect.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::encoded::Encoded;
use crate::key::ServiceKey;
use crate::revision::Revision;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuleKind {
    /// Routing rule of the first generation: one object per service.
    RoutingV1,
    Routing,
    /// Rule that prefers nearby instances.
    NearbyRouting,
    /// Limit of a rate or of concurrency.
    RateLimit,
    CircuitBreaker,
    /// Rule for active probes that detect failed instances.
    FaultDetector,
    /// Rules for traffic lanes, which keep marked requests on marked instances.
    Lane,
    /// Rule for graceful start and stop of instances, without lost requests.
    Lossless,
    /// List of allowed or blocked callers.
    BlockAllow,
    /// Copy of traffic to another service.
    TrafficMirroring,
    /// Rule that injects faults, for tests.
    FaultInjection,
}

impl RuleKind {
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

    /// Returns the name used in store keys and metrics.
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

/// Scope within which a rule's name must be unique.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameScope {
    /// Rule names need not be unique.
    Free,
    /// Rule names are unique within a namespace.
    Namespace,
    /// Rule names are unique among all rules of the kind.
    Kind,
}

impl RuleKind {
    /// Returns the scope in which names of this kind are unique, as in Polaris.
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

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Rule {
    pub kind: RuleKind,
    /// Id: given by the client, or 32 hex digits.
    pub id: Arc<str>,
    /// Name for operators, unique within [`RuleKind::name_scope`].
    pub name: Box<str>,
    /// Namespace under which the rule is listed.
    pub namespace: Box<str>,
    /// Services whose clients get the rule; the name `*` matches all.
    pub targets: Vec<ServiceKey>,
    /// Rules of lower numbers apply first.
    pub priority: u32,
    /// Whether clients should apply the rule.
    pub enabled: bool,
    /// Creation time, in seconds of Unix time.
    pub created_at: u64,
    /// Time of the last change, in seconds of Unix time.
    pub modified_at: u64,
    /// Time when the rule was last enabled, in seconds of Unix time; 0 if never.
    pub enabled_at: u64,
    /// Revision of the rule, which differs after every change.
    pub revision: Revision,
    /// The rule, encoded by the dialect, without those fields above that can change.
    #[serde(with = "crate::base64_bytes")]
    pub body: Bytes,
    /// Cached encoding of the whole rule.
    #[serde(skip)]
    pub encoded: Encoded,
}
