//! The board over time: certificates are made here, answers are the test kit's, and nobody waits for anything.

use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, IsCa, Issuer, KeyPair, SigningKey,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use tollhouse_net::server_tls::{HostTerms, PemPair, ServerTerms};
use tollhouse_testkit::responder::{AUTHORITY_INFORMATION_ACCESS, Answer, Says, responder_at};

use super::*;

const NOW: i64 = 1_795_000_000;
const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;
const URI: &str = "http://ocsp.test/";

fn pem(label: &str, der: &[u8]) -> String {
    let text = base64::engine::Engine::encode(&base64::engine::general_purpose::STANDARD, der);
    format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
}

/// Somebody who signs certificates, and answers about them.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).expect("a certificate");
        let pem = pem("CERTIFICATE", certificate.der());
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// A host with a certificate that names a responder, where one is given.
    fn host(&self, responder: Option<&str>) -> HostTerms {
        self.host_with(responder, &[]).terms()
    }

    fn host_with(&self, responder: Option<&str>, extensions: &[CustomExtension]) -> Pair {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec!["a.test".to_owned()]).expect("a name");
        params.custom_extensions.extend(extensions.iter().cloned());
        params.custom_extensions.extend(responder.map(|uri| {
            let content = responder_at(uri);
            CustomExtension::from_oid_content(&AUTHORITY_INFORMATION_ACCESS, content)
        }));
        let own = params.signed_by(&key, &self.issuer).expect("a certificate");
        let chain = pem("CERTIFICATE", own.der()) + &self.pem;
        Pair { chain, key: pem("PRIVATE KEY", &key.serialize_der()) }
    }

    fn sign(&self, text: &[u8]) -> Vec<u8> {
        self.issuer.key().sign(text).expect("it signs")
    }

    fn answer(&self, asked: &StatusQuery, answer: &Answer) -> Vec<u8> {
        answer.to(&asked.question.to_der(), |text| self.sign(text))
    }
}

/// What an object is written with.
struct Pair {
    chain: String,
    key: String,
}

impl Pair {
    /// The host as it is served after a write.
    fn terms(&self) -> HostTerms {
        let pairs = [PemPair { chain: &self.chain, key: &self.key }];
        ServerTerms::default().host(&pairs, None, None).expect("a host")
    }
}

/// The promise of a staple (RFC 7633).
fn must_staple() -> CustomExtension {
    CustomExtension::from_oid_content(&[1, 3, 6, 1, 5, 5, 7, 1, 24], vec![0x30, 3, 2, 1, 5])
}

fn board() -> Board {
    Board::new(Random::seeded(1))
}

fn serve(board: &mut Board, hosts: &[HostTerms], given: &[Arc<[u8]>], now: i64) {
    let names = ["a.test".to_owned()];
    let ids: Vec<String> = (0..hosts.len()).map(|number| number.to_string()).collect();
    let served = hosts.iter().zip(&ids).map(|(host, id)| HostCertificates {
        ssl: id,
        names: &names,
        identities: host.identities(),
        given,
    });
    board.serve(served, |_| None, now);
}

/// How the only certificate stands.
fn state(board: &Board, now: i64) -> (StapleState, Option<&'static str>) {
    let view = board.report(now).remove(0);
    (view.state, view.last_error.map(|error| error.code))
}

fn only(mut asked: Vec<StatusQuery>) -> StatusQuery {
    assert_eq!(asked.len(), 1);
    asked.remove(0)
}

