//! Admits users of a wolf server by their roles (RBAC).
//!
//! Clients send the token that they get at the login endpoint. For each request, the wolf server
//! decides whether the user may use the method on the path.
//!
//! # Example
//! ```json
//! {}
//! ```
//!
//! # Answers
//! - 401 `Missing rbac token in request`, 401 `invalid rbac token: parse failed`
//! - 401 `Invalid appid in rbac token` when no consumer has the token's application
//! - the wolf server's status with its reason when it refuses
//! - 500 `request to wolf-server failed, …` when it does not answer
//!
//! # Notes
//! The token is the argument `rbac_token`, the header `Authorization` or `x-rbac-token`, or the cookie
//! `x-rbac-token`. Nodes and clients get the user in `X-UserId`, `X-Username` and `X-Nickname`. The
//! address of the server is in the consumer, together with `appid`. The plugin `public-api` exposes
//! `/apisix/plugin/wolf-rbac/login` (POST), `/apisix/plugin/wolf-rbac/change_pwd` (PUT) and
//! `/apisix/plugin/wolf-rbac/user_info` (GET).

use std::time::Duration;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tollhouse_plugin::{
    Answer, Carrier, Category, ConfError, ConsumerSpec, Credential, Flow, Identity, LocalFuture,
    Phases, Plugin, PluginEndpoint, RefusalKind, RequestContext, ResponseContext, Scope, Step,
};

use crate::http_client::{Call, ClientError, HttpClient, Repeat, Reply, Reuse, Target};
use crate::shared::auth::grant::digest_of;
use crate::shared::confs::defaults::defaults;
use crate::shared::messages::request_document::{form_document, text, text_of};

const TOKEN_VERSION: &str = "V1";
const MISSING_TOKEN: &str = "Missing rbac token in request";
const BAD_TOKEN: &str = "invalid rbac token: parse failed";
const FAILED: &str = "request to wolf-server failed!";

/// Timeout for a decision of the wolf server.
const DECISION_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout for an answer to an endpoint.
const ENDPOINT_TIMEOUT: Duration = Duration::from_secs(5);
/// Number of times that the wolf server is asked for one decision.
const TRIES_MAX: u32 = 3;
const TIME_BETWEEN_TRIES: Duration = Duration::from_millis(100);
/// Longest body of a request to an endpoint, in bytes; it holds names and passwords.
const ENDPOINT_BODY_BYTES_MAX: u64 = 64 << 10;
/// Connections to wolf servers that each core keeps.
const REUSE: Reuse = Reuse::For { idle: Duration::from_secs(60), connections_max: 5 };

/// Configuration of `wolf-rbac` in routes; the fields matter in consumers only.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Application of the wolf server.
    #[serde(default = "default_appid")]
    pub appid: String,
    /// Address of the wolf server.
    #[serde(default = "default_server")]
    pub server: String,
    /// Prefix of the headers that tell the user; `X-` by default.
    #[serde(default = "default_prefix")]
    pub header_prefix: String,
    /// Whether the wolf server's TLS certificate is verified; off by default.
    #[serde(default)]
    pub ssl_verify: bool,
}

defaults! {
    default_appid: String = "unset".into();
    default_server: String = "http://127.0.0.1:12180".into();
    default_prefix: String = "X-".into();
}

impl tollhouse_plugin::consumer::Identity for Config {
    const KEY_FIELD: &'static str = "appid";
}

#[derive(Debug)]
pub struct WolfRbac;

/// Token of a client.
struct Token {
    appid: String,
    /// Token of the wolf server.
    inner: String,
}

/// User that the wolf server names.
struct User {
    id: String,
    username: String,
    nickname: String,
}

/// Headers that tell the client its user.
struct UserHeaders(Vec<(String, String)>);

/// Refusal with status and message.
type Refused = (u16, String);

impl Plugin for WolfRbac {
    const NAME: &'static str = "wolf-rbac";
    const PRIORITY: i32 = 2555;
    const CATEGORY: Category = Category::Authentication;
    const PHASES: Phases = Phases::REWRITE.union(Phases::RESPONSE);
    type Config = Config;

    fn consumer() -> Option<ConsumerSpec> {
        Some(ConsumerSpec::new::<Config>())
    }

