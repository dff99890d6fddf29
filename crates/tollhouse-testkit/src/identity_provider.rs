//! Identity provider for tests (OpenID Connect) with a single user. Each endpoint can be told to
//! behave correctly, not answer, or answer anything. The actions of a browser and its user are
//! method calls.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::message::Message;
use crate::origin::{Connection, Origin};

/// Id and secret of the registered client.
pub const CLIENT: (&str, &str) = ("shop", "s&cret");

/// Behaviour of an endpoint, to be chosen by a test.
#[derive(Debug, Clone, PartialEq)]
pub enum Behaviour {
    /// Answers as the specification requires.
    Honest,
    /// Closes the connection without an answer.
    Away,
    /// Reads the request and never answers.
    Silent,
    /// Breaks off in the middle of the response.
    Half,
    /// Redirects to another address.
    Redirect,
    /// Sends a body of 100 MB.
    Endless,
    /// Answers with this status and body.
    Says(u16, String),
    /// Answers correctly, but with these members replaced; `null` removes one.
    With(Value),
}

/// Identity provider that a test has started.
#[derive(Debug)]
pub struct IdentityProvider {
    origin: Origin,
    state: Arc<Mutex<State>>,
}

struct State {
    address: String,
    behaviours: HashMap<&'static str, Behaviour>,
    keys: Vec<SigningKey>,
    /// Fixed time in seconds since 1970; the system's clock if `None`.
    now_s: Option<u64>,
    access_lasts_s: u64,
    /// Claims that replace those of ID tokens.
    id_claims: Value,
    codes: HashMap<String, Asked>,
    refresh_tokens: Vec<String>,
    access_tokens: Vec<String>,
    given: usize,
    requests: Vec<(String, Message)>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "State({})", self.address)
    }
}

struct SigningKey {
    id: String,
    key: EcdsaKeyPair,
}

/// Parameters that an authorization code was issued for.
struct Asked {
    nonce: Option<String>,
    challenge: Option<String>,
    redirect_uri: String,
}

impl IdentityProvider {
    /// Starts a provider with a new key.
    ///
    /// # Panics
    ///
    /// If loopback cannot be bound.
    #[must_use]
    pub fn start() -> Self {
        let state = Arc::new(Mutex::new(State {
            address: String::new(),
            behaviours: HashMap::new(),
            keys: vec![SigningKey::new("key-1")],
            now_s: None,
            access_lasts_s: 300,
            id_claims: json!({}),
            codes: HashMap::new(),
            refresh_tokens: Vec::new(),
            access_tokens: Vec::new(),
            given: 0,
            requests: Vec::new(),
        }));
        let serving = Arc::clone(&state);
        let origin = Origin::script(move |connection| serve(connection, &serving));
        lock(&state).address = format!("http://{}", origin.address());
        Self { origin, state }
    }

    /// Fixes its clock at a time in seconds since 1970.
    #[must_use]
    pub fn at(self, now_s: u64) -> Self {
        self.set_time(now_s);
        self
    }

    /// Sets its clock to a time in seconds since 1970.
    pub fn set_time(&self, now_s: u64) {
        lock(&self.state).now_s = Some(now_s);
    }

    pub fn issuer(&self) -> String {
        format!("{}/realm", lock(&self.state).address)
    }

    /// Returns the URL of the discovery document.
    pub fn discovery(&self) -> String {
        self.url("/.well-known/openid-configuration")
    }

