//! Requests, each encoded as a whole frame: length, header and body.

use crate::wire::{Put, length};

/// Client id, by which brokers log requests and apply quotas.
const CLIENT_ID: &str = "tollhouse";

/// Maximum length of a topic name in bytes.
const TOPIC_BYTES_MAX: usize = 249;

/// Whether a text is a valid topic name.
pub fn is_topic(name: &str) -> bool {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=TOPIC_BYTES_MAX).contains(&name.len())
        && !matches!(name, "." | "..")
        && name.bytes().all(is_good)
}

/// Supported APIs, each in a single version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    /// Request that writes records.
    Produce,
    /// Request for the leaders of partitions.
    Metadata,
    /// Request that selects a SASL mechanism.
    SaslHandshake,
    /// Lists the supported APIs and versions.
    ApiVersions,
    /// Carries a message of a SASL login.
    SaslAuthenticate,
}

impl Api {
    /// All APIs that a broker with logins must support.
    pub const ALL: [Self; 5] = [
        Self::Produce,
        Self::Metadata,
        Self::SaslHandshake,
        Self::ApiVersions,
        Self::SaslAuthenticate,
    ];

    /// Returns the number by which Kafka's protocol identifies the request type (`api_key`).
    pub const fn key(self) -> i16 {
        match self {
            Self::Produce => 0,
            Self::Metadata => 3,
            Self::SaslHandshake => 17,
            Self::ApiVersions => 18,
            Self::SaslAuthenticate => 36,
        }
    }

    /// Returns the API version used here.
    pub const fn version(self) -> i16 {
        match self {
            Self::Produce => 3,
            Self::Metadata | Self::SaslHandshake => 1,
            Self::ApiVersions | Self::SaslAuthenticate => 0,
        }
    }
}

/// Number of brokers that must have stored the records before the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Acks {
    /// The leader of the partition acknowledges; replicas may lag behind.
    Leader,
    /// All replicas that are in sync.
    All,
}

/// Begins a frame, with room for the length that [`finish`] writes.
fn begin(api: Api, correlation_id: i32) -> Vec<u8> {
    let mut frame = Vec::with_capacity(64);
    frame.put_i32(0);
    frame.put_i16(api.key());
    frame.put_i16(api.version());
    frame.put_i32(correlation_id);
    frame.put_text(CLIENT_ID);
    frame
}

fn finish(mut frame: Vec<u8>) -> Vec<u8> {
    let count = length(frame.len() - 4);
    frame[..4].copy_from_slice(&count.to_be_bytes());
    frame
}

pub fn api_versions(correlation_id: i32) -> Vec<u8> {
    finish(begin(Api::ApiVersions, correlation_id))
}

/// Encodes a Metadata request for a topic. Brokers with automatic topic creation create the topic.
pub fn metadata(correlation_id: i32, topic: &str) -> Vec<u8> {
    let mut frame = begin(Api::Metadata, correlation_id);
    frame.put_i32(1);
    frame.put_text(topic);
    finish(frame)
}

pub fn sasl_handshake(correlation_id: i32, mechanism: &str) -> Vec<u8> {
    let mut frame = begin(Api::SaslHandshake, correlation_id);
    frame.put_text(mechanism);
    finish(frame)
}

pub fn sasl_authenticate(correlation_id: i32, message: &[u8]) -> Vec<u8> {
    let mut frame = begin(Api::SaslAuthenticate, correlation_id);
    frame.put_bytes(message);
    finish(frame)
}

#[derive(Debug, Clone, Copy)]
pub struct Produce<'a> {
    pub topic: &'a str,
    pub partition: i32,
    pub acks: Acks,
    /// Time that the broker may wait for the replicas, in milliseconds.
    pub timeout_ms: i32,
    /// Record batch from [`crate::batch::encode`].
    pub batch: &'a [u8],
}

pub fn produce(correlation_id: i32, produce: &Produce<'_>) -> Vec<u8> {
    let mut frame = begin(Api::Produce, correlation_id);
    frame.reserve(produce.batch.len() + produce.topic.len() + 32);
    // No transactional id.
    frame.put_i16(-1);
    frame.put_i16(match produce.acks {
        Acks::Leader => 1,
        Acks::All => -1,
    });
    frame.put_i32(produce.timeout_ms);
    frame.put_i32(1);
    frame.put_text(produce.topic);
    frame.put_i32(1);
    frame.put_i32(produce.partition);
    frame.put_bytes(produce.batch);
    finish(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_its_length_its_head_and_what_it_asks() {
        let head = b"\x00\x09tollhouse";
        let expected = [b"\x00\x00\x00\x13\x00\x12\x00\x00\x00\x00\x00\x07", &head[..]].concat();
        assert_eq!(api_versions(7), expected);
        let expected = [
            b"\x00\x00\x00\x1a\x00\x03\x00\x01\x00\x00\x00\x08",
            &head[..],
            b"\x00\x00\x00\x01\x00\x01t",
        ];
        assert_eq!(metadata(8, "t"), expected.concat());
        let expected =
            [b"\x00\x00\x00\x1a\x00\x11\x00\x01\x00\x00\x00\x01", &head[..], b"\x00\x05PLAIN"];
        assert_eq!(sasl_handshake(1, "PLAIN"), expected.concat());
        let expected = [
            b"\x00\x00\x00\x1a\x00\x24\x00\x00\x00\x00\x00\x02",
            &head[..],
            b"\x00\x00\x00\x03\x00a\x00",
        ];
        assert_eq!(sasl_authenticate(2, b"\0a\0"), expected.concat());
    }

    #[test]
    fn topics_have_names_that_kafka_takes() {
        for (name, expected) in [
            ("logs", true),
            ("a.b_c-D9", true),
            ("", false),
            ("..", false),
            ("a/b", false),
            ("ü", false),
        ] {
            assert_eq!(is_topic(name), expected, "{name}");
        }
        assert!(is_topic(&"a".repeat(249)) && !is_topic(&"a".repeat(250)));
    }

    #[test]
    fn records_are_sent_to_one_partition() {
        for (acks, written) in [(Acks::Leader, b"\x00\x01"), (Acks::All, b"\xff\xff")] {
            let asked =
                Produce { topic: "logs", partition: 2, acks, timeout_ms: 3_000, batch: b"xy" };
            let frame = produce(9, &asked);
            let expected = [
                &b"\x00\x00\x00\x33\x00\x00\x00\x03\x00\x00\x00\x09\x00\x09tollhouse\xff\xff"[..],
                written,
                b"\x00\x00\x0b\xb8\x00\x00\x00\x01\x00\x04logs\x00\x00\x00\x01\x00\x00\x00\x02",
                b"\x00\x00\x00\x02xy",
            ];
            assert_eq!(frame, expected.concat());
        }
    }
}
