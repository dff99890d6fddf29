//! Fallback of a breaker, sent if the node did not answer.

use tollhouse_plugin::response::{BodyFilter, Effect, Piece, ResponseContext, Source};
use tollhouse_shenyu::answer::{Answer, Statuses};
use tollhouse_shenyu::filters::fallback_answer;

use crate::counts::Shared;
use crate::shared::breaker::{Breaker, FailedCall, Fallback};

/// Prepared fallback of an admitted call.
#[derive(Debug, Clone)]
pub(crate) struct OnFailure {
    fallback: Fallback,
    failed: Option<FailedCall>,
}

impl OnFailure {
    /// Prepares the fallback of a breaker's rule; `None` if the proxy's own answer applies.
    /// `is_asked` tells whether a location is that of the request itself.
    pub(crate) fn from_breaker(
        breaker: &Shared<Breaker>,
        is_asked: impl Fn(&str) -> bool,
    ) -> Option<Self> {
        let (fallback, failed) = breaker.rule(|rule| (rule.fallback().clone(), rule.on_failure()));
        let fallback = match fallback {
            Fallback::Elsewhere(location) if is_asked(&location) => Fallback::None,
            // The chain cannot run again for a request that has already gone to a node.
            Fallback::Inside(path) if fallback_answer(&path).is_none() => Fallback::None,
            other => other,
        };
        (failed.is_some() || fallback != Fallback::None).then_some(Self { fallback, failed })
    }

    /// Replaces the data plane's answer to a failed call by the fallback.
    pub(crate) fn answer(self, statuses: Statuses, cx: &mut ResponseContext<'_>) {
        let status = cx.status();
        // Refusals have statuses of 400 and above. For failed nodes ShenYu also uses 200 and 408.
        let has_failed = status == 200 || status == 408 || status >= 500;
        if cx.source() != Source::Gateway || !has_failed {
            return;
        }
        let (status, body) = match (self.fallback, self.failed) {
            (Fallback::Elsewhere(location), _) => {
                cx.set_header("Location", location.as_bytes());
                (302, String::new())
            }
            (Fallback::Inside(path), _) => (200, fallback_answer(&path).unwrap_or_default()),
            (Fallback::None, Some(failed)) => {
                // The data plane answers an exceeded deadline like a method that took too long.
                let is_late =
                    matches!(status, 408 | 504) || status == Answer::RpcTimeout.status(statuses);
                let answer = if is_late { failed.late } else { failed.broken };
                (answer.status(statuses), answer.body(None))
            }
            (Fallback::None, None) => return,
        };
        cx.set_status(status);
        if body.is_empty() {
            cx.remove_header("content-type");
        } else {
            cx.set_header("Content-Type", b"application/json");
        }
        cx.filter_body(Effect::Rewrites, Box::new(BodyReplacement(body.into_bytes())));
    }
}

/// Body filter that replaces the body.
struct BodyReplacement(Vec<u8>);

impl BodyFilter for BodyReplacement {
    fn filter(&mut self, _input: &[u8], piece: Piece, out: &mut Vec<u8>) {
        if piece.is_last() {
            out.append(&mut self.0);
        }
    }
}
