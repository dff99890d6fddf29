//! Why records are not kept, in words for who operates the gateway.

use std::io;

use tollhouse_kafka::login::ScramError;
use tollhouse_kafka::request::Api;
use tollhouse_kafka::{Code, Malformed};

/// See the module.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KafkaError {
    /// No topic can be called that.
    #[error(
        "no topic can be called {0:?}; names are of 1 to 249 letters, digits, `.`, `_` and `-`"
    )]
    Name(String),
    /// The conf names nobody to ask.
    #[error("the conf names no broker")]
    NoBrokers,
    /// Nobody says who leads.
    #[error("no broker tells who leads the topic; the last that was asked, {host}:{port}: {error}")]
    NobodyAnswers { host: String, port: u16, error: Box<KafkaError> },
    #[error("failed to connect: {0}")]
    Connect(#[source] io::Error),
    /// A step took too long.
    #[error("no answer in time; raise `timeout`, or see why the broker is slow")]
    Timeout,
    /// A connection ended.
    #[error("the connection broke: {0}")]
    Broken(#[source] io::Error),
    /// An answer is longer than any that is asked for.
    #[error("the broker announces an answer of {0} bytes; is it one of Kafka's?")]
    Length(i32),
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// A broker is called what nobody can be called.
    #[error("the broker tells of one whose name is too long")]
    Host,
    /// The broker is too old, or another program.
    #[error("the broker does not serve version {} of {api:?}; Kafka 0.11 and later do", api.version())]
    Version { api: Api },
    /// The broker takes other mechanisms.
    #[error("the broker takes no log-in by {asked}, but by: {offered}")]
    Mechanism { asked: &'static str, offered: String },
    /// Who we are does not count.
    #[error("the log-in is refused: {code} ({reason})")]
    Login { code: Code, reason: String },
    #[error("the log-in failed: {0}")]
    Scram(#[from] ScramError),
    /// No random number can be had.
    #[error("the system gives no random numbers")]
    Random,
    /// The broker does not take them.
    #[error("topic {topic:?}: {code}")]
    Refused { topic: String, code: Code },
    /// Nobody takes them.
    #[error("topic {topic:?} has no partition with a leader; see that its brokers run")]
    NoLeader { topic: String },
}

impl KafkaError {
    /// Whether asking anew who leads, over new connections, may help at once.
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

    /// Whether a smaller batch may be taken.
    pub(crate) const fn is_too_large(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if code.is_too_large())
    }
}