    /// Returns the URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", lock(&self.state).address)
    }

    /// Sets the behaviour of a path such as `/token`.
    pub fn behave(&self, path: &'static str, behaviour: Behaviour) {
        lock(&self.state).behaviours.insert(path, behaviour);
    }

    /// Sets the lifetime of access tokens that are issued from now on.
    pub fn grant_for(&self, seconds: u64) {
        lock(&self.state).access_lasts_s = seconds;
    }

    /// Replaces claims of ID tokens that are issued from now on.
    pub fn claim(&self, claims: Value) {
        lock(&self.state).id_claims = claims;
    }

    /// Replaces the signing key by a new one, which is then the only one published.
    pub fn change_key(&self, id: &str) {
        lock(&self.state).keys = vec![SigningKey::new(id)];
    }

    /// Issues a signed token with these claims, besides issuer, subject and expiry.
    pub fn token(&self, claims: &Value) -> String {
        let state = lock(&self.state);
        let own = json!({"iss": format!("{}/realm", state.address), "sub": "user-1",
            "exp": state.now() + 300});
        state.sign(&merged(own, claims))
    }

    /// Revokes all access and refresh tokens.
    pub fn end_tokens(&self) {
        let mut state = lock(&self.state);
        state.access_tokens.clear();
        state.refresh_tokens.clear();
    }

    /// Returns the requests received at a path, in order.
    pub fn requests(&self, path: &str) -> Vec<Message> {
        let state = lock(&self.state);
        let at_path = state.requests.iter().filter(|(other, _)| other == path);
        at_path.map(|(_, request)| request.clone()).collect()
    }

    /// Returns the number of accepted connections.
    pub fn connections(&self) -> usize {
        self.origin.connections()
    }

    /// Logs the user in, as a browser that was redirected to `location` would, and returns the URL
    /// that it is redirected back to.
    ///
    /// # Panics
    ///
    /// If `location` is not the authorization endpoint, or lacks a required parameter.
    pub fn log_in(&self, location: &str) -> String {
        let endpoint = self.url("/authorize");
        let query = location.strip_prefix(&endpoint).and_then(|rest| rest.strip_prefix('?'));
        let parameters = form(query.unwrap_or_else(|| panic!("{location} is elsewhere")));
        let get = |name: &str| parameters.get(name).cloned();
        assert_eq!(get("response_type").as_deref(), Some("code"), "{location}");
        assert_eq!(get("client_id").as_deref(), Some(CLIENT.0), "{location}");
        if let Some(challenge) = &get("code_challenge") {
            assert_eq!(get("code_challenge_method").as_deref(), Some("S256"), "{challenge}");
        }
        let redirect_uri = get("redirect_uri").expect("a place to come back to");
        let mut state = lock(&self.state);
        state.given += 1;
        let code = format!("code-{}", state.given);
        let asked = Asked {
            nonce: get("nonce"),
            challenge: get("code_challenge"),
            redirect_uri: redirect_uri.clone(),
        };
        state.codes.insert(code.clone(), asked);
        format!("{redirect_uri}?code={code}&state={}", get("state").unwrap_or_default())
    }
}

impl SigningKey {
    fn new(id: &str) -> Self {
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key");
        Self { id: id.to_owned(), key }
    }

    fn public(&self) -> Value {
        // An uncompressed point: one byte, then two coordinates of 32 bytes.
        let point = self.key.public_key().as_ref();
        let part = |range: std::ops::Range<usize>| URL_SAFE_NO_PAD.encode(&point[range]);
        json!({"kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": self.id,
            "x": part(1..33), "y": part(33..65)})
    }
}

impl State {
    fn now(&self) -> u64 {
        let clock = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
        self.now_s.unwrap_or_else(clock)
    }

