//! Values in a section of the table `discovery`. Refusals name the key and never quote a value, which
//! may be a secret.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value};
use tollhouse_stdx::nearest;

use super::{RegistryServer, RegistryServers};
use crate::bootstrap::Secret;
use crate::bootstrap::shape::Refusal;

/// Maximum number of servers of a registry.
const SERVERS_MAX: usize = 16;

/// Longest time that can be configured, in milliseconds: a day.
const TIME_MS_MAX: u64 = 86_400_000;

/// A table that is read key by key.
pub(super) struct Section<'v, 'r> {
    /// Name of the table, such as `consul.timeout`.
    name: String,
    fields: &'v Map<String, Value>,
    /// Further key of the table `timeout`, which has another unit.
    key_of_wait: Option<&'static str>,
    refusals: &'r mut Vec<Refusal>,
}

/// Keys and defaults of the servers and limits of a registry.
pub(super) struct ServersDefaults {
    /// Key of the list of servers: `servers` or `host`.
    pub(super) key: &'static str,
    /// Parts of the timeout, in milliseconds; together they are the timeout of a call.
    pub(super) timeouts_ms: &'static [(&'static str, u64)],
    pub(super) fetch_interval_s: u64,
}

impl<'v, 'r> Section<'v, 'r> {
    /// Reads the table in a field of another one; `None` if it is missing. Unknown keys are refused.
    pub(super) fn open(
        name: &str,
        value: Option<&'v Value>,
        known: &[&'static str],
        refusals: &'r mut Vec<Refusal>,
    ) -> Option<Self> {
        let fields = match value? {
            Value::Object(fields) => fields,
            Value::Null => return None,
            _ => {
                refusals.push(Refusal::new(format!("{name}: expected a table"), ""));
                return None;
            }
        };
        for key in fields.keys().filter(|key| !known.contains(&key.as_str())) {
            let hint = match nearest(key, known.iter().copied()) {
                Some(near) => format!("did you mean \"{near}\"?"),
                None => format!("known keys: {}", known.join(", ")),
            };
            refusals.push(Refusal::new(format!("{name}: unknown key \"{key}\""), hint));
        }
        Some(Self { name: name.to_owned(), fields, key_of_wait: None, refusals })
    }

    /// Admits the key `wait` in the table `timeout`.
    #[must_use]
    pub(super) fn with_wait(self) -> Self {
        Self { key_of_wait: Some("wait"), ..self }
    }

    pub(super) fn value(&self, key: &str) -> Option<&'v Value> {
        self.fields.get(key).filter(|value| !value.is_null())
    }

    pub(super) fn refuse(&mut self, key: &str, reason: &str, hint: &str) {
        self.refusals.push(Refusal::new(format!("{}.{key}: {reason}", self.name), hint));
    }

    /// Returns a text; an empty one counts as missing.
    pub(super) fn text(&mut self, key: &str) -> Option<String> {
        match self.value(key)? {
            Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
            _ => {
                self.refuse(key, "expected a text", "");
                None
            }
        }
    }

    pub(super) fn secret(&mut self, key: &str) -> Option<Secret> {
        self.text(key).map(Secret::new)
    }

    pub(super) fn texts(&mut self, key: &str) -> Vec<String> {
        let Some(value) = self.value(key) else { return Vec::new() };
        let items = value.as_array().map(|items| items.iter().map(Value::as_str));
        match items.and_then(Iterator::collect::<Option<Vec<&str>>>) {
            Some(texts) => texts.into_iter().map(str::to_owned).collect(),
            None => {
                self.refuse(key, "expected a list of texts", "");
                Vec::new()
            }
        }
    }

    pub(super) fn is_on_by_default(&mut self, key: &str) -> bool {
        match self.value(key) {
            None => true,
            Some(Value::Bool(flag)) => *flag,
            Some(_) => {
                self.refuse(key, "expected true or false", "");
                true
            }
        }
    }

