//! The routing decision: the winning route, its destination, and the losing candidates.

use std::sync::Arc;

use tollhouse_model::Id;
use tollhouse_proxy::Snapshot;
use tollhouse_proxy::plugins::Chain;
use tollhouse_proxy::snapshot::{Reference, RouteEntry, Target, UpstreamEntry};
use tollhouse_router::{Captures, Verdict};
use tollhouse_shenyu::matching::Standing;
use tollhouse_shenyu_gateway::{Course, CourseEnd};
use tollhouse_telemetry::ErrorCode;

use super::question::Question;

#[derive(Debug)]
pub struct Decision {
    /// The route that serves the request; `None` if no route matches.
    pub winner: Option<Winner>,
    /// Candidates in evaluation order, including the winner.
    pub candidates: Vec<Candidate>,
    /// Plugins of global rules, which run before those of the route.
    pub globals: Arc<Chain>,
    /// The request's path through ShenYu's plugins, if it reaches them.
    pub shenyu: Option<ByShenyu>,
}

#[derive(Debug)]
pub struct ByShenyu {
    /// Whether ShenYu's selectors are evaluated before routes.
    pub comes_first: bool,
    /// Steps and outcome of ShenYu's plugins.
    pub course: Course,
}

impl ByShenyu {
    /// Evaluates ShenYu's selectors if it is their turn: they come first, or no route matches.
    fn ask(snapshot: &Snapshot, question: &Question, route: Option<&Winner>) -> Option<Self> {
        let table = snapshot.shenyu.as_ref()?;
        let is_asked = match table.comes_first {
            true => route.is_none() || table.chain.knows(question),
            false => route.is_none(),
        };
        let comes_first = table.comes_first;
        is_asked.then(|| Self { comes_first, course: table.chain.explain(question) })
    }

    /// Whether a selector of any plugin matches the request.
    pub fn is_known(&self) -> bool {
        let mut selectors = self.course.steps.iter().flat_map(|step| &step.choice.selectors);
        selectors.any(|selector| selector.standing == Standing::Won)
    }

    /// Returns the generated route to the node that ShenYu's plugins chose; `None` if they chose no
    /// node.
    fn winner(&self, snapshot: &Snapshot) -> Option<Winner> {
        let CourseEnd::Node { target, .. } = self.course.end else { return None };
        let entry = snapshot.shenyu.as_ref()?.targets.get(target)?;
        let Target::Inline(upstream) = &entry.target else { return None };
        let step = self.course.steps.last();
        let selector = step
            .and_then(|step| step.choice.selectors.iter().find(|it| it.standing == Standing::Won));
        let place = format!(
            "nodes of selector {}",
            selector.map(|selector| selector.id.as_str()).unwrap_or_default()
        );
        Some(Winner {
            entry: Arc::clone(entry),
            uri: String::new(),
            captured: Vec::new(),
            destination: Destination::Upstream { place, entry: Arc::clone(upstream) },
        })
    }
}

/// A route whose path and host the router compared with the request.
#[derive(Debug)]
pub struct Candidate {
    /// The router's verdict: priority, and why the route lost.
    pub verdict: Verdict,
    pub entry: Arc<RouteEntry>,
}

/// The route that serves a request.
#[derive(Debug)]
pub struct Winner {
    pub entry: Arc<RouteEntry>,
    pub uri: String,
    /// Values captured by the pattern, by name.
    pub captured: Vec<(String, Vec<u8>)>,
    pub destination: Destination,
}

/// Upstream that a route sends requests to, or the error that it answers with.
#[derive(Debug)]
pub enum Destination {
    Upstream {
        /// The object that holds the upstream, such as `upstreams/1` or `routes/1 (inline)`.
        place: String,
        entry: Arc<UpstreamEntry>,
    },
    /// No destination, because a referenced object or a node is missing.
    Refused {
        /// Error code of the response to clients.
        code: ErrorCode,
        /// Explanation of the refusal, such as the missing object.
        missing: String,
    },
}

impl Decision {
    /// Whether a route or a ShenYu selector matches the request.
    pub fn is_taken(&self) -> bool {
        self.shenyu.as_ref().map_or(self.winner.is_some(), ByShenyu::is_known)
    }

