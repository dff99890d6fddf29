//! Admission of requests by a breaker, and its fallback for refused ones.

use std::time::Duration;

use tollhouse_shenyu::answer::Answer;

use crate::counts::Shared;
use crate::place::Place;
use crate::plugin::{Run, Verdict};
use crate::resources::Resources;
use crate::shared::breaker::{Breaker, BreakerRule, Fallback};
use crate::shared::fallback::OnFailure;
use crate::turn::Turn;

/// Compiled rule of a plugin with a breaker.
#[derive(Debug)]
pub(crate) struct BreakerGate {
    breaker: Shared<Breaker>,
    /// Names under which refusals are counted.
    labels: Labels,
}

/// Names under which a breaker's refusals are counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Labels {
    pub(crate) limit: &'static str,
    pub(crate) open: &'static str,
}

impl Labels {
    fn label(self, answer: Answer) -> &'static str {
        if matches!(answer, Answer::BreakerOpen) { self.open } else { self.limit }
    }
}

impl BreakerGate {
    pub(crate) fn new(
        place: &Place<'_>,
        rule: BreakerRule,
        labels: Labels,
        resources: &mut Resources<'_>,
    ) -> Self {
        Self { breaker: resources.breaker(place, rule), labels }
    }

    /// Admits a request after its wait, or refuses it.
    pub(crate) async fn admit<'o>(&self, run: &mut Run<'_, '_>) -> Verdict<'o> {
        let (call, wait_ms) = match self.breaker.begin(run.cx.now().unix_ms) {
            Ok(begun) => begun,
            Err(answer) => {
                run.cx.edits().refused_by = Some(self.labels.label(answer));
                let fallback = self.breaker.rule(|rule| rule.fallback().clone());
                return fall_back(fallback, run.turn).unwrap_or(Verdict::Refused(answer));
            }
        };
        let turn = &mut *run.turn;
        turn.aftermath.calls.push(call);
        turn.aftermath.fallback =
            OnFailure::from_breaker(&self.breaker, |location| turn.is_asked(location));
        let time_max_ms = self.breaker.rule(|rule| rule.time_max_ms);
        run.cx.edits().time_max = time_max_ms.map(Duration::from_millis);
        if wait_ms > 0 {
            run.cx.sleep(Duration::from_millis(wait_ms)).await;
        }
        Verdict::Next
    }
}

/// Applies the fallback of a refused call; `None` if the breaker's own answer applies.
fn fall_back<'o>(fallback: Fallback, turn: &Turn) -> Option<Verdict<'o>> {
    match fallback {
        // A fallback to the refused path itself would loop.
        Fallback::Inside(path) if path != turn.asked() => Some(Verdict::Anew(path)),
        Fallback::Elsewhere(location) if !turn.is_asked(&location) => {
            Some(Verdict::redirect(302, location))
        }
        _ => None,
    }
}
