//! The published calls, as fast as they are answered, with 64 and 256 under way; and the two that write,
//! one at a time.

use super::generator::{End, Load, Sample};
use super::messages;
use super::server::Registry;
use crate::bench::Plan;
use crate::bench::admin::disk_write_us;
use crate::bench::budget::{self, Figure};
use crate::bench::report::Table;
use anyhow::{Context, Result};
use serde_json::{Value, json};

/// Calls under way.
const IN_FLIGHT: [u64; 2] = [64, 256];
/// Instances that come, beat and go in a round.
const CALLS: u64 = 50_000;
const QUICK_CALLS: u64 = 5_000;
/// Calls whose answers are looked at before any is measured.
const CHECKED_CALLS: u64 = 1_000;
/// Calls of one client that waits for each answer.
const SINGLE_CALLS: u64 = 1_000;
const QUICK_SINGLE_CALLS: u64 = 200;

/// A call that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Register,
    Heartbeat,
    Deregister,
    /// Of a service of three instances, as each worker asks in the published file.
    Discover,
    /// Of a service of a hundred instances.
    DiscoverHundred,
    /// The same by somebody who knows all of them.
    DiscoverUnchanged,
}

/// In the order in which one leaves what the next one needs; the instances that fall silent are gone
/// before anything is discovered.
const CALLS_IN_ORDER: [Call; 6] = [
    Call::Register,
    Call::Heartbeat,
    Call::Deregister,
    Call::Discover,
    Call::DiscoverHundred,
    Call::DiscoverUnchanged,
];

/// What was measured at one number of instances.
pub(super) struct Measured {
    pub(super) table: Table,
    pub(super) figures: Vec<Figure>,
    /// With the smallest number of calls under way.
    pub(super) samples: Vec<(Call, Sample)>,
}

impl Call {
    /// How tables call it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Register => "register",
            Self::Heartbeat => "heartbeat",
            Self::Deregister => "deregister",
            Self::Discover => "discover",
            Self::DiscoverHundred => "discover, 100 instances",
            Self::DiscoverUnchanged => "discover, equal revision",
        }
    }

    fn method(self) -> &'static str {
        match self {
            Self::Register => "RegisterInstance",
            Self::Heartbeat => "Heartbeat",
            Self::Deregister => "DeregisterInstance",
            Self::Discover | Self::DiscoverHundred | Self::DiscoverUnchanged => "Discover",
        }
    }

    fn message(self, revision: &str) -> Value {
        match self {
            Self::Register => messages::register(),
            Self::Heartbeat => messages::heartbeat(),
            Self::Deregister => messages::deregister(),
            Self::Discover => messages::discover(),
            Self::DiscoverHundred => messages::discover_of(messages::HUNDRED, None),
            Self::DiscoverUnchanged => messages::discover_of(messages::HUNDRED, Some(revision)),
        }
    }

    /// What comes and goes is counted; the rest is asked for a time.
    fn end(self, plan: &Plan, calls: u64) -> End {
        match self {
            Self::Register | Self::Heartbeat | Self::Deregister => End::Calls(calls),
            _ => End::After(plan.round),
        }
    }

    /// The code of a good answer.
    fn code(self) -> u64 {
        const UNCHANGED: u64 = 200_001;
        if self == Self::DiscoverUnchanged { UNCHANGED } else { super::server::DONE }
    }
}

/// Measures every call with so many instances registered.
pub(super) fn run(plan: &Plan, instances: u64) -> Result<Measured> {
    let registry = Registry::start(plan, &json!({}))?;
    let empty = registry.memory_mib()?;
    let filling = fill(plan, &registry, instances)?;
    let mut figures = vec![
        Figure::free(format!("memory before the {instances} instances, MiB"), empty),
        Figure::free(format!("memory with {instances} instances, MiB"), registry.memory_mib()?),
        Figure::free(format!("registrations a second on the way to {instances}"), filling),
    ];
    let answer = registry.caller()?.discover(messages::HUNDRED)?;
    let revision = answer["service"]["revision"].as_str().context("no revision")?.to_owned();
    check(plan, &registry, &revision)?;
    let mut cells = Vec::new();
    let mut beside = Vec::new();
    for in_flight in IN_FLIGHT {
        let samples = in_rounds(plan, &registry, in_flight, &revision)?;
        cells.extend(samples.iter().map(|(call, sample)| line(in_flight, *call, sample)));
        if in_flight == IN_FLIGHT[0] {
            beside = samples;
        }
    }
    let after = format!("memory with {instances} instances, after all calls, MiB");
    figures.push(Figure::free(after, registry.memory_mib()?));
    let caption = format!(
        "{instances} instances registered; one core, one serving thread; median of {} rounds. Discover \
         opens a stream for every call, as ghz does.",
        plan.rounds
    );
    let table = Table { caption, columns: COLUMNS.to_vec(), cells };
    Ok(Measured { table, figures, samples: beside })
}

