//! Shapes: each shape is the syntax of one type of values. It parses a value from text or YAML and
//! formats it.
//!
//! Environment variables and flags are strings, with the syntax of the file. Addresses are in
//! `shape_net.rs`.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tollhouse_stdx::{bytes_size, duration};

use super::LuaTrust;
use super::parts::{
    AccessLogFormat, AccessLogTarget, AmbiguousPaths, ClientHalfClose, RouterMode, Secret, Workers,
};

/// Reason why a value is invalid, with a hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) reason: String,
    pub(crate) hint: String,
}

impl Refusal {
    pub(crate) fn new(reason: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { reason: reason.into(), hint: hint.into() }
    }
}

pub(crate) type Read<T> = Result<T, Vec<Refusal>>;

/// The syntax of a type of values.
pub(crate) trait Shape {
    type Value;
    /// Whether a value must not appear in messages.
    const SECRET: bool = false;
    /// Returns the description of valid values, for the manual.
    fn takes() -> String;
    fn read(value: &Value) -> Read<Self::Value>;
    fn show(value: &Self::Value) -> String;
}

/// Converts a scalar to text; refuses lists and maps.
pub(crate) fn text_of(value: &Value) -> Read<String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(boolean) => Ok(boolean.to_string()),
        Value::Null => refuse("wrong type: expected string, got null", ""),
        Value::Array(_) => refuse("wrong type: expected string, got array", ""),
        Value::Object(_) => refuse("wrong type: expected string, got object", ""),
    }
}

/// Splits a list into texts: a YAML list, or a text with commas.
pub(crate) fn texts_of(value: &Value) -> Read<Vec<String>> {
    if let Value::Array(items) = value {
        return collect(items.iter().map(text_of));
    }
    let text = text_of(value)?;
    // Flags and variables may use `[]`, as an empty list is displayed.
    let text = if text.trim() == "[]" { "" } else { text.as_str() };
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    Ok(parts.map(str::to_owned).collect())
}

/// Collects all values; if any is invalid, returns all refusals.
pub(crate) fn collect<T>(results: impl Iterator<Item = Read<T>>) -> Read<Vec<T>> {
    let (mut values, mut refusals) = (Vec::new(), Vec::new());
    for result in results {
        match result {
            Ok(value) => values.push(value),
            Err(reasons) => refusals.extend(reasons),
        }
    }
    if refusals.is_empty() { Ok(values) } else { Err(refusals) }
}

pub(crate) fn refuse<T>(reason: impl Into<String>, hint: impl Into<String>) -> Read<T> {
    Err(vec![Refusal::new(reason, hint)])
}

pub(crate) fn show_list(parts: impl Iterator<Item = String>, empty: &str) -> String {
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() { empty.to_owned() } else { parts.join(", ") }
}

// === Texts ===

/// Syntax of a text that is not empty.
pub(crate) struct Text;

impl Shape for Text {
    type Value = String;
    fn takes() -> String {
        "text".to_owned()
    }
    fn read(value: &Value) -> Read<String> {
        let text = text_of(value)?;
        if text.trim().is_empty() {
            return refuse("empty", "leave the key out for its default");
        }
        Ok(text)
    }
    fn show(value: &String) -> String {
        value.clone()
    }
}

pub(crate) struct HeaderName;

impl Shape for HeaderName {
    type Value = String;
    fn takes() -> String {
        "header name".to_owned()
    }
    fn read(value: &Value) -> Read<String> {
        let text = Text::read(value)?;
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if !text.bytes().all(token) {
            return refuse("invalid header name", "for example X-Forwarded-For");
        }
        Ok(text)
    }
    fn show(value: &String) -> String {
        value.clone()
    }
}

/// Syntax of a list of words.
pub(crate) struct Words;

impl Shape for Words {
    type Value = Vec<String>;
    fn takes() -> String {
        "list of words".to_owned()
    }
    fn read(value: &Value) -> Read<Vec<String>> {
        texts_of(value)
    }
    fn show(value: &Vec<String>) -> String {
        show_list(value.iter().cloned(), "[]")
    }
}

pub(crate) struct FilePath;

impl Shape for FilePath {
    type Value = PathBuf;
    fn takes() -> String {
        "path".to_owned()
    }
    fn read(value: &Value) -> Read<PathBuf> {
        Text::read(value).map(PathBuf::from)
    }
    fn show(value: &PathBuf) -> String {
        value.display().to_string()
    }
}

/// Syntax of a path that may be unset.
pub(crate) struct OptionalPath;

