//! The console's calls: lists of things to write, and filtered pages to read.
//!
//! A list is checked whole before anything of it is done; if an item is bad nothing happens, and only
//! the bad ones are answered.

pub(super) mod aliases;
pub(super) mod contracts;
pub(super) mod instances;
pub(super) mod namespaces;
pub(super) mod rules;
pub(super) mod services;
mod together;

use super::HttpApi;
use super::failure::Failure;
use super::intake::{NoBody, json_body, token};
use super::query::Query;
use super::reply::{BATCH_QUERY, BATCH_WRITE, RESPONSE, Reply};
use crate::code::Code;
use crate::json;
use crate::schema::descriptors;
use crate::wire::answer::{put_outcome, put_outcome_with, response};
use crate::wire::write::{put_message, put_nested, put_number_value, put_text};
use axum::body::Body;
use axum::extract::Request;
use axum::http::Response;
use tollhouse_registry::{Command, Outcome, State};

/// Items of one list, as in Polaris.
const BATCH_ITEMS_MAX: usize = 100;
/// Commands of one item that are made durable together; a host may have thousands of instances.
const GROUP_COMMANDS: usize = 100;
/// Goes before the name of a type inside of an `Any`.
const TYPE_URL_PREFIX: &str = "type.googleapis.com/";

/// A call that writes a list.
pub(super) struct Write {
    /// Full name of the type of an item.
    pub(super) message: &'static str,
    /// The field of `v1.Response` in which an item comes back.
    pub(super) echo: u32,
    /// What is to be done for an item.
    pub(super) plan: fn(&State, &[u8]) -> Result<Plan, Failure>,
}

impl Write {
    /// An item as it comes back: as it was sent, in the form of the field.
    fn echo_of(&self, item: &[u8]) -> Vec<u8> {
        if self.echo == response::DATA { any_of(self.message, item) } else { item.to_vec() }
    }
}

/// A message of a named type as an `Any`.
fn any_of(name: &str, message: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(TYPE_URL_PREFIX.len() + name.len() + message.len() + 16);
    put_text(&mut out, 1, &[TYPE_URL_PREFIX, name].concat());
    put_message(&mut out, 2, message);
    out
}

/// Makes what is answered for an item of what came of it; none sends the item back.
type Echo = fn(&Outcome) -> Option<Vec<u8>>;

/// What is to be done for an item: commands, all of them, and what is answered.
pub(super) struct Plan {
    commands: Vec<Command>,
    /// Makes the answer of what came of the last command; none sends the item back.
    echo: Option<Echo>,
    /// What is answered when there is nothing to do.
    idle: Code,
}

impl Plan {
    /// One command; the item comes back as it was sent.
    pub(super) fn of(command: Command) -> Self {
        Self::of_all(vec![command])
    }

    /// Several commands; the item comes back as it was sent.
    pub(super) fn of_all(commands: Vec<Command>) -> Self {
        Self { commands, echo: None, idle: Code::ExecuteSuccess }
    }

    /// Nothing: the registry is as the item wants it.
    pub(super) fn nothing_changes() -> Self {
        Self { idle: Code::NoNeedUpdate, ..Self::of_all(Vec::new()) }
    }

    /// Answers with something made of what came of the last command.
    pub(super) fn answering(self, echo: Echo) -> Self {
        Self { echo: Some(echo), ..self }
    }
}

/// A call that reads a list.
pub(super) struct List {
    /// The filters it knows.
    pub(super) keys: &'static [&'static str],
    /// Finds what matches and gives the answer.
    pub(super) find: fn(&State, &Query) -> Result<Found, Failure>,
}

/// One page of what was found.
pub(super) struct Found {
    /// All that matched.
    pub(super) amount: usize,
    /// On this page.
    pub(super) size: usize,
    /// The page, as fields of `v1.BatchQueryResponse`.
    pub(super) fields: Vec<u8>,
}

/// A call that reads one thing.
pub(super) struct Get {
    /// The parameters it knows.
    pub(super) keys: &'static [&'static str],
    /// Gives the other fields of `v1.Response`.
    pub(super) find: fn(&State, &Query) -> Result<Vec<u8>, Failure>,
}

