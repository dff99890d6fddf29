//! Asks an authorization service about each request. A request that the service allows passes;
//! otherwise the client gets the service's answer.
//!
//! The service learns about the request from the headers `X-Forwarded-Proto`, `-Method`, `-Host`,
//! `-Uri` and `-For`. Any status below 300 allows the request.
//!
//! # Example
//! ```json
//! {
//!   "uri": "http://127.0.0.1:9000/auth",
//!   "request_headers": ["Authorization"],
//!   "upstream_headers": ["X-User-ID"],
//!   "client_headers": ["Location"]
//! }
//! ```
//!
//! # Answers
//! - the service's status and body if its status is 300 or above
//! - 302 to `signin_uri`, if it is set and the service answers 401
//! - `status_on_error` when the service does not answer, unless `allow_degradation` is set
//! - 413 when a body to be forwarded exceeds `max_req_body_size`
//!
//! # Notes
//! Each request costs one exchange with the service, over a persistent connection. Caches tell
//! users apart by what is sent to the service about them (`request_headers`, `extra_headers`, a
//! body) and by the values of `upstream_headers`.

use aws_lc_rs::digest::Digest;
use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tollhouse_model::template::{Template, TemplatePart};
use tollhouse_model::variable::Variable;
use tollhouse_plugin::{
    Answer, BodyError, Carrier, Category, ConfError, Flow, Identity, Phases, Plugin, RefusalKind,
    RequestContext, Scope, Step,
};

use crate::http_client::service::{self, Service, ServiceConf};
use crate::http_client::{Call, ClientError, Repeat, Reply};
use crate::shared::auth::grant::digest_of;
use crate::shared::confs::defaults::{default_true, defaults};
use crate::shared::confs::header_fields;
use crate::shared::confs::text::Text;
use crate::shared::messages::uri::{AddressWriter, Literals, append_query};

/// Configuration of `forward-auth`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Address of the service: `http://host:port/path`.
    pub uri: String,
    /// Whether requests pass when the service does not answer. Off by default: such requests are
    /// refused.
    #[serde(default)]
    pub allow_degradation: bool,
    /// Status for clients when the service does not answer; 403 by default.
    #[serde(default = "default_status_on_error")]
    #[schemars(range(min = 200, max = 599))]
    pub status_on_error: u16,
    /// Whether the service's TLS certificate is verified; on by default.
    #[serde(default = "default_true")]
    pub ssl_verify: bool,
    /// Method of requests to the service. `POST` forwards the client's body.
    #[serde(default)]
    pub request_method: RequestMethod,
    /// Client headers that are sent to the service.
    #[serde(default)]
    pub request_headers: Vec<String>,
    /// Additional headers that are sent to the service; values may contain variables such as
    /// `$remote_addr`.
    pub extra_headers: Option<Map<String, Value>>,
    /// Headers that the node gets from the service's answer. A header that the answer lacks is
    /// removed from the request.
    #[serde(default)]
    pub upstream_headers: Vec<String>,
    /// Headers that the client gets from the service's answer if it refuses the request.
    #[serde(default)]
    pub client_headers: Vec<String>,
    /// Address of a page to sign in at. Clients are sent there (302) if the service answers 401.
    /// May contain variables, such as `https://$host/oauth2/start`. Unset: clients get the 401.
    #[schemars(length(min = 1))]
    pub signin_uri: Option<String>,
    /// Argument of `signin_uri` with the requested address; `rd` by default. It is not added if
    /// `signin_uri` has it already.
    #[serde(default = "default_signin_redirect_param")]
    #[schemars(length(min = 1), regex(pattern = r"^[A-Za-z0-9_.~-]+$"))]
    pub signin_redirect_param: String,
    /// Timeout for the service's answer, in milliseconds.
    #[serde(default = "service::default_timeout")]
    #[schemars(range(min = 1, max = 60_000))]
    pub timeout: u64,
    /// Whether connections to the service are reused.
    #[serde(default = "default_true")]
    pub keepalive: bool,
    /// Time after which an idle connection is closed, in milliseconds.
    #[serde(default = "service::default_keepalive_timeout")]
    #[schemars(range(min = 1_000))]
    pub keepalive_timeout: u64,
    /// Number of idle connections that each core keeps at most.
    #[serde(default = "service::default_keepalive_pool")]
    #[schemars(range(min = 1))]
    pub keepalive_pool: u64,
    /// Longest body that is forwarded, in bytes; 64 MiB by default.
    #[serde(default = "default_max_req_body_size")]
    #[schemars(range(min = 1))]
    pub max_req_body_size: u64,
}

