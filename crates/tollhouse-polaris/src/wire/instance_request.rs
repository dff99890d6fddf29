//! `v1.Instance` as clients send it, to register or deregister or as a heartbeat.
//!
//! All fields borrow from the message, and absent ones differ from empty ones. Validation is up to
//! the call.

use super::scan::{Field, Fields, Value, WireError};
use super::wrapper;

/// Request about one instance, borrowed from its message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InstanceRequest<'a> {
    /// The encoded message, to be echoed unchanged.
    pub raw: &'a [u8],
    /// Id; if absent, the server derives it from the address.
    pub id: Option<&'a str>,
    pub service: Option<&'a str>,
    pub namespace: Option<&'a str>,
    /// Id of the virtual private cloud.
    pub vpc_id: Option<&'a str>,
    pub host: Option<&'a str>,
    /// Port as sent; any number.
    pub port: Option<u32>,
    pub protocol: Option<&'a str>,
    pub version: Option<&'a str>,
    /// Stored for clients; the registry does not use it.
    pub priority: Option<u32>,
    /// Share of traffic, relative to other instances.
    pub weight: Option<u32>,
    pub health_check: Option<HealthCheckRequest>,
    /// Enables or disables the health check, regardless of `health_check`.
    pub enable_health_check: Option<bool>,
    pub healthy: Option<bool>,
    /// Whether the instance gets no traffic.
    pub isolate: Option<bool>,
    pub location: Option<LocationRequest<'a>>,
    /// Labels, sorted by key, with unique keys; at most [`METADATA_KEPT_MAX`].
    pub metadata: Vec<(&'a str, &'a str)>,
    /// Number of labels beyond those; the request then exceeds the limit.
    pub labels_dropped: usize,
    pub logic_set: Option<&'a str>,
    /// Token that takes precedence over that of the call.
    pub service_token: Option<&'a str>,
    /// Positions of fields that the schema does not define.
    pub(crate) unknown: Vec<(u32, u32)>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HealthCheckRequest {
    /// Type of check, as a number; only heartbeats are defined.
    pub kind: i32,
    /// Interval between heartbeats in seconds. The outer option tells whether heartbeat settings
    /// were sent at all.
    pub heartbeat_ttl_s: Option<Option<u32>>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LocationRequest<'a> {
    pub region: Option<&'a str>,
    pub zone: Option<&'a str>,
    pub campus: Option<&'a str>,
}

/// Maximum number of labels kept of a message. Far above the 64 that may be registered, so that an
/// excess is detected, yet small enough that no message makes the server hold a million.
pub const METADATA_KEPT_MAX: usize = 256;

/// Highest field number of `v1.Instance` in this version; higher ones come from newer versions.
const KNOWN_FIELDS_MAX: u32 = 21;

impl<'a> InstanceRequest<'a> {
    /// Decodes an `Instance` of a request without copying its texts.
    pub fn parse(raw: &'a [u8]) -> Result<Self, WireError> {
        let mut request = Self { raw, ..Self::default() };
        for field in Fields::new(raw) {
            request.take(field?)?;
        }
        sort_labels(&mut request.metadata);
        Ok(request)
    }

    /// Iterates over the encoded fields that the schema does not define, in order.
    pub fn unknown(&self) -> impl Iterator<Item = &'a [u8]> + '_ {
        let raw = self.raw;
        self.unknown.iter().map(move |(start, end)| &raw[*start as usize..*end as usize])
    }

    /// Returns the total length of [`Self::unknown`] in bytes.
    pub fn unknown_bytes(&self) -> usize {
        self.unknown.iter().map(|(start, end)| (end - start) as usize).sum()
    }

