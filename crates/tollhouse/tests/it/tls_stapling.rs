//! What responders say of certificates, and clients are shown along with them: fetched, given, kept over
//! changes, and never waited for.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use serde_json::{Value, json};
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::program::run_well;
use tollhouse_testkit::responder::{Answer, Says};
use tollhouse_testkit::{ClosedPort, Gateway, Origin};

use crate::support::{everything_to, gateway, with};
use crate::tls_support::{Authority, Pair, TlsClient, get, ssl};

const DAY: i64 = 24 * 3600;

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("later than 1970");
    i64::try_from(since.as_secs()).expect("not that late")
}

/// What a responder does with a question.
type Does = dyn Fn(&[u8]) -> Option<Vec<u8>> + Send + Sync;

/// A responder: asked over HTTP, it does whatever a test says; nothing where that is nothing.
struct Responder {
    address: SocketAddr,
    asked: Arc<AtomicUsize>,
}

impl Responder {
    fn start(does: impl Fn(&[u8]) -> Option<Vec<u8>> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let does: Arc<Does> = Arc::new(does);
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let (counted, does) = (Arc::clone(&counted), Arc::clone(&does));
                std::thread::spawn(move || serve(stream, &counted, &*does));
            }
        });
        Self { address, asked }
    }

    /// One that answers as `answer` says, with the signature of `authority`.
    fn saying(authority: &Arc<Authority>, answer: Answer) -> Self {
        let authority = Arc::clone(authority);
        Self::start(move |question| Some(answer.to(question, |text| authority.sign_text(text))))
    }

    fn uri(&self) -> String {
        format!("http://{}/", self.address)
    }
}

fn serve(mut stream: TcpStream, asked: &AtomicUsize, does: &Does) {
    let mut read = Vec::new();
    let mut byte = [0];
    while !read.ends_with(b"\r\n\r\n") {
        if !matches!(stream.read(&mut byte), Ok(1)) {
            return;
        }
        read.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&read).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.and_then(|length| length.trim().parse().ok()).expect("a length");
    let mut question = vec![0; length];
    stream.read_exact(&mut question).expect("a whole question");
    asked.fetch_add(1, Ordering::SeqCst);
    match does(&question) {
        Some(answer) => {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", answer.len());
            let _ = stream.write_all(&[head.as_bytes(), &answer].concat());
        }
        // Silence, until the other end has had enough.
        None => drop(stream.read(&mut byte)),
    }
}

/// Takes whatever certificate it is shown, and notes what comes along.
#[derive(Debug, Default)]
struct Watcher(Mutex<Vec<u8>>);

impl ServerCertVerifier for Watcher {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        staple: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        *self.0.lock().expect("no panic") = staple.to_vec();
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        provider.signature_verification_algorithms.supported_schemes()
    }
}

/// What a fresh client is shown along with the certificate of `name`, by a version of TLS; it is served.
fn staple_by(
    gateway: &Gateway,
    name: &str,
    version: &'static rustls::SupportedProtocolVersion,
) -> Vec<u8> {
    let watcher = Arc::new(Watcher::default());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .expect("a version")
        .dangerous()
        .with_custom_certificate_verifier(Arc::<Watcher>::clone(&watcher))
        .with_no_client_auth();
    let client = TlsClient(Arc::new(config));
    let mut stream = client.connect(gateway.tls_address(), name).expect("a handshake");
    assert_eq!(get(&mut stream, name, "/").status(), 200);
    watcher.0.lock().expect("no panic").clone()
}

fn staple(gateway: &Gateway, name: &str) -> Vec<u8> {
    staple_by(gateway, name, &rustls::version::TLS13)
}

/// How the certificate of an object stands, by the control API.
fn view(gateway: &Gateway, ssl: &str) -> Value {
    let all = gateway.control("/v1/certificates");
    let staples = all["staples"].as_array().expect("a list");
    staples.iter().find(|staple| staple["ssl"] == ssl).cloned().unwrap_or_default()
}

fn wait_state(gateway: &Gateway, ssl: &str, state: &str) -> Value {
    wait_for(&format!("{ssl} to be {state}"), || {
        Some(view(gateway, ssl)).filter(|view| view["state"] == state)
    })
}

fn served(origin: &Origin, ssls: &[Value]) -> Value {
    with(everything_to(origin.address()), json!({ "ssls": ssls }))
}