/// Method of requests to the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum RequestMethod {
    #[default]
    Get,
    Post,
}

defaults! {
    default_status_on_error: u16 = 403;
    default_max_req_body_size: u64 = 64 << 20;
    default_signin_redirect_param: String = "rd".into();
}

#[derive(Debug)]
pub struct ForwardAuth {
    service: Service,
    method: RequestMethod,
    request_headers: Vec<String>,
    extra_headers: Vec<(String, Text)>,
    upstream_headers: Vec<String>,
    client_headers: Vec<String>,
    body_bytes_max: u64,
    on_error: OnError,
    sign_in: Option<SignIn>,
}

/// Page to sign in at.
#[derive(Debug)]
struct SignIn {
    address: Template,
    /// Name of the argument with the requested address; `None` if the address has it already.
    parameter: Option<String>,
}

#[derive(Debug, Clone, Copy)]
enum OnError {
    Pass,
    Refuse(u16),
}

impl Plugin for ForwardAuth {
    const NAME: &'static str = "forward-auth";
    const PRIORITY: i32 = 2002;
    const CATEGORY: Category = Category::Security;
    const PHASES: Phases = Phases::ACCESS;
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        header_fields::rules(&mut schema["properties"]["extra_headers"]);
    }

    fn compile(config: Config, _scope: &Scope<'_>) -> Result<Self, ConfError> {
        let service = Service::new(&ServiceConf {
            uri: &config.uri,
            timeout_ms: config.timeout,
            ssl_verify: config.ssl_verify,
            keepalive: config.keepalive,
            keepalive_timeout_ms: config.keepalive_timeout,
            keepalive_pool: config.keepalive_pool,
        });
        let refusal = OnError::Refuse(config.status_on_error);
        let on_error = if config.allow_degradation { OnError::Pass } else { refusal };
        Ok(Self {
            service,
            method: config.request_method,
            request_headers: config.request_headers,
            extra_headers: texts(config.extra_headers),
            upstream_headers: config.upstream_headers,
            client_headers: config.client_headers,
            body_bytes_max: config.max_req_body_size,
            on_error,
            sign_in: config.signin_uri.map(|uri| SignIn::parse(&uri, config.signin_redirect_param)),
        })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        Step::wait(async move {
            if let Err(answer) = self.read_body(cx).await {
                return answer.into();
            }
            let grant = self.asked_by(cx);
            match self.ask(cx).await {
                Ok(reply) => self.apply_reply(cx, &reply, grant.as_ref()),
                Err(error) => {
                    tracing::warn!(%error, "the authorization service gives no answer");
                    match self.on_error {
                        OnError::Pass => {
                            self.note_identity(cx, b"", grant.as_ref());
                            Flow::Continue
                        }
                        OnError::Refuse(status) => {
                            Answer::status(status).refused(RefusalKind::PluginFailed).into()
                        }
                    }
                }
            }
        })
    }
}

/// Parses the header lines that the conf adds.
fn texts(fields: Option<Map<String, Value>>) -> Vec<(String, Text)> {
    let text = |value: &Value| match value {
        Value::String(text) => Text::parse(text),
        other => Text::parse(&other.to_string()),
    };
    let fields = fields.into_iter().flatten();
    fields.map(|(name, value)| (name, text(&value))).collect()
}