const COLUMNS: [&str; 9] = [
    "in flight",
    "call",
    "calls/s",
    "mean ms",
    "p50 ms",
    "p99 ms",
    "max ms",
    "server CPU µs/call",
    "generator CPU µs/call",
];

fn line(in_flight: u64, call: Call, sample: &Sample) -> Vec<Value> {
    let milliseconds = |us: f64| json!(us / 1e3);
    vec![
        json!(in_flight.to_string()),
        json!(call.name()),
        json!(sample.calls_per_second),
        milliseconds(sample.mean),
        milliseconds(sample.p50),
        milliseconds(sample.p99),
        milliseconds(sample.max),
        json!(sample.server_cpu),
        json!(sample.generator_cpu),
    ]
}

/// Fills the registry; registrations a second.
fn fill(plan: &Plan, registry: &Registry, instances: u64) -> Result<f64> {
    let (mut calls, mut seconds) = (0.0, 0.0);
    for (count, message) in messages::fill(instances) {
        if count == 0 {
            continue;
        }
        let load = Load::closed("RegisterInstance", message, IN_FLIGHT[0], End::Calls(count));
        let sample = load.checked().run(plan, registry)?;
        calls += sample.calls;
        seconds += sample.seconds;
    }
    Ok(calls / seconds)
}

/// Every call for a moment with its answers looked at; a wrong code is an error.
fn check(plan: &Plan, registry: &Registry, revision: &str) -> Result<()> {
    for call in CALLS_IN_ORDER {
        let end = End::Calls(CHECKED_CALLS);
        let load = Load::closed(call.method(), call.message(revision), IN_FLIGHT[0], end);
        Load { code: Some(call.code()), ..load }.run(plan, registry)?;
    }
    Ok(())
}

/// The calls in turn, round after round, so that a disturbance touches all of them alike.
fn in_rounds(
    plan: &Plan,
    registry: &Registry,
    in_flight: u64,
    revision: &str,
) -> Result<Vec<(Call, Sample)>> {
    let calls = if plan.is_quick { QUICK_CALLS } else { CALLS };
    let mut samples = CALLS_IN_ORDER.map(|call| (call, Vec::new()));
    for _ in 0..plan.rounds {
        for (call, found) in &mut samples {
            let (message, end) = (call.message(revision), call.end(plan, calls));
            found.push(Load::closed(call.method(), message, in_flight, end).run(plan, registry)?);
        }
    }
    Ok(samples.into_iter().map(|(call, found)| (call, Sample::median_of(&found))).collect())
}

/// The two calls that write, by one client that waits for each answer, beside what a forced write to the
/// same disk takes.
pub(super) fn one_at_a_time(plan: &Plan) -> Result<Vec<Figure>> {
    let registry = Registry::start(plan, &json!({}))?;
    let disk = disk_write_us(registry.data())?;
    let mut figures = vec![Figure::free("one forced write to this disk, µs", disk)];
    let calls = if plan.is_quick { QUICK_SINGLE_CALLS } else { SINGLE_CALLS };
    for call in [Call::Register, Call::Deregister] {
        let load = Load::closed(call.method(), call.message(""), 1, End::Calls(calls));
        let sample = load.checked().run(plan, &registry)?;
        let title = |what| format!("{} by one client, durable, {what}, µs", call.name());
        figures.push(Figure::judged(title("p50"), sample.p50, budget::DURABLE_CALL_US));
        figures.push(Figure::free(title("p99"), sample.p99));
    }
    Ok(figures)
}