/// Answers a call that writes.
pub(super) async fn write(api: HttpApi, call: &'static Write, request: Request) -> Response<Body> {
    let (head, body) = request.into_parts();
    if let Err(code) = api.access.check_console(token(&head.headers)) {
        return Reply::failure(BATCH_WRITE, &code.into()).into_response();
    }
    let body = match json_body(&head.headers, body).await {
        Ok(body) => body,
        Err(NoBody::Refused(response)) => return response,
        Err(NoBody::Failed(failure)) => {
            return Reply::failure(BATCH_WRITE, &failure).into_response();
        }
    };
    let reply = match write_items(&api, call, &body).await {
        Ok(reply) => reply,
        Err(failure) => Reply::failure(BATCH_WRITE, &failure),
    };
    reply.into_response()
}

/// Answers a call that writes one thing, which is sent without a list around it.
pub(super) async fn write_one(
    api: HttpApi,
    call: &'static Write,
    request: Request,
) -> Response<Body> {
    let (head, body) = request.into_parts();
    if let Err(code) = api.access.check_console(token(&head.headers)) {
        return Reply::failure(RESPONSE, &code.into()).into_response();
    }
    let body = match json_body(&head.headers, body).await {
        Ok(body) => body,
        Err(NoBody::Refused(response)) => return response,
        Err(NoBody::Failed(failure)) => return Reply::failure(RESPONSE, &failure).into_response(),
    };
    let Ok(item) = json::read(&descriptor(call.message), &body) else {
        return Reply::failure(RESPONSE, &Code::ParseException.into()).into_response();
    };
    let plan = (call.plan)(&api.registry().state(), &item);
    let answer = match plan {
        Ok(plan) => run(&api, call, &item, plan).await,
        Err(failure) => ItemAnswer { failure, echo: call.echo_of(&item) },
    };
    let mut bytes = Vec::new();
    answer.put_fields(&mut bytes, call.echo);
    let mut reply = Reply::of_bytes(answer.failure.code, RESPONSE, bytes);
    reply.info = answer.failure.info().into_owned();
    reply.into_response()
}

async fn write_items(api: &HttpApi, call: &Write, body: &[u8]) -> Result<Reply, Failure> {
    let items = json::read_list(&descriptor(call.message), body, BATCH_ITEMS_MAX)
        .map_err(|error| Failure::with(Code::ParseException, error.to_string()))?
        .ok_or(Code::BatchSizeOverLimit)?;
    if items.is_empty() {
        return Err(Code::EmptyRequest.into());
    }
    let plans: Vec<Result<Plan, Failure>> = {
        let state = api.registry().state();
        items.iter().map(|item| (call.plan)(&state, item)).collect()
    };
    if plans.iter().any(Result::is_err) {
        let bad = items.iter().zip(plans).filter_map(|(item, plan)| {
            plan.err().map(|failure| ItemAnswer { failure, echo: call.echo_of(item) })
        });
        return Ok(batch_reply(bad.collect(), call.echo));
    }
    let running = items
        .iter()
        .zip(plans)
        .filter_map(|(item, plan)| plan.ok().map(|plan| run(api, call, item, plan)))
        .collect();
    Ok(batch_reply(together::all(running).await, call.echo))
}

/// What became of one item.
struct ItemAnswer {
    failure: Failure,
    echo: Vec<u8>,
}

impl ItemAnswer {
    fn put_fields(&self, out: &mut Vec<u8>, echo: u32) {
        match &self.failure.detail {
            Some(detail) => put_outcome_with(out, self.failure.code, detail),
            None => put_outcome(out, self.failure.code),
        }
        put_message(out, echo, &self.echo);
    }
}

