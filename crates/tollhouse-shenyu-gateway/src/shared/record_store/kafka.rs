//! Topic that `loggingKafka` writes to, from the plugin's configuration or a selector's handle.

use std::fmt;

use serde::Deserialize;
use tollhouse_kafka::login::Mechanism;
use tollhouse_kafka::request::is_topic;

use super::WAITING_MAX;
use tollhouse_shenyu::lenient;

use crate::handle::{self, HandleError};

/// Default topic, as proposed by ShenYu's form.
const TOPIC: &str = "shenyu-access-logging";

/// Maximum number of bootstrap brokers that are read; they only serve to find the others.
const BROKERS_MAX: usize = 64;

/// Kafka topic that receives access records.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct KafkaTopic {
    /// Bootstrap brokers: host names or addresses, IPv6 without brackets, and ports.
    pub brokers: Vec<(String, u16)>,
    pub name: String,
    /// Whether brokers are reached over TLS.
    pub is_encrypted: bool,
    /// SASL credentials; `None` for anonymous access.
    pub login: Option<KafkaLogin>,
    /// Maximum number of records that wait for delivery.
    pub waiting_max: usize,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub struct KafkaLogin {
    pub mechanism: Mechanism,
    pub user: String,
    pub password: String,
}

impl fmt::Debug for KafkaTopic {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "topic {} at {:?}", self.name, self.brokers)
    }
}

impl fmt::Debug for KafkaLogin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "KafkaLogin({})", self.mechanism.name())
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Config {
    #[serde(deserialize_with = "lenient::or_default")]
    topic: String,
    #[serde(deserialize_with = "lenient::or_default")]
    namesrv_addr: String,
    #[serde(deserialize_with = "lenient::or_default")]
    bootstrap_server: String,
    #[serde(deserialize_with = "lenient::or_default")]
    compress_alg: String,
    #[serde(deserialize_with = "lenient::or_default")]
    security_protocol: String,
    #[serde(deserialize_with = "lenient::or_default")]
    sasl_mechanism: String,
    #[serde(deserialize_with = "lenient::or_default")]
    user_name: String,
    #[serde(deserialize_with = "lenient::text")]
    pass_word: Option<String>,
    #[serde(deserialize_with = "lenient::integer")]
    buffer_queue_size: Option<i64>,
}

/// Settings of a selector that override the plugin's.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SelectorHandle {
    #[serde(deserialize_with = "lenient::or_default")]
    topic: String,
    #[serde(deserialize_with = "lenient::text")]
    sample_rate: Option<String>,
}

impl KafkaTopic {
    /// Reads a plugin's configuration and a selector's handle. Also returns the selector's sampling
    /// rate if set.
    ///
    /// # Errors
    ///
    /// If either is not a JSON object of this shape, names no broker or an invalid topic, or uses
    /// an unsupported setting.
    pub fn read(
        config: Option<&str>,
        selector: Option<&str>,
    ) -> Result<(Self, Option<String>), HandleError> {
        let wrong = |reason: &str| HandleError::Malformed(reason.to_owned());
        let config: Config = handle::read(config)?;
        let selector: SelectorHandle = handle::read(selector)?;
        if !matches!(&*config.compress_alg.trim().to_ascii_lowercase(), "" | "none") {
            return Err(wrong(
                "`compressAlg` of the plugin: records are written as they are, leave it out",
            ));
        }
        let name = [&*selector.topic, &*config.topic, TOPIC].map(str::trim);
        let name = name.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
        if !is_topic(name) {
            return Err(wrong("`topic` must be 1 to 249 letters, digits, `.`, `_` and `-`"));
        }
        let (is_encrypted, login) = security(&config)?;
        let waiting = config.buffer_queue_size.unwrap_or(WAITING_MAX).clamp(1, WAITING_MAX);
        let brokers = match config.namesrv_addr.trim() {
            "" => &config.bootstrap_server,
            _ => &config.namesrv_addr,
        };
        let topic = Self {
            brokers: brokers_of(brokers)?,
            name: name.to_owned(),
            is_encrypted,
            login,
            waiting_max: usize::try_from(waiting).unwrap_or(1),
        };
        Ok((topic, selector.sample_rate.filter(|rate| !rate.trim().is_empty())))
    }
}

/// Parses brokers in Kafka's format: `host:port`, separated by commas.
fn brokers_of(text: &str) -> Result<Vec<(String, u16)>, HandleError> {
    let wrong = || {
        let reason =
            "`namesrvAddr` of the plugin must be a list of `host:port`, separated by commas";
        HandleError::Malformed(reason.to_owned())
    };
    let brokers = text.split(',').map(str::trim).filter(|broker| !broker.is_empty());
    let brokers = brokers.take(BROKERS_MAX).map(|broker| {
        let (host, port) = broker.rsplit_once(':')?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte);
        let port = port.parse().ok().filter(|port: &u16| *port > 0)?;
        let is_good = !host.is_empty() && host.bytes().all(is_host);
        is_good.then(|| (host.to_owned(), port))
    });
    let brokers: Option<Vec<_>> = brokers.collect();
    brokers.filter(|brokers| !brokers.is_empty()).ok_or_else(wrong)
}

