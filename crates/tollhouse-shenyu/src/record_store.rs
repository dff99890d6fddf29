//! Where `loggingElasticSearch`, `loggingClickHouse` and `loggingKafka` write records of exchanges to, by their plugins'
//! configuration. How that is written is not known here.

use std::fmt;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::divide::HandleError;
use crate::{handle, lenient};

/// The index that ShenYu writes to: it has one for all.
pub const ELASTICSEARCH_INDEX: &str = "shenyu-access-logging";

/// The table that ShenYu writes to, in a database that is configured.
pub const CLICKHOUSE_TABLE: &str = "request_log";

/// The database that ShenYu makes for it.
const CLICKHOUSE_DATABASE: &str = "shenyu-gateway";

/// Records that wait at most where nothing is said, and at most whatever is said.
const WAITING_MAX: i64 = 50_000;

/// Members that both keep as text, and that are objects here.
const TEXTS: [&str; 2] = ["requestHeader", "responseHeader"];

mod kafka;

#[cfg(test)]
pub(crate) use kafka::{Config as KafkaConfig, SelectorHandle as KafkaSelectorHandle};
pub use kafka::{KafkaLogin, KafkaTopic};

/// Where records go.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RecordPlace {
    /// A server that keeps them.
    Store(RecordStore),
    /// A topic of Kafka's.
    Topic(KafkaTopic),
}

/// What takes records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StoreKind {
    /// Elasticsearch's bulk interface.
    Elasticsearch,
    /// ClickHouse's HTTP interface.
    ClickHouse,
}

/// A server that takes records.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RecordStore {
    /// What it is.
    pub kind: StoreKind,
    /// Its name or address, an IPv6 one in brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Who writes; blank for nobody in particular.
    pub user: String,
    /// The password of that.
    pub password: String,
    /// The database, of ClickHouse.
    pub database: String,
    /// Records that wait for delivery at most.
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
    /// When it is no JSON object of this shape, or names no server.
    pub fn read(kind: StoreKind, config: Option<&str>) -> Result<Self, HandleError> {
        let wrong = |reason: &str| HandleError::Malformed(reason.to_owned());
        let config: Config = handle::read(config)?;
        let host = config.host.trim();
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-_[]:".contains(&byte);
        if host.is_empty() || !host.bytes().all(is_host) {
            return Err(wrong("`host` of the plugin is no name or address of a server"));
        }
        // A bare IPv6 address would be taken for one with a port.
        let host = match host.contains(':') && !host.starts_with('[') {
            true => format!("[{host}]"),
            false => host.to_owned(),
        };
        let port = config.port.filter(|port| *port > 0).and_then(|port| u16::try_from(port).ok());
        let port = port.ok_or_else(|| wrong("`port` of the plugin is no port from 1 to 65535"))?;
        let database = Some(config.database.trim()).filter(|name| !name.is_empty());
        let database = database.unwrap_or(CLICKHOUSE_DATABASE);
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        if !database.bytes().all(is_name) {
            return Err(wrong(
                "`database` of the plugin is no name of letters, digits, `_`, `-` and `.`",
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

/// A record as ShenYu's tables have it: headers are text.
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