#[test]
fn a_responder_is_asked_and_clients_are_shown_what_it_says() {
    let authority = Arc::new(Authority::new("root"));
    let responder = Responder::saying(&authority, Answer::good(now() - 60, now() + DAY));
    let pair = authority.server_with_responder(&["a.test"], &responder.uri());
    let origin = Origin::named("hello");
    let resources = served(&origin, &[ssl("1", &["a.test"], &pair)]);
    let gateway = gateway().tls().resources(&resources).start();
    let stands = wait_state(&gateway, "1", "stapled");
    assert_eq!((&stands["names"], &stands["last_error"]), (&json!(["a.test"]), &Value::Null));
    let shown = staple(&gateway, "a.test");
    assert!(!shown.is_empty());
    assert_eq!(staple_by(&gateway, "a.test", &rustls::version::TLS12), shown);
    assert_eq!(gateway.metric("tollhouse_certificates_stapled"), 1.0);
    // What is known of a certificate is shown on other terms too, and nobody is asked for it.
    let changed = with(ssl("1", &["a.test"], &pair), json!({ "ssl_protocols": ["TLSv1.3"] }));
    gateway.reload(&served(&origin, &[changed]));
    assert_eq!(staple(&gateway, "a.test"), shown);
    assert_eq!(responder.asked.load(Ordering::SeqCst), 1);
    // Another certificate is another question.
    let other = authority.server_with_responder(&["a.test"], &responder.uri());
    gateway.reload(&served(&origin, &[ssl("1", &["a.test"], &other)]));
    wait_for("the other staple", || {
        let now_shown = staple(&gateway, "a.test");
        (!now_shown.is_empty() && now_shown != shown).then_some(())
    });
}

#[test]
fn a_process_that_starts_shows_what_the_one_before_has_fetched() {
    let authority = Arc::new(Authority::new("root"));
    let responder = Responder::saying(&authority, Answer::good(now() - 60, now() + DAY));
    let pair = authority.server_with_responder(&["a.test"], &responder.uri());
    let origin = Origin::named("hello");
    let gateway = gateway().tls().resources(&served(&origin, &[ssl("1", &["a.test"], &pair)]));
    let gateway = gateway.start();
    wait_state(&gateway, "1", "stapled");
    let shown = staple(&gateway, "a.test");
    let folder = gateway.folder().join("staples");
    let files = || std::fs::read_dir(&folder).map_or(0, Iterator::count);
    wait_for("the file", || (files() == 1).then_some(()));
    let gateway = gateway.kill().start();
    assert_eq!(staple(&gateway, "a.test"), shown);
    assert_eq!(responder.asked.load(Ordering::SeqCst), 1, "nobody has been asked again");
    // What is served no more is kept no more.
    gateway.reload(&served(&origin, &[]));
    wait_for("the file to go", || (files() == 0).then_some(()));
}

