//! Authority in memory with scripted behaviour. It accepts any signature, and verifies challenges
//! at the nodes that were registered with it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{Request, Response};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DnType, IsCa, Issuer,
    KeyPair,
};
use rustls_pki_types::CertificateSigningRequestDer;
use serde_json::{Value, json};

use super::{TestResponder, VirtualClock};
use crate::clock::Clock;
use crate::transport::{Exchange, Transport, TransportError};

/// Returns the URL of a path of the authority.
pub(crate) fn url(path: &str) -> String {
    format!("https://ca.test{path}")
}

/// Fault of a single response.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// Error status, and the seconds in `Retry-After`.
    Later(u16, Option<u64>),
    /// Only the first half of the body is sent.
    Truncated,
    NoAnswer,
    /// Problem document with this type, and status 403.
    Problem(&'static str),
    /// The request gets no response.
    Silent,
}

/// Behaviour of the authority.
#[derive(Debug, Clone)]
pub(crate) struct Behaviour {
    /// Lifetime of certificates, in seconds.
    pub(crate) life_s: u64,
    /// Whether challenges succeed.
    pub(crate) sees_answers: bool,
    /// Start and end of the renewal window, and the seconds until it should be requested again.
    pub(crate) window_s: Option<(u64, u64, u64)>,
    /// Whether the nonce of every second request is refused.
    pub(crate) refuses_nonces: bool,
    /// Whether a new account needs an external account.
    pub(crate) wants_external_account: bool,
    /// Name in issued certificates, in place of the requested one.
    pub(crate) wrong_name: Option<&'static str>,
}

struct Order {
    host: String,
    status: &'static str,
    certificate: Option<String>,
    error: Option<Value>,
}

