//! Error codes of brokers, with names and remedies for producers.

use std::fmt;

/// Error code in a response; 0 is success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code(pub i16);

/// Codes that producers may encounter, each with its name and a remedy for operators.
const KNOWN: &[(i16, &str, &str)] = &[
    (2, "CORRUPT_MESSAGE", "the records were damaged on their way"),
    (3, "UNKNOWN_TOPIC_OR_PARTITION", "create the topic, or let brokers create topics"),
    (5, "LEADER_NOT_AVAILABLE", "the partition has no leader yet"),
    (6, "NOT_LEADER_OR_FOLLOWER", "another broker leads the partition now"),
    (7, "REQUEST_TIMED_OUT", "replicas did not follow in time"),
    (8, "BROKER_NOT_AVAILABLE", "the broker is not ready"),
    (9, "REPLICA_NOT_AVAILABLE", "a replica is missing"),
    (10, "MESSAGE_TOO_LARGE", "raise the topic's max.message.bytes, or log less of bodies"),
    (13, "NETWORK_EXCEPTION", "the broker lost a connection of its own"),
    (17, "INVALID_TOPIC_EXCEPTION", "the topic's name is invalid"),
    (19, "NOT_ENOUGH_REPLICAS", "fewer replicas are in step than the topic asks for"),
    (20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "fewer replicas are in step than the topic asks for"),
    (21, "INVALID_REQUIRED_ACKS", "the topic takes no such required_acks"),
    (29, "TOPIC_AUTHORIZATION_FAILED", "let the user write to the topic"),
    (31, "CLUSTER_AUTHORIZATION_FAILED", "let the user use the cluster"),
    (33, "UNSUPPORTED_SASL_MECHANISM", "use a mechanism that the broker has switched on"),
    (34, "ILLEGAL_SASL_STATE", "the port asks for no log-in, or for another one"),
    (35, "UNSUPPORTED_VERSION", "use Kafka 0.11 or later"),
    (56, "KAFKA_STORAGE_ERROR", "the broker cannot write to its disk"),
    (58, "SASL_AUTHENTICATION_FAILED", "check user and password"),
    (87, "INVALID_RECORD", "the topic takes other records, such as those with a key"),
    (89, "THROTTLING_QUOTA_EXCEEDED", "the user's quota is used up"),
];

impl Code {
    pub const fn is_success(self) -> bool {
        self.0 == 0
    }

    /// Whether the error suggests that known leaders are outdated.
    pub const fn is_of_leaders(self) -> bool {
        matches!(self.0, 3 | 5 | 6 | 8 | 9 | 13 | 56)
    }

    /// Whether the batch exceeds the broker's limit.
    pub const fn is_too_large(self) -> bool {
        self.0 == 10
    }
}

impl fmt::Display for Code {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match KNOWN.iter().find(|(number, ..)| *number == self.0) {
            Some((_, name, remedy)) => write!(out, "{name}: {remedy}"),
            None => write!(out, "Kafka error {}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_says_what_to_do() {
        assert_eq!(Code(58).to_string(), "SASL_AUTHENTICATION_FAILED: check user and password");
        assert_eq!(Code(-1).to_string(), "Kafka error -1");
        assert!(Code(0).is_success() && Code(6).is_of_leaders() && Code(10).is_too_large());
        assert!(!Code(58).is_of_leaders());
    }
}