    fn endpoints() -> &'static [PluginEndpoint] {
        &[
            PluginEndpoint {
                method: "POST",
                path: "/apisix/plugin/wolf-rbac/login",
                answer: |cx, _| ended(login(cx)),
            },
            PluginEndpoint {
                method: "PUT",
                path: "/apisix/plugin/wolf-rbac/change_pwd",
                answer: |cx, _| ended(change_password(cx)),
            },
            PluginEndpoint {
                method: "GET",
                path: "/apisix/plugin/wolf-rbac/user_info",
                answer: |cx, _| ended(user_info(cx)),
            },
        ]
    }

    fn compile(_config: Config, _scope: &Scope<'_>) -> Result<Self, ConfError> {
        Ok(Self)
    }

    fn rewrite<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        Step::wait(async move {
            match admit(cx).await {
                Ok(()) => Flow::Continue,
                Err(answer) => answer.borrowed().into(),
            }
        })
    }

    fn response(&self, cx: &mut ResponseContext<'_>) {
        let Some(UserHeaders(lines)) = cx.recall::<UserHeaders>().map(std::mem::take) else {
            return;
        };
        lines.iter().for_each(|(name, value)| cx.set_header(name, value.as_bytes()));
    }
}

impl Default for UserHeaders {
    fn default() -> Self {
        Self(Vec::new())
    }
}

async fn admit(cx: &mut RequestContext<'_>) -> Result<(), Answer<'static>> {
    let refused = |message: &'static str| {
        let kind = match message == MISSING_TOKEN {
            true => RefusalKind::AuthMissing,
            false => RefusalKind::AuthInvalid,
        };
        Answer::message(401, message).refused(kind)
    };
    let (token, carrier) = token(cx).ok_or_else(|| refused(MISSING_TOKEN))?;
    let token = Token::parse(&token).ok_or_else(|| refused(BAD_TOKEN))?;
    let credential = cx.find_credential(WolfRbac::NAME, token.appid.as_bytes());
    let credential = credential.ok_or_else(|| refused("Invalid appid in rbac token"))?;
    let config = config(credential).ok_or_else(|| refused("Invalid appid in rbac token"))?;
    let prefix = config.header_prefix.clone();
    let decision = decide(cx, config, &token).await;
    for name in ["UserId", "Username", "Nickname"] {
        cx.remove_header(&format!("{prefix}{name}"));
    }
    let (status, reason, user) = match decision {
        Ok(decision) => decision,
        Err((status, reason)) => {
            return Err(Answer::message(status, &reason).refused(RefusalKind::PluginFailed));
        }
    };
    if let Some(user) = &user {
        announce(cx, &prefix, user);
    }
    if status != 200 {
        let mut body = json!({"message": reason});
        if let Some(user) = user {
            body["username"] = user.username.into();
            body["nickname"] = user.nickname.into();
        }
        return Err(Answer::json(status, body).refused(RefusalKind::DeniedByRule));
    }
    cx.authenticate(credential);
    let name = user.map(|user| user.username).unwrap_or_default();
    let grant = digest_of([token.inner.as_bytes()]);
    let by = WolfRbac::NAME;
    cx.note_identity(Identity { by, name: name.as_bytes(), grant: grant.as_ref() });
    // Other credentials of the request are not covered by the token.
    if let Some(carrier) = carrier {
        cx.edits().identities.explain(carrier);
    }
    Ok(())
}

fn config(credential: &Credential) -> Option<&Config> {
    credential.identity::<Config>()
}

/// Announces the user to nodes and the client.
fn announce(cx: &mut RequestContext<'_>, prefix: &str, user: &User) {
    let mut nickname = Vec::new();
    tollhouse_router::escape_into(user.nickname.as_bytes(), &mut nickname);
    let nickname = String::from_utf8_lossy(&nickname).into_owned();
    let values = [("UserId", &user.id), ("Username", &user.username), ("Nickname", &nickname)];
    let lines = values.map(|(name, value)| (format!("{prefix}{name}"), value.clone()));
    for (name, value) in &lines {
        cx.set_header(name, value.as_bytes());
    }
    cx.remember(UserHeaders(lines.into()));
}

