//! Sends each request to Chaitin SafeLine for inspection, and refuses the ones that it blocks.
//!
//! The plugin's metadata names the detection service (`nodes`). Its nodes are used in turn.
//!
//! # Example
//! ```json
//! {"mode": "block", "match": [{"vars": [["uri", "~~", "^/api/"]]}]}
//! ```
//!
//! # Answers
//! - the service's status (403 as a rule) with a JSON body that has the id of the event, in the mode
//!   `block`
//! - 500 in the mode `block` when the service does not answer, and without metadata in every mode
//! - 413 for bodies above 64 MiB, which are not read
//!
//! # Notes
//! The service gets the head of the request and the first `req_body_size` KiB of its body; the rest
//! is not inspected. Without `match` all requests are inspected. In the mode `monitor`, the default,
//! the verdict is logged, and requests pass even if the service is down. A verdict of the service
//! without an event id refuses too; APISIX lets such a request pass.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tollhouse_model::variable::Variable;
use tollhouse_plugin::{
    Answer, BodyError, Category, ConfError, Flow, MetadataSpec, Phases, Plugin, RefusalKind,
    RequestContext, ResponseContext, Scope, Step,
};

use crate::shared::confs::conditions;
use crate::shared::confs::defaults::{default_true, defaults};

use self::t1k::{Client, Inspection, Limits, Node, Verdict};

mod t1k;

/// Longest body that is read, in bytes; only its first part is inspected.
const BODY_BYTES_MAX: u64 = 64 << 20;

/// Longest part of a body that is inspected, in KiB.
const INSPECTED_KIB_MAX: u64 = BODY_BYTES_MAX >> 10;

const STATE: &str = "X-APISIX-CHAITIN-WAF";
const ERROR: &str = "X-APISIX-CHAITIN-WAF-ERROR";
const TIME: &str = "X-APISIX-CHAITIN-WAF-TIME";
const STATUS: &str = "X-APISIX-CHAITIN-WAF-STATUS";
const ACTION: &str = "X-APISIX-CHAITIN-WAF-ACTION";
const SERVER: &str = "X-APISIX-CHAITIN-WAF-SERVER";

/// Configuration of `chaitin-waf`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Treatment of blocked requests; the default is that of the metadata, or `monitor`.
    pub mode: Option<Mode>,
    /// Conditions, at least one of which must hold for a request to be inspected.
    #[serde(rename = "match")]
    pub matches: Option<Vec<Match>>,
    /// Whether answers have the headers `X-APISIX-CHAITIN-WAF`, `-TIME`, `-STATUS` and `-ACTION`.
    #[serde(default = "default_true")]
    pub append_waf_resp_header: bool,
    /// Whether these headers include `-ERROR` and `-SERVER`; off by default.
    #[serde(default)]
    pub append_waf_debug_header: bool,
    /// Settings that replace those of the metadata, one by one.
    pub config: Option<Settings>,
}

/// Condition of an inspection.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Match {
    /// Expressions, all of which must hold.
    pub vars: Option<Vec<Value>>,
}

/// Metadata of `chaitin-waf`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Metadata {
    /// Mode of confs without one.
    pub mode: Option<Mode>,
    /// Addresses of the detection service.
    #[schemars(length(min = 1))]
    pub nodes: Vec<NodeConf>,
    /// Settings of confs without them.
    pub config: Option<Settings>,
}

/// Address of a node of the detection service.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct NodeConf {
    /// Host name or IP address.
    #[schemars(regex(pattern = r"^\*?[0-9a-zA-Z-._\[\]:/]+$"))]
    pub host: String,
    /// TCP port.
    #[serde(default = "default_port")]
    #[schemars(range(min = 1, max = 65_535))]
    pub port: u16,
}

