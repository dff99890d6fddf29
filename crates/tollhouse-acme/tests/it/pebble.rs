//! Certificates from Pebble, by both kinds of challenges, faults included.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tollhouse_acme::{
    ACME_TLS_ALPN, ChallengeKind, ChallengeResponder, Clock, ExternalAccount, HttpsTransport,
    Parts, PendingChallenge, Renewer, Settings, SystemClock, Transport, challenge_certificate,
};
use tollhouse_model::encryption::Keyring;
use tollhouse_model::secret::SecretText;
use tollhouse_store::{Location, Store, Transaction, WatchEvent};
use tollhouse_telemetry::Metrics;

use crate::pebble_server::{EXTERNAL_KEY, Pebble, Wishes, window_wish};

const HOST: &str = "www.tollhouse.test";
const KEY: &str = "/apisix/ssls/acme-www.tollhouse.test";

/// Longest wait for a certificate: a few seconds as a rule.
const PATIENCE: Duration = Duration::from_secs(90);

/// What a node answers.
#[derive(Default)]
struct Answered(Mutex<Vec<PendingChallenge>>);

impl ChallengeResponder for Answered {
    fn replace(&self, pending: &[PendingChallenge]) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = pending.to_vec();
    }
}

impl Answered {
    fn find(&self, is_it: impl Fn(&PendingChallenge) -> bool) -> Option<PendingChallenge> {
        let pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pending.iter().find(|it| is_it(it)).cloned()
    }
}

/// The wall's clock, which a test may move.
#[derive(Default)]
struct MovedClock(AtomicU64);

impl Clock for MovedClock {
    fn now_s(&self) -> u64 {
        SystemClock.now_s() + self.0.load(Ordering::Relaxed)
    }
}

/// The way to Pebble, counted; a request for `hole` is never answered.
struct Counted {
    inner: HttpsTransport,
    orders: Arc<AtomicUsize>,
    hole: Option<(&'static str, watch::Sender<bool>)>,
}

impl Transport for Counted {
    fn send(&self, request: Request<Bytes>) -> tollhouse_acme::Exchange {
        let path = request.uri().path();
        if path == "/order-plz" {
            self.orders.fetch_add(1, Ordering::Relaxed);
        }
        match &self.hole {
            Some((hole, fallen)) if path.starts_with(hole) => {
                fallen.send_replace(true);
                Box::pin(std::future::pending())
            }
            _ => self.inner.send(request),
        }
    }
}

struct World {
    pebble: Pebble,
    store: Arc<dyn Store>,
    keyring: Arc<Keyring>,
    clock: Arc<MovedClock>,
    settings: Settings,
    orders: Arc<AtomicUsize>,
}

struct Node {
    _stop: watch::Sender<()>,
    task: JoinHandle<()>,
}

impl World {
    fn start(wishes: &Wishes, challenge: ChallengeKind) -> Option<Self> {
        let pebble = Pebble::start(wishes)?;
        let external =
            ExternalAccount { id: "kid-1".to_owned(), key: SecretText::new(EXTERNAL_KEY) };
        let settings = Settings {
            directory: pebble.directory(),
            contact: vec!["mailto:ops@tollhouse.test".to_owned()],
            agrees: true,
            external_account: wishes.external_account.then_some(external),
            hosts: vec![HOST.to_owned()],
            challenge,
            profile: None,
        };
        Some(Self {
            pebble,
            store: tollhouse_store::open(&Location::Memory).expect("memory"),
            keyring: Arc::new(Keyring::generate().expect("random numbers")),
            clock: Arc::default(),
            settings,
            orders: Arc::default(),
        })
    }

    fn transport(&self) -> HttpsTransport {
        HttpsTransport::new(Some(&self.pebble.authority())).expect("an authority")
    }

    fn node(&self, name: &str, answered: &Arc<Answered>) -> Node {
        self.node_with(name, answered, None)
    }

    fn node_with(
        &self,
        name: &str,
        answered: &Arc<Answered>,
        hole: Option<(&'static str, watch::Sender<bool>)>,
    ) -> Node {
        let orders = Arc::clone(&self.orders);
        let keeper = Renewer::new(Parts {
            settings: self.settings.clone(),
            store: Arc::clone(&self.store),
            keyring: Arc::clone(&self.keyring),
            prefix: "/apisix".to_owned(),
            node: name.to_owned(),
            allows_lost_keys: false,
            transport: Arc::new(Counted { inner: self.transport(), orders, hole }),
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            metrics: Arc::new(Metrics::new()),
        });
        let (stop, stopped) = watch::channel(());
        let answers = Arc::clone(answered) as Arc<dyn ChallengeResponder>;
        Node { _stop: stop, task: tokio::spawn(keeper.run(answers, stopped)) }
    }

    /// The certificate that is served, once it is another than `before`.
    async fn certificate_after(&self, before: Option<&str>) -> String {
        let mut watch = self.store.watch(KEY, tollhouse_store::Revision::ZERO);
        let waited = async {
            loop {
                if let Some(entry) = self.store.get(KEY).await.expect("memory") {
                    let object: Value = serde_json::from_slice(&entry.value).expect("JSON");
                    let certificate = object["cert"].as_str().expect("text").to_owned();
                    if before != Some(certificate.as_str()) {
                        return certificate;
                    }
                }
                if let WatchEvent::Lost(lost) = watch.next().await {
                    panic!("{lost}");
                }
            }
        };
        match tokio::time::timeout(PATIENCE, waited).await {
            Ok(certificate) => certificate,
            Err(_) => {
                let states = self.store.list("tollhouse/acme/certificates/").await.expect("memory");
                let states = states.entries.iter().map(|it| String::from_utf8_lossy(&it.value));
                panic!("no certificate in time: {:?}", states.collect::<Vec<_>>());
            }
        }
    }
}

/// Answers over HTTP as the data plane does.
fn serve_http(listener: std::net::TcpListener, answered: &Arc<Answered>) {
    let answered = Arc::clone(answered);
    listener.set_nonblocking(true).expect("an open socket");
    let listener = TcpListener::from_std(listener).expect("an open socket");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                if stream.read_exact(&mut byte).await.is_err() {
                    break;
                }
                head.push(byte[0]);
            }
            let head = String::from_utf8_lossy(&head).into_owned();
            let target = head.split(' ').nth(1).unwrap_or_default();
            let token = target.strip_prefix("/.well-known/acme-challenge/").unwrap_or_default();
            let found = answered.find(|it| it.kind == ChallengeKind::Http01 && it.token == token);
            let text = found.map(|it| it.key_authorization).unwrap_or_default();
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
                text.len()
            );
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
}

