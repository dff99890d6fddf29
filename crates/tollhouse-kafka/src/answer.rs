//! Answers: each what stands behind the length of a frame. What does not read to its last byte is none.

use crate::code::Code;
use crate::request::Api;
use crate::wire::Reader;

/// Characters of a broker's reason that are passed on.
const REASON_CHARS_MAX: usize = 200;

/// Why bytes are no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// They end too early, or a list in them says that it is longer than they are.
    #[error("the answer is cut off")]
    Short,
    /// Something follows its end.
    #[error("{0} bytes follow the answer")]
    Long(usize),
    /// A length is none.
    #[error("the answer has a length of {0}")]
    Length(i64),
    /// A text is no UTF-8.
    #[error("the answer has a text that is no UTF-8")]
    Text,
    /// It answers something else.
    #[error("request {asked} was answered by the answer to request {answered}")]
    Correlation {
        /// The request that was sent.
        asked: i32,
        /// The one that the answer names.
        answered: i32,
    },
    /// It says nothing of what was asked for.
    #[error("the answer does not speak of what was asked")]
    Silent,
    /// A broker cannot be there.
    #[error("the answer names a broker at port {0}")]
    Port(i32),
}

/// What follows the head of the answer to the request with this number.
fn body(frame: &[u8], correlation_id: i32) -> Result<Reader<'_>, Malformed> {
    let mut reader = Reader::new(frame);
    let answered = reader.i32()?;
    if answered != correlation_id {
        return Err(Malformed::Correlation { asked: correlation_id, answered });
    }
    Ok(reader)
}

/// What a broker serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiVersions {
    /// Whether it says so.
    pub code: Code,
    /// Number, oldest and newest version of each.
    apis: Vec<(i16, i16, i16)>,
}

impl ApiVersions {
    /// Reads one.
    ///
    /// # Errors
    /// When it is none.
    pub fn read(frame: &[u8], correlation_id: i32) -> Result<Self, Malformed> {
        let mut reader = body(frame, correlation_id)?;
        let code = Code(reader.i16()?);
        let apis = reader.list(6, |it| Ok((it.i16()?, it.i16()?, it.i16()?)))?;
        reader.end()?;
        Ok(Self { code, apis })
    }

    /// Whether the version that is spoken here is served.
    pub fn serves(&self, api: Api) -> bool {
        self.apis.iter().any(|(key, oldest, newest)| {
            *key == api.key() && (*oldest..=*newest).contains(&api.version())
        })
    }
}

/// A broker, as the cluster tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broker {
    /// Its number.
    pub id: i32,
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
}

/// A partition of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partition {
    /// Its number.
    pub index: i32,
    /// The number of the broker that takes its records; `None` while there is none.
    pub leader: Option<i32>,
}

/// Who leads the partitions of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    /// Whether the topic is there.
    pub code: Code,
    /// All brokers.
    pub brokers: Vec<Broker>,
    /// All partitions, by their numbers.
    pub partitions: Vec<Partition>,
}

impl Metadata {
    /// Reads one for the topic that was asked for.
    ///
    /// # Errors
    /// When it is none.
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
    // What is said to be wrong with it shows in the leader.
    let _code = reader.i16()?;
    let index = reader.i32()?;
    let leader = Some(reader.i32()?).filter(|leader| *leader >= 0);
    for _ in 0..2 {
        reader.list(4, Reader::i32)?;
    }
    Ok(Partition { index, leader })
}

/// What became of records that were sent to one partition.
///
/// # Errors
/// When the answer is none, or is about another partition.
pub fn read_produced(
    frame: &[u8],
    correlation_id: i32,
    (topic, partition): (&str, i32),
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
    let mut found = topics.into_iter().filter(|(name, _)| *name == topic);
    let partitions = found.next().map(|(_, partitions)| partitions).unwrap_or_default();
    let found = partitions.into_iter().find(|(index, _)| *index == partition);
    found.map(|(_, code)| code).ok_or(Malformed::Silent)
}

/// Whether a broker takes a mechanism, and which ones it does take.
///
/// # Errors
/// When the answer is none.
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

/// What a broker says to a message of a log-in: whether it goes on, why not, and its own message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaslAnswer {
    /// Whether it goes on.
    pub code: Code,
    /// Why not, in the broker's words.
    pub reason: String,
    /// Its message.
    pub message: Vec<u8>,
}

impl SaslAnswer {
    /// Reads one.
    ///
    /// # Errors
    /// When it is none.
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
