//! `/registry/v1/services`: create, list, read, change and delete services.

use std::collections::HashMap;

use hyper::{Method, StatusCode};
use tollhouse_registry::{
    Command, DEFAULT_NAMESPACE, MassExpiry, Noun, Refusal, ServiceRef, ServiceView, State,
};

use super::incoming::ServiceIn;
use super::listing::{self, Label, Page, Pattern, Sort, SortKey, reply};
use super::outgoing::ServiceOut;
use super::refused;
use super::request::Request;
use super::search::Words;
use crate::body;
use crate::reply::Reply;

/// Values of the argument `sort`, by which the list can be sorted.
const SORTS: [&str; 7] =
    ["namespace", "name", "instances", "healthy", "unhealthy", "isolated", "changed"];

pub(super) async fn collection(request: &Request<'_>) -> Result<Reply, Reply> {
    match request.call.method {
        Method::GET => list(request),
        Method::POST => {
            let mut new: ServiceIn = request.read()?;
            let name = new.name.take().ok_or_else(|| body::invalid("name is missing"))?;
            let namespace = new.namespace.take().unwrap_or_else(|| DEFAULT_NAMESPACE.into());
            let name = ServiceRef { namespace: &namespace, name: &name };
            let create = Command::CreateService(name.to_key(), Box::new(new.whole()));
            request.submit(create).await?;
            reply_with(request, name, StatusCode::CREATED)
        }
        _ => Err(request.wrong_method("GET or POST")),
    }
}

fn list(request: &Request<'_>) -> Result<Reply, Reply> {
    let arguments = &request.call.arguments;
    let page = Page::parse(arguments)?;
    let (pattern, label) = (Pattern::parse(arguments)?, Label::parse(arguments));
    let (words, sort) = (Words::parse(arguments)?, Sort::parse(arguments, &SORTS)?);
    let state = request.part.registry.state_full();
    let views: Vec<_> = state
        .services()
        .filter(|view| words.admit(|| texts(view)))
        .filter(|view| listing::is(arguments, "namespace", &view.service.key.namespace))
        .filter(|view| pattern.admits(&view.service.key.name))
        .filter(|view| label.admits(&view.service.metadata))
        .collect();
    let total = views.len();
    let expiries: HashMap<_, _> = state.mass_expiries().collect();
    let listed =
        page.sort_and_cut(views, |view| (sort.directed(key_of(view, sort.by)), &view.service.key));
    let listed = listed.into_iter();
    let list = listed
        .map(|view| {
            ServiceOut::from_view(view, expiries.get(&view.service.key).map(|expiry| **expiry))
        })
        .collect();
    Ok(page.reply(request, list, total))
}

/// Returns the fields of a service that a search compares with its words.
fn texts(view: &ServiceView) -> impl Iterator<Item = &str> {
    let service = &view.service;
    let details = &service.details;
    let own = [&*service.key.name, &*service.key.namespace];
    let told = [&details.business, &details.department, &details.owners, &details.comment];
    let pairs = service.metadata.iter().flat_map(|(key, value)| [&**key, &**value]);
    own.into_iter().chain(told.into_iter().map(String::as_str)).chain(pairs)
}

fn key_of<'v>(view: &'v ServiceView, by: &str) -> SortKey<'v> {
    match by {
        "namespace" => SortKey::from(&*view.service.key.namespace),
        "name" => SortKey::from(&*view.service.key.name),
        "instances" => view.counts.total.into(),
        "healthy" => view.counts.healthy.into(),
        "unhealthy" => view.counts.total.saturating_sub(view.counts.healthy).into(),
        "isolated" => view.counts.isolated.into(),
        "changed" => SortKey::Number(view.service.modified_at),
        _ => SortKey::Number(0),
    }
}

pub(super) async fn one(request: &Request<'_>, name: ServiceRef<'_>) -> Result<Reply, Reply> {
    match request.call.method {
        Method::GET => reply_with(request, name, StatusCode::OK),
        Method::PUT => {
            let change = Box::new(read(request, name)?.whole());
            // Creation is tried first, because another caller could create the service between a
            // check and the write.
            let create = Command::CreateService(name.to_key(), change.clone());
            match request.part.registry.submit(create).await {
                Ok(_) => return reply_with(request, name, StatusCode::CREATED),
                Err(Refusal::Exists) => {}
                Err(refusal) => return Err(refused::reply(&refusal)),
            }
            request.submit(Command::UpdateService(name.to_key(), change)).await?;
            reply_with(request, name, StatusCode::OK)
        }
        Method::PATCH => {
            let change = Box::new(read(request, name)?.change());
            request.submit(Command::UpdateService(name.to_key(), change)).await?;
            reply_with(request, name, StatusCode::OK)
        }
        Method::DELETE => {
            if request.part.registry.state().service(name).is_none() {
                return Err(not_found());
            }
            request.submit(Command::DeleteService(name.to_key())).await?;
            Ok(Reply::empty(StatusCode::NO_CONTENT))
        }
        _ => Err(request.wrong_method("GET, PUT, PATCH or DELETE")),
    }
}

fn read(request: &Request<'_>, name: ServiceRef<'_>) -> Result<ServiceIn, Reply> {
    let service: ServiceIn = request.read()?;
    let said = [(&service.namespace, name.namespace), (&service.name, name.name)];
    if said.iter().any(|(said, path)| said.as_ref().is_some_and(|said| **said != **path)) {
        return Err(body::invalid("namespace and name are not the path's"));
    }
    Ok(service)
}

pub(super) fn not_found() -> Reply {
    refused::not_found(Noun::Service)
}

fn reply_with(
    request: &Request<'_>,
    name: ServiceRef<'_>,
    status: StatusCode,
) -> Result<Reply, Reply> {
    let state = request.part.registry.state();
    let view = state.service(name).ok_or_else(not_found)?;
    Ok(reply(status, &ServiceOut::from_view(view, expiry_of(&state, name))))
}

fn expiry_of(state: &State, name: ServiceRef<'_>) -> Option<MassExpiry> {
    let mut expiries = state.mass_expiries();
    expiries.find(|(key, _)| key.borrowed() == name).map(|(_, expiry)| *expiry)
}
