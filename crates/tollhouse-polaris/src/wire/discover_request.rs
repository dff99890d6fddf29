//! `v1.DiscoverRequest`: what is asked, of which service, and what the client has already.

use super::scan::{Fields, Value, WireError};
use super::wrapper;

/// A question about a service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiscoverRequest<'a> {
    /// What is asked for; any number, as sent.
    pub kind: i32,
    /// The service; a probe for the server's abilities has none.
    pub service: Option<ServiceRequest<'a>>,
    /// Whether only healthy instances are wanted. Calls over gRPC ignore it, as clients expect.
    pub only_healthy: Option<bool>,
    /// Whose rules are wanted.
    pub direction: Direction,
}

/// The service that a question is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServiceRequest<'a> {
    /// The message itself: an echo of the service is a copy of these bytes.
    pub raw: &'a [u8],
    /// The name.
    pub name: Option<&'a str>,
    /// The namespace.
    pub namespace: Option<&'a str>,
    /// The revision that the client has.
    pub revision: Option<&'a str>,
}

/// Whose rules a client asks for; any number, as sent, because it is echoed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Direction(pub i32);

impl Direction {
    /// The rules for those who call the service.
    pub const CALLEE: Self = Self(0);
    /// The rules of the service for those it calls.
    pub const CALLER: Self = Self(1);
}

impl<'a> DiscoverRequest<'a> {
    /// Reads a message.
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
    /// Reads a `v1.Service` as far as it is a question.
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
