//! Checks that response bodies were verified.

use super::view::{Session, titles};
use super::{Findings, Severity};
use crate::case::{Case, Checks, Protocol};
use crate::report::figure;
use crate::result::CaseResult;

/// Relative deviation of the mean body length from the first body's above which bodies differ.
const LENGTH_SHARE: f64 = 0.01;

/// Reports results whose bodies were not verified: cached error pages, redirects and errors sent
/// with status 200 would count as success.
pub(super) fn payload(session: &Session<'_>, findings: &mut Findings) {
    let mut unverified = Vec::new();
    for (result, case) in session.measured() {
        redirects(result, case, findings);
        // Without a body (HEAD, 204) there is nothing to verify.
        if verifies_content(&case.checks) || !has_body(case) {
            continue;
        }
        match varying_length(result) {
            Some((first, mean)) => findings.about(
                result,
                "payload",
                Severity::Caution,
                format!(
                    "Bodies are {} bytes on average, the first was {}, and no check looks at them: some \
                     may be error pages. Check length or content (--expect-bytes, --expect-text).",
                    figure::rate(mean),
                    figure::rate(first),
                ),
            ),
            None => unverified.push(result),
        }
    }
    if !unverified.is_empty() {
        findings.overall(
            "payload",
            Severity::Note,
            format!(
                "No check looks at the body ({}): a short error page of status 200 would count as \
                 success. Check its length or content (--expect-bytes, --expect-text).",
                session.called(&titles(unverified)),
            ),
        );
    }
}

fn verifies_content(checks: &Checks) -> bool {
    checks.body_bytes.is_some() || checks.same_length || checks.reads_body()
}

fn has_body(case: &Case) -> bool {
    match case.protocol() {
        Protocol::Http1 | Protocol::Http2 => case.http.method != "HEAD",
        // The client decodes these responses or compares them with the request.
        Protocol::Grpc | Protocol::WebSocket | Protocol::Tcp => false,
    }
}

/// Returns the length of the first body and the mean of all, if they differ.
fn varying_length(result: &CaseResult) -> Option<(f64, f64)> {
    let counts = &result.counts;
    let answers = counts.statuses.values().sum::<u64>();
    if answers == 0 || counts.body_bytes == 0 {
        return None;
    }
    let (first, mean) = (counts.first_body_bytes as f64, counts.body_bytes as f64 / answers as f64);
    ((mean - first).abs() > LENGTH_SHARE * first.max(1.0)).then_some((first, mean))
}

/// Reports redirects that counted as success because the case names no expected status.
fn redirects(result: &CaseResult, case: &Case, findings: &mut Findings) {
    let redirected: u64 = result
        .counts
        .statuses
        .iter()
        .filter(|(status, _)| status.len() == 3 && status.starts_with('3'))
        .map(|(_, count)| count)
        .sum();
    if redirected > 0 && case.checks.status.is_empty() {
        findings.about(
            result,
            "payload",
            Severity::Caution,
            format!(
                "{} answers were redirects and count as success: the redirect was measured, not the page \
                 behind it. Use the final URL, or say which status is expected (--expect-status).",
                figure::count(redirected),
            ),
        );
    }
}
