//! ngxway's benchmark: fourteen runs of `ab -k` with 10,000 and 100,000 requests over 32 to 1200
//! connections, with a two-byte response.
//!
//! The published figures compare cached responses with an uncached baseline. Here the gateway
//! forwards every request, and a second gateway answers from its cache. Runs of 10,000 requests
//! last a fraction of a second; the report warns about their percentiles.

use serde_json::json;

use super::stage::{Server, Stage, Subject, request};
use super::{Length, Options, measure, peer::Upstream, resources::Resources};
use crate::case::HttpVersion;
use crate::error::BenchError;
use crate::plan::{DIRECT, Plan, PlannedCase};
use crate::session::{Event, Session};

const PATH: &str = "/api/test";
const REQUESTS: [u64; 2] = [10_000, 100_000];
const CONNECTIONS: [usize; 7] = [32, 64, 128, 256, 512, 1_024, 1_200];
/// Length of the body `ok` in bytes.
const BODY_BYTES: u64 = 2;

pub(super) fn run(
    options: &Options,
    observe: &mut dyn FnMut(Event<'_>),
) -> Result<Session, BenchError> {
    let mut stage = Stage::new(options, usize::MAX)?;
    let upstream = match &options.baseline {
        Some(line) => stage.command(line, PATH)?,
        None => stage.mock(&["--preset", "ngxway"], PATH)?,
    };
    let resources = Resources::default().route("/api/*", upstream.port, &json!({}));
    let gateway = stage.gateway("tollhouse", &resources, &request(PATH, ""))?;
    let mut subjects = vec![Subject::new(DIRECT, upstream.clone())];
    subjects.push(Subject::new("tollhouse", gateway));
    let cached = Resources::default().route("/api/*", upstream.port, &cache());
    let cached = stage.gateway("tollhouse, cached", &cached, &request(PATH, ""))?;
    subjects.push(Subject::new("tollhouse, cached", cached));
    let before = Upstream { port: upstream.port, path: PATH };
    subjects.extend(stage.peers(&options.peers, &before)?);
    let mut all: Vec<(u64, usize)> = REQUESTS
        .into_iter()
        .flat_map(|requests| CONNECTIONS.map(|connections| (requests, connections)))
        .collect();
    if options.length == Length::Glance {
        all.truncate(1);
    }
    let mut cases = Vec::new();
    for (requests, connections) in all {
        let planned = |subject: &Subject| planned(subject, &upstream, requests, connections);
        // Subjects alternate within a size, so that a machine that warms up or slows down affects
        // all of them alike.
        cases.extend(subjects.iter().map(planned));
    }
    if options.baseline.is_some() {
        // The body length of a user's own upstream is unknown.
        cases.iter_mut().for_each(|planned| planned.case.checks.body_bytes = None);
    }
    let plan = Plan {
        name: "ngxway's benchmark, measured again".into(),
        about: format!(
            "A two-byte answer over HTTP/1.0 with kept connections, as `ab -k` asks for it. The published run \
             read nginx's cache; here every request is passed on to the upstream. {}",
            stage.sentence()
        ),
        repeat: if matches!(options.length, Length::Standard | Length::Full) { 3 } else { 1 },
        baseline: None,
        cases,
        ..Plan::default()
    };
    measure(&stage, &plan, options, observe)
}

/// Returns a plugin configuration that caches a response for longer than the suite runs.
fn cache() -> serde_json::Value {
    json!({ "proxy-cache": {
        "cache_strategy": "memory",
        "cache_zone": "memory_cache",
        "cache_method": ["GET"],
        "cache_http_status": [200],
        "cache_ttl": 86_400,
    }})
}

fn planned(subject: &Subject, upstream: &Server, requests: u64, connections: usize) -> PlannedCase {
    let mut planned = subject.case(upstream, PATH, BODY_BYTES);
    let case = &mut planned.case;
    case.name = format!("-n {requests} -c {connections}");
    case.load.requests = Some(requests);
    case.load.connections = connections;
    case.http.version = HttpVersion::Http10;
    planned
}
