//! Console calls: lists of objects to write, and filtered pages to read.
//!
//! Most lists are checked completely before anything is written. If an item is invalid nothing is
//! written, and only the invalid items are answered.

pub(super) mod aliases;
pub(super) mod contracts;
pub(super) mod instances;
pub(super) mod namespaces;
pub(super) mod owners;
mod rule_filters;
pub(super) mod rules;
pub(super) mod services;
mod together;

use super::HttpApi;
use super::failure::Failure;
use super::intake::{
    CONSOLE_BYTES_MAX, NoBody, RequestBody, caller, json_body, read_with, request_caller,
};
use super::language::Language;
use super::query::Query;
use super::reply::{BATCH_QUERY, BATCH_WRITE, RESPONSE, Reply};
use super::token_path::TokenOwner;
use crate::access::Door;
use crate::code::Code;
use crate::dialect::Caller;
use crate::json;
use crate::schema::descriptors;
use crate::wire::answer::{put_outcome, put_outcome_with, response};
use crate::wire::write::{put_message, put_nested, put_number_value, put_text};
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::Response;
use axum::http::request::Parts;
use tollhouse_registry::identity::Principal;
use tollhouse_registry::{Command, Outcome, State};

/// Maximum number of items in a list, as in Polaris.
pub(super) const BATCH_ITEMS_MAX: usize = 100;
/// Commands of one item that are submitted together; a host may have thousands of instances.
const GROUP_COMMANDS: usize = 100;
/// Prefix of the type name in an `Any`.
const TYPE_URL_PREFIX: &str = "type.googleapis.com/";

/// A call that writes a list of items.
pub(super) struct Write {
    /// Full name of an item's message type.
    message: &'static str,
    /// Field of `v1.Response` in which an item is returned.
    echo: u32,
    /// Function that converts an item to a plan.
    plan: fn(&State, &[u8]) -> Result<Plan, Failure>,
    list: ListMode,
}

/// Handling of a list in which some items are invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListMode {
    /// An invalid item stops the whole list: only the invalid items are answered.
    Whole,
    /// Each item is handled by itself.
    OneByOne,
}

impl Write {
    /// Returns a call whose list is written completely or not at all.
    pub(super) const fn whole(
        message: &'static str,
        echo: u32,
        plan: fn(&State, &[u8]) -> Result<Plan, Failure>,
    ) -> Self {
        Self { message, echo, plan, list: ListMode::Whole }
    }

    /// Returns a call whose items are handled independently.
    pub(super) const fn one_by_one(
        message: &'static str,
        echo: u32,
        plan: fn(&State, &[u8]) -> Result<Plan, Failure>,
    ) -> Self {
        Self { message, echo, plan, list: ListMode::OneByOne }
    }

    /// Returns an item as it was sent, encoded for its field.
    fn echo_of(&self, item: &[u8]) -> Vec<u8> {
        if self.echo == response::DATA { any_of(self.message, item) } else { item.to_vec() }
    }

    /// Returns the code of the whole answer.
    fn code_of(&self, answers: &[ItemAnswer]) -> Code {
        let codes = answers.iter().map(|answer| answer.failure.code);
        match self.list {
            ListMode::Whole => Code::from_batch(codes),
            ListMode::OneByOne => Code::highest(codes),
        }
    }
}

/// Wraps a message in an `Any`.
fn any_of(name: &str, message: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(TYPE_URL_PREFIX.len() + name.len() + message.len() + 16);
    put_text(&mut out, 1, &[TYPE_URL_PREFIX, name].concat());
    put_message(&mut out, 2, message);
    out
}

/// Function that converts an outcome to the returned item; `None` returns the item as it was sent.
type Echo = fn(&Outcome) -> Option<Vec<u8>>;

/// Commands for an item, and its answer.
pub(super) struct Plan {
    commands: Vec<Command>,
    /// Converts the outcome of the last command to the returned item; `None` returns the item as it
    /// was sent.
    echo: Option<Echo>,
    /// Code of the answer to a plan without commands.
    idle: Code,
    /// Users and groups that may use the created object.
    grantees: Vec<Principal>,
}

