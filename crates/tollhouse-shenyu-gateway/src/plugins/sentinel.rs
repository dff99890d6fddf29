//! Plugin `sentinel`: limits the rate or concurrency of calls, and opens the circuit when too many
//! fail or are slow.

use crate::plugin::prelude::*;
use crate::shared::breaker::{
    Absent, BreakerRule, Circuit, Failures, Fallback, Flow, Refusals, Trips, WINDOW_MAX, Window,
    fraction, positive,
};
use crate::shared::breaker_gate::{BreakerGate, Labels};

/// Names under which refusals are counted.
const LABELS: Labels = Labels { limit: "sentinel limit", open: "sentinel open" };

#[derive(Debug)]
pub(crate) struct Sentinel(BreakerGate);

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SentinelHandle {
    #[serde(deserialize_with = "lenient::integer")]
    flow_rule_enable: Option<i64>,
    #[serde(deserialize_with = "lenient::integer")]
    flow_rule_grade: Option<i64>,
    #[serde(deserialize_with = "lenient::text")]
    flow_rule_count: Option<String>,
    #[serde(deserialize_with = "lenient::integer")]
    flow_rule_control_behavior: Option<i64>,
    #[serde(deserialize_with = "lenient::integer")]
    flow_rule_max_queueing_time_ms: Option<i64>,
    #[serde(deserialize_with = "lenient::integer")]
    degrade_rule_enable: Option<i64>,
    #[serde(deserialize_with = "lenient::integer")]
    degrade_rule_grade: Option<i64>,
    #[serde(deserialize_with = "lenient::text")]
    degrade_rule_count: Option<String>,
    #[serde(deserialize_with = "lenient::integer")]
    degrade_rule_time_window: Option<i64>,
    #[serde(deserialize_with = "lenient::integer")]
    degrade_rule_min_request_amount: Option<i64>,
    #[serde(deserialize_with = "lenient::text")]
    degrade_rule_slow_ratio_threshold: Option<String>,
    #[serde(deserialize_with = "lenient::integer")]
    degrade_rule_stat_intervals: Option<i64>,
    fallback_uri: Absent,
}

impl ShenyuPlugin for Sentinel {
    const ROW: Row = Row::protecting("sentinel", 140).with(Seed::new("10", "FaultTolerance"));

    fn compile(place: &Place<'_>, resources: &mut Resources<'_>) -> CompileResult<Self> {
        let rule = read(place.handle())?;
        Ok(Self(BreakerGate::new(place, rule, LABELS, resources)).into())
    }

    fn check_handle(handle: &str) -> Result<(), BuildError> {
        Ok(read(Some(handle)).map(drop)?)
    }

    async fn act<'o>(self: &Arc<Self>, run: &mut Run<'_, '_>) -> Verdict<'o> {
        self.0.admit(run).await
    }
}

/// Reads a rule's handle. Warm-up is not supported: the full rate applies at once.
pub(crate) fn read(handle: Option<&str>) -> Result<BreakerRule, HandleError> {
    let handle: SentinelHandle = handle::read(handle)?;
    let limits = handle.flow_rule_enable != Some(0);
    // Depending on its version, the admin sends numbers or texts. An unreadable one gets the
    // default, as in ShenYu.
    let is_zero = handle.flow_rule_count.as_deref().is_some_and(|it| it.trim().parse() == Ok(0.0));
    let limit = if is_zero { 0 } else { whole(fraction(handle.flow_rule_count.as_deref(), 1.0)) };
    let by_calls = handle.flow_rule_grade != Some(0);
    let queues = matches!(handle.flow_rule_control_behavior, Some(2 | 3));
    let count = fraction(handle.degrade_rule_count.as_deref(), 1.0);
    let slow = fraction(handle.degrade_rule_slow_ratio_threshold.as_deref(), 0.5).min(1.0);
    let trips = match handle.degrade_rule_grade {
        Some(0) => Trips::SlowRatioAbove { slower_than_ms: whole(count), ratio: slow },
        Some(2) => Trips::FailureCountAbove(count.floor() as u64),
        _ => Trips::FailureRatioAbove(count.min(1.0)),
    };
    let circuit = Circuit {
        window: Window::Seconds(positive(handle.degrade_rule_stat_intervals, 1).min(WINDOW_MAX)),
        calls_min: positive(handle.degrade_rule_min_request_amount, 5),
        trips,
        open_ms: positive(handle.degrade_rule_time_window, 1).saturating_mul(1_000),
        probes: 1,
    };
    Ok(BreakerRule {
        circuit: (handle.degrade_rule_enable != Some(0)).then_some(circuit),
        flow: (limits && by_calls).then(|| Flow {
            calls: limit,
            period_ms: 1_000,
            wait_max_ms: if queues {
                positive(handle.flow_rule_max_queueing_time_ms, 500)
            } else {
                0
            },
            is_paced: queues,
        }),
        open_calls_max: (limits && !by_calls).then_some(limit),
        time_max_ms: None,
        failures: Failures::AllButSuccess,
        refusals: Refusals { flow: Answer::TooManyRequests, circuit: Answer::BreakerOpen },
        fallback: Fallback::read(handle.fallback_uri.or("/fallback/sentinel")),
        // Without a fallback the proxy's own answer reaches the client.
        on_failure: None,
    })
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
fn whole(number: f64) -> u64 {
    number.ceil() as u64
}
