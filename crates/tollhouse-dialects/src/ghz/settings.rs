//! Values by key, with their origin, and typed getters.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::quantity;
use tollhouse_load::error::BenchError;

/// Source of a setting, for error messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    Flag,
    File(PathBuf),
}

#[derive(Debug, Default)]
pub(super) struct Settings {
    values: BTreeMap<&'static str, (Value, Source)>,
    /// Path of the configuration file, if there is one.
    file: Option<PathBuf>,
}

impl Settings {
    /// Returns empty settings for a file.
    pub(super) fn for_file(path: PathBuf) -> Self {
        Self { values: BTreeMap::new(), file: Some(path) }
    }

    /// Whether there is a configuration file; ghz has other defaults then.
    pub(super) fn has_file(&self) -> bool {
        self.file.is_some()
    }

    pub(super) fn set(&mut self, key: &'static str, value: Value, source: Source) {
        self.values.insert(key, (value, source));
    }

    /// Takes over the values of `other`, which override the own ones.
    pub(super) fn merge(&mut self, other: Settings) {
        self.values.extend(other.values);
    }

    /// Whether a key has a value.
    pub(super) fn has(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    fn value(&self, key: &str) -> Option<&Value> {
        self.values.get(key).map(|(value, _)| value).filter(|value| !value.is_null())
    }

    /// Returns an error about a key, with its origin.
    pub(super) fn error(&self, key: &str, why: impl std::fmt::Display) -> BenchError {
        match self.values.get(key).map(|(_, source)| source) {
            Some(Source::File(path)) => {
                BenchError::File { path: path.clone(), why: format!("{key}: {why}") }
            }
            Some(Source::Flag) if key == "host" => {
                BenchError::Case { key: "ghz: host".into(), why: why.to_string() }
            }
            Some(Source::Flag) => {
                BenchError::Case { key: format!("ghz: --{key}"), why: why.to_string() }
            }
            None => BenchError::Case { key: format!("ghz: {key}"), why: why.to_string() },
        }
    }

    /// Returns a trimmed text; an empty one counts as missing.
    pub(super) fn text(&self, key: &str) -> Result<Option<String>, BenchError> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let text = scalar(value).ok_or_else(|| self.error(key, "must be a text"))?;
        let text = text.trim();
        Ok((!text.is_empty()).then(|| text.to_owned()))
    }

    pub(super) fn toggle(&self, key: &str) -> Result<bool, BenchError> {
        match self.value(key) {
            None => Ok(false),
            Some(Value::Bool(is_on)) => Ok(*is_on),
            Some(Value::String(text)) if text == "true" || text == "1" => Ok(true),
            Some(Value::String(text)) if text == "false" || text == "0" => Ok(false),
            Some(other) => Err(self.error(key, format!("{other} is neither true nor false"))),
        }
    }

    /// Returns a non-negative integer, which may be written as a text.
    pub(super) fn count(&self, key: &str) -> Result<Option<u64>, BenchError> {
        let Some(number) = self.signed(key)? else { return Ok(None) };
        let count = u64::try_from(number);
        count.map(Some).map_err(|_| self.error(key, format!("{number} is below 0")))
    }

    /// Returns an integer, which may be written as a text.
    pub(super) fn signed(&self, key: &str) -> Result<Option<i64>, BenchError> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let number = match value {
            Value::Number(number) => {
                let fraction = number.as_f64().filter(|value| value.fract() == 0.0);
                number.as_i64().or(fraction.map(|value| value as i64))
            }
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        let in_range = number.filter(|number| number.unsigned_abs() <= quantity::COUNT_MAX);
        match in_range {
            Some(number) => Ok(Some(number)),
            None => {
                Err(self.error(key, format!("{value} is not a whole number of up to 9 digits")))
            }
        }
    }

    /// Returns the duration of a setting; `None` if it is unset. A number counts nanoseconds, a
    /// text has a unit (`10s`).
    pub(super) fn time(&self, key: &str) -> Result<Option<Duration>, BenchError> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let time = match value {
            Value::Number(number) => number
                .as_u64()
                .map(Duration::from_nanos)
                .ok_or_else(|| format!("{number} is not a number of nanoseconds")),
            Value::String(text) => quantity::time(text.trim()),
            other => Err(format!("{other} is not a time such as 10s")),
        };
        time.map(Some).map_err(|why| self.error(key, why))
    }

    /// Returns the duration of a setting as [`Self::time`] does; 0 counts as unset.
    pub(super) fn time_above_zero(&self, key: &str) -> Result<Option<Duration>, BenchError> {
        Ok(self.time(key)?.filter(|time| !time.is_zero()))
    }

    /// Returns a number of bytes, written like `10MB`.
    pub(super) fn bytes(&self, key: &str) -> Result<Option<u64>, BenchError> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        quantity::bytes(&text).map(Some).map_err(|why| self.error(key, why))
    }

    /// Returns a list of texts, which may be written as one text with commas.
    pub(super) fn texts(&self, key: &str) -> Result<Vec<String>, BenchError> {
        match self.value(key) {
            None => Ok(Vec::new()),
            Some(Value::String(text)) if text.trim().is_empty() => Ok(Vec::new()),
            Some(Value::String(text)) => Ok(text.split(',').map(|part| part.to_owned()).collect()),
            Some(Value::Array(items)) => items
                .iter()
                .map(|item| scalar(item).ok_or_else(|| self.error(key, "must hold texts only")))
                .collect(),
            Some(_) => Err(self.error(key, "must be a list of texts")),
        }
    }

    pub(super) fn texts_by_name(
        &self,
        key: &str,
    ) -> Result<Option<BTreeMap<String, String>>, BenchError> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let map = value.as_object().ok_or_else(|| {
            self.error(key, "must be an object of texts, such as {\"name\": \"value\"}")
        })?;
        let mut texts = BTreeMap::new();
        for (name, value) in map {
            let text = scalar(value)
                .ok_or_else(|| self.error(key, format!("`{name}` must be a text, not {value}")))?;
            texts.insert(name.clone(), text);
        }
        Ok(Some(texts))
    }

    pub(super) fn any(&self, key: &str) -> Option<&Value> {
        self.value(key)
    }

    /// Returns one of the known words, in any case.
    pub(super) fn word(
        &self,
        key: &str,
        known: &[&'static str],
    ) -> Result<Option<&'static str>, BenchError> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        let found = known.iter().find(|word| word.eq_ignore_ascii_case(&text));
        found
            .map(|word| Some(*word))
            .ok_or_else(|| self.error(key, format!("`{text}` is not one of {}", known.join(", "))))
    }

    /// Handles ghz features that are not supported: refuses them if their absence would surprise,
    /// or notes them otherwise.
    pub(super) fn refuse_unsupported(&self, notes: &mut Vec<String>) -> Result<(), BenchError> {
        if self.text("debug")?.is_some() {
            return Err(self.error("debug", "requests are not logged one by one; leave it out"));
        }
        // Connections are spread over the addresses of a name with either strategy.
        self.word("lb-strategy", &["round_robin", "pick_first"])?;
        if self.bytes("max-send-message-size")?.is_some() {
            notes.push("max-send-message-size is not enforced: what the data holds is sent".into());
        }
        // These have no effect under load: connecting counts in a request's timeout, and a busy
        // connection needs no pings.
        self.time("connect-timeout")?;
        self.time("keepalive")?;
        Ok(())
    }
}

/// Returns a text, number or boolean as text.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(is_true) => Some(is_true.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
