//! Conversion of an instance as sent to a registration: id, health check, labels.

use crate::wire::{InstanceRequest, LocationRequest};
use aws_lc_rs::digest;
use bytes::Bytes;
use std::fmt::Write;
use std::sync::Arc;
use tollhouse_registry::limits::{self, UNKNOWN_BYTES_MAX};
use tollhouse_registry::{Location, Metadata, NewInstance, Refusal};

/// Computes the id of an instance that has none: a hash of its address, which clients compute too.
/// The host is hashed as sent, including blanks.
pub fn computed_id(request: &InstanceRequest<'_>) -> String {
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    let mut address = text(request.namespace);
    let vpc_id = request.vpc_id.filter(|id| !id.is_empty());
    for part in [request.service].into_iter().chain(vpc_id.map(Some)).chain([request.host]) {
        address.push_str("##");
        address.push_str(part.unwrap_or_default());
    }
    write!(address, "##{}", request.port.unwrap_or(0)).expect("a string takes any text");
    hex_digest(address.as_bytes())
}

/// Checks lengths in characters, and numbers, in the order of Polaris; missing fields are accepted,
/// because names are checked later.
///
/// # Errors
/// The refusal of the first invalid field.
pub fn check_lengths(request: &InstanceRequest<'_>) -> Result<(), Refusal> {
    let is_longer =
        |text: Option<&str>, max| text.is_some_and(|text| text.chars().nth(max).is_some());
    let is_more = |number: Option<u32>, max| number.is_some_and(|number| number > max);
    let checks = [
        (is_longer(request.service, limits::SERVICE_CHARS_MAX), Refusal::ServiceName),
        (is_longer(request.namespace, limits::NAMESPACE_CHARS_MAX), Refusal::NamespaceName),
        (is_longer(request.host, limits::HOST_CHARS_MAX), Refusal::Host),
        (is_longer(request.protocol, limits::PROTOCOL_CHARS_MAX), Refusal::Protocol),
        (is_longer(request.version, limits::PROTOCOL_CHARS_MAX), Refusal::Version),
        (is_longer(request.logic_set, limits::LOGIC_SET_CHARS_MAX), Refusal::LogicSet),
        (is_more(request.port, u32::from(u16::MAX)), Refusal::Port),
        (is_more(request.weight, limits::WEIGHT_MAX), Refusal::Parameter("weight")),
    ];
    match checks.into_iter().find(|(is_bad, _)| *is_bad) {
        Some((_, refusal)) => Err(refusal),
        None => Ok(()),
    }
}

/// Returns the SHA-1 of some bytes as hex digits; used as an identifier, not for security.
pub fn hex_digest(bytes: &[u8]) -> String {
    let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, bytes);
    let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble)]);
    let digits = hash.as_ref().iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
    let mut text = String::with_capacity(2 * hash.as_ref().len());
    text.extend(digits);
    text
}

/// Converts a request to a registration, under its explicit or computed id.
pub fn new_instance(request: &InstanceRequest<'_>) -> NewInstance {
    let text = |text: Option<&str>| Box::from(text.unwrap_or_default());
    let id: Arc<str> = match request.id {
        Some(id) if !id.is_empty() => id.into(),
        _ => computed_id(request).into(),
    };
    NewInstance {
        id,
        service: text(request.service),
        namespace: text(request.namespace),
        host: text(request.host),
        port: request.port,
        vpc_id: text(request.vpc_id),
        protocol: text(request.protocol),
        version: text(request.version),
        priority: request.priority.unwrap_or(0),
        weight: request.weight,
        ttl_seconds: ttl_seconds(request),
        healthy: request.healthy,
        isolated: request.isolate,
        location: request.location.as_ref().map(location_of),
        metadata: metadata_of(request),
        // Duplicate keys are counted, because the limit applies to the pairs sent.
        metadata_pairs: request.metadata.len() + request.labels_dropped,
        logic_set: text(request.logic_set),
        unknown: unknown_of(request),
    }
}

/// Returns the interval between heartbeats in seconds; `None` if the request has no heartbeat
/// settings or disables the health check.
pub fn ttl_seconds(request: &InstanceRequest<'_>) -> Option<u32> {
    let is_enabled = request.enable_health_check.unwrap_or(true);
    let heartbeat = request.health_check.and_then(|check| check.heartbeat_ttl_s);
    heartbeat.filter(|_| is_enabled).map(|ttl_s| ttl_s.unwrap_or(0))
}

