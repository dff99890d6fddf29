//! Responses of brokers, without their length prefix. Trailing bytes make a response invalid.

use crate::code::Code;
use crate::request::Api;
use crate::wire::Reader;

/// Maximum number of characters kept of a broker's error message.
const REASON_CHARS_MAX: usize = 200;

/// Why a response cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The bytes end early, or a declared list is longer than the bytes.
    #[error("the answer is cut off")]
    Short,
    /// Bytes remain after the end of the response.
    #[error("{0} bytes follow the answer")]
    Long(usize),
    #[error("the answer has a length of {0}")]
    Length(i64),
    #[error("the answer has a text that is not UTF-8")]
    Text,
    /// The response belongs to another request.
    #[error("request {asked} was answered by the answer to request {answered}")]
    Correlation {
        /// Correlation id of the request that was sent.
        asked: i32,
        answered: i32,
    },
    /// The requested topic or partition is missing in the response.
    #[error("the answer lacks the requested topic or partition")]
    Silent,
    /// The port of a broker is invalid.
    #[error("the answer names a broker at port {0}")]
    Port(i32),
}

/// Checks the correlation id and returns a reader of the rest.
fn body(frame: &[u8], correlation_id: i32) -> Result<Reader<'_>, Malformed> {
    let mut reader = Reader::new(frame);
    let answered = reader.i32()?;
    if answered != correlation_id {
        return Err(Malformed::Correlation { asked: correlation_id, answered });
    }
    Ok(reader)
}

/// ApiVersions response: the APIs and versions that a broker supports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiVersions {
    pub code: Code,
    /// Key, oldest and newest version of each API.
    apis: Vec<(i16, i16, i16)>,
}

impl ApiVersions {
    /// Decodes an ApiVersions response.
    ///
    /// # Errors
    ///
    /// If the bytes are truncated or trailing bytes remain.
    pub fn read(frame: &[u8], correlation_id: i32) -> Result<Self, Malformed> {
        let mut reader = body(frame, correlation_id)?;
        let code = Code(reader.i16()?);
        let apis = reader.list(6, |it| Ok((it.i16()?, it.i16()?, it.i16()?)))?;
        reader.end()?;
        Ok(Self { code, apis })
    }

    /// Whether the broker supports the version used here.
    pub fn serves(&self, api: Api) -> bool {
        self.apis.iter().any(|(key, oldest, newest)| {
            *key == api.key() && (*oldest..=*newest).contains(&api.version())
        })
    }
}

/// Broker that the cluster's metadata lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broker {
    pub id: i32,
    pub host: String,
    pub port: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partition {
    pub index: i32,
    /// Id of the leading broker, which accepts records; `None` if there is currently no leader.
    pub leader: Option<i32>,
}

/// Metadata response: the brokers, and the leaders of a topic's partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    pub code: Code,
    pub brokers: Vec<Broker>,
    /// Partitions of the topic, sorted by number.
    pub partitions: Vec<Partition>,
}

impl Metadata {
    /// Decodes a Metadata response for the requested topic.
    ///
    /// # Errors
    ///
    /// If the response is malformed or does not contain the topic.
    pub fn read(frame: &[u8], correlation_id: i32, topic: &str) -> Result<Self, Malformed> {
        let mut reader = body(frame, correlation_id)?;
        let brokers = reader.list(12, broker)?;
        let _controller = reader.i32()?;
        let topics = reader.list(9, |it| {
            let code = Code(it.i16()?);
            let name = it.text()?;
            let _is_internal = it.i8()?;
            Ok((code, name, it.list(18, partition)?))
        })?;
        reader.end()?;
        let found = topics.into_iter().find(|(_, name, _)| *name == topic);
        let (code, _, mut partitions) = found.ok_or(Malformed::Silent)?;
        partitions.sort_unstable_by_key(|partition| partition.index);
        Ok(Self { code, brokers, partitions })
    }
}

fn broker(reader: &mut Reader<'_>) -> Result<Broker, Malformed> {
    let id = reader.i32()?;
    let host = reader.text()?.to_owned();
    let port = reader.i32()?;
    let port = u16::try_from(port).map_err(|_| Malformed::Port(port))?;
    let _rack = reader.optional_text()?;
    Ok(Broker { id, host, port })
}

fn partition(reader: &mut Reader<'_>) -> Result<Partition, Malformed> {
    // The code is ignored, because an unusable partition has no leader.
    let _code = reader.i16()?;
    let index = reader.i32()?;
    let leader = Some(reader.i32()?).filter(|leader| *leader >= 0);
    for _ in 0..2 {
        reader.list(4, Reader::i32)?;
    }
    Ok(Partition { index, leader })
}

/// Decodes a Produce response and returns the error code of the partition.
///
/// # Errors
///
/// If the response is malformed or does not contain the partition.
pub fn read_produce_code(
    frame: &[u8],
    correlation_id: i32,
    topic: &str,
    partition: i32,
) -> Result<Code, Malformed> {
    let mut reader = body(frame, correlation_id)?;
    let topics = reader.list(6, |it| {
        let name = it.text()?;
        let partitions = it.list(22, |it| {
            let (index, code) = (it.i32()?, Code(it.i16()?));
            let (_offset, _time) = (it.i64()?, it.i64()?);
            Ok((index, code))
        })?;
        Ok((name, partitions))
    })?;
    let _throttled_ms = reader.i32()?;
    reader.end()?;
    let topic = topics.into_iter().find(|(name, _)| *name == topic);
    let partitions = topic.map(|(_, partitions)| partitions).unwrap_or_default();
    let partition = partitions.into_iter().find(|(index, _)| *index == partition);
    partition.map(|(_, code)| code).ok_or(Malformed::Silent)
}

/// Decodes a SaslHandshake response: its error code, and the mechanisms that the broker supports.
///
/// # Errors
///
/// If the response is malformed.
pub fn read_sasl_handshake(
    frame: &[u8],
    correlation_id: i32,
) -> Result<(Code, Vec<String>), Malformed> {
    let mut reader = body(frame, correlation_id)?;
    let code = Code(reader.i16()?);
    let mechanisms = reader.list(2, |it| it.text().map(str::to_owned))?;
    reader.end()?;
    Ok((code, mechanisms))
}

/// SaslAuthenticate response: the broker's message in a login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaslResponse {
    /// Error code of the response.
    pub code: Code,
    /// Error message of the broker; empty on success.
    pub reason: String,
    /// Message of the SASL mechanism, without framing.
    pub message: Vec<u8>,
}

impl SaslResponse {
    /// Decodes a SaslAuthenticate response.
    ///
    /// # Errors
    ///
    /// If the response is malformed.
    pub fn read(frame: &[u8], correlation_id: i32) -> Result<Self, Malformed> {
        let mut reader = body(frame, correlation_id)?;
        let code = Code(reader.i16()?);
        let reason = reader.optional_text()?.unwrap_or_default();
        let reason = reason.chars().take(REASON_CHARS_MAX).collect();
        let message = reader.bytes()?.to_vec();
        reader.end()?;
        Ok(Self { code, reason, message })
    }
}

#[cfg(test)]
mod tests;
