//! Answers of the gateway in the form of the plugin contract and the data plane.

use std::time::Duration;

use tollhouse_plugin as plugin;
use tollhouse_plugin::RefusalKind;
use tollhouse_shenyu::answer::{Answer, Statuses};

const JSON: &[u8] = b"application/json";

/// Name of the refuser if no plugin of the chain refused.
pub(crate) const CHAIN: &str = "shenyu";

/// Returns an answer in ShenYu's words; `name` is the plugin to name in it.
pub(crate) fn reply<'a>(
    answer: Answer,
    name: Option<&str>,
    statuses: Statuses,
) -> plugin::Answer<'a> {
    plugin::Answer::text(answer.status(statuses), answer.body(name).into_bytes())
        .with_header("Content-Type", JSON)
        .refused(kind(answer))
}

/// Returns the reason of a refusal, for logs and metrics.
const fn kind(answer: Answer) -> RefusalKind {
    match answer {
        // Plugins tell a missing credential by another verdict.
        Answer::IllegalAuthorization
        | Answer::KeyIncorrect
        | Answer::SignRefused(_)
        | Answer::SignNotBase64(_)
        | Answer::SignExpired(_)
        | Answer::LocalKeyIncorrect => RefusalKind::AuthInvalid,
        Answer::Forbidden(_) | Answer::ForbiddenWithoutCode => RefusalKind::DeniedByRule,
        Answer::TooManyRequests | Answer::SentinelBlocked => RefusalKind::LimitExceeded,
        Answer::BreakerOpen => RefusalKind::CircuitOpen,
        Answer::PayloadTooLarge
        | Answer::RequestTooLarge
        | Answer::HeadersTooLarge
        | Answer::ParameterError
        | Answer::JsonBodyMissing
        | Answer::DubboBodyMissing
        | Answer::GrpcBodyMissing
        | Answer::DecryptionFailed => RefusalKind::RequestInvalid,
        Answer::RuleNotFound | Answer::SelectorNotFound | Answer::ContextPathIllegal => {
            RefusalKind::NotFound
        }
        Answer::UrlNotFound | Answer::NoHealthyUpstream => RefusalKind::NoNodes,
        Answer::InvocationFailed | Answer::ResponseError | Answer::RpcFailed => {
            RefusalKind::UpstreamFailed
        }
        Answer::CallTimeout | Answer::BreakerTimeout | Answer::RpcTimeout => {
            RefusalKind::UpstreamTimedOut
        }
        Answer::InternalException
        | Answer::InternalServerError
        | Answer::SecretKeyMissing
        | Answer::KeyAuthUnconfigured
        | Answer::MetadataError
        | Answer::CryptorRequestLacks(_)
        | Answer::CryptorResponseLacks(_)
        | Answer::EncryptionFailed => RefusalKind::PluginFailed,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The last attempt exceeded the timeout of its rule.
    TimedOut(Duration),
    NoNodes,
    /// Attempts at other nodes failed too.
    FailoverExhausted,
    /// All attempts at one node failed.
    RetriesExhausted {
        /// Whether the last attempt timed out.
        is_late: bool,
    },
    /// A call of a method took longer than its metadata allow.
    CallTimedOut,
    /// The call failed for another reason.
    Broken,
}

/// Returns status and body for a failure. ShenYu answers 408 after failed retries, which blames the
/// client; the statuses of HTTP do not.
pub fn describe_failure(failure: Failure, statuses: Statuses) -> (u16, String) {
    let known = |answer: Answer| (answer.status(statuses), answer.body(None));
    let spelt = |status: u16, message: &str| {
        (status, format!(r#"{{"code":{status},"message":"{message}"}}"#))
    };
    match failure {
        Failure::TimedOut(limit) => {
            spelt(504, &format!("Response took longer than timeout: {}", iso_8601(limit)))
        }
        Failure::NoNodes => known(Answer::NoHealthyUpstream),
        Failure::FailoverExhausted => spelt(503, "CANNOT_FIND_HEALTHY_UPSTREAM_URL_AFTER_FAILOVER"),
        Failure::RetriesExhausted { is_late } => {
            let text = "Request timeout, the maximum number of retry times has been exceeded";
            let (_, body) = spelt(408, text);
            match (statuses, is_late) {
                (Statuses::Compatible, _) => (408, body),
                (Statuses::Honest, true) => (504, body),
                (Statuses::Honest, false) => (502, body),
            }
        }
        Failure::CallTimedOut => known(Answer::RpcTimeout),
        Failure::Broken => known(Answer::InvocationFailed),
    }
}

/// Formats a duration as Java does: `PT3S`, `PT0.5S`, `PT1M30S`.
fn iso_8601(time: Duration) -> String {
    let millis = time.as_millis();
    let (minutes, millis) = (millis / 60_000, millis % 60_000);
    let (hours, minutes) = (minutes / 60, minutes % 60);
    let mut text = "PT".to_owned();
    if hours > 0 {
        text.push_str(&format!("{hours}H"));
    }
    if minutes > 0 {
        text.push_str(&format!("{minutes}M"));
    }
    if millis > 0 || text == "PT" {
        let (seconds, fraction) = (millis / 1000, millis % 1000);
        let fraction = format!("{fraction:03}");
        let fraction = fraction.trim_end_matches('0');
        let point = if fraction.is_empty() { "" } else { "." };
        text.push_str(&format!("{seconds}{point}{fraction}S"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_described_as_shenyu_does() {
        let cases = [
            (
                Failure::TimedOut(Duration::from_millis(3000)),
                504,
                504,
                r#"{"code":504,"message":"Response took longer than timeout: PT3S"}"#,
            ),
            (
                Failure::TimedOut(Duration::from_millis(90_500)),
                504,
                504,
                r#"{"code":504,"message":"Response took longer than timeout: PT1M30.5S"}"#,
            ),
            (
                Failure::RetriesExhausted { is_late: true },
                408,
                504,
                r#"{"code":408,"message":"Request timeout, the maximum number of retry times has been exceeded"}"#,
            ),
            (Failure::CallTimedOut, 500, 504, r#"{"code":-104,"message":"Service call timeout!"}"#),
            (
                Failure::FailoverExhausted,
                503,
                503,
                r#"{"code":503,"message":"CANNOT_FIND_HEALTHY_UPSTREAM_URL_AFTER_FAILOVER"}"#,
            ),
        ];
        for (failure, compatible, honest, body) in cases {
            let described = describe_failure(failure, Statuses::Compatible);
            assert_eq!(described, (compatible, body.to_owned()));
            let described = describe_failure(failure, Statuses::Honest);
            assert_eq!(described, (honest, body.to_owned()));
        }
        assert_eq!(iso_8601(Duration::ZERO), "PT0S");
        assert_eq!(iso_8601(Duration::from_secs(3600)), "PT1H");
    }
}