#[test]
fn a_responder_that_is_away_or_says_nothing_good_delays_no_handshake_and_is_named() {
    let authority = Arc::new(Authority::new("root"));
    let stranger = Arc::new(Authority::new("root"));
    let good = || Answer::good(now() - 60, now() + DAY);
    let says = |says| Responder::saying(&authority, Answer { says, ..good() });
    let gone = ClosedPort::new();
    let uri_of_gone = format!("http://{}/", gone.address());
    let over = Answer::good(now() - 2 * DAY, now() - DAY);
    let responders = [
        ("revoked", says(Says::Revoked), "revoked", Some("ocsp_revoked")),
        ("unknown", says(Says::Unknown), "failing", Some("ocsp_unknown")),
        ("over", Responder::saying(&authority, over), "failing", Some("ocsp_out_of_date")),
        ("untrusted", Responder::saying(&stranger, good()), "failing", Some("ocsp_untrusted")),
        ("later", Responder::start(|_| Some(Answer::refusal(3))), "failing", Some("ocsp_refused")),
        (
            "bytes",
            Responder::start(|_| Some(vec![7; 64])),
            "failing",
            Some("ocsp_answer_malformed"),
        ),
        ("long", Responder::start(|_| Some(vec![7; 1 << 20])), "failing", Some("ocsp_unreachable")),
    ];
    let named = |id: &str, uri: &str| {
        let name = format!("{id}.test");
        ssl(id, &[&name], &authority.server_with_responder(&[&name], uri))
    };
    let mut ssls: Vec<Value> =
        responders.iter().map(|(id, responder, ..)| named(id, &responder.uri())).collect();
    ssls.push(named("away", &uri_of_gone));
    let silent = Responder::start(|_| None);
    ssls.push(named("silent", &silent.uri()));
    let origin = Origin::named("hello");
    let gateway = gateway().without_resources().tls().start();
    for ssl in &ssls {
        let path = format!("/ssls/{}", ssl["id"].as_str().expect("an id"));
        assert_eq!(gateway.admin("PUT", &path, ssl).status(), 201);
    }
    let route = everything_to(origin.address())["routes"][0].clone();
    assert_eq!(gateway.admin("PUT", "/routes/all", &route).status(), 201);
    wait_for("the route", || (gateway.client().get("/").status() == 200).then_some(()));
    let expected = responders.iter().map(|(id, _, state, code)| (*id, *state, *code));
    for (id, state, code) in expected.chain([("away", "failing", Some("ocsp_unreachable"))]) {
        let stands = wait_state(&gateway, id, state);
        assert_eq!(stands["last_error"]["code"].as_str(), code, "{stands}");
        assert_eq!(staple(&gateway, &format!("{id}.test")), b"", "{id}: served, without a staple");
    }
    wait_for("the question", || (silent.asked.load(Ordering::SeqCst) > 0).then_some(()));
    assert_eq!(staple(&gateway, "silent.test"), b"", "served, while nothing comes");
    gateway.output().wait_line("a warning", |line| {
        (line.contains("no OCSP answer") && line.contains("ocsp_revoked")).then_some(())
    });
    // The same from a shell.
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollhouse"));
    command.arg("certificates").env_remove("TOLLHOUSE_ADMIN_KEY");
    command.arg("--set").arg(format!("data_dir={}", gateway.folder().display()));
    command.args(["--admin", &format!("http://{}", gateway.admin_address())]);
    let told = run_well(&mut command);
    for code in ["ocsp_revoked", "ocsp_untrusted", "ocsp_unreachable", "ocsp_out_of_date"] {
        assert!(told.contains(code), "{told}");
    }
}

#[test]
fn an_answer_that_an_object_brings_is_shown_and_a_bad_one_is_refused() {
    let authority = Authority::new("root");
    // Nobody is there to be asked.
    let pair = authority.server_with_responder(&["a.test"], "http://127.0.0.1:1/");
    let other = authority.server_with_responder(&["b.test"], "http://127.0.0.1:1/");
    let question = |pair: &Pair| {
        tollhouse_model::certificate::status::StatusQuestion::from_pem(&pair.chain)
            .expect("a question")
            .to_der()
    };
    let answer = |pair: &Pair, until: i64| {
        let answer = Answer::good(now() - DAY, until);
        answer.to(&question(pair), |text| authority.sign_text(text))
    };
    let bringing = |answer: &[u8]| {
        // Settings of APISIX's `ocsp-stapling` are no obstacle.
        let settings = json!({"enabled": true, "skip_verify": false, "cache_ttl": 3600});
        let more = json!({"ocsp": STANDARD.encode(answer), "ocsp_stapling": settings});
        with(ssl("1", &["a.test"], &pair), more)
    };
    let origin = Origin::named("hello");
    let good = answer(&pair, now() + DAY);
    let resources = served(&origin, &[bringing(&good)]);
    let gateway = gateway().tls().set("tls.ocsp_stapling", "false").resources(&resources).start();
    assert_eq!(staple(&gateway, "a.test"), good);
    let stands = view(&gateway, "1");
    assert_eq!(stands["state"], "stapled", "nobody has been asked in vain: {stands}");
    // One that is over is worse than none.
    gateway.reload(&served(&origin, &[bringing(&answer(&pair, now() - 60))]));
    let problems = gateway.configuration()["problems"].to_string();
    assert!(problems.contains("the answer has expired"), "{problems}");
    // What is held lasts longer, and is shown for as long as the certificate is.
    assert_eq!(staple(&gateway, "a.test"), good);
    // One about another certificate is an error, and the object before it serves on.
    gateway.reload(&served(&origin, &[bringing(&answer(&other, now() + DAY))]));
    let problems = gateway.configuration()["problems"].to_string();
    assert!(problems.contains("about another certificate"), "{problems}");
    assert_eq!(staple(&gateway, "a.test"), good);
}
