//! `/registry/v1/aliases`: create, list, read, change and delete aliases of services.

use hyper::{Method, StatusCode};
use tollhouse_registry::{
    Alias, AliasChange, Command, DEFAULT_NAMESPACE, Noun, Refusal, Revision, ServiceRef,
};

use super::incoming::AliasIn;
use super::listing::{self, Page, Pattern, Sort, SortKey, reply};
use super::outgoing::AliasOut;
use super::refused;
use super::request::Request;
use super::search::Words;
use crate::body;
use crate::reply::Reply;

/// Values of the argument `sort`, by which the list can be sorted.
const SORTS: [&str; 4] = ["namespace", "name", "target", "changed"];

pub(super) async fn collection(request: &Request<'_>) -> Result<Reply, Reply> {
    match request.call.method {
        Method::GET => list(request),
        Method::POST => {
            let mut new: AliasIn = request.read()?;
            let name = new.name.take().ok_or_else(|| body::invalid("name is missing"))?;
            let namespace = new.namespace.take().unwrap_or_else(|| DEFAULT_NAMESPACE.into());
            let name = ServiceRef { namespace: &namespace, name: &name };
            let alias = Box::new(alias(new.change(), name)?);
            request.submit(Command::CreateAlias(alias)).await?;
            reply_with(request, name, StatusCode::CREATED)
        }
        _ => Err(request.wrong_method("GET or POST")),
    }
}

fn list(request: &Request<'_>) -> Result<Reply, Reply> {
    let arguments = &request.call.arguments;
    let page = Page::parse(arguments)?;
    let pattern = Pattern::parse(arguments)?;
    let (words, sort) = (Words::parse(arguments)?, Sort::parse(arguments, &SORTS)?);
    let state = request.part.registry.state_full();
    let aliases: Vec<_> = state
        .aliases()
        .filter(|alias| listing::is(arguments, "namespace", &alias.key.namespace))
        .filter(|alias| pattern.admits(&alias.key.name))
        .filter(|alias| words.admit(|| texts(alias)))
        .filter(|alias| listing::is(arguments, "target_namespace", &alias.target.namespace))
        .filter(|alias| listing::is(arguments, "target", &alias.target.name))
        .collect();
    let total = aliases.len();
    let listed =
        page.sort_and_cut(aliases, |alias| (sort.directed(key_of(alias, sort.by)), &alias.key));
    let list = listed.into_iter().map(|alias| AliasOut::from_alias(alias)).collect();
    Ok(page.reply(request, list, total))
}

/// Returns the fields of an alias that a search compares with its words.
fn texts(alias: &Alias) -> [&str; 6] {
    let Alias { key, target, comment, owners, .. } = alias;
    [&key.name, &key.namespace, &target.name, &target.namespace, comment, owners]
}

fn key_of<'a>(alias: &'a Alias, by: &str) -> SortKey<'a> {
    match by {
        "name" => SortKey::from(&*alias.key.name),
        "target" => SortKey::from(&*alias.target.name),
        "changed" => SortKey::Number(alias.modified_at),
        _ => SortKey::from(&*alias.key.namespace),
    }
}

pub(super) async fn one(request: &Request<'_>, name: ServiceRef<'_>) -> Result<Reply, Reply> {
    match request.call.method {
        Method::GET => reply_with(request, name, StatusCode::OK),
        Method::PUT => {
            let whole = alias(read(request, name)?.change(), name)?;
            // Creation is tried first, because another caller could create the alias between a
            // check and the write.
            let replace = Command::UpdateAlias(name.to_key(), Box::new(change_to(&whole)));
            match request.part.registry.submit(Command::CreateAlias(Box::new(whole))).await {
                Ok(_) => return reply_with(request, name, StatusCode::CREATED),
                Err(Refusal::Exists) if is_known(request, name) => {}
                Err(refusal) => return Err(refused::reply(&refusal)),
            }
            request.submit(replace).await?;
            reply_with(request, name, StatusCode::OK)
        }
        Method::PATCH => {
            let change = Box::new(read(request, name)?.change());
            request.submit(Command::UpdateAlias(name.to_key(), change)).await?;
            reply_with(request, name, StatusCode::OK)
        }
        Method::DELETE => {
            if !is_known(request, name) {
                return Err(not_found());
            }
            request.submit(Command::DeleteAlias(name.to_key())).await?;
            Ok(Reply::empty(StatusCode::NO_CONTENT))
        }
        _ => Err(request.wrong_method("GET, PUT, PATCH or DELETE")),
    }
}

fn read(request: &Request<'_>, name: ServiceRef<'_>) -> Result<AliasIn, Reply> {
    let alias: AliasIn = request.read()?;
    let said = [(&alias.namespace, name.namespace), (&alias.name, name.name)];
    if said.iter().any(|(said, path)| said.as_ref().is_some_and(|said| **said != **path)) {
        return Err(body::invalid("namespace and name are not the path's"));
    }
    Ok(alias)
}

/// Returns a complete alias; fields that the request omits are empty.
fn alias(new: AliasChange, name: ServiceRef<'_>) -> Result<Alias, Reply> {
    Ok(Alias {
        id: String::new(),
        key: name.to_key(),
        target: new.target.ok_or_else(|| body::invalid("target is missing"))?,
        comment: new.comment.unwrap_or_default(),
        owners: new.owners.unwrap_or_default(),
        metadata: new.metadata.unwrap_or_default(),
        created_at: 0,
        modified_at: 0,
        revision: Revision::default(),
    })
}

/// Returns the change that makes an existing alias equal to `whole`.
fn change_to(whole: &Alias) -> AliasChange {
    AliasChange {
        target: Some(whole.target.clone()),
        comment: Some(whole.comment.clone()),
        owners: Some(whole.owners.clone()),
        metadata: Some(whole.metadata.clone()),
    }
}

fn is_known(request: &Request<'_>, name: ServiceRef<'_>) -> bool {
    request.part.registry.state().alias(name).is_some()
}

fn not_found() -> Reply {
    refused::not_found(Noun::Alias)
}

fn reply_with(
    request: &Request<'_>,
    name: ServiceRef<'_>,
    status: StatusCode,
) -> Result<Reply, Reply> {
    let state = request.part.registry.state();
    let alias = state.alias(name).ok_or_else(not_found)?;
    Ok(reply(status, &AliasOut::from_alias(alias)))
}