#[test]
fn a_staple_is_asked_for_at_once_and_anew_ahead_of_its_end() {
    let (authority, mut board) = (Authority::new(), board());
    let hosts = [authority.host(Some(URI))];
    serve(&mut board, &hosts, &[], NOW);
    assert_eq!(state(&board, NOW), (StapleState::Asking, None));
    for (since, until, earliest, latest) in [
        // At half of its time, or a little before that.
        (NOW, NOW + 8 * HOUR, 3 * HOUR, 4 * HOUR),
        // Within a day, however long it would last.
        (NOW, NOW + 10 * DAY, 21 * HOUR, DAY),
        // Not at once, however old it is.
        (NOW - DAY, NOW + 60, 4 * 60, 5 * 60),
    ] {
        let asked = only(board.ask(i64::MAX));
        assert_eq!((asked.ssl(), asked.question.responder()), ("0", Some(URI)));
        assert_eq!(board.next_look(), None, "it is on its way");
        let answer = authority.answer(&asked, &Answer::good(since, until));
        board.answer(&asked, Ok(answer), NOW).expect("it is good");
        assert_eq!(state(&board, NOW), (StapleState::Stapled, None));
        assert_eq!((board.stapled(NOW), board.stapled(until)), (1, 0));
        let next = board.next_look().expect("there is a next time") - NOW;
        assert!((earliest..=latest).contains(&next), "{next}");
        assert!(board.ask(NOW + next - 1).is_empty());
    }
}

#[test]
fn a_written_object_is_asked_for_at_once_and_what_requires_a_staple_says_so() {
    let (authority, mut board) = (Authority::new(), board());
    let host = authority.host_with(Some(URI), &[must_staple()]);
    let again = host.terms();
    serve(&mut board, &[host.terms()], &[], NOW);
    for _ in 0..5 {
        let asked = only(board.ask(i64::MAX));
        let noted = board.answer(&asked, Err("away".to_owned()), NOW).expect_err("it fails");
        assert!(noted.is_refused);
    }
    assert!(board.report(NOW)[0].required);
    assert!(board.next_look().expect("it is asked for again") > NOW + 60);
    serve(&mut board, &[again], &[], NOW);
    assert_eq!(board.next_look(), Some(NOW));
    let asked = only(board.ask(NOW));
    let answer = authority.answer(&asked, &Answer::good(NOW, NOW + DAY));
    board.answer(&asked, Ok(answer), NOW).expect("it is good");
    // What does not fail keeps its time.
    serve(&mut board, &[host.terms()], &[], NOW);
    assert!(board.next_look().expect("there is a next time") > NOW);
}

#[test]
fn what_fails_is_asked_for_less_and_less_often_and_what_is_there_is_shown_meanwhile() {
    let (authority, mut board) = (Authority::new(), board());
    serve(&mut board, &[authority.host(Some(URI))], &[], NOW);
    let asked = only(board.ask(NOW));
    let answer = authority.answer(&asked, &Answer::good(NOW, NOW + 2 * HOUR));
    board.answer(&asked, Ok(answer), NOW).expect("it is good");
    let stranger = Authority::new();
    let mut now = NOW + HOUR;
    let mut waits = Vec::new();
    for (number, expected) in
        ["ocsp_unreachable", "ocsp_unreachable", "ocsp_untrusted", "ocsp_refused"]
            .iter()
            .enumerate()
    {
        let asked = only(board.ask(now));
        let good = Answer::good(NOW, NOW + 9 * HOUR);
        let fetched = match *expected {
            "ocsp_unreachable" => Err("refused".repeat(1000)),
            "ocsp_untrusted" => Ok(stranger.answer(&asked, &good)),
            _ => Ok(Answer::refusal(3)),
        };
        let noted = board.answer(&asked, fetched, now).expect_err("nothing to show");
        assert_eq!((noted.code, noted.is_first), (*expected, number != 1), "{number}");
        assert!(noted.detail.chars().count() <= DETAIL_CHARS_MAX + 1);
        assert_eq!(state(&board, now), (StapleState::RenewalFailing, Some(*expected)));
        let next = board.next_look().expect("there is a next time");
        waits.push(next - now);
        now = next;
    }
    assert!(waits.windows(2).all(|pair| pair[0] < pair[1]), "{waits:?}");
    assert_eq!(state(&board, NOW + 2 * HOUR), (StapleState::Failing, Some("ocsp_refused")));
    for _ in 0..20 {
        let asked = only(board.ask(now));
        board.answer(&asked, Err("away".to_owned()), now).expect_err("nothing to show");
        let wait = board.next_look().expect("there is a next time") - now;
        assert!(wait <= RETRY_MAX_S, "{wait}");
        now += wait;
    }
}

