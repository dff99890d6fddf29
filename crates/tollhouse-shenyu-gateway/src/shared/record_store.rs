//! Destinations for records of exchanges, from the configuration of `loggingElasticSearch`,
//! `loggingClickHouse` and `loggingKafka`. Delivery is implemented elsewhere.

use std::fmt;

use serde::Deserialize;
use serde_json::{Map, Value};
use tollhouse_shenyu::lenient;

use crate::handle::{self, HandleError};

/// Index that ShenYu writes to; all gateways use it.
pub const ELASTICSEARCH_INDEX: &str = "shenyu-access-logging";

/// Table that ShenYu writes to, in the configured database.
pub const CLICKHOUSE_TABLE: &str = "request_log";

/// Database by default; ShenYu creates it.
const CLICKHOUSE_DATABASE: &str = "shenyu-gateway";

/// Default and maximum number of records waiting for delivery.
const WAITING_MAX: i64 = 50_000;

/// Members that both servers store as text, but that records contain as objects.
const TEXTS: [&str; 2] = ["requestHeader", "responseHeader"];

mod kafka;

#[cfg(test)]
pub(crate) use kafka::{Config as KafkaConfig, SelectorHandle as KafkaSelectorHandle};
pub use kafka::{KafkaLogin, KafkaTopic};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RecordPlace {
    Store(RecordStore),
    Topic(KafkaTopic),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StoreKind {
    Elasticsearch,
    ClickHouse,
}

/// Server that stores access records, with its credentials.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RecordStore {
    pub kind: StoreKind,
    /// Host name or address; IPv6 in brackets.
    pub host: String,
    pub port: u16,
    /// User name; empty for anonymous access.
    pub user: String,
    pub password: String,
    /// Name of the database in ClickHouse.
    pub database: String,
    /// Maximum number of records that wait for delivery.
    pub waiting_max: usize,
}

impl fmt::Debug for RecordStore {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, host, port, .. } = self;
        write!(out, "{kind:?} at {host}:{port}")
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Config {
    #[serde(deserialize_with = "lenient::or_default")]
    host: String,
    #[serde(deserialize_with = "lenient::integer")]
    port: Option<i64>,
    #[serde(deserialize_with = "lenient::or_default")]
    username: String,
    #[serde(deserialize_with = "lenient::text")]
    password: Option<String>,
    #[serde(deserialize_with = "lenient::or_default")]
    database: String,
    #[serde(deserialize_with = "lenient::integer")]
    buffer_queue_size: Option<i64>,
}

impl RecordStore {
    /// Reads a plugin's configuration.
    ///
    /// # Errors
    ///
    /// If it is not a JSON object of this shape, or host, port or database are invalid.
    pub fn read(kind: StoreKind, config: Option<&str>) -> Result<Self, HandleError> {
        let wrong = |reason: &str| HandleError::Malformed(reason.to_owned());
        let config: Config = handle::read(config)?;
        let host = config.host.trim();
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-_[]:".contains(&byte);
        if host.is_empty() || !host.bytes().all(is_host) {
            return Err(wrong("`host` of the plugin is not a host name or address"));
        }
        // The colons of a bare IPv6 address would be mistaken for a port separator.
        let host = match host.contains(':') && !host.starts_with('[') {
            true => format!("[{host}]"),
            false => host.to_owned(),
        };
        let port = config.port.filter(|port| *port > 0).and_then(|port| u16::try_from(port).ok());
        let port = port.ok_or_else(|| wrong("`port` of the plugin must be from 1 to 65535"))?;
        let database = Some(config.database.trim()).filter(|name| !name.is_empty());
        let database = database.unwrap_or(CLICKHOUSE_DATABASE);
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        if !database.bytes().all(is_name) {
            return Err(wrong(
                "`database` of the plugin may only have letters, digits, `_`, `-` and `.`",
            ));
        }
        let waiting = config.buffer_queue_size.unwrap_or(WAITING_MAX).clamp(1, WAITING_MAX);
        Ok(Self {
            kind,
            host,
            port,
            user: config.username.trim().to_owned(),
            password: config.password.unwrap_or_default(),
            database: database.to_owned(),
            waiting_max: usize::try_from(waiting).unwrap_or(1),
        })
    }
}

/// Converts a record to a row of ShenYu's tables, whose headers are text.
pub fn to_row(mut record: Map<String, Value>) -> String {
    for name in TEXTS {
        if let Some(member) = record.get_mut(name)
            && member.is_object()
        {
            *member = member.to_string().into();
        }
    }
    Value::Object(record).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(config: &str) -> Result<RecordStore, HandleError> {
        RecordStore::read(StoreKind::ClickHouse, Some(config))
    }

    #[test]
    fn a_configuration_names_a_server() {
        let store =
            read(r#"{"host":" click ","port":"8123","username":"u","password":42,"database":""}"#);
        let store = store.expect("it is good");
        assert_eq!(
            (&*store.host, store.port, &*store.user, &*store.password),
            ("click", 8123, "u", "42")
        );
        assert_eq!((&*store.database, store.waiting_max), ("shenyu-gateway", 50_000));
        assert_eq!(format!("{store:?}"), "ClickHouse at click:8123", "it shows no password");
        let other = read(r#"{"host":"::1","port":9200,"database":"logs","bufferQueueSize":"7"}"#);
        let other = other.expect("it is good");
        assert_eq!((&*other.host, &*other.database, other.waiting_max), ("[::1]", "logs", 7));
        for (config, part) in [
            ("", "`host`"),
            (r#"{"host":"a"}"#, "`port`"),
            (r#"{"host":"a","port":70000}"#, "`port`"),
            (r#"{"host":"a/b","port":1}"#, "`host`"),
            (r#"{"host":"a@b","port":1}"#, "`host`"),
            (r#"{"host":"a","port":1,"database":"a` b"}"#, "`database`"),
            ("[]", "JSON object"),
        ] {
            let error = read(config).expect_err(config).to_string();
            assert!(error.contains(part), "{config}: {error}");
        }
    }

    #[test]
    fn headers_are_text_in_a_row() {
        let record =
            serde_json::json!({"requestHeader": {"a": "1"}, "responseHeader": "x", "status": 200});
        let Value::Object(record) = record else { panic!("it is an object") };
        let row: Value = serde_json::from_str(&to_row(record)).expect("it is JSON");
        assert_eq!(row["requestHeader"], r#"{"a":"1"}"#);
        assert_eq!((&row["responseHeader"], &row["status"]), (&"x".into(), &200.into()));
    }
}