impl Plan {
    /// Returns a plan of one command; the item is returned as it was sent.
    pub(super) fn command(command: Command) -> Self {
        Self::commands(vec![command])
    }

    /// Returns a plan of several commands; the item is returned as it was sent.
    pub(super) fn commands(commands: Vec<Command>) -> Self {
        Self { commands, echo: None, idle: Code::ExecuteSuccess, grantees: Vec::new() }
    }

    /// Returns a plan without commands, because the registry is already as the item demands.
    pub(super) fn nothing_changes() -> Self {
        Self { idle: Code::NoNeedUpdate, ..Self::commands(Vec::new()) }
    }

    /// Sets the function that converts the outcome of the last command to the returned item.
    pub(super) fn answering(self, echo: Echo) -> Self {
        Self { echo: Some(echo), ..self }
    }

    /// Sets the users and groups that may use the created object.
    pub(super) fn granted_to(self, grantees: Vec<Principal>) -> Self {
        Self { grantees, ..self }
    }
}

/// A call that reads a list.
pub(super) struct List {
    /// Name of the call, as policies name it.
    pub(super) function: &'static str,
    /// Names of the query parameters that filter the list.
    pub(super) keys: &'static [&'static str],
    /// Function that finds the matching objects.
    pub(super) find: fn(&State, &Query) -> Result<ObjectPage, Failure>,
}

/// A page of matching objects.
pub(super) struct ObjectPage {
    /// Number of all matching objects.
    pub(super) amount: usize,
    /// Number of objects on the page.
    pub(super) size: usize,
    /// The page, encoded as fields of `v1.BatchQueryResponse`.
    pub(super) fields: Vec<u8>,
}

/// A call that reads one object.
pub(super) struct Get {
    /// Name of the call, as policies name it.
    pub(super) function: &'static str,
    /// Names of the query parameters that the call supports.
    pub(super) keys: &'static [&'static str],
    /// Function that returns the fields of `v1.Response` other than code and text.
    pub(super) find: fn(&State, &Query) -> Result<Vec<u8>, Failure>,
}

/// Answers a call that writes a list.
pub(super) async fn write(api: HttpApi, call: &'static Write, request: Request) -> Response<Body> {
    let (head, body) = request.into_parts();
    let language = Language::from_request(&head);
    let reply = match request_body(&api, &head, body).await {
        Ok(body) => write_items(&api, &caller(&head), call, &body.bytes).await,
        Err(NoBody::Refused(response)) => return response,
        Err(NoBody::Failed(failure)) => Err(failure),
    };
    let reply = reply.unwrap_or_else(|failure| Reply::failure(BATCH_WRITE, &failure));
    reply.send(&api.capacity, language).await
}

/// Answers a call that writes one item, sent without a list around it.
pub(super) async fn write_one(
    api: HttpApi,
    call: &'static Write,
    request: Request,
) -> Response<Body> {
    let (head, body) = request.into_parts();
    let language = Language::from_request(&head);
    let reply = match request_body(&api, &head, body).await {
        Ok(body) => write_item(&api, &caller(&head), call, &body.bytes).await,
        Err(NoBody::Refused(response)) => return response,
        Err(NoBody::Failed(failure)) => Err(failure),
    };
    let reply = reply.unwrap_or_else(|failure| Reply::failure(RESPONSE, &failure));
    reply.send(&api.capacity, language).await
}

/// Checks the caller's token, then reads the body.
pub(super) async fn request_body(
    api: &HttpApi,
    head: &Parts,
    body: Body,
) -> Result<RequestBody, NoBody> {
    let admitted = api.dialect.admit_any(Door::Console, &caller(head));
    admitted.map_err(|code| NoBody::Failed(code.into()))?;
    json_body(&api.capacity, &head.headers, body, CONSOLE_BYTES_MAX).await
}

