//! Parser of slow start, which has two forms: `warm_up_conf` as in APISIX, and the short form
//! `warmup`, which may also be a plain duration and may be given in `discovery_args`.
//!
//! The curve of the weights is implemented by the balancer, not here.

use std::time::Duration;

use serde_json::Value;
use tollhouse_stdx::duration;

use super::{Policy, WarmUp};
use crate::limits::SECONDS_MAX;
use crate::reader::{Fields, Reader, Unknown};

/// Field with the settings in APISIX's form, which takes precedence over the short form.
const CONF: &str = "warm_up_conf";

/// Field with the settings in the short form.
const SHORT: &str = "warmup";

/// Field that may contain `SHORT` as well.
const ARGUMENTS: &str = "discovery_args";

const CONF_FIELDS: [&str; 5] = [
    "slow_start_time_seconds",
    "min_weight_percent",
    "interval",
    "aggression",
    "startup_grace_period_seconds",
];

const SHORT_FIELDS: [&str; 3] = ["duration", "minimum_weight_percent", "aggression"];

/// Default weight of a fresh node, in percent of its full weight.
const MINIMUM_WEIGHT_PERCENT_DEFAULT: u8 = 10;

/// Default exponent of the curve: a linear rise.
const AGGRESSION_DEFAULT: f64 = 1.0;

/// Minimum exponent of the curve, by APISIX's schema.
const AGGRESSION_MIN: f64 = 0.01;

/// Maximum of the default interval between steps of the weights.
const INTERVAL_DEFAULT: Duration = Duration::from_secs(1);

/// Minimum of the default interval between steps, because each step rebuilds the balancing table.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Default number of steps in a short window.
const STEPS: u32 = 50;

/// A place where slow start can be configured.
struct WarmUpField<'v> {
    within: Option<&'static str>,
    name: &'static str,
    value: Option<&'v Value>,
    read: fn(&mut Reader<'_>, &Value) -> Option<WarmUp>,
}

impl WarmUpField<'_> {
    fn read(&self, reader: &mut Reader<'_>, fields: &Fields, value: &Value) -> Option<WarmUp> {
        let at = |reader: &mut Reader<'_>| {
            reader.in_field(self.name, |reader| {
                check_policy(reader, fields, self.name);
                (self.read)(reader, value)
            })
        };
        match self.within {
            Some(within) => reader.in_field(within, at),
            None => at(reader),
        }
    }
}

pub(crate) fn read(reader: &mut Reader<'_>, fields: &Fields) -> Option<WarmUp> {
    let source = super::discovery::source_of(fields).filter(|source| source.takes(SHORT));
    let arguments = source.and_then(|_| fields.get(ARGUMENTS));
    let short_in = arguments.and_then(|arguments| arguments.get(SHORT));
    let places = [
        WarmUpField { within: None, name: CONF, value: fields.get(CONF), read: read_conf },
        WarmUpField { within: None, name: SHORT, value: fields.get(SHORT), read: read_short },
        WarmUpField { within: Some(ARGUMENTS), name: SHORT, value: short_in, read: read_short },
    ];
    let mut said = places.iter().filter_map(|place| Some((place, place.value?)));
    let (first, value) = said.next()?;
    let warm_up = first.read(reader, fields, value);
    if said.next().is_some() {
        let hint = format!("keep one of \"{CONF}\" and \"{SHORT}\"");
        reader.error_unquoted("slow start is configured twice", &hint);
    }
    warm_up
}

fn check_policy(reader: &mut Reader<'_>, fields: &Fields, name: &str) {
    let written = fields.get("type").and_then(Value::as_str);
    let policy = written.map_or(Some(Policy::DEFAULT), Policy::from_name);
    if !policy.is_some_and(Policy::has_slow_start) {
        let reason = format!("{name} is only supported by the roundrobin upstream type");
        let supporting = Policy::ALL.iter().filter(|policy| policy.has_slow_start());
        let names: Vec<&str> = supporting.map(|policy| policy.name()).collect();
        reader.error_unquoted(reason, &format!("here it works with {}", names.join(" and ")));
    }
}