/// Returns whether brokers are reached over TLS, and the credentials.
fn security(config: &Config) -> Result<(bool, Option<KafkaLogin>), HandleError> {
    let wrong = |reason: String| HandleError::Malformed(reason);
    let (protocol, mechanism) = (config.security_protocol.trim(), config.sasl_mechanism.trim());
    let (is_encrypted, logs_in) = match &*protocol.to_ascii_uppercase() {
        "" | "PLAINTEXT" => (false, false),
        "SSL" => (true, false),
        "SASL_PLAINTEXT" => (false, true),
        "SASL_SSL" => (true, true),
        _ => return Err(wrong(format!("unknown `securityProtocol` {protocol}"))),
    };
    if !logs_in {
        return Ok((is_encrypted, None));
    }
    let mechanism = Mechanism::named(&mechanism.to_ascii_uppercase()).ok_or_else(|| {
        wrong(format!(
            "`saslMechanism` must be PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512, not {mechanism:?}"
        ))
    })?;
    let user = config.user_name.trim().to_owned();
    let password = config.pass_word.clone().unwrap_or_default();
    if user.is_empty() {
        return Err(wrong(format!("`userName` is missing, which {protocol} requires")));
    }
    Ok((is_encrypted, Some(KafkaLogin { mechanism, user, password })))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(config: &str, selector: &str) -> Result<(KafkaTopic, Option<String>), HandleError> {
        KafkaTopic::read(Some(config), Some(selector))
    }

    #[test]
    fn a_configuration_names_brokers_and_a_topic() {
        let config = r#"{"topic":" logs ","namesrvAddr":"a:9092, [::1]:9093","bufferQueueSize":"7",
            "compressAlg":"none","sampleRate":"1"}"#;
        let (topic, rate) = read(config, "").expect("it is good");
        let expected = [("a".to_owned(), 9092), ("::1".to_owned(), 9093)];
        assert_eq!((&*topic.brokers, &*topic.name), (&expected[..], "logs"));
        assert_eq!((topic.is_encrypted, topic.login, topic.waiting_max), (false, None, 7));
        assert_eq!(rate, None);
        let (topic, rate) =
            read(config, r#"{"topic":"orders","sampleRate":0.5}"#).expect("it is good");
        assert_eq!((&*topic.name, rate.as_deref()), ("orders", Some("0.5")));
        let (topic, _) = read(r#"{"bootstrapServer":"a:1"}"#, "").expect("it is good");
        assert_eq!(&*topic.name, "shenyu-access-logging");
    }

    #[test]
    fn who_writes_is_read_and_not_shown() {
        let config = r#"{"namesrvAddr":"a:1","securityProtocol":"SASL_SSL","userName":"u",
            "saslMechanism":"SCRAM-SHA-512","passWord":42}"#;
        let (topic, _) = read(config, "").expect("it is good");
        let login = topic.login.as_ref().expect("it logs in");
        assert_eq!(
            (login.mechanism.name(), &*login.user, &*login.password),
            ("SCRAM-SHA-512", "u", "42")
        );
        assert!(topic.is_encrypted);
        assert!(!format!("{topic:?} {login:?}").contains("42"));
    }

    #[test]
    fn what_is_not_spoken_is_said() {
        for (config, selector, part) in [
            ("", "", "`namesrvAddr`"),
            (r#"{"host":"localhost","port":"9092"}"#, "", "`namesrvAddr`"),
            (r#"{"namesrvAddr":"a"}"#, "", "`namesrvAddr`"),
            (r#"{"namesrvAddr":"a:0"}"#, "", "`namesrvAddr`"),
            (r#"{"namesrvAddr":"a/b:1"}"#, "", "`namesrvAddr`"),
            (r#"{"namesrvAddr":"a:1","topic":"a b"}"#, "", "`topic`"),
            (r#"{"namesrvAddr":"a:1"}"#, r#"{"topic":"ü"}"#, "`topic`"),
            (r#"{"namesrvAddr":"a:1","compressAlg":"LZ4"}"#, "", "`compressAlg`"),
            (r#"{"namesrvAddr":"a:1","securityProtocol":"TLS"}"#, "", "`securityProtocol`"),
            (
                r#"{"namesrvAddr":"a:1","securityProtocol":"SASL_SSL","saslMechanism":"GSSAPI"}"#,
                "",
                "`saslMechanism`",
            ),
            (
                r#"{"namesrvAddr":"a:1","securityProtocol":"SASL_PLAINTEXT","saslMechanism":"PLAIN"}"#,
                "",
                "`userName`",
            ),
            (r#"{"namesrvAddr":"a:1"}"#, "[]", "JSON object"),
        ] {
            let error = read(config, selector).expect_err(config).to_string();
            assert!(error.contains(part), "{config}: {error}");
        }
    }
}
