//! `v1.Instance` as clients send it, to register, to deregister or as a heartbeat.
//!
//! Everything is borrowed from the message; what was absent is told from what was empty. Nothing is
//! validated here: that is a matter of the call.

use super::scan::{Field, Fields, Value, WireError};
use super::wrapper;

/// A request about one instance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InstanceRequest<'a> {
    /// The message itself: an echo of the request is a copy of these bytes.
    pub raw: &'a [u8],
    /// The identity; the server makes one of the address if there is none.
    pub id: Option<&'a str>,
    /// The service's name.
    pub service: Option<&'a str>,
    /// The service's namespace.
    pub namespace: Option<&'a str>,
    /// The network that the address is in.
    pub vpc_id: Option<&'a str>,
    /// The address.
    pub host: Option<&'a str>,
    /// The port; any number, as sent.
    pub port: Option<u32>,
    /// What is spoken on the port.
    pub protocol: Option<&'a str>,
    /// The version of the program.
    pub version: Option<&'a str>,
    /// Kept for clients that set it; nothing reads it.
    pub priority: Option<u32>,
    /// The share of calls.
    pub weight: Option<u32>,
    /// How its health is found out.
    pub health_check: Option<HealthCheckRequest>,
    /// Overrides whether `health_check` counts.
    pub enable_health_check: Option<bool>,
    /// Whether it is well.
    pub healthy: Option<bool>,
    /// Whether it is kept out of use.
    pub isolate: Option<bool>,
    /// Where it runs.
    pub location: Option<LocationRequest<'a>>,
    /// Labels, sorted by key, each key once. At most [`METADATA_KEPT_MAX`] are kept.
    pub metadata: Vec<(&'a str, &'a str)>,
    /// Labels after the ones kept. A request that has any has too many.
    pub labels_dropped: usize,
    /// The set that it belongs to.
    pub logic_set: Option<&'a str>,
    /// A token that goes before the one of the call.
    pub service_token: Option<&'a str>,
    /// Where the fields stand that the schema does not know.
    pub(crate) unknown: Vec<(u32, u32)>,
}

/// How the health of an instance is to be found out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HealthCheckRequest {
    /// The kind, as a number; only heartbeats exist.
    pub kind: i32,
    /// Seconds between heartbeats. The outer option is whether heartbeats are asked for at all.
    pub heartbeat_ttl_s: Option<Option<u32>>,
}

/// Where an instance runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LocationRequest<'a> {
    /// The widest place.
    pub region: Option<&'a str>,
    /// A place in the region.
    pub zone: Option<&'a str>,
    /// A place in the zone.
    pub campus: Option<&'a str>,
}

/// Labels kept of one message. Far above the 64 that may be registered, so that a request with too
/// many still shows that it has, and no message makes the server hold a million.
pub const METADATA_KEPT_MAX: usize = 256;

/// Up to this field the numbers of `v1.Instance` are taken; those above come from newer editions.
const KNOWN_FIELDS_MAX: u32 = 21;

impl<'a> InstanceRequest<'a> {
    /// Reads a message.
    pub fn parse(raw: &'a [u8]) -> Result<Self, WireError> {
        let mut request = Self { raw, ..Self::default() };
        for field in Fields::new(raw) {
            request.take(field?)?;
        }
        sort_labels(&mut request.metadata);
        Ok(request)
    }

    /// The fields that the schema does not know, as they were written, in order.
    pub fn unknown(&self) -> impl Iterator<Item = &'a [u8]> + '_ {
        let raw = self.raw;
        self.unknown.iter().map(move |(start, end)| &raw[*start as usize..*end as usize])
    }

    /// How many bytes [`Self::unknown`] gives in all.
    pub fn unknown_bytes(&self) -> usize {
        self.unknown.iter().map(|(start, end)| (end - start) as usize).sum()
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&'a str> {
        let found = self.metadata.binary_search_by(|(known, _)| (*known).cmp(key));
        found.ok().map(|index| self.metadata[index].1)
    }

    fn take(&mut self, field: Field<'a>) -> Result<(), WireError> {
        if field.number > KNOWN_FIELDS_MAX {
            self.keep_unknown(&field);
            return Ok(());
        }
        // All fields that are known are messages. One that holds anything else is skipped, and not
        // passed on either: a reader that knows the number would stumble over it.
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
            // 16 to 18 are the server's to set. What clients put there is checked and forgotten.
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

    /// Neighbours are kept as one piece, so that a message of many costs little.
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

/// Sorts by key and leaves the last value of each, which is what a map means.
fn sort_labels(labels: &mut Vec<(&str, &str)>) {
    if labels.is_sorted_by(|a, b| a.0 < b.0) {
        return;
    }
    // The sort is stable, so reversing first puts the last value in front of its elders.
    labels.reverse();
    labels.sort_by(|a, b| a.0.cmp(b.0));
    labels.dedup_by(|later, first| later.0 == first.0);
}
