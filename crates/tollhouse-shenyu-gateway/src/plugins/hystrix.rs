//! Plugin `hystrix`: opens the circuit when too many calls fail, and limits concurrent calls.

use crate::plugin::prelude::*;
use crate::shared::breaker::{
    Absent, BreakerRule, Circuit, FAILED_CALL, Failures, Fallback, Refusals, Trips, Window,
    positive, ratio,
};
use crate::shared::breaker_gate::{BreakerGate, Labels};

/// Length in seconds of the window over which calls are counted.
const WINDOW_S: u64 = 10;

/// Names under which refusals are counted.
const LABELS: Labels = Labels { limit: "hystrix open", open: "hystrix open" };

#[derive(Debug)]
pub(crate) struct Hystrix(BreakerGate);

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct HystrixHandle {
    #[serde(deserialize_with = "lenient::integer")]
    max_concurrent_requests: Option<i64>,
    #[serde(deserialize_with = "lenient::integer")]
    error_threshold_percentage: Option<i64>,
    #[serde(deserialize_with = "lenient::integer")]
    request_volume_threshold: Option<i64>,
    #[serde(deserialize_with = "lenient::integer")]
    sleep_window_in_milliseconds: Option<i64>,
    #[serde(deserialize_with = "lenient::integer")]
    timeout: Option<i64>,
    /// Location of the fallback. If absent, ShenYu's fallback page applies; `null` means no
    /// fallback.
    call_back_uri: Absent,
}

impl ShenyuPlugin for Hystrix {
    const ROW: Row = Row::protecting("hystrix", 130).with(Seed::new("9", "FaultTolerance"));

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
    let handle: HystrixHandle = handle::read(handle)?;
    let percent = positive(handle.error_threshold_percentage, 50).min(100);
    let refusal = Answer::BreakerOpen;
    Ok(BreakerRule {
        circuit: Some(Circuit {
            window: Window::Seconds(WINDOW_S),
            calls_min: positive(handle.request_volume_threshold, 20),
            trips: Trips::FailureRatio(ratio(percent, 100)),
            open_ms: positive(handle.sleep_window_in_milliseconds, 5_000),
            probes: 1,
        }),
        flow: None,
        open_calls_max: Some(positive(handle.max_concurrent_requests, 100)),
        time_max_ms: Some(positive(handle.timeout, 3_000)),
        failures: Failures::Errors,
        refusals: Refusals { flow: refusal, circuit: refusal },
        fallback: Fallback::read(handle.call_back_uri.or("/fallback/hystrix")),
        on_failure: Some(FAILED_CALL),
    })
}