    /// Routes `question` as the data plane would with `snapshot`.
    pub fn make(snapshot: &Snapshot, question: &Question) -> Self {
        let request = question.at(&question.path);
        let mut captures = Captures::default();
        let route = snapshot.router.find(&request, &mut captures).map(|route| route.value);
        let candidates = candidates(snapshot, question);
        let won = candidates.iter().find(|candidate| candidate.verdict.loss.is_none());
        let winner = route.zip(won).map(|(entry, won)| Winner {
            entry: Arc::clone(entry),
            uri: won.verdict.uri.clone(),
            captured: captured(&won.verdict.uri, &captures, &question.path),
            destination: match question.is_ambiguous
                && (snapshot.globals.judges_path() || entry.chain.judges_path())
            {
                true => ambiguous(),
                false => destination(snapshot, entry),
            },
        });
        let shenyu = ByShenyu::ask(snapshot, question, winner.as_ref());
        let winner = match &shenyu {
            Some(shenyu) => shenyu.winner(snapshot),
            None => winner,
        };
        Self { winner, candidates, globals: Arc::clone(&snapshot.globals), shenyu }
    }
}

/// Returns all routes whose path (and host, where the host is compared first) could match.
pub fn candidates(snapshot: &Snapshot, question: &Question) -> Vec<Candidate> {
    candidates_at(snapshot, question, &question.path)
}

/// Like [`candidates`], for another path, which must be normalised.
pub fn candidates_at(snapshot: &Snapshot, question: &Question, path: &[u8]) -> Vec<Candidate> {
    let verdicts = snapshot.router.explain(&question.at(path)).into_iter();
    verdicts
        .filter_map(|verdict| {
            let entry = Arc::clone(snapshot.router.get(&verdict.id)?);
            Some(Candidate { verdict, entry })
        })
        .collect()
}

/// Returns the captured values with their names. An unnamed `*` is called `:ext`.
fn captured(uri: &str, captures: &Captures, path: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut values: Vec<(String, Vec<u8>)> = Vec::new();
    for (at, _) in uri.match_indices(['*', ':']) {
        let name = uri[at + 1..].split(['/', '*']).next().unwrap_or_default();
        let name = if name.is_empty() { ":ext" } else { name };
        let is_known = values.iter().any(|(known, _)| known == name);
        if let Some(value) = captures.get(name, path).filter(|_| !is_known) {
            values.push((name.to_owned(), value.to_vec()));
        }
    }
    values
}

/// Returns the refusal of a path that servers could read in different ways, where a plugin decides
/// by the path.
fn ambiguous() -> Destination {
    let code = ErrorCode::AmbiguousPath;
    Destination::Refused { code, missing: code.meaning().to_owned() }
}

/// Resolves a route's upstream in APISIX's precedence: the route's own upstream first, then that of
/// its service.
fn destination(snapshot: &Snapshot, entry: &RouteEntry) -> Destination {
    let refused = |code, missing: String| Destination::Refused { code, missing };
    let named = |id: &Option<Id>| id.as_ref().map(Id::to_string).unwrap_or_default();
    let route = &entry.route;
    if entry.terms().service == Reference::Missing {
        let missing = format!("service {} does not exist", named(&route.service_id));
        return refused(ErrorCode::ServiceNotFound, missing);
    }
    if entry.terms().plugin_config == Reference::Missing {
        let missing = format!("plugin config {} does not exist", named(&route.plugin_config_id));
        return refused(ErrorCode::PluginConfigNotFound, missing);
    }
    let service_upstream = match &entry.terms().service {
        Reference::Found(service) => service.upstream_id.clone(),
        Reference::Unnamed | Reference::Missing => None,
    };
    let upstream = match &entry.target {
        Target::Inline(upstream) => upstream,
        Target::Slot(slot) => match snapshot.upstreams.get(*slot).and_then(Option::as_ref) {
            Some(upstream) => upstream,
            None => {
                let id = named(&route.upstream_id.clone().or(service_upstream));
                let missing = format!("upstream {id} does not exist");
                return refused(ErrorCode::UpstreamNotFound, missing);
            }
        },
        Target::None => {
            return refused(ErrorCode::NoNodes, "the route leads to no upstream".to_owned());
        }
    };
    // Nodes from a discovery are not in the object, so that an empty list does not mean "no nodes".
    let conf = &upstream.conf;
    if conf.discovery.is_none() && conf.nodes.iter().all(|node| node.weight == 0) {
        let missing = format!("{} has no node with a weight above 0", place(entry, upstream));
        return refused(ErrorCode::NoNodes, missing);
    }
    Destination::Upstream { place: place(entry, upstream), entry: Arc::clone(upstream) }
}

/// Returns the name of the object that holds an upstream.
fn place(entry: &RouteEntry, upstream: &UpstreamEntry) -> String {
    match (&upstream.conf.id, &entry.route.upstream, &entry.terms().service) {
        (Some(id), _, _) => format!("upstreams/{id}"),
        (None, None, Reference::Found(service)) => format!("services/{} (inline)", service.id),
        _ => format!("routes/{} (inline)", entry.route.id),
    }
}
