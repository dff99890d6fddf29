//! `/registry/v1/namespaces`: create, list, read, change and delete namespaces.

use std::sync::Arc;

use hyper::{Method, StatusCode};
use tollhouse_registry::{Command, Noun, Refusal};

use super::incoming::NamespaceIn;
use super::listing::{Label, Page, Pattern, Sort, SortKey, reply};
use super::outgoing::NamespaceOut;
use super::refused;
use super::request::Request;
use super::search::Words;
use crate::body;
use crate::reply::Reply;

/// Values of the argument `sort`, by which the list can be sorted.
const SORTS: [&str; 4] = ["name", "services", "instances", "changed"];

pub(super) async fn collection(request: &Request<'_>) -> Result<Reply, Reply> {
    match request.call.method {
        Method::GET => list(request),
        Method::POST => {
            let mut new: NamespaceIn = request.read()?;
            let name = new.name.take().ok_or_else(|| body::invalid("name is missing"))?;
            request.submit(Command::CreateNamespace(Arc::clone(&name), new.whole())).await?;
            reply_with(request, &name, StatusCode::CREATED)
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
    let namespaces: Vec<_> = state
        .namespaces()
        .filter(|view| {
            let namespace = &view.namespace;
            words.admit(|| [&*namespace.name, &*namespace.comment, &*namespace.owners])
        })
        .filter(|view| pattern.admits(&view.namespace.name))
        .filter(|view| label.admits(&view.namespace.metadata))
        .collect();
    let total = namespaces.len();
    let listed = page.sort_and_cut(namespaces, |view| {
        let namespace = &view.namespace;
        let key = match sort.by {
            "services" => view.services.len().into(),
            "instances" => view.counts.total.into(),
            "changed" => SortKey::Number(namespace.modified_at),
            _ => SortKey::from(&*namespace.name),
        };
        (sort.directed(key), &namespace.name)
    });
    let list = listed.into_iter().map(|view| NamespaceOut::from_view(view)).collect();
    Ok(page.reply(request, list, total))
}

pub(super) async fn one(request: &Request<'_>, name: &str) -> Result<Reply, Reply> {
    match request.call.method {
        Method::GET => reply_with(request, name, StatusCode::OK),
        Method::PUT => {
            let change = read(request, name)?.whole();
            // Creation is tried first, because another caller could create the namespace between a
            // check and the write.
            let create = Command::CreateNamespace(name.into(), change.clone());
            match request.part.registry.submit(create).await {
                Ok(_) => return reply_with(request, name, StatusCode::CREATED),
                Err(Refusal::Exists) => {}
                Err(refusal) => return Err(refused::reply(&refusal)),
            }
            request.submit(Command::UpdateNamespace(name.into(), change)).await?;
            reply_with(request, name, StatusCode::OK)
        }
        Method::PATCH => {
            let change = read(request, name)?.change();
            request.submit(Command::UpdateNamespace(name.into(), change)).await?;
            reply_with(request, name, StatusCode::OK)
        }
        Method::DELETE => {
            known(request, name)?;
            request.submit(Command::DeleteNamespace(name.into())).await?;
            Ok(Reply::empty(StatusCode::NO_CONTENT))
        }
        _ => Err(request.wrong_method("GET, PUT, PATCH or DELETE")),
    }
}

fn read(request: &Request<'_>, name: &str) -> Result<NamespaceIn, Reply> {
    let namespace: NamespaceIn = request.read()?;
    match &namespace.name {
        Some(other) if **other != *name => Err(body::invalid("name is not the path's")),
        _ => Ok(namespace),
    }
}

fn known(request: &Request<'_>, name: &str) -> Result<(), Reply> {
    let is_known = request.part.registry.state().namespace(name).is_some();
    if is_known { Ok(()) } else { Err(refused::not_found(Noun::Namespace)) }
}

fn reply_with(request: &Request<'_>, name: &str, status: StatusCode) -> Result<Reply, Reply> {
    let state = request.part.registry.state();
    let view = state.namespace(name).ok_or_else(|| refused::not_found(Noun::Namespace))?;
    Ok(reply(status, &NamespaceOut::from_view(view)))
}
