//! Findings about TLS handshakes with clients that fail, by cause and by the server name that the
//! clients asked for.

use std::collections::HashMap;

use tollhouse_stdx::plural::counted;
use tollhouse_telemetry::handshakes::FailedHandshake;
use tollhouse_telemetry::{HandshakeFailure, Metrics};

use super::finding::{Finding, Kind, Severity};
use super::period::{MARK_MS, Period};

/// Failures of one cause and name from which they are a finding.
const FAILURES_MIN: u64 = 3;

/// Shares of all handshakes, in per cent, from which failures are a warning and a problem. Fewer are
/// a note, because every port on the Internet is probed.
const WARNING_PERCENT: u64 = 5;
const PROBLEM_PERCENT: u64 = 50;

/// Limit of findings about handshakes, because clients choose the names.
const FOUND_MAX: usize = 20;

type Key = (HandshakeFailure, String);

/// Failures of one cause and name on all cores.
#[derive(Debug, Clone, Copy)]
struct Failures {
    count: u64,
    first_ms: u64,
    last_ms: u64,
}

/// Watches failed handshakes.
#[derive(Debug, Default)]
pub(super) struct HandshakeWatch(Period<Key>);

impl HandshakeWatch {
    /// Adds the findings about handshakes of the last minute or two.
    pub(super) fn find(&mut self, metrics: &Metrics, now_ms: u64, findings: &mut Vec<Finding>) {
        let all = sum(&metrics.failed_handshakes());
        let total = metrics.handshakes();
        let handshakes = self.0.new_of_all(total);
        let mut found: Vec<Finding> = Vec::new();
        for (key, failures) in &all {
            let new = self.0.new_of(key, failures.count);
            let is_recent = failures.last_ms + MARK_MS >= now_ms;
            if !is_recent || new < FAILURES_MIN {
                continue;
            }
            let since_ms = (self.0.before(key) == 0).then_some(failures.first_ms);
            let share = Share { new, handshakes: handshakes.max(new) };
            found.extend(find_one(key, share).map(|finding| Finding { since_ms, ..finding }));
        }
        found.sort_by(|one, other| {
            other.count.cmp(&one.count).then_with(|| one.subject.cmp(&other.subject))
        });
        findings.extend(found.into_iter().take(FOUND_MAX));
        let counts = all.into_iter().map(|(key, failures)| (key, failures.count));
        self.0.mark(now_ms, total, counts);
    }
}

fn sum(kinds: &[FailedHandshake]) -> HashMap<Key, Failures> {
    let mut sums: HashMap<Key, Failures> = HashMap::new();
    for kind in kinds {
        let FailedHandshake { count, first_ms, last_ms, .. } = *kind;
        let name = kind.name.text() + if kind.name.is_cut { "…" } else { "" };
        let sum =
            sums.entry((kind.failure, name)).or_insert(Failures { count: 0, first_ms, last_ms });
        sum.count += count;
        sum.first_ms = sum.first_ms.min(first_ms);
        sum.last_ms = sum.last_ms.max(last_ms);
    }
    sums
}

/// Failures of one kind among the handshakes of the period.
#[derive(Debug, Clone, Copy)]
struct Share {
    new: u64,
    handshakes: u64,
}

fn find_one((failure, name): &Key, share: Share) -> Option<Finding> {
    let (reason, remedy) = explain(*failure)?;
    let severity = match share.new * 100 / share.handshakes.max(1) {
        _ if *failure == HandshakeFailure::Limit => Severity::Problem,
        PROBLEM_PERCENT.. => Severity::Problem,
        WARNING_PERCENT.. => Severity::Warning,
        _ => Severity::Note,
    };
    let kind = match failure {
        HandshakeFailure::Limit => Kind::LimitReached,
        _ => Kind::HandshakesFailing,
    };
    let (of_name, place) = match &**name {
        "" => (" without a server name".to_owned(), "no name"),
        name => (format!(" for {name}"), name),
    };
    let handshakes = counted(share.new, "TLS handshake");
    let what = format!("{handshakes}{of_name} failed: {reason}");
    let subject = format!("{place} {}", tollhouse_telemetry::counters::Label::text(*failure));
    Some(Finding::about(severity, kind, subject, what).with_remedy(remedy).with_count(share.new))
}