impl Shape for OptionalPath {
    type Value = Option<PathBuf>;
    fn takes() -> String {
        "path or null".to_owned()
    }
    fn read(value: &Value) -> Read<Option<PathBuf>> {
        let text = text_of(value)?;
        Ok((!text.is_empty()).then(|| PathBuf::from(text)))
    }
    fn show(value: &Option<PathBuf>) -> String {
        value.as_ref().map_or_else(|| "null".to_owned(), |path| path.display().to_string())
    }
}

/// Syntax of a secret that may be unset.
pub(crate) struct OptionalSecret;

impl Shape for OptionalSecret {
    type Value = Option<Secret>;
    const SECRET: bool = true;
    fn takes() -> String {
        "text or null".to_owned()
    }
    fn read(value: &Value) -> Read<Option<Secret>> {
        let text = text_of(value)?;
        Ok((!text.is_empty()).then(|| Secret::new(text)))
    }
    fn show(value: &Option<Secret>) -> String {
        if value.is_some() { "***" } else { "null" }.to_owned()
    }
}

// === Choices ===

/// Syntax of a boolean.
pub(crate) struct Switch;

impl Shape for Switch {
    type Value = bool;
    fn takes() -> String {
        "true or false".to_owned()
    }
    fn read(value: &Value) -> Read<bool> {
        match text_of(value)?.as_str() {
            "true" | "on" | "yes" => Ok(true),
            "false" | "off" | "no" => Ok(false),
            other => refuse(format!("{other:?} is not a boolean"), "use true or false"),
        }
    }
    fn show(value: &bool) -> String {
        value.to_string()
    }
}

/// Syntax of the mode of the router.
pub(crate) struct Router;

const ROUTERS: [(&str, RouterMode); 3] = [
    ("radixtree_host_uri", RouterMode::HostUri),
    ("radixtree_uri", RouterMode::Uri),
    ("radixtree_uri_with_parameter", RouterMode::UriWithParameter),
];

impl Shape for Router {
    type Value = RouterMode;
    fn takes() -> String {
        ROUTERS.map(|(name, _)| name).join(", ")
    }
    fn read(value: &Value) -> Read<RouterMode> {
        let text = text_of(value)?;
        match ROUTERS.iter().find(|(name, _)| *name == text) {
            Some((_, mode)) => Ok(*mode),
            None => refuse(format!("unknown router {text:?}"), format!("use {}", Self::takes())),
        }
    }
    fn show(value: &RouterMode) -> String {
        let name = ROUTERS.iter().find(|(_, mode)| mode == value).map(|(name, _)| *name);
        name.unwrap_or_default().to_owned()
    }
}

/// Syntax of a setting whose value is `refuse` or `allow`.
pub(crate) struct PathPolicy;

const PATH_POLICIES: [(&str, AmbiguousPaths); 2] =
    [("refuse", AmbiguousPaths::Refuse), ("allow", AmbiguousPaths::Allow)];

impl Shape for PathPolicy {
    type Value = AmbiguousPaths;
    fn takes() -> String {
        "refuse or allow".to_owned()
    }
    fn read(value: &Value) -> Read<AmbiguousPaths> {
        let text = text_of(value)?;
        match PATH_POLICIES.iter().find(|(name, _)| *name == text) {
            Some((_, policy)) => Ok(*policy),
            None => refuse(format!("invalid value {text:?}"), format!("use {}", Self::takes())),
        }
    }
    fn show(value: &AmbiguousPaths) -> String {
        let name = PATH_POLICIES.iter().find(|(_, policy)| policy == value).map(|(name, _)| *name);
        name.unwrap_or_default().to_owned()
    }
}

/// Syntax of a setting whose value is `off` or `trusted`.
pub(crate) struct LuaSwitch;

impl Shape for LuaSwitch {
    type Value = LuaTrust;
    fn takes() -> String {
        "off or trusted".to_owned()
    }
    fn read(value: &Value) -> Read<LuaTrust> {
        match value {
            // YAML reads a bare `off` as `false`.
            Value::Bool(false) => Ok(LuaTrust::Off),
            _ => match text_of(value)?.as_str() {
                "off" => Ok(LuaTrust::Off),
                "trusted" => Ok(LuaTrust::Trusted),
                other => refuse(format!("invalid value {other:?}"), "use off or trusted"),
            },
        }
    }
    fn show(value: &LuaTrust) -> String {
        match value {
            LuaTrust::Off => "off",
            LuaTrust::Trusted => "trusted",
        }
        .to_owned()
    }
}

/// Syntax of a setting whose value is `abort` or `wait`.
pub(crate) struct HalfClose;