struct State {
    behaviour: Behaviour,
    faults: VecDeque<(&'static str, Fault)>,
    orders: Vec<Order>,
    accounts: usize,
    /// Time and path of each request.
    log: Vec<(u64, String)>,
    visited: Vec<Arc<TestResponder>>,
    nonces: u64,
}

pub(crate) struct Directory {
    clock: VirtualClock,
    issuer: Issuer<'static, KeyPair>,
    state: Mutex<State>,
}

impl Directory {
    pub(crate) fn new(clock: VirtualClock) -> Arc<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "Test authority");
        let issuer = Issuer::new(params, KeyPair::generate().expect("a key"));
        let behaviour = Behaviour {
            life_s: 6 * 86_400,
            sees_answers: true,
            window_s: None,
            refuses_nonces: false,
            wants_external_account: false,
            wrong_name: None,
        };
        let state = State {
            behaviour,
            faults: VecDeque::new(),
            orders: Vec::new(),
            accounts: 0,
            log: Vec::new(),
            visited: Vec::new(),
            nonces: 0,
        };
        Arc::new(Self { clock, issuer, state: Mutex::new(state) })
    }

    pub(crate) fn transport(self: &Arc<Self>) -> Client {
        Client(Arc::clone(self))
    }

    pub(crate) fn visit(&self, answered: &Arc<TestResponder>) {
        self.lock().visited.push(Arc::clone(answered));
    }

    pub(crate) fn behave(&self, change: impl FnOnce(&mut Behaviour)) {
        change(&mut self.lock().behaviour);
    }

    /// Makes the next request with this path prefix fail.
    pub(crate) fn fail(&self, path: &'static str, fault: Fault) {
        self.lock().faults.push_back((path, fault));
    }

    /// Returns the times of requests with this path prefix.
    pub(crate) fn asked_s(&self, path: &str) -> Vec<u64> {
        let state = self.lock();
        let asked = state.log.iter().filter(|(_, asked)| asked.starts_with(path));
        asked.map(|(at_s, _)| *at_s).collect()
    }

    /// Returns the number of orders.
    pub(crate) fn orders(&self) -> usize {
        self.lock().orders.len()
    }

    pub(crate) fn accounts(&self) -> usize {
        self.lock().accounts
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, path: &str, body: &[u8]) -> Option<Response<Bytes>> {
        let mut state = self.lock();
        state.log.push((self.clock.now_s(), path.to_owned()));
        state.nonces += 1;
        let nonce = state.nonces;
        let is_post = !body.is_empty();
        let at = state.faults.iter().position(|(prefix, _)| path.starts_with(prefix));
        let fault = at.and_then(|at| state.faults.remove(at)).map(|(_, fault)| fault);
        let refuses = state.behaviour.refuses_nonces && is_post && nonce.is_multiple_of(2);
        let (status, value, headers) = match fault {
            Some(Fault::Silent) => return None,
            Some(Fault::Later(status, wait)) => {
                let wait = wait.map(|wait| ("retry-after", wait.to_string()));
                let problem = json!({
                    "type": "urn:ietf:params:acme:error:rateLimited", "detail": "too many of them",
                });
                (status, problem, wait.into_iter().collect())
            }
            Some(Fault::Problem(name)) => (403, problem(name), Vec::new()),
            _ if refuses => (400, problem("badNonce"), Vec::new()),
            _ => self.serve(&mut state, path, body),
        };
        let mut text = match value {
            Value::String(text) => text,
            value => value.to_string(),
        };
        if matches!(fault, Some(Fault::Truncated)) {
            text.truncate(text.len() / 2);
        }
        let mut response = Response::builder().status(status);
        response = response.header("replay-nonce", format!("nonce-{nonce}"));
        for (name, value) in headers {
            response = response.header(name, value);
        }
        Some(response.body(text.into()).expect("an answer"))
    }

    fn serve(&self, state: &mut State, path: &str, body: &[u8]) -> Answer {
        let payload = payload_of(body);
        let mut parts = path.trim_start_matches('/').splitn(2, '/');
        let (what, rest) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let number: usize = rest.parse().unwrap_or(usize::MAX);
        let ok = |value: Value| (200, value, Vec::new());
        match what {
            "dir" => ok(json!({
                "newNonce": url("/nonce"), "newAccount": url("/account"),
                "newOrder": url("/new-order"), "renewalInfo": url("/ari"),
            })),
            "nonce" => ok(json!("")),
            "account" => {
                let is_bound = payload.get("externalAccountBinding").is_some();
                if state.behaviour.wants_external_account && !is_bound {
                    return (403, problem("externalAccountRequired"), Vec::new());
                }
                state.accounts += 1;
                let location = url(&format!("/accounts/{}", state.accounts));
                (201, json!({"status": "valid"}), vec![("location", location)])
            }
            "new-order" => {
                let host = payload["identifiers"][0]["value"].as_str().expect("a name").to_owned();
                let order = Order { host, status: "pending", certificate: None, error: None };
                state.orders.push(order);
                let number = state.orders.len() - 1;
                let mut value = order_value(&state.orders[number], number);
                if let Some(replaces) = payload.get("replaces") {
                    value["replaces"] = replaces.clone();
                }
                (201, value, vec![("location", url(&format!("/order/{number}")))])
            }
            "order" => ok(order_value(&state.orders[number], number)),
            "authz" => ok(authorization(&state.orders[number], number)),
            "chall" => {
                let token = format!("token-{number}");
                let pending = state.visited.iter().flat_map(|node| node.pending());
                let is_answered = pending.into_iter().any(|it| it.token == token);
                let order = &mut state.orders[number];
                if is_answered && state.behaviour.sees_answers {
                    order.status = "ready";
                } else {
                    order.status = "invalid";
                    order.error = Some(problem("connection"));
                }
                ok(challenge(order, number))
            }
            "finalize" => {
                let csr = payload["csr"].as_str().expect("a request");
                let csr = BASE64_URL_SAFE_NO_PAD.decode(csr).expect("base64");
                let certificate = self.issue(&state.behaviour, csr);
                let order = &mut state.orders[number];
                order.certificate = Some(certificate);
                order.status = "valid";
                ok(order_value(order, number))
            }
            "cert" => ok(json!(state.orders[number].certificate.clone().expect("it is issued"))),
            "ari" => match state.behaviour.window_s {
                None => (404, problem("malformed"), Vec::new()),
                Some((start_s, end_s, wait_s)) => {
                    let window = json!({"start": rfc3339(start_s), "end": rfc3339(end_s)});
                    let wait = vec![("retry-after", wait_s.to_string())];
                    (200, json!({ "suggestedWindow": window }), wait)
                }
            },
            other => panic!("nothing is at /{other}"),
        }
    }

    fn issue(&self, behaviour: &Behaviour, csr: Vec<u8>) -> String {
        let csr = CertificateSigningRequestDer::from(csr);
        let mut request = CertificateSigningRequestParams::from_der(&csr).expect("a request");
        let now_s = i64::try_from(self.clock.now_s()).expect("a time");
        let life_s = i64::try_from(behaviour.life_s).expect("a time");
        let time = |at_s| time::OffsetDateTime::from_unix_timestamp(at_s).expect("a time");
        if let Some(name) = behaviour.wrong_name {
            let other = CertificateParams::new([name.to_owned()]).expect("a name");
            request.params.subject_alt_names = other.subject_alt_names;
        }
        request.params.not_before = time(now_s);
        request.params.not_after = time(now_s + life_s);
        request.params.use_authority_key_identifier_extension = true;
        request.signed_by(&self.issuer).expect("it signs").pem()
    }
}