/// Returns the client's token as it was sent, and the carrier of credentials that contained it.
/// The argument and `x-rbac-token` are not such carriers.
fn token(cx: &RequestContext<'_>) -> Option<(String, Option<Carrier>)> {
    let own = |value: &[u8]| text(value).into_owned();
    if let Some(value) = cx.argument("rbac_token") {
        return Some((own(&value), None));
    }
    if let Some(value) = cx.header("Authorization") {
        return Some((own(&value), Some(Carrier::Authorization)));
    }
    if let Some(value) = cx.header("x-rbac-token") {
        return Some((own(&value), None));
    }
    cx.cookie("x-rbac-token").map(|value| (own(&value), Some(Carrier::Cookie)))
}

impl Token {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '#');
        let (version, appid, inner) = (parts.next()?, parts.next()?, parts.next()?);
        let is_known = version == TOKEN_VERSION;
        is_known.then(|| Self { appid: appid.to_owned(), inner: inner.to_owned() })
    }
}

/// Asks the wolf server for its decision: status, reason and user.
async fn decide(
    cx: &mut RequestContext<'_>,
    config: &Config,
    token: &Token,
) -> Result<(u16, String, Option<User>), Refused> {
    let failed = |reason: String| (500_u16, format!("request to wolf-server failed, {reason}"));
    let address = cx.remote_address().to_string();
    let query = encode(&[
        ("appID", token.appid.as_bytes()),
        ("resName", cx.path()),
        ("action", cx.method()),
        ("clientIP", address.as_bytes()),
    ]);
    let server =
        Server::new(config, DECISION_TIMEOUT).map_err(|error| failed(error.to_string()))?;
    let path = format!("/wolf/rbac/access_check?{query}");
    let mut tries = 0;
    let reply = loop {
        tries += 1;
        let sent = server.send("GET", &path, Some(&token.inner), Bytes::new()).await;
        let reply = sent.map_err(|error| failed(format!("err:{error}")))?;
        if reply.status < 500 {
            break reply;
        }
        if tries == TRIES_MAX {
            return Err(failed(format!("status:{}", reply.status)));
        }
        cx.sleep(TIME_BETWEEN_TRIES).await;
    };
    let Ok(body) = serde_json::from_slice::<Value>(&reply.body) else {
        // A decision that cannot be read admits no request.
        let status = if reply.status == 200 { 500 } else { reply.status };
        return Err((status, "check permission failed! parse response json failed!".into()));
    };
    let reason = body["reason"].as_str().unwrap_or_default().to_owned();
    Ok((reply.status, reason, User::read(&body["data"]["userInfo"])))
}

impl User {
    fn read(info: &Value) -> Option<Self> {
        let info = info.as_object()?;
        let field = |name: &str| {
            let value = info.get(name).filter(|value| !value.is_null());
            value.map(text_of)
        };
        let username = field("username").unwrap_or_default();
        let nickname = field("nickname").unwrap_or_else(|| username.clone());
        Some(Self { id: field("id").unwrap_or_default(), username, nickname })
    }
}

/// Wolf server of a consumer.
struct Server {
    target: Target,
    client: HttpClient,
}

impl Server {
    fn new(config: &Config, timeout: Duration) -> Result<Self, ClientError> {
        let address = config.server.trim_end_matches('/');
        let target =
            Target::parse(address).map_err(|error| ClientError::Request(error.to_string()))?;
        let client = HttpClient::new(timeout, config.ssl_verify.into(), REUSE);
        Ok(Self { client: client.prepared_for(&target), target })
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        token: Option<&str>,
        body: Bytes,
    ) -> Result<Reply, ClientError> {
        let content_type = b"application/json; charset=utf-8".to_vec();
        let mut headers = vec![("Content-Type".to_owned(), content_type)];
        headers.extend(token.map(|token| ("x-rbac-token".to_owned(), token.into())));
        let base = self.target.path.trim_end_matches('/');
        let path = format!("{base}{path}").into_bytes();
        let method = method.as_bytes().to_vec();
        let call = Call { method, path, headers, body, repeat: Repeat::ByMethod };
        self.client.send(&self.target, call).await
    }
}

fn encode(pairs: &[(&str, &[u8])]) -> String {
    let mut out = String::new();
    for (name, value) in pairs {
        if !out.is_empty() {
            out.push('&');
        }
        out.push_str(name);
        out.push('=');
        for &byte in *value {
            match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                    out.push(char::from(byte));
                }
                _ => out.push_str(&format!("%{byte:02X}")),
            }
        }
    }
    out
}