/// Settings of the exchange with the detection service.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
pub struct Settings {
    /// Timeout for the connection, in milliseconds; 1000 by default.
    #[schemars(range(min = 1, max = 60_000))]
    pub connect_timeout: Option<u64>,
    /// Timeout for sending the request, in milliseconds; 1000 by default.
    #[schemars(range(min = 1, max = 60_000))]
    pub send_timeout: Option<u64>,
    /// Timeout for the verdict, in milliseconds; 1000 by default.
    #[schemars(range(min = 1, max = 60_000))]
    pub read_timeout: Option<u64>,
    /// Length of the part of a body that is inspected, in KiB; 1024 by default.
    #[schemars(range(max = 65_536))]
    pub req_body_size: Option<u64>,
    /// Number of idle connections to a node that each core keeps; 256 by default, and at most.
    #[schemars(range(min = 1))]
    pub keepalive_size: Option<u64>,
    /// Time after which an idle connection is closed, in milliseconds; 60000 by default.
    #[schemars(range(min = 1))]
    pub keepalive_timeout: Option<u64>,
    /// Whether the service gets the address of the client instead of that of the connection's peer;
    /// on by default.
    pub real_client_ip: Option<bool>,
}

defaults! {
    default_port: u16 = 80;
}

/// Treatment of blocked requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Requests are not inspected.
    Off,
    /// Verdicts are logged.
    Monitor,
    /// Blocked requests are refused.
    Block,
}

#[derive(Debug)]
pub struct ChaitinWaf {
    service: Option<DetectionService>,
    mode: Mode,
    /// `None` without conditions: all requests are inspected.
    conditions: Option<conditions::AnyOf>,
    headers: HeaderChoice,
}

/// Headers that answers get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HeaderChoice {
    Nothing,
    Verdict,
    VerdictAndDetails,
}

#[derive(Debug)]
struct DetectionService {
    nodes: Vec<Node>,
    /// Index of the next node.
    next: AtomicUsize,
    client: Client,
    /// Bytes of a body that are inspected.
    inspected_bytes: usize,
    address: ClientAddress,
}

/// Address that the service gets as the client's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClientAddress {
    Client,
    Peer,
}

/// Headers that the answer gets, and those of the service.
#[derive(Debug, Default)]
struct AnswerHeaders {
    own: Vec<(&'static str, String)>,
    of_service: Vec<(String, String)>,
}

impl Plugin for ChaitinWaf {
    const NAME: &'static str = "chaitin-waf";
    const PRIORITY: i32 = 2700;
    const CATEGORY: Category = Category::Security;
    const PHASES: Phases = Phases::ACCESS.union(Phases::RESPONSE);
    type Config = Config;

    fn metadata() -> Option<MetadataSpec> {
        Some(MetadataSpec::new::<Metadata>())
    }

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        let metadata = scope.metadata.cloned().map(serde_json::from_value::<Metadata>);
        let metadata = metadata.transpose().map_err(|error| error.to_string())?;
        let mode = config.mode.or_else(|| metadata.as_ref()?.mode).unwrap_or(Mode::Monitor);
        let service = metadata.map(|metadata| {
            DetectionService::new(&metadata, config.config.unwrap_or_default())
        });
        let matches = config.matches.unwrap_or_default();
        let list: Vec<Value> =
            matches.into_iter().map(|one| Value::Array(one.vars.unwrap_or_default())).collect();
        let parsed = conditions::AnyOf::parse(&list).map_err(|error| {
            format!("failed to validate the 'vars' expression: {}", error.text())
        })?;
        let headers = match (config.append_waf_resp_header, config.append_waf_debug_header) {
            (false, _) => HeaderChoice::Nothing,
            (true, false) => HeaderChoice::Verdict,
            (true, true) => HeaderChoice::VerdictAndDetails,
        };
        let conditions = (!list.is_empty()).then_some(parsed);
        Ok(Self { service, mode, conditions, headers })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        Step::wait(async move {
            let mut headers = AnswerHeaders::default();
            let flow = self.inspect(cx, &mut headers).await;
            headers.own.retain(|(name, _)| match self.headers {
                HeaderChoice::Nothing => false,
                HeaderChoice::Verdict => ![ERROR, SERVER].contains(name),
                HeaderChoice::VerdictAndDetails => true,
            });
            cx.remember(headers);
            match flow {
                Flow::Continue => Flow::Continue,
                Flow::Answer(answer) => answer.borrowed().into(),
            }
        })
    }