impl ForwardAuth {
    /// Reads the body if the service or a variable needs it.
    async fn read_body<'a>(&self, cx: &mut RequestContext<'_>) -> Result<(), Answer<'a>> {
        let mut extra = self.extra_headers.iter();
        if self.method != RequestMethod::Post && !extra.any(|(_, text)| text.reads_body()) {
            return Ok(());
        }
        match cx.read_body(self.body_bytes_max).await {
            Ok(_) => Ok(()),
            Err(BodyError::TooLarge) => {
                Err(Answer::status(413).refused(RefusalKind::RequestInvalid))
            }
            Err(BodyError::Broken) => Err(Answer::status(400).refused(RefusalKind::RequestInvalid)),
        }
    }

    async fn ask(&self, cx: &RequestContext<'_>) -> Result<Reply, ClientError> {
        let (method, body) = match self.method {
            RequestMethod::Get => ("GET", Bytes::new()),
            RequestMethod::Post => ("POST", Bytes::copy_from_slice(cx.body())),
        };
        let call = Call {
            method: method.into(),
            path: Vec::new(),
            headers: self.headers(cx),
            body,
            repeat: Repeat::ByMethod,
        };
        self.service.ask(call).await
    }

    /// Returns the headers of the request to the service. Of two headers with one name, the more
    /// specific one is kept.
    fn headers(&self, cx: &RequestContext<'_>) -> Vec<(String, Vec<u8>)> {
        let variables = cx.variables();
        let value = |variable| variables.variable(&variable).map(|value| value.into_owned());
        let mut lines: Vec<(String, Vec<u8>)> = Vec::new();
        for (name, value) in [
            ("X-Forwarded-Proto", value(Variable::Scheme)),
            ("X-Forwarded-Method", Some(cx.method().to_vec())),
            ("X-Forwarded-Host", value(Variable::Host)),
            ("X-Forwarded-Uri", value(Variable::RequestUri)),
            ("X-Forwarded-For", Some(cx.remote_address().to_string().into_bytes())),
        ] {
            lines.extend(value.map(|value| (name.to_owned(), value)));
        }
        if self.method == RequestMethod::Post {
            let encoding = cx.header("content-encoding");
            lines.extend(encoding.map(|value| ("Content-Encoding".into(), value.into_owned())));
        }
        for (name, text) in &self.extra_headers {
            lines.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
            lines.push((name.clone(), text.for_request(variables).into_owned()));
        }
        // The gateway's own lines win, so that a client cannot forge the basis of the service's
        // decision.
        for name in &self.request_headers {
            let is_taken = lines.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
            if let (false, Some(value)) = (is_taken, cx.header(name)) {
                lines.push((name.clone(), value.into_owned()));
            }
        }
        lines
    }

    /// Returns the digest of all data that identifies a user to the service: forwarded client
    /// headers, the operator's headers, the body.
    fn asked_by(&self, cx: &RequestContext<'_>) -> Digest {
        let mut parts = Vec::new();
        for name in &self.request_headers {
            parts.push(cx.header(name).unwrap_or_default().into_owned());
        }
        for (_, text) in &self.extra_headers {
            parts.push(text.for_request(cx.variables()).into_owned());
        }
        if self.method == RequestMethod::Post {
            parts.push(cx.body().to_vec());
        }
        digest_of(parts.iter().map(Vec::as_slice))
    }

    fn note_identity(&self, cx: &mut RequestContext<'_>, name: &[u8], grant: &[u8]) {
        cx.note_identity(Identity { by: Self::NAME, name, grant });
        for (header, carrier) in
            [("authorization", Carrier::Authorization), ("cookie", Carrier::Cookie)]
        {
            if self.request_headers.iter().any(|name| name.eq_ignore_ascii_case(header)) {
                cx.edits().identities.explain(carrier);
            }
        }
    }

    /// Sends a client to the page to sign in at, with the cookies of the service.
    fn send_to<'a>(&self, cx: &RequestContext<'_>, page: &SignIn, reply: &Reply) -> Answer<'a> {
        let mut answer = Answer::status(302)
            .refused(RefusalKind::AuthMissing)
            .with_header("Location", page.address_for(cx));
        for name in self.client_headers.iter().filter(|it| !it.eq_ignore_ascii_case("location")) {
            for value in reply.values(name) {
                answer = answer.with_header(name.clone(), value.to_vec());
            }
        }
        answer
    }

    fn apply_reply<'a>(
        &self,
        cx: &mut RequestContext<'_>,
        reply: &Reply,
        grant: &[u8],
    ) -> Flow<'a> {
        if let (401, Some(page)) = (reply.status, &self.sign_in) {
            return self.send_to(cx, page, reply).into();
        }
        if reply.status >= 300 {
            let mut answer =
                Answer::text(reply.status, reply.body.to_vec()).refused(RefusalKind::DeniedByRule);
            for name in &self.client_headers {
                for value in reply.values(name) {
                    answer = answer.with_header(name.clone(), value.to_vec());
                }
            }
            return answer.into();
        }
        let mut user = Vec::new();
        for name in &self.upstream_headers {
            cx.remove_header(name);
            for value in reply.values(name) {
                cx.edits().headers.add(name, value);
                user.extend_from_slice(if user.is_empty() { b"" } else { b", " });
                user.extend_from_slice(value);
            }
        }
        self.note_identity(cx, &user, grant);
        Flow::Continue
    }
}

