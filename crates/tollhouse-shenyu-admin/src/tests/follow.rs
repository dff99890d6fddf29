//! Tests of following an admin: this crate's own, and scripted ones that send the messages of
//! ShenYu's.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tollhouse_net::listener_tls::ListenerTls;
use tollhouse_store::{Location, Store};

use super::Fixture;
use crate::follow::check_connection;
use crate::{Following, follow, serve};

/// Maximum wait for an event that is expected immediately.
const PATIENCE: Duration = Duration::from_secs(8);

/// A store that follows an admin.
struct Follower {
    store: Arc<dyn Store>,
    task: JoinHandle<()>,
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Follower {
    fn start(addresses: &[String]) -> Self {
        Self::trusting(addresses, None)
    }

    fn trusting(addresses: &[String], authorities: Option<std::path::PathBuf>) -> Self {
        let store = tollhouse_store::open(&Location::Memory).expect("memory");
        let following = Following {
            addresses: addresses.to_vec(),
            authorities,
            namespace: None,
            user: "admin".to_owned(),
            password: "123456".to_owned(),
            token: Some("sesame".to_owned()),
            origin: "ws://localhost:9195".to_owned(),
            port: 9080,
        };
        let task = tokio::spawn(follow(Arc::clone(&store), following));
        Self { store, task }
    }

    async fn objects(&self) -> BTreeMap<String, Value> {
        let listing = self.store.list("/shenyu/").await.expect("memory is read");
        let read = |entry: tollhouse_store::Entry| {
            let key = entry.key.trim_start_matches("/shenyu/").to_owned();
            (key, serde_json::from_slice(&entry.value).expect("JSON"))
        };
        listing.entries.into_iter().map(read).collect()
    }

    /// Waits until the objects in the store satisfy `is_so`.
    async fn wait(&self, what: &str, is_so: impl Fn(&BTreeMap<String, Value>) -> bool) {
        let waited = tokio::time::timeout(PATIENCE, async {
            loop {
                let revision = self.store.revision().await.expect("memory is read");
                let mut watch = self.store.watch("/shenyu/", revision);
                if is_so(&self.objects().await) {
                    return;
                }
                watch.next().await;
            }
        });
        if waited.await.is_err() {
            panic!("waited in vain for {what}: {:?}", self.objects().await.keys());
        }
    }
}

#[tokio::test]
async fn sync_in_both_roles_keeps_a_store_as_the_admin_has_it() {
    for scheme in ["ws", "http"] {
        let fixture = Fixture::new().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = format!("{scheme}://{}", listener.local_addr().expect("an address"));
        let serving = serve(listener, fixture.admin.clone(), 16, std::future::pending());
        let serving = tokio::spawn(serving);
        let follower = Follower::start(&[address]);
        follower.wait("the plugins", |objects| objects.contains_key("plugin/5")).await;
        let (selector, rule) = fixture.pair().await;
        let (selector_key, rule_key) = (format!("selector/{selector}"), format!("rule/{rule}"));
        follower.wait("a new rule", |objects| objects.contains_key(&rule_key)).await;
        let objects = follower.objects().await;
        assert_eq!(objects[&selector_key]["pluginName"], "divide", "{scheme}");
        assert!(!objects.contains_key("user/1"), "{scheme}: users stay where they are");
        let off = json!({"ids": [selector], "enabled": false});
        fixture.expect("POST", "/selector/batchEnabled", &off, "enable success").await;
        follower.wait("a change", |objects| objects[&selector_key]["enabled"] == false).await;
        fixture.expect("DELETE", "/selector/batch", &json!([selector]), "delete success").await;
        follower.wait("a deletion", |objects| !objects.contains_key(&selector_key)).await;
        follower.wait("its rule's", |objects| !objects.contains_key(&rule_key)).await;
        let reported = tokio::time::timeout(PATIENCE, async {
            loop {
                let all = fixture.admin.instances.list(&|_| None, crate::clock::now_ms());
                match all.into_iter().next() {
                    Some(instance) => return instance,
                    None => tokio::task::yield_now().await,
                }
            }
        });
        let instance = reported.await.expect("it says what it is");
        assert_eq!(instance["instanceIp"], "127.0.0.1", "{scheme}");
        assert_eq!(instance["instancePort"], "9080", "{scheme}");
        assert!(instance["instanceInfo"].as_str().is_some_and(|info| info.contains("arch")));
        serving.abort();
    }
}

/// An admin whose messages are scripted by a test.
struct Scripted {
    listener: TcpListener,
    address: String,
}

type Socket = WebSocketStream<TcpStream>;

impl Scripted {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = format!("ws://{}", listener.local_addr().expect("an address"));
        Self { listener, address }
    }

