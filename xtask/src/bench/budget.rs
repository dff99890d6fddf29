//! The budgets of the design, beside which every figure is printed as met or missed.
//!
//! A budget is a promise: it is changed in the design first and here after.

use serde_json::{Value, json};

/// What a figure may be at most, and what we are after.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    pub(crate) limit: f64,
    pub(crate) stretch: f64,
}

pub(crate) const CPU_AGAINST_NGINX: Budget = Budget { limit: 0.80, stretch: 0.70 };
pub(crate) const CPU_AGAINST_HAPROXY: Budget = Budget { limit: 0.70, stretch: 0.55 };
pub(crate) const CPU_AGAINST_HAPROXY_TCP: Budget = Budget { limit: 1.15, stretch: 1.00 };
pub(crate) const CPU_AT_MANY_ROUTES: Budget = Budget { limit: 1.03, stretch: 1.00 };
pub(crate) const P99_UNDER_CHURN: Budget = Budget { limit: 1.2, stretch: 1.05 };
pub(crate) const IDLE_BYTES_PER_CONNECTION: Budget = Budget { limit: 4096.0, stretch: 2048.0 };
pub(crate) const START_MS: Budget = Budget { limit: 1000.0, stretch: 200.0 };
pub(crate) const INSTRUCTIONS_PER_REQUEST: Budget = Budget { limit: 12_000.0, stretch: 9_000.0 };

/// A number that a case was run for.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    pub(crate) what: String,
    pub(crate) value: f64,
    pub(crate) budget: Option<Budget>,
}

impl Figure {
    /// A figure that no budget judges.
    pub(crate) fn free(what: impl Into<String>, value: f64) -> Self {
        Self { what: what.into(), value, budget: None }
    }

    /// A figure with a budget.
    pub(crate) fn judged(what: impl Into<String>, value: f64, budget: Budget) -> Self {
        Self { what: what.into(), value, budget: Some(budget) }
    }

    /// How it stands: beyond what we are after, within the budget, or past it.
    pub(crate) fn verdict(&self) -> &'static str {
        match self.budget {
            None => "",
            Some(budget) if self.value <= budget.stretch => "met (stretch)",
            Some(budget) if self.value <= budget.limit => "met",
            Some(_) => "missed",
        }
    }

    /// The figure as it is kept.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "what": self.what,
            "value": self.value,
            "budget": self.budget.map(|budget| budget.limit),
            "stretch": self.budget.map(|budget| budget.stretch),
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
            [(0.70, "met (stretch)"), (0.75, "met"), (0.81, "missed"), (f64::NAN, "missed")];
        for (value, expected) in cases {
            assert_eq!(Figure::judged("a", value, CPU_AGAINST_NGINX).verdict(), expected);
        }
        assert_eq!(Figure::free("a", 1.0).verdict(), "");
    }
}
