//! Recent requests as JSON, with the texts of the error catalogue.

use serde_json::{Value, json};
use tollhouse_admin::RequestFilter;
use tollhouse_telemetry::Metrics;
use tollhouse_telemetry::recent::{RecentRequest, SAMPLE_INTERVAL_MS};
use tollhouse_trace::TraceId;

/// Limit of rows in an answer.
const ROWS_MAX: usize = 500;

/// Returns the recent requests that match `filter`, newest first.
pub(super) fn list(metrics: &Metrics, filter: &RequestFilter) -> Value {
    let (all, missed) = metrics.recent_requests();
    let passing: Vec<&RecentRequest> = all.iter().filter(|one| passes(one, filter)).collect();
    json!({
        "kept": all.len(),
        "matching": passing.len(),
        "missed": missed,
        "sample_interval_ms": SAMPLE_INTERVAL_MS,
        "rows": passing.iter().take(ROWS_MAX).map(|one| row(one)).collect::<Vec<_>>(),
    })
}

fn passes(request: &RecentRequest, filter: &RequestFilter) -> bool {
    let by_code = |code: &String| request.code.is_some_and(|own| own.text() == code);
    let by_route = |route: &String| request.route.text() == *route;
    let by_status = |status: &String| {
        let own = request.status.to_string();
        match status.strip_suffix("xx") {
            Some(class) => own.len() == 3 && own.starts_with(class),
            None => own == *status,
        }
    };
    let by_id = |id: &String| format!("{:x}", request.id) == *id;
    filter.id.as_ref().is_none_or(by_id)
        && filter.code.as_ref().is_none_or(by_code)
        && filter.route.as_ref().is_none_or(by_route)
        && filter.status.as_ref().is_none_or(by_status)
        && filter.slower_ms.is_none_or(|least_ms| request.duration_ms >= least_ms)
        && filter.search.as_ref().is_none_or(|text| has(request, text))
}

fn has(request: &RecentRequest, text: &str) -> bool {
    let nodes = request.attempts.iter().flatten().map(|attempt| attempt.node.to_string());
    let own = [request.method.text(), request.host.text(), request.path.text()];
    let others = [request.client.to_string(), request.consumer.text(), request.plugin.text()];
    let mut texts = own.into_iter().chain(others).chain(request.trace_id.map(hex));
    texts.any(|own| own.contains(text)) || nodes.into_iter().any(|node| node.contains(text))
}

fn row(request: &RecentRequest) -> Value {
    let attempts = request.attempts.iter().flatten();
    let attempts = attempts.scan(0, |before_ms, it| {
        let took_ms = it.ended_ms.saturating_sub(std::mem::replace(before_ms, it.ended_ms));
        let code = it.code.map(|code| code.text());
        let node = it.node.to_string();
        Some(json!({ "node": node, "status": it.status, "code": code, "took_ms": took_ms }))
    });
    let trace_id = request.trace_id.map(hex);
    let trace_id = trace_id.as_deref();
    json!({
        "id": format!("{:x}", request.id),
        "at_ms": request.unix_ms,
        "duration_ms": request.duration_ms,
        "upstream_ms": request.upstream_ms,
        "status": request.status,
        "method": request.method.text(),
        "host": request.host.text(),
        "path": request.path.text(),
        "is_cut": request.path.is_cut || request.host.is_cut,
        "route": request.route.text(),
        "consumer": request.consumer.text(),
        "client": request.client.to_string(),
        "attempts": attempts.collect::<Vec<_>>(),
        "attempt_count": request.attempt_count,
        "plugin": request.plugin.text(),
        "cause": request.cause.text(),
        "trace_id": trace_id.filter(|_| request.is_trace_recorded),
        // Backends do not have this one; it is in the access log, and in responses to clients.
        "unrecorded_trace_id": trace_id.filter(|_| !request.is_trace_recorded),
        "error": request.code.map(|code| json!({
            "code": code.text(),
            "origin": code.origin().text(),
            "meaning": code.meaning(),
            "remedy": code.remedy(),
        })),
    })
}

