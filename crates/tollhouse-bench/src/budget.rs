//! Budgets of the figures. The report marks every figure with a budget as met or missed.
//!
//! The budgets are copied from the design, where changes must be made first.

use serde_json::{Value, json};

/// Budget of a figure: the limit that it must meet, and the stretch target that it should meet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    pub(crate) limit: f64,
    pub(crate) stretch: f64,
    bound: Bound,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bound {
    AtMost,
    AtLeast,
}

impl Budget {
    /// Creates an upper limit, for costs.
    const fn at_most(limit: f64, stretch: f64) -> Self {
        Self { limit, stretch, bound: Bound::AtMost }
    }

    /// Creates a lower limit, for throughput.
    const fn at_least(limit: f64, stretch: f64) -> Self {
        Self { limit, stretch, bound: Bound::AtLeast }
    }

    fn allows(self, value: f64, line: f64) -> bool {
        match self.bound {
            Bound::AtMost => value <= line,
            Bound::AtLeast => value >= line,
        }
    }

    /// Returns the sign printed before the limit.
    fn sign(self) -> &'static str {
        match self.bound {
            Bound::AtMost => "≤",
            Bound::AtLeast => "≥",
        }
    }
}

pub(crate) const CPU_AGAINST_NGINX: Budget = Budget::at_most(0.77, 0.70);
pub(crate) const CPU_AGAINST_HAPROXY: Budget = Budget::at_most(0.68, 0.62);
pub(crate) const CPU_AGAINST_HAPROXY_TCP: Budget = Budget::at_most(1.00, 0.93);
pub(crate) const CPU_AT_MANY_ROUTES: Budget = Budget::at_most(1.03, 1.00);
pub(crate) const P99_UNDER_CHURN: Budget = Budget::at_most(1.2, 1.05);
pub(crate) const IDLE_BYTES_PER_CONNECTION: Budget = Budget::at_most(4096.0, 2048.0);
pub(crate) const START_MS: Budget = Budget::at_most(1000.0, 200.0);
pub(crate) const BOMB_MEMORY: Budget = Budget::at_most(3.0, 1.5);
pub(crate) const BOMB_WAIT_MS: Budget = Budget::at_most(5.0, 1.0);
/// Latency of a well-behaved client during an attack, relative to its latency without one.
pub(crate) const ABUSE_P99: Budget = Budget::at_most(2.0, 1.2);
pub(crate) const INSTRUCTIONS_PER_REQUEST: Budget = Budget::at_most(12_000.0, 9_000.0);
pub(crate) const INSTRUCTIONS_WITH_PLUGINS: Budget = Budget::at_most(18_000.0, 13_000.0);
/// Instructions of a request while one in a hundred is recorded as a trace, relative to one without
/// tracing.
pub(crate) const TRACED_ONE_PERCENT: Budget = Budget::at_most(1.02, 1.01);
/// The same while all are recorded, without the export, which other threads do.
pub(crate) const TRACED_ALL: Budget = Budget::at_most(1.15, 1.10);
/// Instructions of a request with three lines of Lua, relative to a plain one.
pub(crate) const LUA_OVER_PLAIN: Budget = Budget::at_most(1.25, 1.15);
/// CPU time of a request through a selector and rule of ShenYu's `divide`, relative to a plain
/// route.
pub(crate) const SHENYU_OVER_ROUTE: Budget = Budget::at_most(1.05, 1.0);
/// CPU time of a request with 10,000 ShenYu selectors and rules, relative to one of each.
pub(crate) const SHENYU_AT_MANY_RULES: Budget = Budget::at_most(1.05, 1.0);
pub(crate) const ADMIN_WRITES_PER_SECOND: Budget = Budget::at_least(2_000.0, 4_000.0);
/// Number of services per second that register at ShenYu's admin. Each registration is durable
/// before its response.
pub(crate) const REGISTRATIONS_PER_SECOND: Budget = Budget::at_least(1_000.0, 4_000.0);
/// Time from a call to ShenYu's admin until every core serves the change.
pub(crate) const SHENYU_VISIBLE_MS: Budget = Budget::at_most(50.0, 10.0);
pub(crate) const GENERATOR_CPU_AGAINST_WRK: Budget = Budget::at_most(1.0, 0.8);
pub(crate) const GENERATOR_CPU_AGAINST_H2LOAD: Budget = Budget::at_most(1.0, 0.8);
pub(crate) const GENERATOR_CPU_AGAINST_GHZ: Budget = Budget::at_most(0.5, 0.25);
/// CPU time of a request with HTTP/2 to the client and HTTP/1.1 to the node, relative to the
/// cheaper of nginx and HAProxy.
pub(crate) const HTTP2_CPU: Budget = Budget::at_most(0.85, 0.7);
pub(crate) const HTTP2_TLS_CPU: Budget = Budget::at_most(0.9, 0.75);
pub(crate) const HTTPS_CPU: Budget = Budget::at_most(0.95, 0.85);
pub(crate) const HANDSHAKE_CPU: Budget = Budget::at_most(1.0, 0.85);
pub(crate) const GRPC_CPU: Budget = Budget::at_most(0.8, 0.6);
/// CPU time of the TCP relay per MiB and per connection, relative to HAProxy.
pub(crate) const RELAY_CPU: Budget = Budget::at_most(1.0, 0.8);
pub(crate) const TLS_REST_BYTES: Budget = Budget::at_most(24_576.0, 12_288.0);
pub(crate) const HTTP2_REST_BYTES: Budget = Budget::at_most(16_384.0, 8_192.0);
pub(crate) const WRITE_VISIBLE_MS: Budget = Budget::at_most(20.0, 5.0);
/// Time of a single call that is durable before its answer, in microseconds, including the flush to
/// disk.
pub(crate) const DURABLE_CALL_US: Budget = Budget::at_most(2_000.0, 1_000.0);
pub(crate) const CHANGE_SEEN_MS: Budget = Budget::at_most(10.0, 1.0);
/// CPU use of the registry for 100,000 instances with a heartbeat every five seconds, in cores.
pub(crate) const STORM_CORES: Budget = Budget::at_most(1.0, 0.3);
pub(crate) const STORM_MIB: Budget = Budget::at_most(300.0, 300.0);

