//! Common fields of all answers: code, text, and the object that they are about.
//!
//! `Response`, `DiscoverResponse`, `BatchWriteResponse` and `BatchQueryResponse` use these field
//! numbers.

use super::discover_request::Direction;
use super::write::{put_head, put_number_value, put_signed, put_text_value};
use crate::code::Code;

/// Field numbers of `v1.Response`.
pub mod response {
    pub const CLIENT: u32 = 3;
    pub const NAMESPACE: u32 = 4;
    pub const SERVICE: u32 = 5;
    pub const INSTANCE: u32 = 6;
    /// Routing rules of the first generation.
    pub const ROUTING: u32 = 7;
    pub const ALIAS: u32 = 8;
    pub const RATE_LIMIT: u32 = 9;
    /// Result of a login, with its token.
    pub const LOGIN: u32 = 23;
    /// Labels of instances (repeated).
    pub const INSTANCE_LABELS: u32 = 28;
    /// An `Any`, for kinds of objects without an own field.
    pub const DATA: u32 = 29;
    pub const CONTRACT: u32 = 30;
}

/// Field numbers of `v1.DiscoverResponse`.
pub mod discover {
    /// Service that the client asked about.
    pub const SERVICE: u32 = 4;
    pub const INSTANCE: u32 = 5;
    pub const ROUTING: u32 = 6;
    pub const RATE_LIMIT: u32 = 7;
    pub const CIRCUIT_BREAKER: u32 = 8;
    /// Services of a list (repeated).
    pub const SERVICES: u32 = 9;
    pub const NAMESPACES: u32 = 10;
    /// Rules for probes that detect failed instances.
    pub const FAULT_DETECTOR: u32 = 11;
    /// The service that an alias resolves to.
    pub const ALIAS_FOR: u32 = 21;
    pub const LANES: u32 = 22;
    /// Routing rules of the second generation (repeated).
    pub const CUSTOM_ROUTE_RULES: u32 = 23;
    /// Nearby routing rules (repeated).
    pub const NEARBY_ROUTE_RULES: u32 = 24;
    /// First lossless rule, for older client libraries.
    pub const LOSSLESS: u32 = 25;
    /// Lists of allowed or blocked callers (repeated).
    pub const BLOCK_ALLOW_LIST_RULE: u32 = 26;
    pub const TRAFFIC_MIRRORING: u32 = 27;
    pub const FAULT_INJECTION: u32 = 28;
    /// All lossless rules, for newer client libraries.
    pub const LOSSLESS_RULE_LIST: u32 = 100;
}

const CODE: u32 = 1;
const INFO: u32 = 2;
/// Field number of `v1.DiscoverResponse.type`.
const TYPE: u32 = 3;
/// Field number of `v1.DiscoverResponse.direction`.
const DIRECTION: u32 = 29;
/// Separator between the text of a code and its detail.
const DETAIL_SEPARATOR: &str = ": ";

/// Returns the text of a code with a detail. The detail of a bad request is the whole text, because
/// Polaris' configuration centre names a missing field in its place.
pub(crate) fn info_with(code: Code, detail: &str) -> String {
    match code {
        Code::BadRequest => detail.to_owned(),
        _ => [code.info(), DETAIL_SEPARATOR, detail].concat(),
    }
}

/// Writes a code and its text.
pub fn put_outcome(out: &mut Vec<u8>, code: Code) {
    put_number_value(out, CODE, code.number());
    put_text_value(out, INFO, code.info());
}

/// Writes a code and its text with a detail.
pub fn put_outcome_with(out: &mut Vec<u8>, code: Code, detail: &str) {
    put_number_value(out, CODE, code.number());
    put_text_value(out, INFO, &info_with(code, detail));
}

/// Writes the head of a `DiscoverResponse`: outcome, requested type, direction.
///
/// Clients match a response to its request by type, service and direction; they ignore a response
/// that lacks a part.
pub fn put_discover_head(out: &mut Vec<u8>, code: Code, kind: i32, direction: Direction) {
    put_outcome(out, code);
    put_signed(out, TYPE, i64::from(kind));
    put_signed(out, DIRECTION, i64::from(direction.0));
}

/// Writes a revision in a wrapper.
pub fn put_revision(out: &mut Vec<u8>, number: u32, digits: &[u8; 32]) {
    // Length 34: the text with its tag and length.
    put_head(out, number, 34);
    out.extend_from_slice(&[0x0a, 32]);
    out.extend_from_slice(digits);
}
