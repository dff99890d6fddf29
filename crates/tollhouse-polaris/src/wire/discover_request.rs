//! `v1.DiscoverRequest`: the requested type, the service, and the revision that the client has.

use super::scan::{Fields, Value, WireError};
use super::wrapper;

/// A `Discover` request, borrowed from its message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiscoverRequest<'a> {
    /// Requested type; any number, as sent.
    pub kind: i32,
    /// The service; `None` if the client probes whether the server supports the type.
    pub service: Option<ServiceRequest<'a>>,
    /// Whether only healthy instances are requested. Calls over gRPC ignore it, as clients expect.
    pub only_healthy: Option<bool>,
    /// Role of the service in the requested rules.
    pub direction: Direction,
}

/// Service that a `Discover` request asks about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServiceRequest<'a> {
    /// The encoded message, to be echoed unchanged.
    pub raw: &'a [u8],
    pub name: Option<&'a str>,
    pub namespace: Option<&'a str>,
    /// Revision that the client knows already.
    pub revision: Option<&'a str>,
}

/// Role of the service in the requested rules; any number, as sent, because it is echoed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Direction(pub i32);

impl Direction {
    /// Rules for callers of the service.
    pub const CALLEE: Self = Self(0);
    /// Rules that apply to calls which the service makes.
    pub const CALLER: Self = Self(1);
}

impl<'a> DiscoverRequest<'a> {
    /// Decodes a `DiscoverRequest` without copying its texts.
    pub fn parse(message: &'a [u8]) -> Result<Self, WireError> {
        let mut request = Self::default();
        for field in Fields::new(message) {
            let field = field?;
            match (field.number, field.value) {
                (1, Value::Varint(kind)) => request.kind = kind as i32,
                (2, Value::Bytes(service)) => {
                    request.service = Some(ServiceRequest::parse(service)?)
                }
                (30, Value::Bytes(filter)) => read_filter(filter, &mut request.only_healthy)?,
                (31, Value::Varint(direction)) => request.direction = Direction(direction as i32),
                _ => {}
            }
        }
        Ok(request)
    }
}

impl<'a> ServiceRequest<'a> {
    /// Decodes the fields of a `v1.Service` that a request uses.
    pub fn parse(raw: &'a [u8]) -> Result<Self, WireError> {
        let mut service = Self { raw, ..Self::default() };
        for field in Fields::new(raw) {
            let field = field?;
            let Value::Bytes(bytes) = field.value else {
                continue;
            };
            match field.number {
                1 => wrapper::string(bytes, &mut service.name)?,
                2 => wrapper::string(bytes, &mut service.namespace)?,
                15 => wrapper::string(bytes, &mut service.revision)?,
                _ => {}
            }
        }
        Ok(service)
    }
}

fn read_filter(filter: &[u8], only_healthy: &mut Option<bool>) -> Result<(), WireError> {
    let value = only_healthy.get_or_insert(false);
    for field in Fields::new(filter) {
        let field = field?;
        if let (1, Value::Varint(number)) = (field.number, field.value) {
            *value = number != 0;
        }
    }
    Ok(())
}