    /// Accepts the next gateway, once it has requested everything. Returns the connection and the
    /// headers of its handshake.
    async fn accept(&self) -> (Socket, BTreeMap<String, String>) {
        let (stream, _) = self.listener.accept().await.expect("a connection");
        let mut heads = BTreeMap::new();
        #[expect(clippy::result_large_err, reason = "the signature is the library's")]
        let look = |request: &Request, response: Response| {
            for (name, value) in request.headers() {
                let value = value.to_str().unwrap_or_default().to_owned();
                heads.insert(name.as_str().to_owned(), value);
            }
            heads.insert("path".to_owned(), request.uri().path().to_owned());
            Ok(response)
        };
        let socket = tokio_tungstenite::accept_hdr_async(stream, look).await;
        let mut socket = socket.expect("a handshake");
        for word in ["RUNNING_MODE", "MYSELF"] {
            loop {
                match socket.next().await.expect("a message").expect("a message") {
                    Message::Text(text) => break assert_eq!(text.as_str(), word),
                    _ => continue,
                }
            }
        }
        (socket, heads)
    }
}

async fn send(socket: &mut Socket, group: &str, event: &str, data: Value) {
    let message = json!({"groupType": group, "eventType": event, "data": data});
    socket.send(Message::text(message.to_string())).await.expect("the gateway reads");
}

const GROUPS: [&str; 7] =
    ["PLUGIN", "SELECTOR", "RULE", "APP_AUTH", "META_DATA", "PROXY_SELECTOR", "DISCOVER_UPSTREAM"];

async fn send_state(socket: &mut Socket, selectors: &Value) {
    for group in GROUPS {
        let data = if group == "SELECTOR" { selectors.clone() } else { json!([]) };
        send(socket, group, "MYSELF", data).await;
    }
}

#[tokio::test]
async fn sync_over_websocket_takes_a_state_as_one_and_then_each_change() {
    let admin = Scripted::start().await;
    let follower = Follower::start(std::slice::from_ref(&admin.address));
    let (mut socket, heads) = admin.accept().await;
    assert_eq!(heads["path"], "/websocket");
    assert_eq!(heads["namespaceid"], "649330b6-c2d7-4edc-be8e-8a54df9eb385");
    assert_eq!(heads["x-shenyu-sync-token"], "sesame");
    assert_eq!(heads["origin"], "ws://localhost:9195", "an admin compares it with a list");
    assert_eq!(heads["clientport"], "9080", "an admin fails without it");
    let standalone = json!({"eventType": "RUNNING_MODE", "isMaster": true, "runningMode": "STANDALONE", "masterUrl": ""});
    socket.send(Message::text(standalone.to_string())).await.expect("the gateway reads");
    let before = follower.store.revision().await.expect("memory is read");
    let selectors =
        json!([{"id": "1", "pluginName": "divide"}, {"id": "2", "pluginName": "divide"}]);
    send_state(&mut socket, &selectors).await;
    send(&mut socket, "AI_PROXY_API_KEY", "MYSELF", json!([{"id": "k"}])).await;
    follower.wait("the state", |objects| objects.len() == 2).await;
    let after = follower.store.revision().await.expect("memory is read");
    assert_eq!(after, before.next(), "one transaction");
    send(&mut socket, "SELECTOR", "UPDATE", json!([{"id": "1", "pluginName": "waf"}])).await;
    follower.wait("a change", |objects| objects["selector/1"]["pluginName"] == "waf").await;
    send(&mut socket, "SELECTOR", "DELETE", json!([{"id": "2"}])).await;
    follower.wait("a deletion", |objects| objects.len() == 1).await;
    // The admin returns with another state.
    drop(socket);
    let (mut socket, _) = admin.accept().await;
    assert_eq!(follower.objects().await.len(), 1, "what was there stays");
    send_state(&mut socket, &json!([{"id": "3", "pluginName": "divide"}])).await;
    follower.wait("another state", |objects| objects.keys().eq(["selector/3"])).await;
}

#[tokio::test]
async fn sync_goes_to_the_master_and_past_what_is_no_admin() {
    let (broken, slave, master) =
        (Scripted::start().await, Scripted::start().await, Scripted::start().await);
    let listed = [&broken, &slave, &master].map(|admin| admin.address.clone());
    let follower = Follower::start(&listed);
    let (mut socket, _) = broken.accept().await;
    socket.send(Message::text("[not an envelope")).await.expect("the gateway reads");
    let (mut socket, _) = slave.accept().await;
    let url = master.address.replace("ws://", "http://");
    let mode = json!({"eventType": "RUNNING_MODE", "isMaster": false, "runningMode": "CLUSTER", "masterUrl": url});
    socket.send(Message::text(mode.to_string())).await.expect("the gateway reads");
    let (mut socket, _) = master.accept().await;
    send_state(&mut socket, &json!([{"id": "1", "pluginName": "divide"}])).await;
    follower.wait("the master's state", |objects| objects.contains_key("selector/1")).await;
}

/// Reads the next request of a connection: its path and its body; `None` once it has ended.
async fn read_request(stream: &mut BufReader<TcpStream>) -> Option<(String, String)> {
    let (mut path, mut length) = (None, 0);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok().filter(|count| *count > 0)?;
        if path.is_none() {
            path = line.split(' ').nth(1).map(str::to_owned);
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length");
        }
        if line.trim().is_empty() {
            let mut body = vec![0; length];
            stream.read_exact(&mut body).await.ok()?;
            return Some((path?, String::from_utf8(body).expect("a form is text")));
        }
    }
}