impl SignIn {
    fn parse(uri: &str, parameter: String) -> Self {
        let query = uri.split_once('?').map_or("", |(_, query)| query);
        let mut arguments = query.split('&').map(|pair| pair.split('=').next().unwrap_or_default());
        let is_there = arguments.any(|name| name == parameter);
        Self { address: Template::parse(uri), parameter: (!is_there).then_some(parameter) }
    }

    /// Returns the page's address for a request. Each value is encoded for its place.
    fn address_for(&self, cx: &RequestContext<'_>) -> Vec<u8> {
        let mut address = AddressWriter::new(cx, Literals::AsWritten);
        for part in self.address.parts() {
            match part {
                TemplatePart::Text(text) => address.text(text.as_bytes()),
                TemplatePart::Variable { variable, default } => {
                    address.variable(cx, variable, default);
                }
            }
        }
        if let Some(parameter) = &self.parameter {
            let mut own = address.into_bytes();
            append_query(&mut own, format!("{parameter}=").as_bytes());
            address = AddressWriter::new(cx, Literals::AsWritten);
            address.text(&own);
            address.value(if cx.is_tls() { &b"https://"[..] } else { &b"http://"[..] });
            address.value(&cx.header("Host").unwrap_or_default());
            address.value(&cx.real_request_uri());
        }
        address.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tollhouse_plugin::testing::{FakeExchange, Harness};
    use tollhouse_testkit::ClosedPort;

    use super::*;
    use crate::shared::test_server::{TestServer, body, header, reply};

    /// Returns the conf of a service with additional fields.
    fn conf(server: &TestServer, more: Value) -> Value {
        let mut conf = json!({"uri": server.url("/auth?x=1")});
        let more = more.as_object().expect("fields").clone();
        conf.as_object_mut().expect("fields").extend(more);
        conf
    }

    /// Starts a service that allows requests with `Authorization: ok`.
    fn service() -> TestServer {
        TestServer::start(|request| match header(request, "authorization") {
            Some("ok") => reply(200, "X-User-ID: i-am-user\r\n", ""),
            Some("teapot") => reply(418, "Location: http://a.com\r\nX-Other: 1\r\n", "no tea"),
            _ => reply(403, "", ""),
        })
    }

    #[test]
    fn clients_without_a_session_are_sent_to_sign_in() {
        let server = TestServer::start(|request| match header(request, "authorization") {
            Some("forbidden") => reply(403, "", "no"),
            _ => reply(401, "Set-Cookie: state=1\r\nLocation: /other\r\n", "sign in"),
        });
        for (more, sent, status, location) in [
            (json!({"signin_uri": "https://$host/start"}), "", 302, "https://a.com/start?rd=http://a.com:9080/x%3Fy%3D1%262"),
            (json!({"signin_uri": "https://b/s?rd=$request_uri"}), "", 302, "https://b/s?rd=/x%3Fy%3D1%262"),
            (json!({"signin_uri": "/in?a=b", "signin_redirect_param": "to"}), "", 302, "/in?a=b&to=http://a.com:9080/x%3Fy%3D1%262"),
            (json!({"signin_uri": "/in"}), "Authorization: forbidden\n", 403, ""),
            (json!({}), "", 401, "/other"),
        ] {
            let headers = json!({"client_headers": ["Set-Cookie", "Location"], "request_headers": ["Authorization"]});
            let mut conf = conf(&server, more);
            conf.as_object_mut().unwrap().extend(headers.as_object().unwrap().clone());
            let request = format!("GET /x?y=1&2 HTTP/1.1\nHost: a.com:9080\n{sent}\n");
            let outcome = Harness::new::<ForwardAuth>(&conf).request(&request);
            assert_eq!(outcome.status(), status, "{conf}");
            assert_eq!(outcome.header("location").unwrap_or_default(), location, "{conf}");
            let cookie = if status == 403 { None } else { Some("state=1") };
            assert_eq!(outcome.header("set-cookie"), cookie);
        }
    }

    #[test]
    fn the_service_is_told_who_asks_for_what() {
        let server = TestServer::ok();
        let conf = conf(
            &server,
            json!({
                "request_headers": ["X-One", "X-Absent", "X-Forwarded-For"],
                "extra_headers": {"X-Extra": "$request_method ${arg_a ?? none}", "X-Number": 7}
            }),
        );
        let request = "PUT /hello?b=1 HTTP/1.1\nHost: a.com:9080\nX-One: 1\nX-Two: 2\n\nbody";
        assert!(Harness::new::<ForwardAuth>(&conf).request(request).passes());
        let asked = server.next_request();
        assert!(asked.starts_with("GET /auth?x=1 HTTP/1.1\r\n"), "{asked}");
        for (name, value) in [
            ("X-Forwarded-Proto", Some("http")),
            ("X-Forwarded-Method", Some("PUT")),
            ("X-Forwarded-Host", Some("a.com")),
            ("X-Forwarded-Uri", Some("/hello?b=1")),
            ("X-Forwarded-For", Some("127.0.0.1")),
            ("X-One", Some("1")),
            ("X-Two", None),
            ("X-Absent", None),
            ("X-Extra", Some("PUT none")),
            ("X-Number", Some("7")),
        ] {
            assert_eq!(header(&asked, name), value, "{name}");
        }
        assert_eq!(body(&asked), "");
    }

    #[test]
    fn yes_passes_and_tells_the_node() {
        let server = service();
        let conf = conf(
            &server,
            json!({
                "request_headers": ["Authorization"],
                "upstream_headers": ["X-User-ID", "X-Spoofed"]
            }),
        );
        let request = "GET / HTTP/1.1\nAuthorization: ok\nX-User-ID: other\nX-Spoofed: 1\n\n";
        let outcome = Harness::new::<ForwardAuth>(&conf).request(request);
        assert!(outcome.passes());
        assert_eq!(outcome.edits, "+X-User-ID: i-am-user\n-X-Spoofed\n");
    }

    #[test]
    fn users_are_told_apart_by_what_the_service_knows_of_them() {
        let server = service();
        let fields = json!({"request_headers": ["Authorization", "X-Session"],
            "upstream_headers": ["X-User-ID"]});
        let mut harness = Harness::new::<ForwardAuth>(&conf(&server, fields));
        let mut known = |session: &str| {
            let text = format!("GET / HTTP/1.1\nAuthorization: ok\nX-Session: {session}\n\n");
            let mut exchange = FakeExchange::parse(&text, 0);
            assert!(harness.run(&mut exchange).passes());
            let mut noted = exchange.edits.identities.iter();
            let one = noted.next().expect("the user");
            assert_eq!((one.by, one.name), ("forward-auth", &b"i-am-user"[..]));
            one.grant.to_vec()
        };
        assert_eq!(known("alice"), known("alice"));
        assert_ne!(known("alice"), known("bob"));
    }

    #[test]
    fn no_is_the_services_own_answer() {
        let server = service();
        let fields = json!({"request_headers": ["Authorization"], "client_headers": ["Location"]});
        let mut harness = Harness::new::<ForwardAuth>(&conf(&server, fields));
        let outcome = harness.request("GET / HTTP/1.1\nAuthorization: teapot\n\n");
        assert_eq!((outcome.status(), outcome.body()), (418, "no tea"));
        assert_eq!(outcome.header("location"), Some("http://a.com"));
        assert_eq!(outcome.header("x-other"), None);
        assert_eq!(harness.request("GET / HTTP/1.1\n\n").status(), 403);
    }

    #[test]
    fn post_forwards_the_body_with_its_encoding() {
        let server = TestServer::ok();
        let conf = conf(&server, json!({"request_method": "POST", "max_req_body_size": 5}));
        let mut harness = Harness::new::<ForwardAuth>(&conf);
        let request = "PUT / HTTP/1.1\nContent-Encoding: gzip\nContent-Length: 5\n\nhello";
        assert!(harness.request(request).passes());
        let asked = server.next_request();
        assert!(asked.starts_with("POST /auth"), "{asked}");
        assert_eq!(header(&asked, "content-encoding"), Some("gzip"));
        assert_eq!((header(&asked, "content-length"), body(&asked)), (Some("5"), "hello"));
        assert_eq!(harness.request("PUT / HTTP/1.1\n\nlonger").status(), 413);
    }

    #[test]
    fn without_an_answer_the_conf_decides() {
        let closed = ClosedPort::new();
        let uri = format!("http://{}/auth", closed.address());
        for (conf, status) in [
            (json!({"uri": uri}), 403),
            (json!({"uri": uri, "status_on_error": 503}), 503),
            (json!({"uri": uri, "allow_degradation": true}), 0),
            (json!({"uri": "no address"}), 403),
        ] {
            let outcome = Harness::new::<ForwardAuth>(&conf).request("GET / HTTP/1.1\n\n");
            assert_eq!((outcome.status(), outcome.body()), (status, ""), "{conf}");
        }
    }

    #[test]
    fn bad_confs_are_refused() {
        for (conf, inner) in [
            (json!({}), r#"property "uri" is required"#),
            (json!({"uri": 1}), "wrong type: expected string, got number"),
            (json!({"uri": "http://a", "timeout": 0}), "expected 0 to be at least 1"),
            (json!({"uri": "http://a", "timeout": 60001}), "expected 60001 to be at most 60000"),
            (
                json!({"uri": "http://a", "request_method": "PUT"}),
                "matches none of the enum values",
            ),
            (json!({"uri": "http://a", "status_on_error": 600}), "expected 600 to be at most 599"),
            (
                json!({"uri": "http://a", "keepalive_timeout": 10}),
                "expected 10 to be at least 1000",
            ),
            (
                json!({"uri": "http://a", "extra_headers": {}}),
                "expect object to have at least 1 properties",
            ),
        ] {
            let refusal = Harness::refusal::<ForwardAuth>(&conf);
            assert!(refusal.ends_with(inner), "{refusal}");
        }
    }
}