#[test]
fn an_answer_that_says_nothing_good_takes_away_what_was_shown() {
    for (says, expected) in [
        (Says::Revoked, (StapleState::Revoked, Some("ocsp_revoked"))),
        (Says::Unknown, (StapleState::Failing, Some("ocsp_unknown"))),
    ] {
        let (authority, mut board) = (Authority::new(), board());
        let hosts = [authority.host(Some(URI))];
        serve(&mut board, &hosts, &[], NOW);
        let asked = only(board.ask(NOW));
        let good: Arc<[u8]> = authority.answer(&asked, &Answer::good(NOW, NOW + DAY)).into();
        board.answer(&asked, Ok(good.to_vec()), NOW).expect("it is good");
        let asked = only(board.ask(NOW + DAY));
        let bad = Answer { says, ..Answer::good(NOW, NOW + DAY) };
        let bad = authority.answer(&asked, &bad);
        board.answer(&asked, Ok(bad), NOW + 1).expect_err("it is not");
        assert_eq!((state(&board, NOW + 1), board.stapled(NOW + 1)), (expected, 0));
        // What is revoked stays so, whatever somebody has kept of better times.
        if says == Says::Revoked {
            serve(&mut board, &hosts, &[good], NOW + 2);
            assert_eq!(board.stapled(NOW + 2), 0);
        }
    }
}

#[test]
fn no_more_are_asked_at_a_time_than_may_be() {
    let (authority, mut board) = (Authority::new(), board());
    let hosts: Vec<_> = (0..20).map(|_| authority.host(Some(URI))).collect();
    serve(&mut board, &hosts, &[], NOW);
    let mut under_way = board.ask(NOW);
    assert_eq!(under_way.len(), ASKED_AT_ONCE_MAX);
    assert_eq!((board.ask(NOW).len(), board.next_look()), (0, None));
    let mut served = 0;
    while let Some(asked) = under_way.pop() {
        let answer = authority.answer(&asked, &Answer::good(NOW, NOW + DAY));
        board.answer(&asked, Ok(answer), NOW).expect("it is good");
        served += 1;
        under_way.extend(board.ask(NOW));
        assert!(under_way.len() <= ASKED_AT_ONCE_MAX);
    }
    assert_eq!((served, board.stapled(NOW)), (20, 20));
}

#[test]
fn what_is_known_outlives_a_change_and_nothing_else_does() {
    let (authority, mut board) = (Authority::new(), board());
    let (kept, gone) = (authority.host(Some(URI)), authority.host(Some(URI)));
    serve(&mut board, &[kept.clone(), gone], &[], NOW);
    for asked in board.ask(NOW) {
        let answer = authority.answer(&asked, &Answer::good(NOW, NOW + DAY));
        board.answer(&asked, Ok(answer), NOW).expect("it is good");
    }
    assert_eq!(board.stapled(NOW), 2);
    let asked = board.ask(NOW + DAY);
    serve(&mut board, std::slice::from_ref(&kept), &[], NOW);
    assert_eq!((board.stapled(NOW), board.report(NOW).len()), (1, 1));
    // What was on its way for one that is gone is nobody's.
    for asked in &asked {
        let _ = board.answer(asked, Err("late".to_owned()), NOW);
    }
    assert_eq!(board.report(NOW).len(), 1);
    assert_eq!(board.ask(i64::MAX).len(), 1);
    serve(&mut board, &[], &[], NOW);
    assert_eq!((board.next_look(), board.report(NOW).len()), (None, 0));
}