    pub(super) fn whole(&mut self, key: &str, range: std::ops::RangeInclusive<u64>) -> Option<u64> {
        let value = self.value(key)?;
        let number = value.as_u64().filter(|number| range.contains(number));
        if number.is_none() {
            let (least, most) = range.into_inner();
            self.refuse(key, &format!("expected an integer from {least} to {most}"), "");
        }
        number
    }

    pub(super) fn weight(&mut self, default: u32) -> u32 {
        let weight = self.whole("weight", 1..=65_535);
        weight.and_then(|weight| u32::try_from(weight).ok()).unwrap_or(default)
    }

    /// Returns a path of an API, with a slash at both ends.
    pub(super) fn prefix(&mut self, default: &str) -> String {
        let text = self.text("prefix").unwrap_or_else(|| default.to_owned());
        let is_path = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.".contains(&byte);
        if !text.bytes().all(is_path) || text.split('/').any(|part| part == "..") {
            self.refuse("prefix", "invalid path", "such as /nacos/v1/");
        }
        match text.trim_matches('/') {
            "" => "/".to_owned(),
            inner => format!("/{inner}/"),
        }
    }

    /// Returns the servers and the limits of calls to them.
    pub(super) fn servers(&mut self, defaults: &ServersDefaults) -> RegistryServers {
        let texts = self.texts(defaults.key);
        let servers: Vec<RegistryServer> = texts.iter().filter_map(|text| server(text)).collect();
        if servers.len() != texts.len() {
            let hint = "for example http://127.0.0.1:8500, or https://user:password@host:8848";
            self.refuse(defaults.key, "one of them is not the address of a server", hint);
        }
        if texts.is_empty() {
            self.refuse(defaults.key, "missing", "a registry needs at least one server");
        }
        if servers.len() > SERVERS_MAX {
            self.refuse(defaults.key, &format!("at most {SERVERS_MAX} servers"), "");
        }
        let fetch_interval = self.whole("fetch_interval", 1..=TIME_MS_MAX / 1_000);
        let fetch_interval = fetch_interval.unwrap_or(defaults.fetch_interval_s);
        RegistryServers {
            servers,
            timeout: Duration::from_millis(self.timeouts(defaults.timeouts_ms).iter().sum()),
            fetch_interval: Duration::from_secs(fetch_interval),
            ca: self.text("ca").map(PathBuf::from),
        }
    }

    /// Returns the values of the table `timeout`, in the order of their defaults.
    fn timeouts(&mut self, defaults: &[(&'static str, u64)]) -> Vec<u64> {
        let name = format!("{}.timeout", self.name);
        let wait = self.key_of_wait;
        let known: Vec<&'static str> = defaults.iter().map(|(key, _)| *key).chain(wait).collect();
        let value = self.value("timeout");
        let section = Section::open(&name, value, &known, self.refusals);
        match section {
            None => defaults.iter().map(|(_, default)| *default).collect(),
            Some(mut section) => {
                let read = |(key, default): &(&'static str, u64)| {
                    section.whole(key, 1..=TIME_MS_MAX).unwrap_or(*default)
                };
                defaults.iter().map(read).collect()
            }
        }
    }
}

/// Splits the address of a server into scheme, host and port, and credentials.
pub(super) fn server(text: &str) -> Option<RegistryServer> {
    let text = text.trim_end_matches('/');
    let (scheme, rest) = text.split_once("://")?;
    if !matches!(scheme, "http" | "https") {
        return None;
    }
    let (credentials, host) = match rest.rsplit_once('@') {
        Some((credentials, host)) => (Some(credentials), host),
        None => (None, rest),
    };
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:[]".contains(&byte);
    let is_named = credentials.is_none_or(|credentials| credentials.contains(':'));
    if host.is_empty() || !host.bytes().all(is_host) || !is_named {
        return None;
    }
    let credentials = credentials.map(Secret::new);
    Some(RegistryServer { url: format!("{scheme}://{host}"), credentials })
}
