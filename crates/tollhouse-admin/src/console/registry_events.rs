//! `/console/v1/registry/events`: recent events of registry instances, newest first. The registry
//! decides how many it keeps.

use serde_json::{Value, json};

use crate::call::Call;
use crate::context::Admin;
use crate::reply::Reply;

/// Default and maximum number of events per answer.
const LINES: usize = 100;
const LINES_MAX: usize = 1000;

/// Returns events, newest first. The arguments `namespace`, `service` and `instance` filter them;
/// `before` selects the events with a lower number.
pub(super) fn list(admin: &Admin, call: &Call) -> Result<Value, Reply> {
    let part = admin.parts.registry.as_ref().ok_or_else(|| {
        let text = "the registry is off; see listen.registry_grpc";
        Reply::refusal(hyper::StatusCode::NOT_FOUND, text)
    })?;
    let argument = |name: &str| call.arguments.get(name).filter(|value| !value.is_empty());
    let number = |name: &str| argument(name).and_then(|text| text.parse::<u64>().ok());
    let lines = number("limit").and_then(|limit| usize::try_from(limit).ok()).unwrap_or(LINES);
    let (namespace, service) = (argument("namespace"), argument("service"));
    let (instance, before) = (argument("instance"), number("before").unwrap_or(u64::MAX));
    // The timeline itself filters the events, because it may contain many thousands and an answer
    // has few.
    let (found, kept) = part.registry.timeline().newest(lines.clamp(1, LINES_MAX), |line| {
        line.number < before
            && namespace.is_none_or(|name| *line.service.namespace == *name)
            && service.is_none_or(|name| *line.service.name == *name)
            && instance.is_none_or(|id| *line.instance == *id)
    });
    let rows = found.iter().map(|line| {
        json!({
            "number": line.number,
            "at_ms": line.at_ms,
            "happening": line.happening.name(),
            "namespace": &*line.service.namespace,
            "service": &*line.service.name,
            "instance": &*line.instance,
            "host": &*line.host,
            "port": line.port,
            "weight": line.weight,
            "last_beat_s": line.last_beat_s,
        })
    });
    Ok(json!({ "kept": kept, "rows": rows.collect::<Value>() }))
}