    fn response(&self, cx: &mut ResponseContext<'_>) {
        let Some(headers) = cx.recall::<AnswerHeaders>().map(std::mem::take) else { return };
        for (name, value) in headers.own {
            cx.set_header(name, value.as_bytes());
        }
        for (name, value) in headers.of_service {
            match name.eq_ignore_ascii_case("set-cookie") {
                true => cx.add_header(&name, value.as_bytes()),
                false => cx.set_header(&name, value.as_bytes()),
            }
        }
    }
}

impl ChaitinWaf {
    /// Has the request inspected, and notes the headers of its answer.
    async fn inspect(
        &self,
        cx: &mut RequestContext<'_>,
        headers: &mut AnswerHeaders,
    ) -> Flow<'static> {
        let Some(service) = &self.service else {
            headers.note(STATE, "err");
            headers.note(ERROR, "missing metadata");
            return failure();
        };
        let node = service.node();
        headers.note(SERVER, &*node.host);
        if self.mode == Mode::Off {
            headers.note(STATE, "off");
            return Flow::Continue;
        }
        if let Err(answer) = read_body(cx).await {
            return answer.into();
        }
        if self.conditions.as_ref().is_some_and(|conditions| !conditions.matches(cx.variables())) {
            headers.note(STATE, "no");
            return Flow::Continue;
        }
        let inspection = service.inspection(cx);
        let started = Instant::now();
        let verdict = service.client.inspect(node, &inspection).await;
        headers.note(TIME, started.elapsed().as_millis().to_string());
        match verdict {
            Ok(verdict) => self.apply(verdict, headers),
            Err(error) => {
                let state = if error.is_timeout() { "timeout" } else { "waf-err" };
                headers.note(STATE, state);
                headers.note(ERROR, error.to_string());
                tracing::warn!(server = node.host, %error, "the detection service gives no verdict");
                if self.mode == Mode::Monitor { Flow::Continue } else { failure() }
            }
        }
    }

    fn apply(&self, verdict: Verdict, headers: &mut AnswerHeaders) -> Flow<'static> {
        headers.note(STATE, "yes");
        let Some(block) = verdict.block else {
            headers.note(ACTION, "pass");
            headers.note(STATUS, "200");
            if self.mode == Mode::Block {
                headers.of_service = verdict.headers;
            }
            return Flow::Continue;
        };
        headers.note(ACTION, "reject");
        headers.note(STATUS, block.status.to_string());
        let event = &block.event;
        if self.mode == Mode::Monitor {
            tracing::warn!(event, "the detection service would have blocked a request");
            return Flow::Continue;
        }
        tracing::warn!(event, "the detection service blocks a request");
        headers.of_service = verdict.headers;
        let text = format!(
            "{{\"code\": {}, \"success\":false, \"message\": \"blocked by Chaitin SafeLine Web \
             Application Firewall\", \"event_id\": \"{event}\"}}\n",
            block.status
        );
        Answer::text(block.status, text.into_bytes()).refused(RefusalKind::DeniedByRule).into()
    }
}

/// Answer without a verdict.
fn failure() -> Flow<'static> {
    Answer::status(500).refused(RefusalKind::PluginFailed).into()
}