fn hex(trace_id: [u8; 16]) -> String {
    TraceId::from_bytes(trace_id).map_or_else(String::new, TraceId::to_hex)
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, SocketAddr};

    use tollhouse_telemetry::ErrorCode;
    use tollhouse_telemetry::recent::{ATTEMPTS_MAX, RecentAttempt, ShortText};

    use super::*;

    fn request() -> RecentRequest {
        let node = SocketAddr::from(([10, 0, 0, 7], 8080)).into();
        let mut attempts = [None; ATTEMPTS_MAX];
        let code = Some(ErrorCode::UpstreamConnectFailed);
        attempts[0] = Some(RecentAttempt { node, status: 502, code, ended_ms: 2 });
        RecentRequest {
            id: 0x1f,
            unix_ms: 1,
            duration_ms: 2,
            upstream_ms: None,
            status: 502,
            code,
            plugin: ShortText::default(),
            cause: ShortText::new(b"Connection refused"),
            method: ShortText::new(b"GET"),
            host: ShortText::new(b"shop.example.com"),
            path: ShortText::new(b"/orders"),
            route: ShortText::new(b"r1"),
            consumer: ShortText::default(),
            client: IpAddr::from([192, 0, 2, 1]),
            attempts,
            attempt_count: 1,
            trace_id: Some([0xab; 16]),
            is_trace_recorded: true,
        }
    }

    #[test]
    fn requests_are_found_by_what_people_know_of_them() {
        let text = |value: &str| Some(value.to_owned());
        let none = RequestFilter::default;
        for (filter, expected) in [
            (none(), true),
            (RequestFilter { code: text("upstream_connect_failed"), ..none() }, true),
            (RequestFilter { code: text("no_nodes"), ..none() }, false),
            (RequestFilter { status: text("5xx"), ..none() }, true),
            (RequestFilter { status: text("502"), ..none() }, true),
            (RequestFilter { status: text("4xx"), ..none() }, false),
            (RequestFilter { route: text("r1"), ..none() }, true),
            (RequestFilter { route: text("r"), ..none() }, false),
            (RequestFilter { slower_ms: Some(2), ..none() }, true),
            (RequestFilter { slower_ms: Some(3), ..none() }, false),
            (RequestFilter { search: text("10.0.0.7"), ..none() }, true),
            (RequestFilter { search: text("/ord"), ..none() }, true),
            (RequestFilter { search: text("192.0.2"), ..none() }, true),
            (RequestFilter { search: text("abababab"), ..none() }, true),
            (RequestFilter { search: text("nothing"), ..none() }, false),
            (RequestFilter { id: text("1f"), ..none() }, true),
            (RequestFilter { id: text("1e"), ..none() }, false),
        ] {
            assert_eq!(passes(&request(), &filter), expected, "{filter:?}");
        }
    }

    #[test]
    fn a_row_names_cause_and_remedy() {
        let row = row(&request());
        assert_eq!(row["error"]["code"], "upstream_connect_failed");
        assert!(row["error"]["remedy"].as_str().is_some_and(|text| !text.is_empty()));
        assert_eq!((&row["id"], &row["cause"]), (&json!("1f"), &json!("Connection refused")));
        let attempt = json!({
            "node": "10.0.0.7:8080", "status": 502, "code": "upstream_connect_failed", "took_ms": 2,
        });
        assert_eq!(row["attempts"], json!([attempt]));
        assert_eq!(row["trace_id"], json!("ab".repeat(16)));
        let unrecorded = super::row(&RecentRequest { is_trace_recorded: false, ..request() });
        assert_eq!(unrecorded["trace_id"], Value::Null);
        assert_eq!(unrecorded["unrecorded_trace_id"], json!("ab".repeat(16)));
    }
}