impl Shape for HalfClose {
    type Value = ClientHalfClose;
    fn takes() -> String {
        "abort or wait".to_owned()
    }
    fn read(value: &Value) -> Read<ClientHalfClose> {
        match text_of(value)?.as_str() {
            "abort" => Ok(ClientHalfClose::Abort),
            "wait" => Ok(ClientHalfClose::Wait),
            other => refuse(format!("unknown action {other:?}"), "use abort or wait"),
        }
    }
    fn show(value: &ClientHalfClose) -> String {
        match value {
            ClientHalfClose::Abort => "abort",
            ClientHalfClose::Wait => "wait",
        }
        .to_owned()
    }
}

/// Syntax of an access log format: `off`, `combined`, `json`, or a template.
pub(crate) struct LogFormat;

impl Shape for LogFormat {
    type Value = AccessLogFormat;
    fn takes() -> String {
        "off, combined, json, or a text with $variables".to_owned()
    }
    fn read(value: &Value) -> Read<AccessLogFormat> {
        match text_of(value)?.as_str() {
            "off" | "false" => Ok(AccessLogFormat::Off),
            "combined" => Ok(AccessLogFormat::Combined),
            "json" => Ok(AccessLogFormat::Json),
            template if template.contains('$') => {
                Ok(AccessLogFormat::Template(template.to_owned()))
            }
            other => refuse(format!("unknown format {other:?}"), format!("use {}", Self::takes())),
        }
    }
    fn show(value: &AccessLogFormat) -> String {
        match value {
            AccessLogFormat::Off => "off".to_owned(),
            AccessLogFormat::Combined => "combined".to_owned(),
            AccessLogFormat::Json => "json".to_owned(),
            AccessLogFormat::Template(template) => template.clone(),
        }
    }
}

/// Syntax of a log destination: a path, or `-`.
pub(crate) struct LogTarget;

impl Shape for LogTarget {
    type Value = AccessLogTarget;
    fn takes() -> String {
        "path, or - for the standard output".to_owned()
    }
    fn read(value: &Value) -> Read<AccessLogTarget> {
        let text = Text::read(value)?;
        let output = text == "-";
        Ok(if output {
            AccessLogTarget::StandardOutput
        } else {
            AccessLogTarget::File(text.into())
        })
    }
    fn show(value: &AccessLogTarget) -> String {
        match value {
            AccessLogTarget::StandardOutput => "-".to_owned(),
            AccessLogTarget::File(path) => path.display().to_string(),
        }
    }
}

// === Numbers ===

/// Syntax of a number of threads: an integer, or `auto`.
pub(crate) struct WorkerCount;

/// Maximum number of threads. No machine needs more; a larger number is probably a typing error.
const WORKERS_MAX: u16 = 1_024;

impl Shape for WorkerCount {
    type Value = Workers;
    fn takes() -> String {
        format!("auto, or 1 to {WORKERS_MAX}")
    }
    fn read(value: &Value) -> Read<Workers> {
        if text_of(value)? == "auto" {
            return Ok(Workers::Auto);
        }
        let count = whole(value, 1, u64::from(WORKERS_MAX), &Self::takes())?;
        Ok(Workers::Count(u16::try_from(count).unwrap_or(WORKERS_MAX)))
    }
    fn show(value: &Workers) -> String {
        match value {
            Workers::Auto => "auto".to_owned(),
            Workers::Count(count) => count.to_string(),
        }
    }
}

/// Syntax of an integer that is at least `LEAST`.
pub(crate) struct Count<const LEAST: u32>;

impl<const LEAST: u32> Shape for Count<LEAST> {
    type Value = u32;
    fn takes() -> String {
        format!("number from {LEAST}")
    }
    fn read(value: &Value) -> Read<u32> {
        let count = whole(value, u64::from(LEAST), u64::from(u32::MAX), &Self::takes())?;
        Ok(u32::try_from(count).unwrap_or(u32::MAX))
    }
    fn show(value: &u32) -> String {
        value.to_string()
    }
}

/// Syntax of an integer from `LEAST` to `MOST`.
pub(crate) struct Slots<const LEAST: usize, const MOST: usize>;

impl<const LEAST: usize, const MOST: usize> Shape for Slots<LEAST, MOST> {
    type Value = usize;
    fn takes() -> String {
        format!("number from {LEAST} to {MOST}")
    }
    fn read(value: &Value) -> Read<usize> {
        let count = whole(value, LEAST as u64, MOST as u64, &Self::takes())?;
        Ok(usize::try_from(count).unwrap_or(MOST))
    }
    fn show(value: &usize) -> String {
        value.to_string()
    }
}

/// Syntax of an integer for which 0 means unlimited.
pub(crate) struct CountOrNone;

