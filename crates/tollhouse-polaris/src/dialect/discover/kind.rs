//! Request types of `Discover`.

use tollhouse_registry::RuleKind;

/// Objects that a type of `Discover` request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Instances,
    Services,
    Namespaces,
    Rules(RuleKind),
    /// A type of the protocol whose response is always empty.
    Nothing,
}

impl Kind {
    /// Returns the name of the call, as policies name it.
    pub(super) fn function(self) -> &'static str {
        match self {
            Self::Instances | Self::Nothing => "DiscoverInstances",
            Self::Services | Self::Namespaces => "DiscoverServices",
            Self::Rules(RuleKind::RateLimit) => "DiscoverRateLimitRule",
            Self::Rules(RuleKind::CircuitBreaker) => "DiscoverCircuitBreakerRule",
            Self::Rules(RuleKind::FaultDetector) => "DiscoverFaultDetectRule",
            Self::Rules(RuleKind::Lane) => "DiscoverLaneRule",
            Self::Rules(_) => "DiscoverRouterRule",
        }
    }

    /// Returns the meaning of a type number; `None` if the protocol does not define it.
    pub(super) fn from_number(number: i32) -> Option<Self> {
        Some(match number {
            1 => Self::Instances,
            // Clusters; no client requests them.
            2 => Self::Nothing,
            3 => Self::Rules(RuleKind::RoutingV1),
            4 => Self::Rules(RuleKind::RateLimit),
            5 => Self::Rules(RuleKind::CircuitBreaker),
            6 => Self::Services,
            12 => Self::Namespaces,
            13 => Self::Rules(RuleKind::FaultDetector),
            100 => Self::Rules(RuleKind::Lane),
            101 => Self::Rules(RuleKind::Routing),
            102 => Self::Rules(RuleKind::NearbyRouting),
            103 => Self::Rules(RuleKind::Lossless),
            104 => Self::Rules(RuleKind::BlockAllow),
            105 => Self::Rules(RuleKind::TrafficMirroring),
            106 => Self::Rules(RuleKind::FaultInjection),
            _ => return None,
        })
    }
}
