//! Explanation of a request as JSON, against the snapshot in service.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use serde_json::{Value, json};
use tollhouse_model::Id;
use tollhouse_proxy::plugins::PluginStep;
use tollhouse_proxy::snapshot::{RouteEntry, UpstreamEntry};
use tollhouse_proxy::{Settings, Snapshot, SnapshotCell};
use tollhouse_shenyu::matching::{Candidate as ShenyuCandidate, Standing};
use tollhouse_shenyu_gateway::CourseEnd;
use tollhouse_telemetry::ErrorCode;
use tollhouse_upstream::Node;

use super::text::{self, Nearby};
use super::{
    ByShenyu, Candidate, Decision, Destination, ExplainRequest, HeaderLine, Question, Rejection,
    Url, Winner, loss, lossy, plugin_owner,
};

/// Limit of listed candidates, because thousands of routes may share one path.
const CANDIDATES_LISTED_MAX: usize = 50;

/// Limit of routes among which a misspelt path is sought.
const ROUTES_COMPARED_MAX: usize = 10_000;

/// Limit of listed nodes per upstream.
const NODES_LISTED_MAX: usize = 50;

/// Returns the limit of candidates that an answer lists; its `candidate_count` is the full number.
pub const fn candidates_listed_max() -> usize {
    CANDIDATES_LISTED_MAX
}

/// Answers questions against the snapshot in service.
#[derive(Debug)]
pub struct ServedQuestions {
    snapshots: Arc<SnapshotCell>,
    settings: Arc<Settings>,
}

impl ServedQuestions {
    /// `settings` decide which requests are refused before routing.
    pub fn new(snapshots: Arc<SnapshotCell>, settings: Arc<Settings>) -> Self {
        Self { snapshots, settings }
    }

    /// Explains which route a request would take, and why the others lose.
    ///
    /// # Errors
    /// If the question is invalid; the text names the wrong part.
    pub fn answer(&self, question: &tollhouse_admin::Question) -> Result<Value, String> {
        let asked = asked(question)?;
        if question.as_text {
            return Ok(self.in_words(&asked));
        }
        if asked.url.below_http().is_some() {
            let text = "ask about http or https; `tollhouse explain` answers about stream routes";
            return Err(format!("url: {text}"));
        }
        let question = match Question::ask(&asked, &self.settings) {
            Ok(question) => question,
            Err(refused) => return Ok(refusal(&refused)),
        };
        let snapshot = self.snapshots.load();
        let decision = Decision::make(&snapshot, &question);
        Ok(decided(&snapshot, &question, &decision))
    }

    /// The explanation as the command line prints it, and whether a route takes the request.
    fn in_words(&self, asked: &ExplainRequest) -> Value {
        let snapshot = self.snapshots.load();
        let answer = |text: String, is_taken: bool| json!({ "revision": snapshot.revision, "text": text, "is_taken": is_taken });
        if let Some(below) = asked.url.below_http() {
            let listened = &self.settings.streams.listened;
            let (text, is_taken) = text::connection(&below, asked.remote_addr, &snapshot, listened);
            return answer(text, is_taken);
        }
        let question = match Question::ask(asked, &self.settings) {
            Ok(question) => question,
            Err(refused) => return answer(text::refusal(&refused), false),
        };
        let decision = Decision::make(&snapshot, &question);
        let mut written = text::decision(&question, &decision);
        if !decision.is_taken() {
            let entries = snapshot.router.values().take(ROUTES_COMPARED_MAX);
            let routes: Vec<Id> = entries.map(|entry| entry.route.id.clone()).collect();
            let nearby = Nearby { snapshot: &snapshot, routes: &routes, switched_off: &[] };
            written.push_str(&text::nearest(&nearby, &question));
        }
        answer(written, decision.is_taken())
    }
}

fn asked(question: &tollhouse_admin::Question) -> Result<ExplainRequest, String> {
    let url: Url = question.url.parse().map_err(|error| format!("url: {error}"))?;
    let header =
        |line: &String| line.parse::<HeaderLine>().map_err(|error| format!("headers: {error}"));
    let remote_addr = match question.remote_addr.as_deref().filter(|text| !text.is_empty()) {
        Some(text) => text.parse().map_err(|_| format!("remote_addr: invalid address {text}"))?,
        None => IpAddr::V4(Ipv4Addr::LOCALHOST),
    };
    let method = question.method.clone().filter(|method| !method.is_empty());
    if method.as_deref().is_some_and(|method| !method.bytes().all(|it| it.is_ascii_graphic())) {
        return Err("method: expected a single word".to_owned());
    }
    Ok(ExplainRequest {
        url,
        method,
        headers: question.headers.iter().map(header).collect::<Result<_, _>>()?,
        remote_addr,
        body: question.body.clone().filter(|body| !body.is_empty()),
    })
}

fn refusal(refused: &Rejection) -> Value {
    match refused {
        Rejection::Head(error) => json!({ "refused": { "reason": error.to_string() } }),
        Rejection::Code(code) => json!({ "refused": failure(*code, code.meaning()) }),
    }
}

fn failure(code: ErrorCode, reason: &str) -> Value {
    json!({
        "status": code.status(), "code": code.text(), "reason": reason, "remedy": code.remedy(),
    })
}

