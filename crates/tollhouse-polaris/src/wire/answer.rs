//! What all answers have in common: a code with its text, and of whom or what it is.
//!
//! The numbers are alike in `Response`, `DiscoverResponse`, `BatchWriteResponse` and
//! `BatchQueryResponse`.

use super::discover_request::Direction;
use super::write::{put_head, put_number_value, put_signed, put_text_value};
use crate::code::Code;

/// Field numbers of `v1.Response`.
pub mod response {
    /// A client.
    pub const CLIENT: u32 = 3;
    /// A namespace.
    pub const NAMESPACE: u32 = 4;
    /// A service.
    pub const SERVICE: u32 = 5;
    /// An instance.
    pub const INSTANCE: u32 = 6;
    /// Routing rules of the first generation.
    pub const ROUTING: u32 = 7;
    /// An alias.
    pub const ALIAS: u32 = 8;
    /// A rate limit.
    pub const RATE_LIMIT: u32 = 9;
    /// The token of a login.
    pub const LOGIN: u32 = 23;
    /// Labels of instances.
    pub const INSTANCE_LABELS: u32 = 28;
    /// Anything, with the name of its type.
    pub const DATA: u32 = 29;
    /// A contract.
    pub const CONTRACT: u32 = 30;
}

/// Field numbers of `v1.DiscoverResponse`.
pub mod discover {
    /// The service, as it was asked for.
    pub const SERVICE: u32 = 4;
    /// An instance.
    pub const INSTANCE: u32 = 5;
    /// Routing rules.
    pub const ROUTING: u32 = 6;
    /// Rate limits.
    pub const RATE_LIMIT: u32 = 7;
    /// Circuit breakers.
    pub const CIRCUIT_BREAKER: u32 = 8;
    /// One of many services.
    pub const SERVICES: u32 = 9;
    /// A namespace.
    pub const NAMESPACES: u32 = 10;
    /// Probes.
    pub const FAULT_DETECTOR: u32 = 11;
    /// The service that an alias stands for.
    pub const ALIAS_FOR: u32 = 21;
    /// A lane group.
    pub const LANES: u32 = 22;
    /// A routing rule of the second generation.
    pub const CUSTOM_ROUTE_RULES: u32 = 23;
    /// A rule of routing nearby.
    pub const NEARBY_ROUTE_RULES: u32 = 24;
    /// The rule of coming and going.
    pub const LOSSLESS: u32 = 25;
    /// A list of callers.
    pub const BLOCK_ALLOW_LIST_RULE: u32 = 26;
    /// Copies of traffic.
    pub const TRAFFIC_MIRRORING: u32 = 27;
    /// Faults on purpose.
    pub const FAULT_INJECTION: u32 = 28;
    /// All rules of coming and going.
    pub const LOSSLESS_RULE_LIST: u32 = 100;
}

const CODE: u32 = 1;
const INFO: u32 = 2;
/// Of `v1.DiscoverResponse`.
const TYPE: u32 = 3;
/// Of `v1.DiscoverResponse`.
const DIRECTION: u32 = 29;
/// Stands between the text of a code and what there is to say beyond it.
const DETAIL_SEPARATOR: &str = ": ";

/// A code and its text.
pub fn put_outcome(out: &mut Vec<u8>, code: Code) {
    put_number_value(out, CODE, code.number());
    put_text_value(out, INFO, code.info());
}

/// A code and its text, with what there is to say beyond it.
pub fn put_outcome_with(out: &mut Vec<u8>, code: Code, detail: &str) {
    put_number_value(out, CODE, code.number());
    put_text_value(out, INFO, &[code.info(), DETAIL_SEPARATOR, detail].concat());
}

/// The head of a `DiscoverResponse`: the outcome, the type that was asked for, the direction.
///
/// Clients find the question to an answer by the type, the service and the direction; one that lacks
/// any of them is never taken.
pub fn put_discover_head(out: &mut Vec<u8>, code: Code, kind: i32, direction: Direction) {
    put_outcome(out, code);
    put_signed(out, TYPE, i64::from(kind));
    put_signed(out, DIRECTION, i64::from(direction.0));
}

/// A wrapper of the revision of something.
pub fn put_revision(out: &mut Vec<u8>, number: u32, digits: &[u8; 32]) {
    // 34: the text with its tag and length.
    put_head(out, number, 34);
    out.extend_from_slice(&[0x0a, 32]);
    out.extend_from_slice(digits);
}