/// Reason of a failure, and what helps; `None` for failures that are the client's alone.
fn explain(failure: HandshakeFailure) -> Option<(&'static str, &'static str)> {
    Some(match failure {
        HandshakeFailure::NoCertificate => (
            "no certificate is served for it",
            "add the name to `snis` of an ssl object; tls.fallback_sni serves clients that send no name",
        ),
        HandshakeFailure::Version => (
            "client and gateway have no TLS version in common",
            "renew the clients, or see tls.protocols and `ssl_protocols` of the ssl object",
        ),
        HandshakeFailure::Cipher => (
            "client and gateway have no cipher suite in common",
            "renew the clients; an RSA certificate beside an ECDSA one serves older ones too",
        ),
        HandshakeFailure::Protocol => (
            "client and gateway have no application protocol (ALPN) in common",
            "have the client offer http/1.1 or h2",
        ),
        HandshakeFailure::ClientCertificateMissing => (
            "the client showed no certificate",
            "give the client a certificate, or exempt its paths with client.skip_mtls_uri_regex",
        ),
        HandshakeFailure::ClientCertificateExpired => (
            "the client's certificate has expired or is not valid yet",
            "renew the client's certificate; compare the clocks of client and gateway",
        ),
        HandshakeFailure::ClientCertificateUntrusted => (
            "the client's certificate is of an authority that the ssl object does not name",
            "add the authority to client.ca of the ssl object, or give the client another certificate",
        ),
        HandshakeFailure::ClientCertificateTooDeep => (
            "too many authorities are between the client's certificate and client.ca",
            "raise client.depth of the ssl object",
        ),
        HandshakeFailure::ClientCertificateInvalid => (
            "the client's certificate or its signature is invalid",
            "give the client another certificate",
        ),
        HandshakeFailure::RefusedByClient => (
            "the client refused the certificate of the gateway",
            "see whether it has expired, covers the name, and has its intermediate certificates in `cert`",
        ),
        HandshakeFailure::Limit => (
            "limits.handshakes_per_worker is reached",
            "see whether one client opens many connections; raise the limit if they are legitimate",
        ),
        HandshakeFailure::HelloTooLong
        | HandshakeFailure::Timeout
        | HandshakeFailure::Silent
        | HandshakeFailure::ClientGone
        | HandshakeFailure::NoTls
        | HandshakeFailure::Broken => return None,
    })
}

#[cfg(test)]
mod tests {
    use tollhouse_telemetry::recent::ShortText;

    use super::*;

    #[test]
    fn failures_weigh_by_their_share_and_name_what_was_asked_for() {
        let key = |failure, name: &str| (failure, name.to_owned());
        let missing = key(HandshakeFailure::NoCertificate, "shop.test");
        for (new, handshakes, expected) in
            [(9, 10, Severity::Problem), (9, 100, Severity::Warning), (9, 10_000, Severity::Note)]
        {
            let finding = find_one(&missing, Share { new, handshakes }).expect("a finding");
            assert_eq!(finding.severity, expected, "{new} of {handshakes}");
            let what = "9 TLS handshakes for shop.test failed: no certificate is served for it";
            assert_eq!(finding.what, what);
        }
        let share = Share { new: 9, handshakes: 9 };
        assert_eq!(find_one(&key(HandshakeFailure::ClientGone, "shop.test"), share), None);
        let limit = find_one(&key(HandshakeFailure::Limit, ""), share).expect("a finding");
        assert_eq!(
            (limit.kind, limit.subject.as_str()),
            (Kind::LimitReached, "no name tls_handshake_limit")
        );
    }

    #[test]
    fn a_finding_ends_when_handshakes_fail_no_more() {
        let metrics = Metrics::new();
        let core = metrics.for_core();
        let mut watch = HandshakeWatch::default();
        let mut found = |now_ms| {
            let mut findings = Vec::new();
            watch.find(&metrics, now_ms, &mut findings);
            findings.len()
        };
        let name = ShortText::new(b"shop.test");
        (0..2).for_each(|at| {
            core.failed_handshakes().note(HandshakeFailure::NoCertificate, name, at)
        });
        assert_eq!(found(10), 0);
        core.failed_handshakes().note(HandshakeFailure::NoCertificate, name, 11);
        assert_eq!((found(12), found(MARK_MS)), (1, 1));
        assert_eq!(found(MARK_MS + 12), 0);
    }
}