    fn sign(&self, claims: &Value) -> String {
        let key = self.keys.last().expect("there is one");
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let text = format!("{}.{}", part(&json!({"alg": "ES256", "kid": key.id})), part(claims));
        let signature = key.key.sign(&SystemRandom::new(), text.as_bytes()).expect("it signs");
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// Returns status and body of a correct answer.
    fn answer(&mut self, path: &str, request: &Message) -> (u16, Value) {
        let own = |path: &str| format!("{}{path}", self.address);
        let body = String::from_utf8_lossy(&request.body).into_owned();
        match path {
            "/.well-known/openid-configuration" | "/realm/.well-known/openid-configuration" => (
                200,
                json!({
                    "issuer": own("/realm"),
                    "authorization_endpoint": own("/authorize"),
                    "token_endpoint": own("/token"),
                    "jwks_uri": own("/keys"),
                    "userinfo_endpoint": own("/userinfo"),
                    "introspection_endpoint": own("/introspect"),
                    "revocation_endpoint": own("/revoke"),
                    "end_session_endpoint": own("/logout"),
                    "pushed_authorization_request_endpoint": own("/par"),
                }),
            ),
            "/keys" => {
                let keys: Vec<Value> = self.keys.iter().map(SigningKey::public).collect();
                (200, json!({ "keys": keys }))
            }
            "/token" => self.grant(request, &form(&body)),
            "/userinfo" => {
                let token = request.field("authorization").unwrap_or_default();
                let token = token.strip_prefix("Bearer ").unwrap_or_default();
                match self.access_tokens.iter().any(|known| known == token) {
                    true => (200, json!({"sub": "user-1", "name": "J\u{f6}rg\r\nX-Admin: yes"})),
                    false => (401, json!({})),
                }
            }
            "/introspect" => {
                let token = form(&body).remove("token").unwrap_or_default();
                match self.access_tokens.contains(&token) {
                    true => (
                        200,
                        json!({"active": true, "sub": "user-1", "scope": "read write",
                        "aud": ["shop", "other"], "exp": self.now() + self.access_lasts_s}),
                    ),
                    false => (200, json!({"active": false})),
                }
            }
            "/revoke" => (200, json!({})),
            _ => (404, json!({})),
        }
    }

    fn grant(&mut self, request: &Message, fields: &HashMap<String, String>) -> (u16, Value) {
        let refused = |error: &str| (400, json!({ "error": error }));
        let get = |name: &str| fields.get(name).map(String::as_str);
        if !knows_client(request, fields) {
            return (401, json!({"error": "invalid_client"}));
        }
        let nonce = match get("grant_type") {
            Some("authorization_code") => {
                let asked = self.codes.remove(get("code").unwrap_or_default());
                let Some(asked) = asked else { return refused("invalid_grant") };
                let proof = get("code_verifier").map(challenge);
                if get("redirect_uri") != Some(&asked.redirect_uri) || proof != asked.challenge {
                    return refused("invalid_grant");
                }
                asked.nonce
            }
            Some("refresh_token") => {
                let token = get("refresh_token").unwrap_or_default();
                let known = self.refresh_tokens.iter().position(|known| known == token);
                let Some(at) = known else { return refused("invalid_grant") };
                // A refresh token is valid once.
                self.refresh_tokens.remove(at);
                None
            }
            _ => return refused("unsupported_grant_type"),
        };
        self.given += 1;
        let (access, refresh) =
            (format!("access-{}", self.given), format!("refresh-{}", self.given));
        self.access_tokens.push(access.clone());
        self.refresh_tokens.push(refresh.clone());
        let now_s = self.now();
        let mut claims = json!({"iss": format!("{}/realm", self.address), "sub": "user-1",
            "aud": CLIENT.0, "iat": now_s, "exp": now_s + 300});
        if let Some(nonce) = nonce {
            claims["nonce"] = nonce.into();
        }
        let id_token = self.sign(&merged(claims, &self.id_claims));
        (
            200,
            json!({"access_token": access, "token_type": "Bearer", "refresh_token": refresh,
            "expires_in": self.access_lasts_s, "id_token": id_token}),
        )
    }
}

fn serve(connection: &mut Connection, state: &Mutex<State>) {
    while let Some(request) = connection.request() {
        let path = request.target().split('?').next().unwrap_or_default().to_owned();
        let (behaviour, (status, body)) = {
            let mut state = lock(state);
            state.requests.push((path.clone(), request.clone()));
            let behaviour = state.behaviours.get(&*path).cloned().unwrap_or(Behaviour::Honest);
            let is_asked = matches!(behaviour, Behaviour::Honest | Behaviour::With(_));
            let answer = if is_asked { state.answer(&path, &request) } else { (200, Value::Null) };
            (behaviour, answer)
        };
        let goes_on = match behaviour {
            Behaviour::Honest => connection.send(answer(status, &body.to_string())),
            Behaviour::With(members) => {
                connection.send(answer(status, &merged(body, &members).to_string()))
            }
            Behaviour::Says(status, body) => connection.send(answer(status, &body)),
            Behaviour::Redirect => connection.send(
                "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
            ),
            Behaviour::Away => false,
            Behaviour::Half => {
                connection.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"issuer\"");
                false
            }
            // The client gives up first.
            Behaviour::Silent => connection.wait_end().is_err(),
            Behaviour::Endless => {
                let head = "HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n";
                let piece = vec![b' '; 1 << 16];
                let _ = connection.send(head) && (0..1_525).all(|_| connection.send(&piece));
                false
            }
        };
        if !goes_on {
            return;
        }
    }
}

fn answer(status: u16, body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn knows_client(request: &Message, fields: &HashMap<String, String>) -> bool {
    let (id, secret) = CLIENT;
    let pair = base64::engine::general_purpose::STANDARD.encode(format!("{id}:s%26cret"));
    request.field("authorization") == Some(&*format!("Basic {pair}"))
        || (fields.get("client_id").map(String::as_str) == Some(id)
            && fields.get("client_secret").map(String::as_str) == Some(secret))
}

/// Returns the challenge of a code verifier (RFC 7636, S256).
fn challenge(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, verifier.as_bytes()))
}

fn merged(mut own: Value, members: &Value) -> Value {
    for (name, value) in members.as_object().into_iter().flatten() {
        match value {
            Value::Null => drop(own.as_object_mut().and_then(|own| own.remove(name))),
            value => own[name] = value.clone(),
        }
    }
    own
}

/// Parses the names and values of a query or form.
pub fn form(text: &str) -> HashMap<String, String> {
    let decoded = |text: &str| {
        let mut bytes = Vec::new();
        let mut rest = text.as_bytes();
        while let Some((first, behind)) = rest.split_first() {
            let escaped = (*first == b'%').then(|| behind.get(..2)).flatten();
            let escaped = escaped.and_then(|two| std::str::from_utf8(two).ok());
            match escaped.and_then(|two| u8::from_str_radix(two, 16).ok()) {
                Some(byte) => {
                    bytes.push(byte);
                    rest = &behind[2..];
                }
                None => {
                    bytes.push(if *first == b'+' { b' ' } else { *first });
                    rest = behind;
                }
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.map(|(name, value)| (decoded(name), decoded(value))).collect()
}
