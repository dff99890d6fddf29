//! Encoding of instances as `v1.Instance`, for clients and for the console.

use super::answer::{discover, put_revision};
use super::write::{
    put_entry, put_flag_value, put_nested, put_number, put_number_value, put_text_value,
};
use crate::date::DateText;
use tollhouse_registry::{Instance, Location};

/// Label with the time of the last heartbeat; sent only while the instance has expired.
const LAST_HEARTBEAT_LABEL: &str = "internal-lastheartbeat";
/// `HealthCheck.type` of heartbeats, the only defined type.
const HEARTBEAT: u64 = 1;
const METADATA: u32 = 14;

/// Recipient of the message, which decides about its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// A client, which also looks up protocol, version and location among the labels.
    Client,
    /// The console, which shows and edits the labels as they were sent.
    Console,
}

/// Writes an instance as a field of a `DiscoverResponse`.
pub fn put_discovered_instance(out: &mut Vec<u8>, instance: &Instance) {
    put_nested(out, discover::INSTANCE, |out| put_instance(out, instance, Reader::Client));
}

/// Writes the fields of an instance.
pub fn put_instance(out: &mut Vec<u8>, instance: &Instance, reader: Reader) {
    put_text_value(out, 1, &instance.id);
    put_text_value(out, 2, &instance.service.name);
    put_text_value(out, 3, &instance.service.namespace);
    put_text_value(out, 4, &instance.host);
    put_number_value(out, 5, u32::from(instance.port));
    put_given(out, 6, &instance.protocol);
    put_given(out, 7, &instance.version);
    if instance.priority != 0 {
        put_number_value(out, 8, instance.priority);
    }
    put_number_value(out, 9, u32::from(instance.weight));
    if let Some(ttl_s) = instance.ttl_seconds {
        put_nested(out, 10, |out| {
            put_number(out, 1, HEARTBEAT);
            put_nested(out, 2, |out| put_number_value(out, 1, u32::from(ttl_s)));
        });
    }
    put_flag_value(out, 11, instance.healthy);
    put_flag_value(out, 12, instance.isolated);
    let location = instance.location.as_ref().filter(|location| !is_nowhere(location));
    if let Some(location) = location {
        put_location(out, 13, location);
    }
    match reader {
        Reader::Client => put_client_labels(out, instance, location),
        Reader::Console => {
            for (key, value) in &instance.metadata {
                put_entry(out, METADATA, key, value);
            }
        }
    }
    put_given(out, 15, &instance.logic_set);
    put_text_value(out, 16, DateText::from_unix_seconds(instance.created_at).as_str());
    put_text_value(out, 17, DateText::from_unix_seconds(instance.modified_at).as_str());
    put_revision(out, 18, &instance.revision.digits());
    if instance.ttl_seconds.is_some() {
        put_flag_value(out, 20, true);
    }
    put_given(out, 21, &instance.vpc_id);
    // Unknown fields are returned as they came, because a newer SDK would otherwise lose them.
    out.extend_from_slice(&instance.unknown);
}

/// Writes the labels, and adds those that clients expect, which take precedence.
fn put_client_labels(out: &mut Vec<u8>, instance: &Instance, location: Option<&Location>) {
    let place = |part: fn(&Location) -> &str| location.map(part);
    let added = [
        ("version", Some(&*instance.version).filter(|text| !text.is_empty())),
        ("protocol", Some(&*instance.protocol).filter(|text| !text.is_empty())),
        ("region", place(|location| &location.region)),
        ("zone", place(|location| &location.zone)),
        ("campus", place(|location| &location.campus)),
    ];
    for (key, value) in &instance.metadata {
        let is_replaced = added.iter().any(|(name, value)| value.is_some() && **key == **name)
            || instance.expired_after_beat.is_some() && **key == *LAST_HEARTBEAT_LABEL;
        if !is_replaced {
            put_entry(out, METADATA, key, value);
        }
    }
    for (key, value) in added {
        if let Some(value) = value {
            put_entry(out, METADATA, key, value);
        }
    }
    if let Some(second) = instance.expired_after_beat {
        put_entry(out, METADATA, LAST_HEARTBEAT_LABEL, &second.to_string());
    }
}

/// Writes the identity of an instance, which is the answer to a registration.
pub fn put_identity(out: &mut Vec<u8>, instance: &Instance) {
    put_text_value(out, 1, &instance.id);
    put_text_value(out, 2, &instance.service.name);
    put_text_value(out, 3, &instance.service.namespace);
    put_text_value(out, 4, &instance.host);
    put_number_value(out, 5, u32::from(instance.port));
    put_given(out, 21, &instance.vpc_id);
}

/// Whether all parts are empty, which some clients send instead of no location.
pub(crate) fn is_nowhere(location: &Location) -> bool {
    location.region.is_empty() && location.zone.is_empty() && location.campus.is_empty()
}

pub(crate) fn put_location(out: &mut Vec<u8>, number: u32, location: &Location) {
    put_nested(out, number, |out| {
        put_given(out, 1, &location.region);
        put_given(out, 2, &location.zone);
        put_given(out, 3, &location.campus);
    });
}

/// Writes a text, unless it is empty.
fn put_given(out: &mut Vec<u8>, number: u32, text: &str) {
    if !text.is_empty() {
        put_text_value(out, number, text);
    }
}