/// Answers over TLS with the certificate that is made for that.
fn serve_tls(listener: std::net::TcpListener, answered: &Arc<Answered>) {
    let answered = Arc::clone(answered);
    listener.set_nonblocking(true).expect("an open socket");
    let listener = TcpListener::from_std(listener).expect("an open socket");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Some(pending) = answered.find(|it| it.kind == ChallengeKind::TlsAlpn01) else {
                continue;
            };
            let (certificate, key) =
                challenge_certificate(&pending.host, &pending.key_authorization).expect("a name");
            let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
            let key = provider.key_provider.load_private_key(key.into()).expect("a key");
            let identity = CertifiedKey::new(vec![certificate], key);
            let mut config = rustls::ServerConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .expect("versions")
                .with_no_client_auth()
                .with_cert_resolver(Arc::new(SingleCertAndKey::from(identity)));
            config.alpn_protocols = vec![ACME_TLS_ALPN.to_vec()];
            if let Ok(mut stream) = TlsAcceptor::from(Arc::new(config)).accept(stream).await {
                let _ = stream.shutdown().await;
            }
        }
    });
}

fn listener() -> (std::net::TcpListener, u16) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    (listener, port)
}

fn wishes(ports: (u16, u16)) -> Wishes {
    Wishes { bad_nonces: 0, external_account: false, ports }
}

#[tokio::test]
async fn half_of_the_nonces_are_refused_and_the_node_that_did_not_order_answers() {
    let (http, port) = listener();
    let wishes = Wishes { bad_nonces: 50, ..wishes((port, 1)) };
    let Some(world) = World::start(&wishes, ChallengeKind::Http01) else { return };
    let (one, two) = (Arc::new(Answered::default()), Arc::new(Answered::default()));
    serve_http(http, &two);
    let _one = world.node("one", &one);
    let _two = world.node("two", &two);
    let certificate = world.certificate_after(None).await;
    assert!(certificate.contains("BEGIN CERTIFICATE"));
}

#[tokio::test]
async fn a_name_is_proved_by_a_handshake() {
    let (tls, port) = listener();
    let Some(world) = World::start(&wishes((1, port)), ChallengeKind::TlsAlpn01) else { return };
    let answered = Arc::new(Answered::default());
    serve_tls(tls, &answered);
    let _node = world.node("one", &answered);
    world.certificate_after(None).await;
}

#[tokio::test]
async fn an_external_account_is_bound() {
    let (http, port) = listener();
    let wishes = Wishes { external_account: true, ..wishes((port, 1)) };
    let Some(world) = World::start(&wishes, ChallengeKind::Http01) else { return };
    let answered = Arc::new(Answered::default());
    serve_http(http, &answered);
    let _node = world.node("one", &answered);
    world.certificate_after(None).await;
}

#[tokio::test]
async fn a_window_in_the_past_renews_at_the_next_look() {
    let (http, port) = listener();
    let Some(world) = World::start(&wishes((port, 1)), ChallengeKind::Http01) else { return };
    let answered = Arc::new(Answered::default());
    serve_http(http, &answered);
    let _node = world.node("one", &answered);
    let first = world.certificate_after(None).await;
    let wish = window_wish(&first, "2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z");
    let request = Request::post(world.pebble.management("/set-renewal-info/"));
    let request = request.header("user-agent", "tollhouse-test");
    let request = request.body(Bytes::from(wish.to_string())).expect("a request");
    let answer = world.transport().send(request).await.expect("it answers");
    assert_eq!(answer.status(), 200, "{}", String::from_utf8_lossy(answer.body()));
    // The authority is asked a minute after the certificate came. Any change of an object makes the
    // keeper look at the clock.
    world.clock.0.store(120, Ordering::Relaxed);
    let change = Transaction::new().put("/apisix/ssls/other", "{}");
    world.store.commit(change).await.expect("memory");
    world.certificate_after(Some(&first)).await;
    assert_eq!(world.orders.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_process_that_dies_before_the_download_is_followed_by_one_that_goes_on() {
    let (http, port) = listener();
    let Some(world) = World::start(&wishes((port, 1)), ChallengeKind::Http01) else { return };
    let answered = Arc::new(Answered::default());
    serve_http(http, &answered);
    let (fallen, mut has_fallen) = watch::channel(false);
    let node = world.node_with("one", &answered, Some(("/certZ/", fallen)));
    let waited = has_fallen.wait_for(|fallen| *fallen);
    tokio::time::timeout(PATIENCE, waited).await.expect("in time").expect("it lives");
    node.task.abort();
    let _ = node.task.await;
    let _node = world.node("one", &answered);
    world.certificate_after(None).await;
    assert_eq!(world.orders.load(Ordering::Relaxed), 1);
}