/// CPU time of Polaris, with MySQL and Redis, for one call, in microseconds. Measured once, on the
/// machine described in the design.
pub(crate) const POLARIS_REGISTER_US: f64 = 361.0;
pub(crate) const POLARIS_DEREGISTER_US: f64 = 410.0;
pub(crate) const POLARIS_HEARTBEAT_US: f64 = 93.0;
pub(crate) const SHARED_CALL_CPU: Budget = Budget::at_most(0.3, 0.2);
pub(crate) const SHARED_CALL_RATE: Budget = Budget::at_least(2.0, 4.0);
pub(crate) const SHARED_BEAT_CPU: Budget = Budget::at_most(0.3, 0.2);
pub(crate) const SHARED_REGISTRATION_SEEN_MS: Budget = Budget::at_most(100.0, 20.0);
pub(crate) const SHARED_ROUTE_SEEN_MS: Budget = Budget::at_most(50.0, 10.0);
/// Time until a change is refused while its store is down, in milliseconds.
pub(crate) const SHARED_REFUSAL_MS: Budget = Budget::at_most(2_000.0, 500.0);
pub(crate) const SHARED_RESYNC_P99: Budget = Budget::at_most(1.2, 1.0);
pub(crate) const NOTHING_LOST: Budget = Budget::at_most(0.0, 0.0);

/// Measured value, with its budget if it has one.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    pub(crate) what: String,
    pub(crate) value: f64,
    pub(crate) budget: Option<Budget>,
}

impl Figure {
    /// Creates a figure without a budget.
    pub(crate) fn free(what: impl Into<String>, value: f64) -> Self {
        Self { what: what.into(), value, budget: None }
    }

    /// Creates a figure with a budget.
    pub(crate) fn with_budget(what: impl Into<String>, value: f64, budget: Budget) -> Self {
        Self { what: what.into(), value, budget: Some(budget) }
    }

    /// Returns the word for the report: whether the figure meets its target, its limit, or neither.
    pub(crate) fn verdict(&self) -> &'static str {
        match self.budget {
            None => "",
            Some(budget) if budget.allows(self.value, budget.stretch) => "met (stretch)",
            Some(budget) if budget.allows(self.value, budget.limit) => "met",
            Some(_) => "missed",
        }
    }

    /// Serializes the figure for the result file.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "what": self.what,
            "value": self.value,
            "budget": self.budget.map(|budget| budget.limit),
            "stretch": self.budget.map(|budget| budget.stretch),
            "bound": self.budget.map(Budget::sign),
            "verdict": self.verdict(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_follow_the_budget() {
        let cases =
            [(0.70, "met (stretch)"), (0.75, "met"), (0.78, "missed"), (f64::NAN, "missed")];
        for (value, expected) in cases {
            assert_eq!(Figure::with_budget("a", value, CPU_AGAINST_NGINX).verdict(), expected);
        }
        assert_eq!(Figure::free("a", 1.0).verdict(), "");
    }

    #[test]
    fn more_is_better_where_the_budget_says_so() {
        let cases = [(4_500.0, "met (stretch)"), (2_000.0, "met"), (1_999.0, "missed")];
        for (value, expected) in cases {
            let figure = Figure::with_budget("a", value, ADMIN_WRITES_PER_SECOND);
            assert_eq!(figure.verdict(), expected, "{value}");
            assert_eq!(figure.to_json()["bound"], "≥");
        }
    }
}
