//! Blocking queries to Consul agents, which the sources `consul` and `consul_kv` share.
//!
//! A blocking query occupies a connection of the agent; for many services, or if `keepalive` is off,
//! services are polled instead.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tollhouse_config::bootstrap::ConsulRegistry;

use super::catalogue::{Catalogue, RemoteInstance, ServiceName};
use super::each::{EarlyAnswers, Read, read_on};
use super::http::{Answer, Basic, Call, Calls};

/// Number of services up to which each has a blocking query. An agent admits 200 connections of a
/// client by default.
const BLOCKING_MAX: usize = 100;

/// Concurrent calls while services are polled.
const POLLS_MAX: usize = 8;

/// Largest answer about a service, in bytes: some thousands of instances.
const BODY_BYTES_MAX: usize = 8 << 20;

/// Pause after an answer to a blocking query: a service that keeps changing is read ten times a
/// second at most. After early answers without a change there is the pause of polls.
const REST: Duration = Duration::from_millis(100);

/// Header with the index of an answer, which the next blocking query sends back.
const INDEX_HEADER: &str = "x-consul-index";

/// Consul agents.
#[derive(Debug)]
pub(crate) struct Agents {
    pub(crate) settings: ConsulRegistry,
    polls: Semaphore,
    /// Number of the next service's first server.
    next_server: AtomicUsize,
}

/// Questions of one source about a service.
pub(crate) trait Questions: Send + Sync + 'static {
    fn agents(&self) -> &Agents;

    /// Returns path and query of the question, without index and wait; `None` if the service has no
    /// nodes in any case.
    fn target(&self, name: &ServiceName) -> Option<String>;

    /// Whether Consul answers 404, with an index, if there is no such service.
    fn is_404_an_answer(&self) -> bool {
        false
    }

    /// Parses an answer, which is empty for a 404; `None` if there is no such service.
    ///
    /// # Errors
    /// The reason, if it is something else.
    fn instances(&self, body: &[u8]) -> Result<Option<Vec<RemoteInstance>>, String>;
}

impl Agents {
    pub(crate) fn new(settings: ConsulRegistry) -> Self {
        let (polls, next_server) = (Semaphore::new(POLLS_MAX), AtomicUsize::new(0));
        Self { settings, polls, next_server }
    }
}

/// Place in the answers of the current server.
#[derive(Debug, Default)]
struct Position {
    /// Index of the last answer; 0 asks without waiting.
    index: u64,
    early: EarlyAnswers,
}

/// Reads a service over and over.
pub(crate) async fn follow<Q: Questions>(
    questions: Arc<Q>,
    catalogue: Arc<Catalogue>,
    name: ServiceName,
) {
    let agents = questions.agents();
    let first = agents.next_server.fetch_add(1, Ordering::Relaxed);
    let access = &agents.settings.access;
    let mut calls = Calls::new(access, BODY_BYTES_MAX, first);
    let (asked, known) = (Arc::clone(&questions), Arc::clone(&catalogue));
    let mut position = Position::default();
    read_on(catalogue, name, access.fetch_interval, async move |name| {
        read(&*asked, &known, &mut calls, &mut position, name).await
    })
    .await;
}

async fn read<Q: Questions>(
    questions: &Q,
    catalogue: &Catalogue,
    calls: &mut Calls,
    position: &mut Position,
    name: &ServiceName,
) -> Result<Read, String> {
    let Agents { settings, polls, .. } = questions.agents();
    let fetch_interval = settings.access.fetch_interval;
    let Some(target) = questions.target(name) else {
        return Ok(Read { instances: None, pause: fetch_interval });
    };
    let wait = settings.wait.filter(|_| catalogue.service_count() <= BLOCKING_MAX);
    let _turn = match wait {
        Some(_) => None,
        None => Some(polls.acquire().await.map_err(|error| error.to_string())?),
    };
    let read = async |calls: &mut Calls| {
        let none_header = questions.is_404_an_answer().then_some(INDEX_HEADER);
        let (index, began) = (position.index, Instant::now());
        let question = Question { target: &target, index, wait, none_header };
        let answer = call(settings, calls, question).await;
        let answer = answer.and_then(|answer| {
            let instances = questions.instances(&answer.body)?;
            Ok((instances, index_of(&answer)))
        });
        // The next server has another index.
        let (instances, next) = answer.inspect_err(|_| position.index = 0)?;
        let has_waited = wait.is_some() && index > 0;
        match has_waited && next == index {
            true => position.early.note(began.elapsed()),
            false => position.early.clear(),
        }
        Ok((instances, next))
    };
    let (instances, next) = calls.try_each(read).await?;
    if wait.is_none() {
        // Idle connections count as well at the agent.
        calls.close();
    }
    // An index that goes back is that of another or a restored server.
    position.index = if next < position.index { 0 } else { next };
    let may_wait = wait.is_some() && next > 0 && !position.early.are_many();
    let pause = if may_wait { REST } else { fetch_interval };
    Ok(Read { instances, pause })
}

/// A query, blocking if it has an index and a wait.
struct Question<'q> {
    target: &'q str,
    index: u64,
    wait: Option<Duration>,
    none_header: Option<&'static str>,
}

async fn call(
    settings: &ConsulRegistry,
    calls: &mut Calls,
    question: Question<'_>,
) -> Result<Answer, String> {
    let Question { target, index, wait, none_header } = question;
    let mut target = target.to_owned();
    let mut may_wait = Duration::ZERO;
    if let Some(wait) = wait.filter(|_| index > 0) {
        let mark = if target.contains('?') { '&' } else { '?' };
        target.push_str(&format!("{mark}index={index}&wait={}s", wait.as_secs()));
        // The server adds up to a sixteenth to the wait.
        may_wait = wait + wait / 16;
    }
    let mut call = Call { wait: may_wait, none_header, ..Call::get(target) };
    if let Some(token) = &settings.token {
        call = call.with_header("x-consul-token", token.expose());
    }
    calls.send(call, Basic::Sent).await
}

fn index_of(answer: &Answer) -> u64 {
    let index = answer.headers.get(INDEX_HEADER).and_then(|value| value.to_str().ok());
    index.and_then(|index| index.parse().ok()).unwrap_or(0)
}