fn read_conf(reader: &mut Reader<'_>, value: &Value) -> Option<WarmUp> {
    let fields = reader.object(value, &CONF_FIELDS, Unknown::Refused)?;
    let window = reader.required(fields, "slow_start_time_seconds", whole_seconds);
    let minimum = reader.required(fields, "min_weight_percent", percent);
    let interval = reader.optional(fields, "interval", whole_seconds).unwrap_or(INTERVAL_DEFAULT);
    let aggression = reader.optional(fields, "aggression", aggression);
    let startup_grace = reader
        .optional(fields, "startup_grace_period_seconds", seconds_or_none)
        .unwrap_or_default();
    let window = window?;
    if interval > window {
        let reason =
            "warm_up_conf.interval can't be greater than warm_up_conf.slow_start_time_seconds";
        reader.error_unquoted(reason, "");
        return None;
    }
    Some(WarmUp {
        window,
        minimum_weight_percent: minimum?,
        aggression: aggression.unwrap_or(AGGRESSION_DEFAULT),
        interval,
        startup_grace,
    })
}

/// Reads `30`, `"30s"` or `{duration: 30s, minimum_weight_percent: 10, aggression: 1}`.
fn read_short(reader: &mut Reader<'_>, value: &Value) -> Option<WarmUp> {
    let Value::Object(fields) = value else { return Some(plain(read_window(reader, value)?)) };
    reader.object(value, &SHORT_FIELDS, Unknown::Refused);
    let window = reader.required(fields, "duration", read_window);
    let minimum = reader.optional(fields, "minimum_weight_percent", percent);
    let aggression = reader.optional(fields, "aggression", aggression);
    let plain = plain(window?);
    Some(WarmUp {
        minimum_weight_percent: minimum.unwrap_or(plain.minimum_weight_percent),
        aggression: aggression.unwrap_or(plain.aggression),
        ..plain
    })
}

fn plain(window: Duration) -> WarmUp {
    WarmUp {
        window,
        minimum_weight_percent: MINIMUM_WEIGHT_PERCENT_DEFAULT,
        aggression: AGGRESSION_DEFAULT,
        interval: (window / STEPS).clamp(INTERVAL_MIN, INTERVAL_DEFAULT),
        startup_grace: Duration::ZERO,
    }
}

/// Reads seconds as a number, or a duration such as `1m30s`.
fn read_window(reader: &mut Reader<'_>, value: &Value) -> Option<Duration> {
    let Value::String(text) = value else { return reader.seconds_above_zero(value) };
    let reason = match duration::parse(text) {
        Ok(time) if time.is_zero() => "expected 0 to be greater than 0".to_owned(),
        Ok(time) if time.as_secs_f64() > SECONDS_MAX => {
            format!("expected {} to be at most {SECONDS_MAX}", time.as_secs())
        }
        Ok(time) => return Some(time),
        Err(error) => error.to_string(),
    };
    reader.error(value, reason, "write seconds, or a duration such as 30s");
    None
}

fn whole_seconds(reader: &mut Reader<'_>, value: &Value) -> Option<Duration> {
    let seconds = reader.integer(value, 1..=SECONDS_MAX as i64)?;
    Some(Duration::from_secs(seconds.unsigned_abs()))
}

fn seconds_or_none(reader: &mut Reader<'_>, value: &Value) -> Option<Duration> {
    let seconds = reader.integer(value, 0..=SECONDS_MAX as i64)?;
    Some(Duration::from_secs(seconds.unsigned_abs()))
}

fn percent(reader: &mut Reader<'_>, value: &Value) -> Option<u8> {
    reader.integer(value, 1..=100)?.try_into().ok()
}

fn aggression(reader: &mut Reader<'_>, value: &Value) -> Option<f64> {
    let Some(number) = value.as_f64() else {
        reader.wrong_type(value, "number");
        return None;
    };
    if number < AGGRESSION_MIN {
        let reason = format!("expected {number} to be at least {AGGRESSION_MIN}");
        reader.error(value, reason, "1 rises in a straight line, more rises faster at first");
        return None;
    }
    Some(number)
}
