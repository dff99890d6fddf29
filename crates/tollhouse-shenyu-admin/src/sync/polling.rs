//! Long polling: a gateway sends the checksums of its groups. The answer lists the groups that
//! differ, at once or as soon as one changes.

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout_at};
use tollhouse_shenyu::model::DEFAULT_NAMESPACE;
use tollhouse_web::Peer;

use crate::admin::ShenyuAdmin;
use crate::answer::{Outcome, Refusal, success};
use crate::call::Call;
use crate::instances::Reporter;
use crate::limits::POLL_TIME;

/// Answers `GET /configs/fetch` with the requested groups.
pub(crate) fn fetch(admin: &ShenyuAdmin, call: &Call) -> Response {
    let namespace = namespace_of_gateway(call);
    let groups = groups(admin, &namespace);
    let mut data = Map::new();
    for group in groups.iter() {
        if call.arguments.all("groupKeys").any(|asked| asked == group.kind.group()) {
            data.insert(group.kind.group().to_owned(), group.to_json());
        }
    }
    respond(success("success", data))
}

/// Answers `POST /configs/listener` with the names of the groups that differ from the gateway's.
/// Holds the request while none differs, for [`POLL_TIME`] at most.
pub(crate) async fn listen(admin: &ShenyuAdmin, call: &Call, report: Report) -> Response {
    let Some(_permit) = admin.follower_permits.authenticated() else {
        return Refusal::error("too many gateways follow; end one first").into_response();
    };
    let namespace = namespace_of_gateway(call);
    report.note(admin, &namespace);
    let deadline = Instant::now() + POLL_TIME;
    let mut version = admin.book.version();
    let mut ending = admin.ending.subscribe();
    loop {
        version.mark_unchanged();
        let changed = changed(admin, &namespace, call);
        if !changed.is_empty() {
            return respond(success("success", changed));
        }
        let changed = tokio::select! {
            changed = timeout_at(deadline, version.changed()) => matches!(changed, Ok(Ok(()))),
            _ = ending.wait_for(|is_ending| *is_ending) => false,
        };
        if !changed {
            return respond(success("success", Vec::<Value>::new()));
        }
    }
}

/// Heartbeat of a polling gateway, taken from its headers.
#[derive(Debug)]
pub(crate) struct Report {
    reporter: Reporter,
    info: Option<String>,
}

impl Report {
    pub(crate) fn from_request(request: &Request) -> Self {
        let peer = request.extensions().get::<Peer>().copied();
        let info = request.headers().get("bootstrapInstanceInfo").and_then(|it| it.to_str().ok());
        let reporter = Reporter::new(peer, request.headers(), "X-Real-PORT", String::new());
        // JSON text inside a JSON string, as over WebSocket.
        Self { reporter, info: info.map(|info| Value::from(info).to_string()) }
    }

    fn note(mut self, admin: &ShenyuAdmin, namespace: &str) {
        if let Some(info) = self.info {
            namespace.clone_into(&mut self.reporter.namespace);
            self.reporter.report(&admin.instances, &info);
        }
    }
}

fn changed(admin: &ShenyuAdmin, namespace: &str, call: &Call) -> Vec<Value> {
    let groups = groups(admin, namespace);
    let differs = |group: &&super::Group| {
        // A gateway follows only the groups that it sends a checksum for.
        call.argument(group.kind.group())
            .is_some_and(|known| known.split(',').next() != Some(group.sum.as_str()))
    };
    groups.iter().filter(differs).map(|group| group.kind.group().into()).collect()
}

fn groups(admin: &ShenyuAdmin, namespace: &str) -> super::Groups {
    // The version is read first. If the tables change in between, the groups are cached under the
    // older version and soon rebuilt, never served too long.
    let version = *admin.book.version().borrow();
    admin.snapshots.at(version, &admin.book.read(), namespace)
}

fn namespace_of_gateway(call: &Call) -> String {
    call.argument("namespaceId").unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned())
}

fn respond(outcome: Outcome) -> Response {
    match outcome {
        Ok(success) => success.into_response(),
        Err(refusal) => refusal.into_response(),
    }
}