    /// Returns the value of a label.
    pub fn label(&self, key: &str) -> Option<&'a str> {
        let found = self.metadata.binary_search_by(|(known, _)| (*known).cmp(key));
        found.ok().map(|index| self.metadata[index].1)
    }

    fn take(&mut self, field: Field<'a>) -> Result<(), WireError> {
        if field.number > KNOWN_FIELDS_MAX {
            self.keep_unknown(&field);
            return Ok(());
        }
        // All known fields are messages. A field of another wire type is skipped and not kept,
        // because readers that know the number would fail on it.
        let Value::Bytes(bytes) = field.value else {
            return Ok(());
        };
        match field.number {
            1 => wrapper::string(bytes, &mut self.id),
            2 => wrapper::string(bytes, &mut self.service),
            3 => wrapper::string(bytes, &mut self.namespace),
            4 => wrapper::string(bytes, &mut self.host),
            5 => wrapper::number(bytes, &mut self.port),
            6 => wrapper::string(bytes, &mut self.protocol),
            7 => wrapper::string(bytes, &mut self.version),
            8 => wrapper::number(bytes, &mut self.priority),
            9 => wrapper::number(bytes, &mut self.weight),
            10 => self.health_check.get_or_insert_default().take(bytes),
            11 => wrapper::boolean(bytes, &mut self.healthy),
            12 => wrapper::boolean(bytes, &mut self.isolate),
            13 => self.location.get_or_insert_default().take(bytes),
            14 => self.take_label(bytes),
            15 => wrapper::string(bytes, &mut self.logic_set),
            19 => wrapper::string(bytes, &mut self.service_token),
            20 => wrapper::boolean(bytes, &mut self.enable_health_check),
            21 => wrapper::string(bytes, &mut self.vpc_id),
            // Fields 16 to 18 are set by the server; sent values are checked and ignored.
            _ => wrapper::string(bytes, &mut None),
        }
    }

    fn take_label(&mut self, entry: &'a [u8]) -> Result<(), WireError> {
        let (mut key, mut value) = ("", "");
        for field in Fields::new(entry) {
            let field = field?;
            match (field.number, field.value) {
                (1, Value::Bytes(bytes)) => key = wrapper::text(bytes)?,
                (2, Value::Bytes(bytes)) => value = wrapper::text(bytes)?,
                _ => {}
            }
        }
        if self.metadata.len() < METADATA_KEPT_MAX {
            self.metadata.push((key, value));
        } else {
            self.labels_dropped += 1;
        }
        Ok(())
    }

    /// Records the position of an unknown field. Adjacent fields are stored as one range, so that a
    /// message with many unknown fields costs little.
    fn keep_unknown(&mut self, field: &Field<'_>) {
        let (Ok(start), Ok(end)) = (u32::try_from(field.start), u32::try_from(field.end)) else {
            return;
        };
        match self.unknown.last_mut() {
            Some(last) if last.1 == start => last.1 = end,
            _ => self.unknown.push((start, end)),
        }
    }
}

impl HealthCheckRequest {
    fn take(&mut self, message: &[u8]) -> Result<(), WireError> {
        for field in Fields::new(message) {
            let field = field?;
            match (field.number, field.value) {
                (1, Value::Varint(kind)) => self.kind = kind as i32,
                (2, Value::Bytes(heartbeat)) => {
                    let ttl_s = self.heartbeat_ttl_s.get_or_insert_default();
                    for field in Fields::new(heartbeat) {
                        let field = field?;
                        if let (1, Value::Bytes(bytes)) = (field.number, field.value) {
                            wrapper::number(bytes, ttl_s)?;
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl<'a> LocationRequest<'a> {
    fn take(&mut self, message: &'a [u8]) -> Result<(), WireError> {
        for field in Fields::new(message) {
            let field = field?;
            let Value::Bytes(bytes) = field.value else {
                continue;
            };
            match field.number {
                1 => wrapper::string(bytes, &mut self.region)?,
                2 => wrapper::string(bytes, &mut self.zone)?,
                3 => wrapper::string(bytes, &mut self.campus)?,
                _ => {}
            }
        }
        Ok(())
    }
}

/// Sorts by key, and keeps the last value of each key, as in a protobuf map.
fn sort_labels(labels: &mut Vec<(&str, &str)>) {
    if labels.is_sorted_by(|a, b| a.0 < b.0) {
        return;
    }
    // The sort is stable, so that reversing first puts the last value before earlier ones.
    labels.reverse();
    labels.sort_by(|a, b| a.0.cmp(b.0));
    labels.dedup_by(|later, first| later.0 == first.0);
}
