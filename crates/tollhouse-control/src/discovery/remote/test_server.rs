//! A played registry for tests: answers of HTTP by path, which the test sets and changes.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response};
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tollhouse_config::Bootstrap;
use tollhouse_model::Upstream;
use tollhouse_net::resolve::{Lookup, Question, ResolveError, Resolver, ResolverSettings};
use tollhouse_upstream::UpstreamState;

use super::{Protocol, RemoteSource};
use crate::discovery::{Detail, NodeSource, SourceSettings, UpstreamReport};

/// Seen request: method, path and query, headers.
pub(crate) type SeenRequest = (String, HeaderMap);

/// Answers of the registry.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// Status and body by path; everything else is answered 404.
    bodies: Mutex<BTreeMap<String, (u16, String)>>,
    /// Index of Consul, which counts the changes.
    index: watch::Sender<u64>,
    waiting: Mutex<Waiting>,
    seen: Mutex<Vec<SeenRequest>>,
}

/// Treatment of queries that wait for a change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Waiting {
    #[default]
    UntilChanged,
    AnsweredAtOnce,
    Refused,
}

/// A server that ends with the test's runtime.
pub(crate) struct PlayedRegistry {
    pub(crate) address: SocketAddr,
    pub(crate) answers: Arc<Answers>,
}

impl PlayedRegistry {
    pub(crate) async fn start() -> Self {
        let answers: Arc<Answers> = Arc::default();
        answers.index.send_replace(1);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let router = Router::new().fallback(answer).with_state(Arc::clone(&answers));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, answers }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sets the answer to a path, and wakes the queries that wait for a change.
    pub(crate) fn set(&self, path: &str, body: &Value) {
        self.set_status(path, 200, body);
    }

    pub(crate) fn set_status(&self, path: &str, status: u16, body: &Value) {
        let mut bodies = self.answers.bodies.lock().expect("not poisoned");
        bodies.insert(path.to_owned(), (status, body.to_string()));
        drop(bodies);
        self.answers.index.send_modify(|index| *index += 1);
    }

    pub(crate) fn set_waiting(&self, waiting: Waiting) {
        *self.answers.waiting.lock().expect("not poisoned") = waiting;
    }

    pub(crate) fn seen(&self) -> Vec<SeenRequest> {
        self.answers.seen.lock().expect("not poisoned").clone()
    }
}

/// Answers a request. A query with an index or version waits until the index is another one. The
/// text `$INDEX` in an answer stands for it.
async fn answer(State(answers): State<Arc<Answers>>, request: Request) -> Response<Body> {
    let target = request.uri().to_string();
    let line = format!("{} {target}", request.method());
    answers.seen.lock().expect("not poisoned").push((line, request.headers().clone()));
    let position = ["?index=", "&resourceVersion="];
    let known = position.iter().find_map(|name| target.split_once(name));
    let known = known.and_then(|(_, rest)| rest.split('&').next());
    let known: Option<u64> = known.and_then(|index| index.parse().ok());
    let mut index = answers.index.subscribe();
    let waiting = *answers.waiting.lock().expect("not poisoned");
    match (known, waiting) {
        (None, _) | (_, Waiting::AnsweredAtOnce) => {}
        (Some(known), Waiting::UntilChanged) => {
            let _ = index.wait_for(|index| *index != known).await;
        }
        (Some(_), Waiting::Refused) => {
            return Response::builder().status(403).body(Body::empty()).expect("a response");
        }
    }
    let bodies = answers.bodies.lock().expect("not poisoned");
    let found = bodies.get(request.uri().path()).cloned();
    let (status, body) = found.unwrap_or((404, "{}".to_owned()));
    let index = index.borrow().to_string();
    let body = body.replace("$INDEX", &index);
    let response = Response::builder().status(status).header("x-consul-index", index);
    response.body(Body::from(body)).expect("a response")
}

struct NoNames;

impl tollhouse_net::resolve::Source for NoNames {
    fn lookup<'a>(&'a self, _: &'a Question) -> Lookup<'a> {
        Box::pin(async { Err(ResolveError::Denied) })
    }
}

/// Returns the state of an upstream.
pub(crate) fn upstream(conf: &Value) -> Arc<UpstreamState> {
    let settings = ResolverSettings::default();
    let resolver = Resolver::with_source(Arc::new(NoNames), settings, Handle::current());
    let (upstream, problems) = Upstream::parse(None, conf, "");
    assert_eq!(problems.to_string(), "");
    UpstreamState::build(&upstream.expect("it is good"), "routes/1", None, &resolver)
}

/// Returns a source with the settings of a bootstrap file.
pub(crate) fn source<P: Protocol>(discovery: &Value) -> RemoteSource<P> {
    let text = serde_json::json!({ "discovery": discovery }).to_string();
    let loaded = Bootstrap::parse(Some(&text), &|_| None, &[]).expect("valid settings");
    let bound = Arc::default();
    RemoteSource::open(&SourceSettings { bootstrap: &loaded.bootstrap, bound: &bound })
}

/// Returns the nodes of an upstream as `host:port weight`, sorted.
pub(crate) fn nodes(state: &UpstreamState) -> Vec<String> {
    let mut nodes = Vec::new();
    state.each_node(|node| {
        nodes.push(format!("{}:{} {}", node.host(), node.port(), node.weight()));
    });
    nodes.sort();
    nodes
}

/// Waits until an upstream has these nodes.
pub(crate) async fn until_nodes(state: &UpstreamState, expected: &[&str]) {
    while nodes(state) != expected {
        tokio::task::yield_now().await;
    }
}

/// Waits until no request waits for a first look-up.
pub(crate) async fn until_ready(state: &UpstreamState) {
    while !state.is_ready() {
        tokio::task::yield_now().await;
    }
}

/// Waits until the only report of a source fits, and returns it.
pub(crate) async fn until_report<P: Protocol>(
    source: &RemoteSource<P>,
    fits: impl Fn(&UpstreamReport) -> bool,
) -> UpstreamReport {
    loop {
        let report = source.report(Detail::Counts).into_iter().next().expect("one upstream");
        if fits(&report) {
            return report;
        }
        tokio::task::yield_now().await;
    }
}
