//! Errors of the producer, in words for operators.

use std::io;

use tollhouse_kafka::login::ScramError;
use tollhouse_kafka::request::Api;
use tollhouse_kafka::{Code, Malformed};

/// Reason why records were not stored.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KafkaError {
    /// The topic's name is invalid.
    #[error("invalid topic name {0:?}; a name has 1 to 249 letters, digits, `.`, `_` and `-`")]
    Name(String),
    /// The conf has no brokers.
    #[error("the conf names no broker")]
    NoBrokers,
    #[error("no broker returned the leaders of the topic; the last one, {host}:{port}: {error}")]
    NobodyAnswers { host: String, port: u16, error: Box<KafkaError> },
    #[error("failed to connect: {0}")]
    Connect(#[source] io::Error),
    /// A step of the exchange exceeded its timeout.
    #[error("no answer in time; raise `timeout`, or see why the broker is slow")]
    Timeout,
    /// The connection to the broker broke.
    #[error("the connection broke: {0}")]
    Broken(#[source] io::Error),
    /// An answer has an invalid length.
    #[error("the broker announces an answer of {0} bytes; is it one of Kafka's?")]
    Length(i32),
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// A broker's host name is too long.
    #[error("the broker returned a host name that is too long")]
    Host,
    /// The broker is too old, or a different program.
    #[error("the broker does not serve version {} of {api:?}; Kafka 0.11 and later do", api.version())]
    Version { api: Api },
    /// The broker does not support the mechanism.
    #[error("the broker does not support {asked}; it offers: {offered}")]
    Mechanism { asked: &'static str, offered: String },
    /// The broker refuses user name or password.
    #[error("the log-in is refused: {code} ({reason})")]
    Login { code: Code, reason: String },
    #[error("the log-in failed: {0}")]
    Scram(#[from] ScramError),
    /// The system's random number generator failed.
    #[error("the system's random number generator is unavailable")]
    Random,
    /// Error of the broker for the topic.
    #[error("topic {topic:?}: {code}")]
    Refused { topic: String, code: Code },
    #[error("topic {topic:?} has no partition with a leader; see that its brokers run")]
    NoLeader { topic: String },
}

impl KafkaError {
    /// Whether an immediate retry with new metadata and connections may help.
    pub(crate) const fn may_be_out_of_date(&self) -> bool {
        match self {
            Self::Refused { code, .. } => code.is_of_leaders(),
            Self::Connect(_)
            | Self::Timeout
            | Self::Broken(_)
            | Self::Length(_)
            | Self::Malformed(_)
            | Self::Host
            | Self::NoLeader { .. } => true,
            Self::Name(_)
            | Self::NoBrokers
            | Self::NobodyAnswers { .. }
            | Self::Version { .. }
            | Self::Mechanism { .. }
            | Self::Login { .. }
            | Self::Scram(_)
            | Self::Random => false,
        }
    }

    /// Whether a smaller batch may be accepted.
    pub(crate) const fn is_too_large(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if code.is_too_large())
    }
}
