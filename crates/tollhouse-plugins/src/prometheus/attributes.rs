//! Parser for `plugin_attr.prometheus` of the bootstrap file. Invalid settings are skipped with a
//! warning, because a wrong label must not stop the gateway.

use serde_json::{Map, Value};
use tollhouse_plugin::{Plugin, Services};
use tollhouse_telemetry::apisix::{
    DEFAULT_BUCKETS_MS, DEFAULT_PREFIX, ExtraLabel, Family, FamilySettings, Settings,
};

use super::Prometheus;

/// Returns the settings from the attributes; defaults for absent or invalid ones.
pub(super) fn settings(services: &Services) -> Settings {
    let attribute = |name| services.attribute(Prometheus::NAME, name);
    let prefix = attribute("metric_prefix").and_then(Value::as_str);
    let prefix = prefix.filter(|prefix| {
        let is_usable = prefix.is_empty() || is_name(prefix);
        if !is_usable {
            warn("metric_prefix", prefix);
        }
        is_usable
    });
    let buckets: Option<Vec<f64>> = attribute("default_buckets")
        .and_then(Value::as_array)
        .map(|bounds| bounds.iter().filter_map(Value::as_f64).collect());
    let buckets = buckets.filter(|bounds| !bounds.is_empty());
    let metrics = attribute("metrics").and_then(Value::as_object);
    let families = Family::ALL.map(|family| {
        let conf = metrics.and_then(|metrics| metrics.get(family.name()));
        conf.and_then(Value::as_object).map(family_settings).unwrap_or_default()
    });
    let buckets = buckets.as_deref().unwrap_or(&DEFAULT_BUCKETS_MS);
    Settings::new(prefix.unwrap_or(DEFAULT_PREFIX), buckets, families)
}

fn family_settings(conf: &Map<String, Value>) -> FamilySettings {
    let labels = conf.get("extra_labels").and_then(Value::as_array).into_iter().flatten();
    let extra_labels = labels.filter_map(Value::as_object).filter_map(extra_label).collect();
    let expire_s = conf.get("expire").and_then(Value::as_f64).unwrap_or_default();
    // The cast saturates: negative values become 0, which never expires.
    FamilySettings { extra_labels, expire_s: expire_s as u64 }
}

/// Parses a label written as `{name: $variable}`.
fn extra_label(label: &Map<String, Value>) -> Option<ExtraLabel> {
    let (name, value) = label.iter().next()?;
    let variable = value.as_str().and_then(|value| value.strip_prefix('$'));
    match variable {
        Some(variable) if is_name(name) => {
            Some(ExtraLabel { name: name.clone(), variable: variable.to_owned() })
        }
        _ => {
            warn("extra_labels", name);
            None
        }
    }
}

/// Whether the text is valid at the start of a metric name.
fn is_name(text: &str) -> bool {
    let is_start = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    text.bytes().next().is_some_and(is_start)
        && text.bytes().all(|byte| is_start(byte) || byte.is_ascii_digit())
}

fn warn(attribute: &str, value: &str) {
    tracing::warn!(value, "plugin_attr.prometheus.{attribute} is left out: no name for a metric");
}
