//! Field numbers of the common fields, by kind of rule.

use crate::code::Code;
use tollhouse_registry::RuleKind;

/// Encoding of texts and numbers: plain or in wrapper messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Texts {
    Plain,
    Wrapped,
}

/// Field that enables or disables a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Switch {
    /// The rule has no such field and is always enabled.
    None,
    /// Field number of a plain boolean that means "enabled".
    Flag(u32),
    /// Field number of a wrapped boolean that means "enabled".
    Wrapped(u32),
    /// Field number of a wrapped boolean that means "disabled".
    WrappedOff(u32),
}

/// Field numbers and error codes of a kind.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// Full name of the message type.
    pub message: &'static str,
    pub(super) texts: Texts,
    /// `None` if a service has at most one such rule, which needs no id.
    pub(super) id: Option<u32>,
    pub(super) name: Option<u32>,
    pub(super) namespace: Option<u32>,
    pub(super) priority: Option<u32>,
    pub(super) revision: u32,
    pub(super) created: u32,
    pub(super) modified: u32,
    pub(super) enabled_at: Option<u32>,
    pub(super) switch: Switch,
    /// Field number of `editable`, which lists for the console have; that of `deleteable` follows it.
    pub(super) editable: Option<u32>,
    pub(super) is_name_required: bool,
    pub(super) bad_name: Code,
    /// Code for a missing or invalid id.
    pub bad_id: Code,
    /// Result code for an unknown rule of this kind.
    pub not_found: Code,
}

/// Layout of rules that belong to one service.
const OF_A_SERVICE: Layout = Layout {
    message: "",
    texts: Texts::Wrapped,
    id: None,
    name: None,
    namespace: Some(2),
    priority: None,
    revision: 3,
    created: 20,
    modified: 21,
    enabled_at: None,
    switch: Switch::Wrapped(4),
    editable: None,
    is_name_required: false,
    bad_name: Code::InvalidParameter,
    bad_id: Code::InvalidServiceName,
    not_found: Code::NotFoundResource,
};

const ROUTE_RULE: Layout = Layout {
    message: "v1.RouteRule",
    texts: Texts::Plain,
    id: Some(1),
    name: Some(2),
    namespace: Some(3),
    priority: Some(11),
    revision: 7,
    created: 8,
    modified: 9,
    enabled_at: Some(10),
    switch: Switch::Flag(4),
    editable: Some(30),
    is_name_required: false,
    bad_name: Code::InvalidRoutingName,
    bad_id: Code::InvalidRoutingID,
    not_found: Code::NotFoundRouting,
};

const ROUTING_V1: Layout = Layout {
    message: "v1.Routing",
    revision: 7,
    created: 5,
    modified: 6,
    switch: Switch::None,
    not_found: Code::NotFoundRouting,
    ..OF_A_SERVICE
};

const RATE_LIMIT: Layout = Layout {
    message: "v1.Rule",
    texts: Texts::Wrapped,
    name: Some(24),
    priority: Some(5),
    revision: 15,
    created: 13,
    modified: 14,
    enabled_at: Some(25),
    switch: Switch::WrappedOff(11),
    bad_name: Code::InvalidRateLimitName,
    bad_id: Code::InvalidRateLimitID,
    not_found: Code::NotFoundRateLimit,
    ..ROUTE_RULE
};

const CIRCUIT_BREAKER: Layout = Layout {
    message: "v1.CircuitBreakerRule",
    editable: Some(40),
    priority: Some(30),
    revision: 5,
    created: 6,
    modified: 7,
    enabled_at: Some(8),
    is_name_required: true,
    bad_name: Code::InvalidCircuitBreakerName,
    bad_id: Code::InvalidCircuitBreakerID,
    not_found: Code::NotFoundCircuitBreaker,
    ..ROUTE_RULE
};

const FAULT_DETECTOR: Layout = Layout {
    message: "v1.FaultDetectRule",
    editable: Some(40),
    priority: Some(29),
    revision: 4,
    created: 5,
    modified: 6,
    enabled_at: None,
    switch: Switch::None,
    is_name_required: true,
    bad_name: Code::InvalidFaultDetectName,
    bad_id: Code::InvalidFaultDetectID,
    not_found: Code::NotFoundResource,
    ..ROUTE_RULE
};

const LANE: Layout = Layout {
    message: "v1.LaneGroup",
    editable: Some(20),
    namespace: None,
    priority: None,
    revision: 7,
    created: 9,
    modified: 10,
    enabled_at: None,
    switch: Switch::None,
    is_name_required: true,
    bad_name: Code::InvalidParameter,
    bad_id: Code::InvalidParameter,
    not_found: Code::NotFoundResource,
    ..ROUTE_RULE
};

const LOSSLESS: Layout = Layout {
    message: "v1.LosslessRule",
    name: None,
    priority: None,
    revision: 4,
    created: 5,
    modified: 6,
    enabled_at: None,
    switch: Switch::None,
    bad_id: Code::InvalidParameter,
    not_found: Code::NotFoundResource,
    ..ROUTE_RULE
};

const BLOCK_ALLOW: Layout = Layout {
    message: "v1.BlockAllowListRule",
    editable: None,
    namespace: Some(4),
    priority: Some(7),
    revision: 13,
    created: 9,
    modified: 10,
    enabled_at: Some(11),
    switch: Switch::Flag(8),
    bad_name: Code::InvalidParameter,
    bad_id: Code::InvalidParameter,
    not_found: Code::NotFoundResource,
    ..ROUTE_RULE
};

const TRAFFIC_MIRRORING: Layout = Layout { message: "v1.TrafficMirroring", ..OF_A_SERVICE };

const FAULT_INJECTION: Layout = Layout { message: "v1.FaultInjection", ..OF_A_SERVICE };

pub fn layout_of(kind: RuleKind) -> &'static Layout {
    match kind {
        RuleKind::RoutingV1 => &ROUTING_V1,
        RuleKind::Routing | RuleKind::NearbyRouting => &ROUTE_RULE,
        RuleKind::RateLimit => &RATE_LIMIT,
        RuleKind::CircuitBreaker => &CIRCUIT_BREAKER,
        RuleKind::FaultDetector => &FAULT_DETECTOR,
        RuleKind::Lane => &LANE,
        RuleKind::Lossless => &LOSSLESS,
        RuleKind::BlockAllow => &BLOCK_ALLOW,
        RuleKind::TrafficMirroring => &TRAFFIC_MIRRORING,
        RuleKind::FaultInjection => &FAULT_INJECTION,
    }
}