#[test]
fn an_answer_that_is_given_is_shown_and_a_newer_one_asked_for_where_somebody_can_be() {
    let authority = Authority::new();
    for (responder, due) in [(Some(URI), Some(NOW)), (None, None)] {
        let mut board = board();
        let host = authority.host(responder);
        let [own, issuer] = host.identities()[0].chain() else { panic!("two") };
        let question = StatusQuestion::from_pair(own, issuer).expect("a question");
        let good = |until| -> Arc<[u8]> {
            let answer = Answer::good(NOW - DAY, until);
            answer.to(&question.to_der(), |text| authority.sign(text)).into()
        };
        let given = [good(NOW - 1), good(NOW + DAY), good(NOW + HOUR), Arc::from(*b"none")];
        serve(&mut board, std::slice::from_ref(&host), &given, NOW);
        assert_eq!(state(&board, NOW), (StapleState::Stapled, None));
        let view = board.report(NOW).remove(0);
        assert_eq!((view.until, view.next_attempt), (Some(NOW + DAY), due));
    }
}

#[test]
fn what_was_kept_is_shown_before_anybody_is_asked_if_it_still_holds() {
    let authority = Authority::new();
    let host = authority.host(Some(URI));
    let [own, issuer] = host.identities()[0].chain() else { panic!("two") };
    let question = StatusQuestion::from_pair(own, issuer).expect("a question");
    let answer = |says, until| {
        let answer = Answer { says, ..Answer::good(NOW - 8 * HOUR, until) };
        answer.to(&question.to_der(), |text| authority.sign(text))
    };
    let good = |until| answer(Says::Good, until);
    let mut bent = good(NOW + DAY);
    if let Some(byte) = bent.last_mut() {
        *byte ^= 1;
    }
    for (kept, expected, due) in [
        // At half of its time, as in the process that has fetched it.
        (Some(good(NOW + DAY)), StapleState::Stapled, NOW + 8 * HOUR),
        (Some(good(NOW - 1)), StapleState::Asking, NOW),
        (Some(answer(Says::Revoked, NOW + DAY)), StapleState::Asking, NOW),
        (Some(bent), StapleState::Asking, NOW),
        (None, StapleState::Asking, NOW),
    ] {
        let mut board = board();
        let names = ["a.test".to_owned()];
        let served = [HostCertificates {
            ssl: "0",
            names: &names,
            identities: host.identities(),
            given: &[],
        }];
        let recall = |certificate: &Fingerprint| {
            assert_eq!(certificate, host.identities()[0].fingerprint());
            kept.clone()
        };
        assert!(!board.serve(served.into_iter(), recall, NOW), "nothing is gone");
        assert_eq!((state(&board, NOW), board.next_look()), ((expected, None), Some(due)));
        assert_eq!(board.certificates(), [*host.identities()[0].fingerprint()]);
        assert!(board.serve([].into_iter(), |_| None, NOW), "it is gone");
    }
}

#[test]
fn who_cannot_be_asked_is_named_where_somebody_should() {
    let authority = Authority::new();
    let mut board = board();
    serve(&mut board, &[authority.host(None)], &[], NOW);
    assert_eq!((state(&board, NOW), board.next_look()), ((StapleState::None, None), None));
    // Only the host's own certificate.
    let key = KeyPair::generate().expect("a key");
    let own = CertificateParams::default().self_signed(&key).expect("a certificate");
    let chain = pem("CERTIFICATE", own.der());
    let key = pem("PRIVATE KEY", &key.serialize_der());
    assert!(CertificateDer::from_pem_slice(chain.as_bytes()).is_ok());
    assert!(PrivatePkcs8KeyDer::from_pem_slice(key.as_bytes()).is_ok());
    let pairs = [PemPair { chain: &chain, key: &key }];
    let host = ServerTerms::default().host(&pairs, None, None).expect("a host");
    serve(&mut board, &[host], &[], NOW);
    assert_eq!(state(&board, NOW), (StapleState::None, Some("ocsp_no_issuer")));
}
