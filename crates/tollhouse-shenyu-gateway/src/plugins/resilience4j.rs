//! Plugin `resilience4j`: limits the rate of calls, and opens the circuit when too many fail.

use crate::plugin::prelude::*;
use crate::shared::breaker::{
    Absent, BreakerRule, Circuit, FAILED_CALL, Failures, Fallback, Flow, Refusals, Trips,
    WINDOW_MAX, Window, fraction, positive,
};
use crate::shared::breaker_gate::{BreakerGate, Labels};

/// Names under which refusals are counted.
const LABELS: Labels = Labels { limit: "resilience4j limit", open: "resilience4j open" };

#[derive(Debug)]
pub(crate) struct Resilience4j(BreakerGate);

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Resilience4jHandle {
    #[serde(deserialize_with = "lenient::integer")]
    timeout_duration_rate: Option<i64>,
    #[serde(deserialize_with = "lenient::integer")]
    limit_refresh_period: Option<i64>,
    #[serde(deserialize_with = "lenient::integer")]
    limit_for_period: Option<i64>,
    #[serde(deserialize_with = "lenient::integer")]
    circuit_enable: Option<i64>,
    #[serde(deserialize_with = "lenient::integer")]
    timeout_duration: Option<i64>,
    fallback_uri: Absent,
    #[serde(deserialize_with = "lenient::integer")]
    sliding_window_size: Option<i64>,
    #[serde(deserialize_with = "lenient::integer")]
    sliding_window_type: Option<i64>,
    #[serde(deserialize_with = "lenient::integer")]
    minimum_number_of_calls: Option<i64>,
    #[serde(deserialize_with = "lenient::integer")]
    wait_interval_function_in_open_state: Option<i64>,
    #[serde(deserialize_with = "lenient::integer")]
    permitted_number_of_calls_in_half_open_state: Option<i64>,
    #[serde(deserialize_with = "lenient::text")]
    failure_rate_threshold: Option<String>,
}

impl ShenyuPlugin for Resilience4j {
    const ROW: Row = Row::protecting("resilience4j", 310)
        // Newer rows of ShenYu place it after the proxies, but it must decide whether a call is
        // made.
        .at(Stage::BeforeProxiesAtLatest)
        .with(Seed::new("12", "FaultTolerance"));

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

/// Reads a rule's handle.
pub(crate) fn read(handle: Option<&str>) -> Result<BreakerRule, HandleError> {
    let handle: Resilience4jHandle = handle::read(handle)?;
    let size = positive(handle.sliding_window_size, 100).min(WINDOW_MAX);
    let threshold = fraction(handle.failure_rate_threshold.as_deref(), 50.0).min(100.0);
    let circuit = Circuit {
        window: match handle.sliding_window_type {
            Some(1) => Window::Seconds(size),
            _ => Window::Calls(size),
        },
        calls_min: match handle.sliding_window_type {
            Some(1) => positive(handle.minimum_number_of_calls, 100),
            // A smaller window could never contain that many calls.
            _ => positive(handle.minimum_number_of_calls, 100).min(size),
        },
        trips: Trips::FailureRatio(threshold / 100.0),
        open_ms: positive(handle.wait_interval_function_in_open_state, 60_000),
        probes: positive(handle.permitted_number_of_calls_in_half_open_state, 10),
    };
    let breaks = handle.circuit_enable == Some(1);
    Ok(BreakerRule {
        circuit: breaks.then_some(circuit),
        flow: Some(Flow {
            calls: positive(handle.limit_for_period, 50),
            period_ms: positive(handle.limit_refresh_period, 500),
            wait_max_ms: positive(handle.timeout_duration_rate, 5_000),
            is_paced: false,
        }),
        open_calls_max: None,
        time_max_ms: breaks.then(|| positive(handle.timeout_duration, 30_000)),
        failures: Failures::AllButSuccess,
        refusals: Refusals { flow: Answer::TooManyRequests, circuit: Answer::BreakerOpen },
        // A rule that only limits the rate has no fallback.
        fallback: match handle.fallback_uri.or("/fallback/resilience4j") {
            _ if !breaks => Fallback::None,
            "0" => Fallback::None,
            uri => Fallback::read(uri),
        },
        on_failure: breaks.then_some(FAILED_CALL),
    })
}