async fn write_item(
    api: &HttpApi,
    caller: &Caller<'_>,
    call: &'static Write,
    body: &Bytes,
) -> Result<Reply, Failure> {
    let read = |body: &[u8]| json::read_kept(&descriptor(call.message), body);
    let item = read_with(&api.capacity, body, read).await?;
    let item = item.map_err(|_| Failure::from(Code::ParseException))?;
    let plan = (call.plan)(&api.registry().state(), &item);
    if let Ok(plan) = &plan {
        check_rights(api, caller, std::slice::from_ref(plan).iter())?;
    }
    let answer = carried_out(api, caller, call, &item, plan).await;
    let mut bytes = Vec::new();
    answer.put_fields(&mut bytes, call.echo);
    let mut reply = Reply::from_bytes(answer.failure.code, RESPONSE, bytes);
    reply.info = answer.failure.info().into_owned();
    Ok(reply)
}

/// Refuses a list if the caller may not do all of it.
fn check_rights<'p>(
    api: &HttpApi,
    caller: &Caller<'_>,
    mut plans: impl Iterator<Item = &'p Plan>,
) -> Result<(), Failure> {
    let state = api.registry().state();
    let rights = api.dialect.rights(&state, Door::Console, caller);
    plans.try_for_each(|plan| plan.commands.iter().try_for_each(|it| rights.command(it)))?;
    Ok(())
}

async fn write_items(
    api: &HttpApi,
    caller: &Caller<'_>,
    call: &'static Write,
    body: &Bytes,
) -> Result<Reply, Failure> {
    let read = |body: &[u8]| json::read_list(&descriptor(call.message), body, BATCH_ITEMS_MAX);
    let items = read_with(&api.capacity, body, read)
        .await?
        .map_err(|error| Failure::with(Code::ParseException, error.to_string()))?
        .ok_or(Code::BatchSizeOverLimit)?;
    if items.is_empty() {
        return Err(Code::EmptyRequest.into());
    }
    let plans: Vec<Result<Plan, Failure>> = {
        let state = api.registry().state();
        items.iter().map(|item| (call.plan)(&state, item)).collect()
    };
    check_rights(api, caller, plans.iter().flatten())?;
    if call.list == ListMode::Whole && plans.iter().any(Result::is_err) {
        let bad = items.iter().zip(plans).filter_map(|(item, plan)| {
            plan.err().map(|failure| ItemAnswer { failure, echo: call.echo_of(item) })
        });
        return Ok(batch_reply(call, &bad.collect::<Vec<_>>()));
    }
    let running =
        items.iter().zip(plans).map(|(item, plan)| carried_out(api, caller, call, item, plan));
    Ok(batch_reply(call, &together::all(running.collect()).await))
}

/// Executes the plan of an item; a failed plan becomes the item's answer.
async fn carried_out(
    api: &HttpApi,
    caller: &Caller<'_>,
    call: &Write,
    item: &[u8],
    plan: Result<Plan, Failure>,
) -> ItemAnswer {
    match plan {
        Ok(plan) => run(api, caller, call, item, plan).await,
        Err(failure) => ItemAnswer { failure, echo: call.echo_of(item) },
    }
}

/// Answer for one object of a batch.
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

/// Executes the commands of an item in groups, until one is refused.
async fn run(
    api: &HttpApi,
    caller: &Caller<'_>,
    call: &Write,
    item: &[u8],
    plan: Plan,
) -> ItemAnswer {
    let mut failure = Failure::from(plan.idle);
    let mut echo = None;
    let mut commands = plan.commands.into_iter();
    loop {
        let group: Vec<_> = commands
            .by_ref()
            .take(GROUP_COMMANDS)
            .map(|command| api.dialect.submit_for(Door::Console, caller, command))
            .collect();
        if group.is_empty() {
            break;
        }
        let outcomes: Result<Vec<Outcome>, _> = together::all(group).await.into_iter().collect();
        match outcomes {
            Ok(outcomes) => {
                if let Some(outcome) = outcomes.last()
                    && let Err(refused) = api.dialect.grant(plan.grantees.clone(), outcome).await
                {
                    failure = refused;
                    echo = None;
                    break;
                }
                failure = Code::ExecuteSuccess.into();
                echo = outcomes.last().and_then(|outcome| plan.echo.and_then(|echo| echo(outcome)));
            }
            // Earlier groups are not rolled back; the answer tells why the rest was not done.
            Err(refused) => {
                failure = refused;
                echo = None;
                break;
            }
        }
    }
    ItemAnswer { failure, echo: echo.unwrap_or_else(|| call.echo_of(item)) }
}

