//! `/registry/v1/rules`: governance rules by kind and id. The registry's dialect defines their
//! content.

use std::sync::Arc;

use hyper::{Method, StatusCode};
use tollhouse_registry::{Command, NewRule, Noun, Outcome, Refusal, Rule, RuleKind};

use super::incoming::SwitchIn;
use super::listing::{self, Page, Pattern, Sort, SortKey, reply};
use super::outgoing::RuleOut;
use super::refused;
use super::request::Request;
use super::search::Words;
use crate::body;
use crate::reply::Reply;

/// Parses the kind of rules in a path.
pub(super) fn kind_of(name: &str) -> Result<RuleKind, Reply> {
    let found = RuleKind::ALL.into_iter().find(|kind| kind.name() == name);
    found.ok_or_else(|| {
        let names: Vec<&str> = RuleKind::ALL.iter().map(|kind| kind.name()).collect();
        let text = format!("unknown kind of rules {name}; the kinds are {}", names.join(", "));
        Reply::refusal(StatusCode::NOT_FOUND, text)
    })
}

pub(super) fn list(request: &Request<'_>, kinds: &[RuleKind]) -> Result<Reply, Reply> {
    let arguments = &request.call.arguments;
    let page = Page::parse(arguments)?;
    let pattern = Pattern::parse(arguments)?;
    let enabled = listing::flag(arguments, "enabled")?;
    let (words, sort) = (Words::parse(arguments)?, Sort::parse(arguments, &SORTS)?);
    let state = request.part.registry.state_full();
    let concerns = |rule: &Rule| {
        let mut names = rule.targets.iter().map(|target| &*target.name);
        let wanted = arguments.get("service").filter(|service| !service.is_empty());
        wanted.is_none_or(|service| names.any(|name| name == service))
    };
    let rules: Vec<_> = kinds
        .iter()
        .flat_map(|kind| state.rules(*kind))
        .filter(|rule| listing::is(arguments, "namespace", &rule.namespace))
        .filter(|rule| pattern.admits(&rule.name))
        .filter(|rule| enabled.is_none_or(|enabled| rule.enabled == enabled))
        .filter(|rule| concerns(rule))
        .filter(|rule| words.admit(|| texts(rule)))
        .collect();
    let total = rules.len();
    let listed = page
        .sort_and_cut(rules, |rule| (sort.directed(key_of(rule, sort.by)), rule.kind, &rule.id));
    let list = listed.into_iter().map(|rule| out(request, rule)).collect();
    Ok(page.reply(request, list, total))
}

/// Values of the argument `sort`; by default the list is sorted by kind and id.
const SORTS: [&str; 6] = ["kind", "name", "namespace", "priority", "enabled", "changed"];

/// Returns the fields of a rule that a search compares with its words.
fn texts(rule: &Rule) -> impl Iterator<Item = &str> {
    let own = [&*rule.name, &*rule.id, &*rule.namespace, rule.kind.name()];
    own.into_iter().chain(rule.targets.iter().flat_map(|it| [&*it.namespace, &*it.name]))
}

fn key_of<'r>(rule: &'r Rule, by: &str) -> SortKey<'r> {
    match by {
        "name" => SortKey::from(if rule.name.is_empty() { &*rule.id } else { &*rule.name }),
        "namespace" => SortKey::from(&*rule.namespace),
        "priority" => rule.priority.into(),
        "enabled" => u32::from(!rule.enabled).into(),
        "changed" => SortKey::Number(rule.modified_at),
        // Kinds are sorted in their declared order.
        _ => RuleKind::ALL
            .iter()
            .position(|kind| *kind == rule.kind)
            .map_or(SortKey::Number(0), |at| SortKey::Number(at as u64)),
    }
}

pub(super) async fn collection(request: &Request<'_>, kind: RuleKind) -> Result<Reply, Reply> {
    match request.call.method {
        Method::GET => list(request, &[kind]),
        Method::POST => {
            let rule = read(request, kind)?;
            written(request, Command::CreateRule(Box::new(rule)), StatusCode::CREATED).await
        }
        _ => Err(request.wrong_method("GET or POST")),
    }
}

pub(super) async fn one(request: &Request<'_>, kind: RuleKind, id: &str) -> Result<Reply, Reply> {
    match request.call.method {
        Method::GET => {
            let rule = known(request, kind, id)?;
            Ok(reply(StatusCode::OK, &out(request, &rule)))
        }
        Method::PUT => put(request, kind, id).await,
        Method::PATCH => {
            let SwitchIn { enabled } = request.read()?;
            let rule = known(request, kind, id)?;
            let enable = Command::EnableRule(kind, Arc::clone(&rule.id), enabled);
            match request.submit(enable).await? {
                Some(Outcome::Rule(rule)) => Ok(reply(StatusCode::OK, &out(request, &rule))),
                _ => Ok(reply(StatusCode::OK, &out(request, &rule))),
            }
        }
        Method::DELETE => {
            known(request, kind, id)?;
            request.submit(Command::DeleteRule(kind, id.into())).await?;
            Ok(Reply::empty(StatusCode::NO_CONTENT))
        }
        _ => Err(request.wrong_method("GET, PUT, PATCH or DELETE")),
    }
}

async fn put(request: &Request<'_>, kind: RuleKind, id: &str) -> Result<Reply, Reply> {
    let mut rule = read(request, kind)?;
    if rule.id.is_empty() {
        rule.id = id.into();
    }
    if *rule.id != *id {
        return Err(body::invalid(&format!("its id is {}, not the path's", rule.id)));
    }
    let rule = Box::new(rule);
    match request.part.registry.submit(Command::CreateRule(rule.clone())).await {
        Ok(Outcome::Rule(rule)) => Ok(reply(StatusCode::CREATED, &out(request, &rule))),
        Ok(_) => Ok(Reply::empty(StatusCode::NO_CONTENT)),
        Err(Refusal::Exists) => written(request, Command::UpdateRule(rule), StatusCode::OK).await,
        Err(refusal) => Err(refused::reply(&refusal)),
    }
}

async fn written(
    request: &Request<'_>,
    command: Command,
    status: StatusCode,
) -> Result<Reply, Reply> {
    match request.submit(command).await? {
        Some(Outcome::Rule(rule)) => Ok(reply(status, &out(request, &rule))),
        _ => Ok(Reply::empty(StatusCode::NO_CONTENT)),
    }
}

fn read(request: &Request<'_>, kind: RuleKind) -> Result<NewRule, Reply> {
    let value = request.read()?;
    request.part.dialect.read_rule(kind, &value).map_err(|reason| body::invalid(&reason))
}

fn known(request: &Request<'_>, kind: RuleKind, id: &str) -> Result<Arc<Rule>, Reply> {
    let rules = request.part.registry.state().rule(kind, id).cloned();
    rules.ok_or_else(|| refused::not_found(Noun::Rule(kind)))
}

fn out<'a>(request: &Request<'_>, rule: &'a Rule) -> RuleOut<'a> {
    RuleOut::from_rule(rule, request.part.dialect.show_rule(rule))
}