async fn read_body(cx: &mut RequestContext<'_>) -> Result<(), Answer<'static>> {
    match cx.read_body(BODY_BYTES_MAX).await {
        Ok(_) => Ok(()),
        Err(BodyError::TooLarge) => Err(Answer::status(413).refused(RefusalKind::RequestInvalid)),
        Err(BodyError::Broken) => Err(Answer::status(400).refused(RefusalKind::RequestInvalid)),
    }
}

impl AnswerHeaders {
    fn note(&mut self, name: &'static str, value: impl Into<String>) {
        self.own.push((name, value.into()));
    }
}

impl DetectionService {
    fn new(metadata: &Metadata, own: Settings) -> Self {
        let shared = metadata.config.unwrap_or_default();
        let setting = |read: fn(&Settings) -> Option<u64>, default: u64| {
            read(&own).or_else(|| read(&shared)).unwrap_or(default)
        };
        let milliseconds =
            |read: fn(&Settings) -> Option<u64>, default| Duration::from_millis(setting(read, default));
        let uses_client = own.real_client_ip.or(shared.real_client_ip).unwrap_or(true);
        let nodes = metadata.nodes.iter().map(|node| Node {
            host: node.host.trim_matches(['[', ']']).to_owned(),
            port: node.port,
        });
        let inspected_kib = setting(|one| one.req_body_size, 1024).min(INSPECTED_KIB_MAX);
        Self {
            nodes: nodes.collect(),
            next: AtomicUsize::new(0),
            client: Client::new(Limits {
                connect: milliseconds(|one| one.connect_timeout, 1_000),
                send: milliseconds(|one| one.send_timeout, 1_000),
                read: milliseconds(|one| one.read_timeout, 1_000),
                idle: milliseconds(|one| one.keepalive_timeout, 60_000),
                idle_count: usize::try_from(setting(|one| one.keepalive_size, 256)).unwrap_or(256),
            }),
            inspected_bytes: usize::try_from(inspected_kib << 10).unwrap_or(0),
            address: if uses_client { ClientAddress::Client } else { ClientAddress::Peer },
        }
    }

    /// Returns the nodes in turn.
    fn node(&self) -> &Node {
        // The schema requires a node.
        &self.nodes[self.next.fetch_add(1, Ordering::Relaxed) % self.nodes.len()]
    }

    /// Builds the message about a request whose body has been read.
    fn inspection(&self, cx: &RequestContext<'_>) -> Inspection {
        let variable = |variable: Variable| {
            let value = cx.variables().variable(&variable);
            value.map(|value| String::from_utf8_lossy(&value).into_owned()).unwrap_or_default()
        };
        let mut head = cx.method().to_vec();
        head.push(b' ');
        head.extend_from_slice(&cx.real_request_uri());
        head.push(b' ');
        head.extend_from_slice(variable(Variable::ServerProtocol).as_bytes());
        head.extend_from_slice(b"\r\n");
        cx.each_header(&mut |name, value| {
            head.extend_from_slice(name);
            head.extend_from_slice(b": ");
            head.extend_from_slice(value);
            head.extend_from_slice(b"\r\n");
        });
        head.extend_from_slice(b"\r\n");
        let body = cx.body();
        let address = match self.address {
            ClientAddress::Client => cx.remote_address(),
            ClientAddress::Peer => cx.peer_address(),
        };
        let now = cx.now().unix_ms;
        let named = |name: &str| variable(Variable::Named(name.to_owned()));
        let extra = [
            (0x01, String::new()),
            (0x11, variable(Variable::RemotePort)),
            (0x12, variable(Variable::ServerPort)),
            (0x13, address.to_string()),
            (0x14, variable(Variable::ServerAddr)),
            (0x15, variable(Variable::Host)),
            (0x16, variable(Variable::Scheme)),
            (0x17, named("hostname")),
            (0x18, format!("{:016x}{:016x}", cx.random(), cx.random())),
            (0x19, "n".to_owned()),
            (0x1a, "n".to_owned()),
            (0x1b, (now * 1_000).to_string()),
        ];
        let mut fields = Vec::new();
        for (key, value) in extra {
            fields.push(key);
            // A line break would begin another field.
            fields.extend(value.bytes().filter(|byte| *byte != b'\n'));
            fields.push(b'\n');
        }
        let body = body[..body.len().min(self.inspected_bytes)].to_vec();
        Inspection { head, body, extra: fields }
    }
}

#[cfg(test)]
mod tests;