fn batch_reply(call: &Write, answers: &[ItemAnswer]) -> Reply {
    let code = call.code_of(answers);
    let mut bytes = Vec::new();
    put_outcome(&mut bytes, code);
    put_number_value(&mut bytes, 3, answers.len() as u32);
    for answer in answers {
        put_nested(&mut bytes, 4, |out| answer.put_fields(out, call.echo));
    }
    Reply::from_bytes(code, BATCH_WRITE, bytes)
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
    let read_call = ReadCall { message: BATCH_QUERY, function: call.function, keys: call.keys };
    read(api, read_call, request, reply).await
}

/// Answers a call that reads one object.
pub(super) async fn get(api: HttpApi, call: &'static Get, request: Request) -> Response<Body> {
    let reply = move |state: &State, query: &Query| {
        let fields = (call.find)(state, query)?;
        Ok(Reply::success(RESPONSE, |out| out.extend_from_slice(&fields)))
    };
    let read_call = ReadCall { message: RESPONSE, function: call.function, keys: call.keys };
    read(api, read_call, request, reply).await
}

/// A call that reads.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadCall {
    /// Message type of the answer.
    pub(super) message: &'static str,
    /// Name of the call, as policies name it.
    pub(super) function: &'static str,
    /// Names of the query parameters that the call supports.
    pub(super) keys: &'static [&'static str],
}

/// Runs a query on a blocking thread, because a filter may have to examine all objects.
pub(super) async fn read(
    api: HttpApi,
    call: ReadCall,
    request: Request,
    reply: impl FnOnce(&State, &Query) -> Result<Reply, Failure> + Send + 'static,
) -> Response<Body> {
    let language = Language::wanted(request.uri(), request.headers());
    let ReadCall { message, function, keys } = call;
    let caller = request_caller(&request);
    let owner = TokenOwner::from_call(function);
    let token = owner.map(|owner| (owner, api.dialect.token_reader(&caller)));
    let viewer = {
        let state = api.registry().state();
        api.dialect.rights(&state, Door::Console, &caller).viewer(function)
    };
    let query = match viewer {
        Ok(viewer) => {
            let query = Query::parse(request.uri().query(), keys);
            query.map(|query| query.read_by(viewer))
        }
        Err(code) => Err(code.into()),
    };
    let found = match query {
        Ok(query) => {
            let state = api.registry().state_full();
            let dialect = api.dialect.clone();
            let answer = move || {
                let reply = reply(&state, &query)?;
                if let Some((owner, reader)) = token {
                    dialect.note_token_read(reader, owner.path(&state, &query));
                }
                Ok(reply)
            };
            api.capacity.work(answer).await.flatten()
        }
        Err(failure) => Err(failure),
    };
    let reply = found.unwrap_or_else(|failure| Reply::failure(message, &failure));
    reply.send(&api.capacity, language).await
}

pub(super) fn descriptor(name: &'static str) -> prost_reflect::MessageDescriptor {
    descriptors().get_message_by_name(name).expect("every type of item is in the schema")
}

/// Sorts the objects, selects the page, and encodes each of its objects as field `number`.
fn page_of<T, K: Ord>(
    query: &Query,
    mut found: Vec<T>,
    number: u32,
    key: impl Fn(&T) -> K,
    put: impl Fn(&mut Vec<u8>, &T),
) -> Result<ObjectPage, Failure> {
    let page = query.page()?;
    found.sort_by_cached_key(key);
    let on_page = page.slice(&found);
    let mut fields = Vec::new();
    for item in on_page {
        put_nested(&mut fields, number, |out| put(out, item));
    }
    Ok(ObjectPage { amount: found.len(), size: on_page.len(), fields })
}
