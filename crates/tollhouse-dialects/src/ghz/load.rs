//! Conversion of ghz's load settings to ours.

use std::time::Duration;

use super::settings::Settings;
use tollhouse_load::case::{AtEnd, Load, Occupancy, Stairs};
use tollhouse_load::error::BenchError;
use tollhouse_load::pace::{Pace, Steps};

/// Total number of requests by default, as in ghz.
const TOTAL_DEFAULT: u64 = 200;
const CONCURRENCY_DEFAULT: u64 = 50;
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(20);
/// Value of `total` in ghz's report if a time ends the run.
pub(super) const TOTAL_ENDLESS: u32 = i32::MAX as u32;
/// Timeout for a `timeout` of 0, long enough to be unlimited in a load test.
const TIMEOUT_NONE: Duration = Duration::from_secs(86_400);
/// Number of concurrent requests with `async`, where requests do not wait for each other. A limit
/// is needed; this is a hundred times what HTTP/2 servers usually allow on a connection.
const ASYNC_LANES: u64 = 10_000;
/// Largest number of concurrent requests on a connection; no server accepts more.
const LANES_MAX: u64 = 65_536;
/// Duration of a schedule without an end.
const ENDLESS: Duration = Duration::from_secs(86_400);

/// Values of `load-schedule` and `concurrency-schedule`.
const SCHEDULES: [&str; 3] = ["const", "step", "line"];

/// Load, and the values of it that ghz repeats in its report.
pub(super) struct LoadPlan {
    pub(super) load: Load,
    pub(super) concurrency: u64,
    pub(super) connections: u64,
    pub(super) total: u32,
    pub(super) duration: Duration,
    pub(super) timeout: Duration,
    pub(super) load_schedule: &'static str,
    pub(super) concurrency_schedule: &'static str,
}

/// Parses the load settings.
pub(super) fn read(settings: &Settings, notes: &mut Vec<String>) -> Result<LoadPlan, BenchError> {
    let concurrency = settings.count("concurrency")?.filter(|count| *count > 0);
    let concurrency = concurrency.unwrap_or(CONCURRENCY_DEFAULT);
    let connections = settings.count("connections")?.unwrap_or(1).max(1);
    if connections > concurrency {
        let why = format!(
            "{connections} is more than the concurrency of {concurrency}; each connection needs a \
             request of its own"
        );
        return Err(settings.error("connections", why));
    }
    let timeout = settings.time("timeout")?.unwrap_or(TIMEOUT_DEFAULT);
    // As in ghz, `max-duration` and `duration` both override the total.
    let duration = match settings.time_above_zero("max-duration")? {
        Some(duration) => Some(duration),
        None => settings.time_above_zero("duration")?,
    };
    let total = settings.count("total")?;
    let (load_schedule, pace) = pace(settings, notes)?;
    let (concurrency_schedule, lanes, lanes_max) =
        lanes(settings, concurrency, duration, &pace, notes)?;
    let mut load = Load {
        connections: usize::try_from(connections).unwrap_or(usize::MAX),
        streams: usize::try_from(lanes_max.div_ceil(connections)).unwrap_or(usize::MAX),
        pace,
        duration,
        timeout: if timeout.is_zero() { TIMEOUT_NONE } else { timeout },
        at_end: at_end(settings)?,
        // ghz never gives up; failures are counted in its report.
        persistent: true,
        ..Load::default()
    };
    load.lanes = match lanes {
        Occupancy::All if !lanes_max.is_multiple_of(connections) => {
            Occupancy::First(usize::try_from(lanes_max).unwrap_or(usize::MAX))
        }
        lanes => lanes,
    };
    load.workers = settings.count("cpus")?.filter(|count| *count > 0).map(|count| count as usize);
    load.requests = match (duration, total) {
        (Some(_), _) => None,
        (None, Some(0)) if !settings.has_file() => {
            return Err(settings.error("total", "0 has no end; give a duration such as -z 10s"));
        }
        (None, total) => Some(total.filter(|total| *total > 0).unwrap_or(TOTAL_DEFAULT)),
    };
    Ok(LoadPlan {
        total: load
            .requests
            .map_or(TOTAL_ENDLESS, |total| u32::try_from(total).unwrap_or(u32::MAX)),
        load,
        concurrency,
        connections,
        duration: duration.unwrap_or_default(),
        timeout,
        load_schedule,
        concurrency_schedule,
    })
}

/// Returns the treatment of unfinished requests at the end. `close` aborts them, and they are
/// counted separately. ghz does not count them with `ignore` either.
fn at_end(settings: &Settings) -> Result<AtEnd, BenchError> {
    // ghz takes an unknown word in its file for `close`; here it is refused.
    let word = settings.word("duration-stop", &["close", "wait", "ignore"])?;
    Ok(if word == Some("wait") { AtEnd::Wait } else { AtEnd::Abandon })
}

