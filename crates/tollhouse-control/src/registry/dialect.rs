//! Polaris-specific conversions for the Admin API.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, StatusCode};
use serde_json::Value;
use tollhouse_admin::{
    AuditDeed, AuditEvent, AuditSink, ChangeQueue, DialectAnswer, DialectCall, DialectCaller,
    DialectFuture, RegistryDialect,
};
use tollhouse_model::change_row::{ChangeKind, ChangeRow, Way};
use tollhouse_polaris::descriptors;
use tollhouse_polaris::dialect::{
    ChangeSink, Entrance, Operator, OperatorChange, TokenRead, TokenReads,
};
use tollhouse_polaris::json;
use tollhouse_polaris::registration::computed_id;
use tollhouse_polaris::rules::{layout_of, read_rule, rule_message, rule_schema};
use tollhouse_polaris::wire::InstanceRequest;
use tollhouse_registry::identity::PasswordHash;
use tollhouse_registry::{Client, NewRule, Rule, RuleKind, ServiceRef};
use tollhouse_web::Peer;

/// Header with the token of a caller, as Polaris' API expects it.
const TOKEN_HEADER: &str = "x-polaris-token";

/// Maximum size of an answer that is passed on: far above an export of 100,000 usual files.
const ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Implementation of the Admin API's registry calls for the Polaris dialect.
#[derive(Debug, Default)]
pub struct PolarisDialect {
    /// The HTTP API, with locked gates.
    pub api: Router,
}

/// Passes records of changes by operators to the list of changes.
#[derive(Debug)]
pub struct NotedChanges(pub ChangeQueue);

impl ChangeSink for NotedChanges {
    fn keep(&self, change: OperatorChange) {
        let OperatorChange { at_ms, actor, entrance, path, before, after } = change;
        let deed = match (&before, &after) {
            (None, _) => ChangeKind::Create,
            (_, None) => ChangeKind::Delete,
            (Some(_), Some(_)) => ChangeKind::Replace,
        };
        let way = match entrance {
            Entrance::Api => Way::Api,
            Entrance::Console => Way::Console,
        };
        let text = |value: Option<Value>| value.map(|value| value.to_string());
        self.0.put(ChangeRow {
            at_ms,
            actor,
            way,
            deed,
            path,
            before: text(before),
            after: text(after),
            below: Vec::new(),
            was_to_end: false,
            is_cut: false,
            undoes: None,
        });
    }
}

/// Passes reads of tokens to the audit log.
pub struct AuditedReads(pub Arc<dyn AuditSink>);

impl TokenReads for AuditedReads {
    fn keep(&self, read: TokenRead) {
        let TokenRead { actor, peer, path } = read;
        self.0.keep(&AuditEvent {
            deed: AuditDeed::Reveal,
            actor,
            peer: peer.unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
            method: Method::GET.to_string(),
            path: format!("/{path}/token"),
            status: StatusCode::OK.as_u16(),
            revision: None,
        });
    }
}

impl RegistryDialect for PolarisDialect {
    fn instance_id(&self, service: ServiceRef<'_>, vpc_id: &str, host: &str, port: u32) -> String {
        let mut request = InstanceRequest::default();
        request.namespace = Some(service.namespace);
        request.service = Some(service.name);
        request.vpc_id = Some(vpc_id);
        request.host = Some(host);
        request.port = Some(port);
        computed_id(&request)
    }

    fn show_rule(&self, rule: &Rule) -> Value {
        message_to_json(layout_of(rule.kind).message, rule_message(rule))
    }

    fn read_rule(&self, kind: RuleKind, value: &Value) -> Result<NewRule, String> {
        let name = layout_of(kind).message;
        let descriptor = descriptors().get_message_by_name(name).expect("it is in the schema");
        let message = json::read_kept(&descriptor, value.to_string().as_bytes());
        let message = message.map_err(|error| error.to_string())?;
        read_rule(kind, &message).map_err(|code| code.info().to_owned())
    }

    fn rule_schema(&self, kind: RuleKind) -> Value {
        rule_schema(kind)
    }

    fn show_client(&self, client: &Client) -> Value {
        message_to_json("v1.Client", &client.body)
    }

    fn answer(&self, call: DialectCall) -> DialectFuture<'_> {
        Box::pin(async move {
            let Some(request) = request_of(call) else { return unanswered("invalid path") };
            let response = tollhouse_web::answer_here(&self.api, request).await;
            let (head, body) = response.into_parts();
            match axum::body::to_bytes(body, ANSWER_BYTES_MAX).await {
                Ok(body) => DialectAnswer {
                    status: head.status,
                    content_type: head.headers.get(CONTENT_TYPE).cloned(),
                    body,
                },
                Err(_) => unanswered("the answer is too long; ask for less at a time"),
            }
        })
    }

    fn is_password(&self, password: &str, hash: Option<&PasswordHash>) -> bool {
        tollhouse_polaris::is_password(password, hash)
    }
}

/// Returns a call as the registry's HTTP listener would get it; `None` if its path is invalid.
fn request_of(call: DialectCall) -> Option<Request<Body>> {
    let DialectCall { method, target, content_type, body, peer, caller, way } = call;
    let mut request = Request::builder().method(method).uri(target).body(Body::from(body)).ok()?;
    let headers = request.headers_mut();
    if let Some(content_type) = content_type {
        headers.insert(CONTENT_TYPE, content_type);
    }
    let account = match caller {
        DialectCaller::Key(name) => Some(Arc::from(name)),
        DialectCaller::Token(token) => {
            headers.insert(TOKEN_HEADER, HeaderValue::from_str(&token).ok()?);
            None
        }
    };
    let entrance = if way == Way::Console { Entrance::Console } else { Entrance::Api };
    request.extensions_mut().insert(Operator { account, entrance });
    request.extensions_mut().insert(Peer { address: peer, is_local: false });
    Some(request)
}

fn unanswered(reason: &'static str) -> DialectAnswer {
    let body = serde_json::json!({ "error_msg": reason }).to_string().into();
    DialectAnswer { status: StatusCode::BAD_REQUEST, content_type: None, body }
}

/// Returns a message as JSON; `null` if the bytes are invalid, which only happens in a damaged
/// store.
fn message_to_json(name: &str, message: &[u8]) -> Value {
    let descriptor = descriptors().get_message_by_name(name).expect("it is in the schema");
    let text = json::print(&descriptor, message).ok();
    text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_instance_gets_the_id_that_clients_would_give_it() {
        let service = ServiceRef { namespace: "ns-auto", name: "svc-a" };
        let id = PolarisDialect::default().instance_id(service, "", "127.0.0.1", 8080);
        assert_eq!(id, "c83801b575d0ed329fb95c1d38944df9006b4f82");
    }

    #[test]
    fn a_rule_is_read_and_what_is_none_is_refused() {
        let rule = json!({
            "name": "a", "namespace": "ns", "service": "svc", "type": "LOCAL",
            "amounts": [{"maxAmount": 100, "validDuration": "1s"}],
        });
        let read =
            PolarisDialect::default().read_rule(RuleKind::RateLimit, &rule).expect("it is one");
        assert_eq!((&*read.name, &*read.namespace), ("a", "ns"));
        for value in [json!(7), json!({"name": ["a"]}), json!({"name": "without amounts"})] {
            assert!(
                PolarisDialect::default().read_rule(RuleKind::RateLimit, &value).is_err(),
                "{value}"
            );
        }
    }
}