fn decided(snapshot: &Snapshot, question: &Question, decision: &Decision) -> Value {
    let listed = decision.candidates.iter().take(CANDIDATES_LISTED_MAX);
    let mut answer = json!({
        "revision": snapshot.revision,
        "request": {
            "method": lossy(question.method()),
            "host": lossy(question.authority()),
            "path": lossy(&question.path),
            "sent_path": lossy(question.sent_path()),
            "remote_addr": question.remote_addr().to_string(),
        },
        "candidates": listed.map(candidate).collect::<Vec<_>>(),
        "candidate_count": decision.candidates.len(),
    });
    // A request that ShenYu's plugins handle runs through none of a route's plugins.
    if let Some(shenyu) = &decision.shenyu {
        add_shenyu(&mut answer, shenyu, decision.winner.as_ref());
        return answer;
    }
    let Some(winner) = &decision.winner else {
        let code = ErrorCode::RouteNotFound;
        answer["refused"] = failure(code, code.meaning());
        return answer;
    };
    let (entry, route) = (&winner.entry, &winner.entry.route);
    let captured = winner.captured.iter().map(|(name, value)| (name.clone(), lossy(value).into()));
    answer["route"] = json!({
        "id": route.id.to_string(),
        "name": route.name.as_ref().map(ToString::to_string),
        "uri": winner.uri,
        "captured": Value::Object(captured.collect()),
    });
    let globals = decision.globals.steps().iter().map(|step| plugin(step, "global rules"));
    let own = entry.chain.steps().iter().map(|step| plugin(step, &plugin_owner(entry, step)));
    answer["plugins"] = globals.chain(own).collect();
    match &winner.destination {
        Destination::Upstream { place, entry } => answer["upstream"] = upstream(place, entry),
        Destination::Refused { code, missing } => answer["refused"] = failure(*code, missing),
    }
    answer
}

/// Adds the steps of ShenYu's plugins under `shenyu`, and the outcome in the members that ordinary
/// routes use.
fn add_shenyu(answer: &mut Value, shenyu: &ByShenyu, winner: Option<&Winner>) {
    let steps = shenyu.course.steps.iter().map(|step| {
        json!({
            "plugin": step.plugin,
            "selectors": chosen_first(&step.choice.selectors),
            "rules": chosen_first(&step.choice.rules),
        })
    });
    answer["shenyu"] =
        json!({ "comes_first": shenyu.comes_first, "steps": steps.collect::<Vec<_>>() });
    match &shenyu.course.end {
        CourseEnd::Node { .. } => {}
        // Uses the `refused` member of an ordinary route, so that readers need only one case.
        CourseEnd::Answer { status, body } => {
            answer["refused"] =
                json!({ "status": status, "code": "shenyu", "reason": lossy(body.as_bytes()) });
        }
        CourseEnd::Elsewhere { status, location } => {
            let reason = format!("to {}", lossy(location.as_bytes()));
            answer["refused"] = json!({ "status": status, "code": "shenyu", "reason": reason });
        }
    }
    if let Some(winner) = winner {
        answer["route"] =
            json!({ "id": winner.entry.route.id.to_string(), "uri": winner.uri, "captured": {} });
        if let Destination::Upstream { place, entry } = &winner.destination {
            answer["upstream"] = upstream(place, entry);
        }
    }
}

/// Returns the selectors or rules as JSON: the winner first, then the others in evaluation order.
fn chosen_first(candidates: &[ShenyuCandidate]) -> Vec<Value> {
    let mut listed: Vec<&ShenyuCandidate> = candidates.iter().collect();
    listed.sort_by_key(|candidate| candidate.standing != Standing::Won);
    let line = |candidate: &ShenyuCandidate| {
        json!({
            "id": candidate.id,
            "name": candidate.name,
            "score": candidate.score,
            "sort": candidate.sort,
            "wins": candidate.standing == Standing::Won,
            "failed": candidate.condition,
        })
    };
    listed.into_iter().take(CANDIDATES_LISTED_MAX).map(line).collect()
}

fn candidate(candidate: &Candidate) -> Value {
    let Candidate { verdict, entry } = candidate;
    let name = |entry: &RouteEntry| entry.route.name.as_ref().map(ToString::to_string);
    json!({
        "id": verdict.id.to_string(),
        "name": name(entry),
        "uri": verdict.uri,
        "host": verdict.host,
        "priority": verdict.priority,
        "wins": verdict.loss.is_none(),
        "reason": loss(candidate),
    })
}

fn plugin(step: &PluginStep, owner: &str) -> Value {
    json!({
        "name": step.name(),
        "owner": owner,
        "priority": step.priority,
        "phases": step.handler.phases().names(),
        "is_unavailable": step.refuses_with.is_some(),
        "refuses_with": step.refuses_with.map(ErrorCode::text),
        "filter": step.filter.as_ref().map(ToString::to_string),
    })
}

fn upstream(place: &str, entry: &UpstreamEntry) -> Value {
    let mut nodes = Vec::new();
    entry.state.each_node(|node| {
        if nodes.len() < NODES_LISTED_MAX {
            nodes.push(node_line(node));
        }
    });
    json!({ "place": place, "nodes": nodes, "node_count": entry.state.node_count() })
}

fn node_line(node: &Node) -> Value {
    json!({
        "host": node.host(),
        "port": node.port(),
        "weight": node.weight(),
        "status": node.health().status,
        // Failed attempts in a row, which count whatever the checks say.
        "failures": node.failure_streak().map(|streak| streak.failures),
    })
}