fn pace(settings: &Settings, notes: &mut Vec<String>) -> Result<(&'static str, Pace), BenchError> {
    let schedule = settings.word("load-schedule", &SCHEDULES)?.unwrap_or("const");
    let rate = settings.count("rps")?.unwrap_or(0);
    if schedule == "const" {
        return Ok((schedule, if rate == 0 { Pace::Closed } else { Pace::Rate(rate as f64) }));
    }
    let start = settings.count("load-start")?.unwrap_or(0);
    let end = settings.count("load-end")?.unwrap_or(0);
    let step = settings.signed("load-step")?.unwrap_or(0);
    let every = stair_time(settings, schedule, "load-step-duration")?;
    let until = settings.time_above_zero("load-max-duration")?;
    if start == 0 {
        return Err(settings.error("load-start", "must be above 0 for a schedule"));
    }
    if step == 0 {
        return Err(settings.error("load-step", "must be above or below 0 for a schedule"));
    }
    if start == end {
        return Err(settings.error("load-end", format!("is {end}, as the start is")));
    }
    let stairs = |time: Duration| i64::try_from(time.as_nanos() / every.as_nanos()).unwrap_or(0);
    let start = i64::try_from(start).unwrap_or(i64::MAX);
    let reached = |time| start.saturating_add(step.saturating_mul(stairs(time)));
    let end = match i64::try_from(end).unwrap_or(0) {
        0 => reached(until.unwrap_or(ENDLESS)),
        end => end,
    };
    // A rate cannot fall to 0, so the last positive one stays.
    let end = if step < 0 { end.max(start - (start - 1) / -step * -step) } else { end };
    if (end - start).signum() != step.signum() && end != start {
        let why = format!("{step} leads away from load-end, from {start} to {end}");
        return Err(settings.error("load-step", why));
    }
    if let Some(until) = until
        && (reached(until) - end).signum() == -step.signum()
    {
        notes.push(format!(
            "load-max-duration ends the schedule at {} requests/s in ghz, which then jumps to {end}; \
             here the steps go on to {end}",
            reached(until)
        ));
    }
    let steps = Steps { start: start as f64, step: step as f64, end: end as f64, every };
    Ok((schedule, Pace::Steps(steps)))
}

/// Returns the duration of one step. In ghz, a line is a series of steps of one second.
fn stair_time(
    settings: &Settings,
    schedule: &str,
    key: &'static str,
) -> Result<Duration, BenchError> {
    if schedule == "line" {
        return Ok(Duration::from_secs(1));
    }
    let time = settings.time_above_zero(key)?;
    time.ok_or_else(|| settings.error(key, "must be above 0 for a schedule of steps"))
}

/// Returns the schedule's name, the concurrency over time, and its largest value.
fn lanes(
    settings: &Settings,
    concurrency: u64,
    duration: Option<Duration>,
    pace: &Pace,
    notes: &mut Vec<String>,
) -> Result<(&'static str, Occupancy, u64), BenchError> {
    let schedule = settings.word("concurrency-schedule", &SCHEDULES)?.unwrap_or("const");
    if schedule == "const" {
        let mut lanes = concurrency;
        if settings.toggle("async")? {
            lanes = lanes.max(ASYNC_LANES);
            notes.push(format!("async: at most {lanes} requests are under way at the same time"));
            if !pace.is_open() {
                notes.push("async without rps sends as fast as answers to those arrive".into());
            }
        }
        return Ok((schedule, Occupancy::All, within(settings, "concurrency", lanes)?));
    }
    // ghz has different defaults for files and flags.
    let start_default = u64::from(settings.has_file());
    let start = settings.count("concurrency-start")?.unwrap_or(start_default);
    let end = settings.count("concurrency-end")?.unwrap_or(0);
    let step_default = i64::from(!settings.has_file());
    let step = settings.signed("concurrency-step")?.unwrap_or(step_default);
    let every = stair_time(settings, schedule, "concurrency-step-duration")?;
    let until = settings.time_above_zero("concurrency-max-duration")?;
    if start == end {
        return Err(settings.error("concurrency-end", format!("is {end}, as the start is")));
    }
    let narrow = |lanes: u64| usize::try_from(lanes).unwrap_or(usize::MAX);
    let stairs =
        Stairs { start: narrow(start), step, end: (end > 0).then(|| narrow(end)), every, until };
    let occupancy = Occupancy::Stairs(stairs);
    if let Some(why) = occupancy.problem() {
        return Err(settings.error("concurrency-schedule", why));
    }
    let longest = until.or(duration).unwrap_or(ENDLESS);
    let most = occupancy.lanes_max(longest.min(ENDLESS)) as u64;
    Ok((schedule, occupancy, within(settings, "concurrency-schedule", most.max(1))?))
}

fn within(settings: &Settings, key: &str, lanes: u64) -> Result<u64, BenchError> {
    if lanes > LANES_MAX {
        let why = format!(
            "comes to {lanes} requests at the same time, more than {LANES_MAX}; set an end or a time"
        );
        return Err(settings.error(key, why));
    }
    Ok(lanes)
}