impl Shape for CountOrNone {
    type Value = Option<u32>;
    fn takes() -> String {
        "number; 0 is without limit".to_owned()
    }
    fn read(value: &Value) -> Read<Option<u32>> {
        Count::<0>::read(value).map(|count| (count > 0).then_some(count))
    }
    fn show(value: &Option<u32>) -> String {
        value.unwrap_or_default().to_string()
    }
}

/// Syntax of a size in bytes, from `LEAST` to `MOST`.
pub(crate) struct Size<const LEAST: usize, const MOST: usize>;

impl<const LEAST: usize, const MOST: usize> Shape for Size<LEAST, MOST> {
    type Value = usize;
    fn takes() -> String {
        let show = |bytes: usize| bytes_size::format(bytes as u64);
        format!("size from {} to {}", show(LEAST), show(MOST))
    }
    fn read(value: &Value) -> Read<usize> {
        let bytes = size(value)?;
        match usize::try_from(bytes) {
            Ok(bytes) if (LEAST..=MOST).contains(&bytes) => Ok(bytes),
            _ => refuse(format!("{} is out of range", bytes_size::format(bytes)), Self::takes()),
        }
    }
    fn show(value: &usize) -> String {
        bytes_size::format(*value as u64)
    }
}

/// Syntax of a size in bytes for which 0 means unlimited.
pub(crate) struct SizeOrNone;

impl Shape for SizeOrNone {
    type Value = Option<u64>;
    fn takes() -> String {
        "size; 0 is without limit".to_owned()
    }
    fn read(value: &Value) -> Read<Option<u64>> {
        size(value).map(|bytes| (bytes > 0).then_some(bytes))
    }
    fn show(value: &Option<u64>) -> String {
        value.map_or_else(|| "0".to_owned(), bytes_size::format)
    }
}

/// Syntax of a size in bytes, or `auto`.
pub(crate) struct SizeOrAuto;

impl Shape for SizeOrAuto {
    type Value = Option<u64>;
    fn takes() -> String {
        "size above 0, or `auto`".to_owned()
    }
    fn read(value: &Value) -> Read<Option<u64>> {
        if value.as_str().is_some_and(|text| text.trim() == "auto") {
            return Ok(None);
        }
        match size(value)? {
            0 => refuse("expected 0 to be greater than 0", "for example 1GiB, or auto"),
            bytes => Ok(Some(bytes)),
        }
    }
    fn show(value: &Option<u64>) -> String {
        value.map_or_else(|| "auto".to_owned(), bytes_size::format)
    }
}

/// Syntax of a duration above zero.
pub(crate) struct Time;

impl Shape for Time {
    type Value = Duration;
    fn takes() -> String {
        "duration above 0".to_owned()
    }
    fn read(value: &Value) -> Read<Duration> {
        let time = time(value)?;
        if time.is_zero() {
            return refuse("expected 0 to be greater than 0", "the shortest time is 1ms");
        }
        Ok(time)
    }
    fn show(value: &Duration) -> String {
        duration::format(*value)
    }
}

/// Syntax of a duration, which may be zero.
pub(crate) struct TimeOrZero;

impl Shape for TimeOrZero {
    type Value = Duration;
    fn takes() -> String {
        "duration".to_owned()
    }
    fn read(value: &Value) -> Read<Duration> {
        time(value)
    }
    fn show(value: &Duration) -> String {
        duration::format(*value)
    }
}

/// Syntax of an optional duration above zero.
pub(crate) struct OptionalTime;

impl Shape for OptionalTime {
    type Value = Option<Duration>;
    fn takes() -> String {
        "duration above 0, or null".to_owned()
    }
    fn read(value: &Value) -> Read<Option<Duration>> {
        if text_of(value)?.is_empty() {
            return Ok(None);
        }
        Time::read(value).map(Some)
    }
    fn show(value: &Option<Duration>) -> String {
        value.map_or_else(|| "null".to_owned(), duration::format)
    }
}

fn whole(value: &Value, least: u64, most: u64, hint: &str) -> Read<u64> {
    let text = text_of(value)?;
    match text.trim().parse::<u64>() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        Ok(number) if number < least => {
            refuse(format!("expected {number} to be at least {least}"), hint)
        }
        Ok(number) => refuse(format!("expected {number} to be at most {most}"), hint),
        Err(_) => refuse(format!("{text:?} is not a whole number"), hint),
    }
}

fn size(value: &Value) -> Read<u64> {
    bytes_size::parse(&text_of(value)?).or_else(|error| refuse(error.to_string(), ""))
}

fn time(value: &Value) -> Read<Duration> {
    duration::parse(&text_of(value)?).or_else(|error| refuse(error.to_string(), ""))
}