/// Turns the outcome of an endpoint into its answer.
fn ended<'a>(
    outcome: impl Future<Output = Result<Value, Refused>> + 'a,
) -> LocalFuture<'a, Answer<'static>> {
    Box::pin(async move {
        match outcome.await {
            Ok(body) => Answer::json(200, body),
            Err((status, message)) => Answer::message(status, &message),
        }
    })
}

async fn login(cx: &mut RequestContext<'_>) -> Result<Value, Refused> {
    let fields = fields(cx).await?;
    let appid = fields.get("appid").map(text_of).ok_or((400_u16, "appid is missing".to_owned()))?;
    let body = ask(cx, &appid, Question::login(fields)).await?;
    let token = body["data"]["token"].as_str().unwrap_or_default();
    let token = format!("{TOKEN_VERSION}#{appid}#{token}");
    Ok(json!({"rbac_token": token, "user_info": body["data"]["userInfo"]}))
}

async fn change_password(cx: &mut RequestContext<'_>) -> Result<Value, Refused> {
    let fields = fields(cx).await?;
    let token = own_token(cx)?;
    let question = Question {
        method: "POST",
        path: "/wolf/rbac/change_pwd",
        token: Some(token.inner),
        fields,
    };
    ask(cx, &token.appid, question).await?;
    Ok(json!({"message": "success to change password"}))
}

async fn user_info(cx: &mut RequestContext<'_>) -> Result<Value, Refused> {
    let token = own_token(cx)?;
    let question = Question {
        method: "GET",
        path: "/wolf/rbac/user_info",
        token: Some(token.inner),
        fields: Map::new(),
    };
    let body = ask(cx, &token.appid, question).await?;
    Ok(json!({"user_info": body["data"]["userInfo"]}))
}

/// Request to a wolf server on behalf of a client.
struct Question {
    method: &'static str,
    path: &'static str,
    token: Option<String>,
    fields: Map<String, Value>,
}

impl Question {
    fn login(fields: Map<String, Value>) -> Self {
        Self { method: "POST", path: "/wolf/rbac/login.rest", token: None, fields }
    }
}

fn own_token(cx: &RequestContext<'_>) -> Result<Token, Refused> {
    let (token, _) = token(cx).ok_or((401_u16, MISSING_TOKEN.to_owned()))?;
    Token::parse(&token).ok_or((401_u16, BAD_TOKEN.to_owned()))
}

/// Returns the fields of the body, which is JSON or a form.
async fn fields(cx: &mut RequestContext<'_>) -> Result<Map<String, Value>, Refused> {
    let invalid = || (400_u16, "invalid request".to_owned());
    let content_type = cx.header("Content-Type").unwrap_or_default().into_owned();
    let body = cx.read_body(ENDPOINT_BODY_BYTES_MAX).await.map_err(|_| invalid())?;
    let is_json = content_type.windows(16).any(|part| part == b"application/json");
    let fields = match is_json {
        true => serde_json::from_slice(body).ok(),
        false => Some(form_document(body.trim_ascii())),
    };
    match fields {
        Some(Value::Object(fields)) => Ok(fields),
        _ => Err(invalid()),
    }
}

async fn ask(cx: &RequestContext<'_>, appid: &str, question: Question) -> Result<Value, Refused> {
    let credential = cx.find_credential(WolfRbac::NAME, appid.as_bytes());
    let config = credential.and_then(config).ok_or((400_u16, "appid not found".to_owned()))?;
    let failed = || (500_u16, FAILED.to_owned());
    let server = Server::new(config, ENDPOINT_TIMEOUT).map_err(|_| failed())?;
    let body = Bytes::from(Value::Object(question.fields).to_string());
    let sent = server.send(question.method, question.path, question.token.as_deref(), body).await;
    let reply = sent.map_err(|error| {
        tracing::warn!(%error, "the wolf server gives no answer");
        failed()
    })?;
    if reply.status != 200 {
        return Err(failed());
    }
    let body: Value = serde_json::from_slice(&reply.body).map_err(|_| failed())?;
    match body["ok"].as_bool() {
        Some(true) => Ok(body),
        _ => Err((200, FAILED.to_owned())),
    }
}

#[cfg(test)]
mod tests;