/// Converts a location; missing parts become empty.
pub fn location_of(location: &LocationRequest<'_>) -> Location {
    let text = |text: Option<&str>| Box::from(text.unwrap_or_default());
    Location {
        region: text(location.region),
        zone: text(location.zone),
        campus: text(location.campus),
    }
}

pub fn metadata_of(request: &InstanceRequest<'_>) -> Metadata {
    request.metadata.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
}

/// Returns the unknown fields of a newer protocol version; too many bytes are dropped.
fn unknown_of(request: &InstanceRequest<'_>) -> Bytes {
    match request.unknown_bytes() {
        0 => Bytes::new(),
        bytes if bytes > UNKNOWN_BYTES_MAX => Bytes::new(),
        _ => request.unknown().collect::<Vec<_>>().concat().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::HealthCheckRequest;

    fn request() -> InstanceRequest<'static> {
        InstanceRequest {
            service: Some("svc-a"),
            namespace: Some("ns-auto"),
            host: Some("127.0.0.1"),
            port: Some(8080),
            ..InstanceRequest::default()
        }
    }

    #[test]
    fn ids_are_those_that_polaris_computes() {
        assert_eq!(computed_id(&request()), "c83801b575d0ed329fb95c1d38944df9006b4f82");
        let with_cloud = InstanceRequest { vpc_id: Some("v"), ..request() };
        let expected = hex_digest(b"ns-auto##svc-a##v##127.0.0.1##8080");
        assert_eq!(computed_id(&with_cloud), expected);
        let empty_cloud = InstanceRequest { vpc_id: Some(""), ..request() };
        assert_eq!(computed_id(&empty_cloud), computed_id(&request()));
        let given = InstanceRequest { id: Some("mine"), ..request() };
        assert_eq!(&*new_instance(&given).id, "mine");
    }

    #[test]
    fn lengths_and_numbers_count_before_what_is_missing() {
        let long = "é".repeat(129);
        let case = |change: fn(&mut InstanceRequest<'_>)| {
            let mut request = InstanceRequest::default();
            change(&mut request);
            check_lengths(&request).err()
        };
        assert_eq!(case(|_| {}), None);
        assert_eq!(case(|r| r.port = Some(65_536)), Some(Refusal::Port));
        assert_eq!(case(|r| r.weight = Some(65_536)), Some(Refusal::Parameter("weight")));
        assert_eq!(case(|r| (r.port, r.weight) = (Some(65_535), Some(65_535))), None);
        let everything = InstanceRequest {
            protocol: Some(&long),
            version: Some(&long),
            logic_set: Some(&long),
            weight: Some(65_536),
            ..request()
        };
        assert_eq!(check_lengths(&everything), Err(Refusal::Protocol), "the first in order counts");
        let host = "é".repeat(128);
        assert_eq!(check_lengths(&InstanceRequest { host: Some(&host), ..request() }), Ok(()));
    }

    #[test]
    fn health_is_checked_only_where_heartbeats_are_asked_for() {
        let check = |ttl| Some(HealthCheckRequest { kind: 1, heartbeat_ttl_s: ttl });
        let cases = [
            (None, None, None),
            (None, Some(true), None),
            (check(None), None, None),
            (check(Some(None)), None, Some(0)),
            (check(Some(Some(3))), None, Some(3)),
            (check(Some(Some(3))), Some(true), Some(3)),
            (check(Some(Some(3))), Some(false), None),
        ];
        for (health_check, enable_health_check, expected) in cases {
            let request = InstanceRequest { health_check, enable_health_check, ..request() };
            assert_eq!(ttl_seconds(&request), expected, "{request:?}");
        }
    }

    #[test]
    fn fields_of_newer_editions_go_along_up_to_a_bound() {
        let mut bytes = Vec::new();
        crate::wire::write::put_text(&mut bytes, 30, "new");
        let kept = new_instance(&InstanceRequest::parse(&bytes).expect("a message")).unknown;
        assert_eq!(kept, bytes);
        crate::wire::write::put_text(&mut bytes, 31, &"x".repeat(UNKNOWN_BYTES_MAX));
        assert!(
            new_instance(&InstanceRequest::parse(&bytes).expect("a message")).unknown.is_empty()
        );
    }
}