#[tokio::test]
async fn an_admin_that_holds_no_poll_is_not_asked_without_a_pause() {
    /// Minimum duration of the four polls after the first one.
    const PAUSES: Duration = Duration::from_millis(400);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let _follower = Follower::start(&[address]);
    let (stream, _) = listener.accept().await.expect("a connection");
    let mut stream = BufReader::new(stream);
    let (mut polls, mut begun) = (0, Instant::now());
    while polls < 5 {
        let (path, _) = read_request(&mut stream).await.expect("a request");
        let data = match path.split('?').next() {
            Some("/platform/login") => r#"{"token":"t"}"#,
            Some("/configs/listener") => {
                polls += 1;
                "[]"
            }
            _ => {
                // The first poll follows the answer to this request.
                begun = Instant::now();
                "{}"
            }
        };
        let body = format!(r#"{{"code":200,"message":"","data":{data}}}"#);
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(answer.as_bytes()).await.expect("the gateway reads");
    }
    assert!(begun.elapsed() >= PAUSES, "{:?}", begun.elapsed());
}

/// Answers the requests of a polling gateway until its first poll, as an admin with these groups: a
/// fetch of any other group is refused. Returns the form of the poll.
async fn serve_polls(stream: TcpStream, groups: &[&str]) -> String {
    let mut stream = BufReader::new(stream);
    loop {
        let (path, form) = read_request(&mut stream).await.expect("a request");
        let (place, query) = path.split_once('?').unwrap_or((&path, ""));
        let asked: Vec<&str> =
            query.split('&').filter_map(|it| it.strip_prefix("groupKeys=")).collect();
        let answer = match place {
            "/platform/login" => json!({"code": 200, "data": {"token": "t"}}),
            "/configs/listener" => return form,
            _ if asked.iter().all(|name| groups.contains(name)) => {
                let group = |name: &str| {
                    (name.to_owned(), json!({"md5": name, "lastModifyTime": 7, "data": []}))
                };
                let data: serde_json::Map<String, Value> =
                    asked.iter().map(|name| group(name)).collect();
                json!({"code": 200, "data": data})
            }
            _ => json!({"code": 500, "message": "no such group"}),
        };
        let body = answer.to_string();
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(answer.as_bytes()).await.expect("the gateway reads");
    }
}

#[tokio::test]
async fn polls_name_each_group_that_the_admin_has_and_no_other() {
    let newer: Vec<&str> = GROUPS.into_iter().chain(["AI_PROXY_API_KEY"]).collect();
    for groups in [&newer[..], &GROUPS] {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let _follower = Follower::start(&[address]);
        let (stream, _) = listener.accept().await.expect("a connection");
        let form = tokio::time::timeout(PATIENCE, serve_polls(stream, groups)).await;
        let form = form.expect("it polls");
        let mut names: Vec<&str> =
            form.split('&').filter_map(|it| it.split('=').next()).skip(1).collect();
        let mut wanted = groups.to_vec();
        names.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(names, wanted, "{form}");
        assert!(form.contains("PLUGIN=PLUGIN%2C7"), "{form}");
    }
}

#[tokio::test]
async fn sync_over_tls_takes_only_admins_that_the_authorities_have_signed_for() {
    let signed =
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let pem = |label: &str, der: &[u8]| {
        let text = STANDARD.encode(der);
        format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
    };
    let cert = pem("CERTIFICATE", signed.cert.der());
    let key = pem("PRIVATE KEY", &signed.signing_key.serialize_der());
    let tls = ListenerTls::from_pem(cert.as_bytes(), key.as_bytes(), None).expect("they fit");
    let fixture = Fixture::new().await;
    fixture.pair().await;
    let plain = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let inner = plain.local_addr().expect("an address");
    let serving = tokio::spawn(serve(plain, fixture.admin.clone(), 16, std::future::pending()));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let ending = tokio::spawn(async move {
        let mut connections = tokio::task::JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let tls = tls.clone();
            connections.spawn(async move {
                let Ok(mut outer) = tls.accept(stream).await else { return };
                let mut inner = TcpStream::connect(inner).await.expect("it listens");
                let _ = tokio::io::copy_bidirectional(&mut outer, &mut inner).await;
            });
        }
    });
    let folder = tempfile::tempdir().expect("a folder");
    let authorities = folder.path().join("ca.pem");
    std::fs::write(&authorities, &cert).expect("it is written");
    for scheme in ["wss", "https"] {
        let addresses = [format!("{scheme}://localhost:{port}")];
        let follower = Follower::trusting(&addresses, Some(authorities.clone()));
        follower.wait(scheme, |objects| objects.keys().any(|key| key.starts_with("rule/"))).await;
        let refused = check_connection(&addresses[0]).await.expect_err("nobody has signed for it");
        assert!(refused.contains("certificate"), "{refused}");
    }
    serving.abort();
    ending.abort();
}