/// Does what is planned for an item: commands in groups, until one of a group is refused.
async fn run(api: &HttpApi, call: &Write, item: &[u8], plan: Plan) -> ItemAnswer {
    let mut failure = Failure::from(plan.idle);
    let mut echo = None;
    let mut commands = plan.commands.into_iter();
    loop {
        let group: Vec<_> =
            commands.by_ref().take(GROUP_COMMANDS).map(|c| api.registry().submit(c)).collect();
        if group.is_empty() {
            break;
        }
        let outcomes: Result<Vec<Outcome>, _> = together::all(group).await.into_iter().collect();
        match outcomes {
            Ok(outcomes) => {
                failure = Code::ExecuteSuccess.into();
                echo = outcomes.last().and_then(|outcome| plan.echo.and_then(|echo| echo(outcome)));
            }
            Err(refusal) => {
                failure = refusal.into();
                echo = None;
                break;
            }
        }
    }
    ItemAnswer { failure, echo: echo.unwrap_or_else(|| call.echo_of(item)) }
}

fn batch_reply(answers: Vec<ItemAnswer>, echo: u32) -> Reply {
    let code = Code::of_batch(answers.iter().map(|answer| answer.failure.code));
    let mut bytes = Vec::new();
    put_outcome(&mut bytes, code);
    put_number_value(&mut bytes, 3, answers.len() as u32);
    for answer in &answers {
        put_nested(&mut bytes, 4, |out| answer.put_fields(out, echo));
    }
    Reply::of_bytes(code, BATCH_WRITE, bytes)
}

/// Answers a call that reads a list.
pub(super) async fn list(api: HttpApi, call: &'static List, request: Request) -> Response<Body> {
    let reply = move |state: &State, query: &Query| {
        let found = (call.find)(state, query)?;
        Ok(Reply::success(BATCH_QUERY, |out| {
            put_number_value(out, 3, found.amount as u32);
            put_number_value(out, 4, found.size as u32);
            out.extend_from_slice(&found.fields);
        }))
    };
    read(api, BATCH_QUERY, call.keys, request, reply).await
}

/// Answers a call that reads one thing.
pub(super) async fn get(api: HttpApi, call: &'static Get, request: Request) -> Response<Body> {
    let reply = move |state: &State, query: &Query| {
        let fields = (call.find)(state, query)?;
        Ok(Reply::success(RESPONSE, |out| out.extend_from_slice(&fields)))
    };
    read(api, RESPONSE, call.keys, request, reply).await
}

/// Reads on a thread that may take its time: a filter may have to look at everything.
async fn read(
    api: HttpApi,
    message: &'static str,
    keys: &'static [&'static str],
    request: Request,
    reply: impl FnOnce(&State, &Query) -> Result<Reply, Failure> + Send + 'static,
) -> Response<Body> {
    if let Err(code) = api.access.check_console(token(request.headers())) {
        return Reply::failure(message, &code.into()).into_response();
    }
    let query = match Query::parse(request.uri().query(), keys) {
        Ok(query) => query,
        Err(failure) => return Reply::failure(message, &failure).into_response(),
    };
    let state = api.registry().state_full();
    let read = move || {
        let reply = reply(&state, &query);
        reply.unwrap_or_else(|failure| Reply::failure(message, &failure)).into_response()
    };
    tokio::task::spawn_blocking(read)
        .await
        .unwrap_or_else(|_| Reply::failure(message, &Code::ExecuteException.into()).into_response())
}

fn descriptor(name: &'static str) -> prost_reflect::MessageDescriptor {
    descriptors().get_message_by_name(name).expect("every type of item is in the schema")
}

/// Sorts what was found, takes the page, and writes each item of it as field `number`.
fn page_of<T, K: Ord>(
    query: &Query,
    mut found: Vec<T>,
    number: u32,
    key: impl Fn(&T) -> K,
    put: impl Fn(&mut Vec<u8>, &T),
) -> Result<Found, Failure> {
    let page = query.page()?;
    found.sort_by_cached_key(key);
    let shown = page.of(&found);
    let mut fields = Vec::new();
    for item in shown {
        put_nested(&mut fields, number, |out| put(out, item));
    }
    Ok(Found { amount: found.len(), size: shown.len(), fields })
}