type Answer = (u16, Value, Vec<(&'static str, String)>);

fn order_value(order: &Order, number: usize) -> Value {
    let mut value = json!({
        "status": order.status,
        "identifiers": [{"type": "dns", "value": order.host}],
        "authorizations": [url(&format!("/authz/{number}"))],
        "finalize": url(&format!("/finalize/{number}")),
    });
    if order.status == "valid" {
        value["certificate"] = url(&format!("/cert/{number}")).into();
    }
    value
}

fn authorization(order: &Order, number: usize) -> Value {
    let status = match order.status {
        "pending" | "invalid" => order.status,
        _ => "valid",
    };
    json!({
        "identifier": {"type": "dns", "value": order.host},
        "status": status,
        "challenges": [challenge(order, number)],
    })
}

fn challenge(order: &Order, number: usize) -> Value {
    let status = match order.status {
        "pending" | "invalid" => order.status,
        _ => "valid",
    };
    let mut value = json!({
        "type": "http-01", "url": url(&format!("/chall/{number}")), "status": status,
        "token": format!("token-{number}"),
    });
    // The challenge fails when its state is requested, as with authorities that verify challenges
    // after their response.
    if let (Some(error), "invalid") = (&order.error, status) {
        value["error"] = error.clone();
    }
    value
}

fn problem(name: &str) -> Value {
    json!({"type": format!("urn:ietf:params:acme:error:{name}"), "detail": format!("it is {name}")})
}

fn rfc3339(unix_s: u64) -> String {
    let unix_s = i64::try_from(unix_s).expect("a time");
    let date = tollhouse_stdx::civil::CivilTime::from_unix_seconds(unix_s).iso_date();
    String::from_utf8(date.to_vec()).expect("text")
}

fn payload_of(body: &[u8]) -> Value {
    let signed: Value = serde_json::from_slice(body).unwrap_or_default();
    let payload = signed["payload"].as_str().unwrap_or_default();
    let payload = BASE64_URL_SAFE_NO_PAD.decode(payload).unwrap_or_default();
    serde_json::from_slice(&payload).unwrap_or_default()
}

/// Transport to the authority.
pub(crate) struct Client(Arc<Directory>);

impl Transport for Client {
    fn send(&self, request: Request<Bytes>) -> Exchange {
        let directory = Arc::clone(&self.0);
        Box::pin(async move {
            let path = request.uri().path().to_owned();
            {
                let mut state = directory.lock();
                let is_cut = |(prefix, fault): &(&str, Fault)| {
                    path.starts_with(prefix) && matches!(fault, Fault::NoAnswer)
                };
                if let Some(at) = state.faults.iter().position(is_cut) {
                    state.faults.remove(at);
                    let at_s = directory.clock.now_s();
                    state.log.push((at_s, path));
                    let reason = "connection refused".to_owned();
                    return Err(TransportError { host: "ca.test".to_owned(), reason });
                }
            }
            match directory.answer(&path, request.body()) {
                Some(answer) => Ok(answer),
                None => std::future::pending().await,
            }
        })
    }
}
