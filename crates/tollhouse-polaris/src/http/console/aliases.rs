//! Console calls for aliases.

use super::services::{check_name, labels_of};
use super::{List, ObjectPage, Plan, Write, page_of};
use crate::code::Code;
use crate::dialect::rights::Permits;
use crate::http::failure::Failure;
use crate::http::query::{Query, allows};
use crate::v1;
use crate::wire::answer::response;
use crate::wire::put_alias;
use prost::Message;
use tollhouse_registry::{
    Alias, AliasChange, Command, Outcome, Revision, ServiceKey, State, limits,
};

const MESSAGE: &str = "v1.ServiceAlias";

pub(in crate::http) static CREATE: Write = Write::whole(MESSAGE, response::ALIAS, plan_create);
pub(in crate::http) static UPDATE: Write = Write::whole(MESSAGE, response::ALIAS, plan_update);
pub(in crate::http) static DELETE: Write = Write::whole(MESSAGE, response::ALIAS, plan_delete);
pub(in crate::http) static LIST: List = List {
    function: "DescribeServiceAliases",
    keys: &["alias", "alias_namespace", "service", "namespace", "owner", "id"],
    find,
};

/// Returns the alias' own name; its namespace defaults to that of the service.
fn key_of(alias: &v1::ServiceAlias) -> Result<ServiceKey, Failure> {
    let name = check_name(alias.alias.as_deref(), Code::InvalidServiceAlias)?;
    let namespace = alias.alias_namespace.as_deref().filter(|namespace| !namespace.is_empty());
    let namespace = namespace.or(alias.namespace.as_deref());
    let namespace = check_name(namespace, Code::InvalidNamespaceName)?;
    Ok(ServiceKey::new(namespace, name))
}

/// Returns the name of an alias to change or delete. An invalid namespace gets the code for the
/// alias' namespace.
fn known_key_of(alias: &v1::ServiceAlias) -> Result<ServiceKey, Failure> {
    key_of(alias).map_err(|failure| match failure.code {
        Code::InvalidNamespaceName => Code::InvalidNamespaceWithAlias.into(),
        _ => failure,
    })
}

/// Checks the lengths of an alias' texts.
fn check_texts(alias: &v1::ServiceAlias) -> Result<(), Failure> {
    let texts = [
        (&alias.comment, Code::InvalidServiceAliasComment),
        (&alias.owners, Code::InvalidServiceAliasOwners),
    ];
    let is_too_long = |text: &Option<String>| {
        text.as_deref().is_some_and(|text| text.chars().nth(limits::TEXT_CHARS_MAX).is_some())
    };
    match texts.into_iter().find(|(text, _)| is_too_long(text)) {
        Some((_, code)) => Err(code.into()),
        None => Ok(()),
    }
}

fn decode(item: &[u8]) -> Result<v1::ServiceAlias, Failure> {
    v1::ServiceAlias::decode(item).map_err(|_| Code::ParseException.into())
}

fn read(state: &State, item: &[u8]) -> Result<Alias, Failure> {
    let alias = decode(item)?;
    // CL5 SIDs, the numeric names of an older protocol, are not supported.
    if alias.r#type == v1::AliasType::Cl5sid as i32 {
        return Err(Code::InvalidNamespaceWithAlias.into());
    }
    let service = check_name(alias.service.as_deref(), Code::InvalidServiceName)?;
    let namespace = check_name(alias.namespace.as_deref(), Code::InvalidNamespaceName)?;
    let key = key_of(&alias)?;
    check_texts(&alias)?;
    let target = ServiceKey::new(namespace, service);
    if state.alias(target.borrowed()).is_some() {
        return Err(Code::NotAllowCreateAliasForAlias.into());
    }
    if state.service(target.borrowed()).is_none() {
        return Err(Code::NotFoundSourceService.into());
    }
    Ok(Alias {
        id: String::new(),
        key,
        target,
        comment: alias.comment.unwrap_or_default(),
        owners: alias.owners.unwrap_or_default(),
        metadata: labels_of(&alias.metadata),
        created_at: 0,
        modified_at: 0,
        revision: Revision::default(),
    })
}

fn plan_create(state: &State, item: &[u8]) -> Result<Plan, Failure> {
    let alias = read(state, item)?;
    if state.resolve(alias.key.borrowed()).is_some() {
        return Err(Code::ExistedResource.into());
    }
    Ok(Plan::command(Command::CreateAlias(Box::new(alias))).answering(as_it_stands))
}

fn plan_update(state: &State, item: &[u8]) -> Result<Plan, Failure> {
    let alias = read(state, item)?;
    if state.alias(alias.key.borrowed()).is_none() {
        return Err(Code::NotFoundServiceAlias.into());
    }
    let sent = decode(item)?;
    // Fields that the item omits stay as they are.
    let change = AliasChange {
        target: Some(alias.target),
        comment: sent.comment,
        owners: sent.owners,
        metadata: (!sent.metadata.is_empty()).then(|| labels_of(&sent.metadata)),
    };
    Ok(Plan::command(Command::UpdateAlias(alias.key, Box::new(change))).answering(as_it_stands))
}

fn plan_delete(state: &State, item: &[u8]) -> Result<Plan, Failure> {
    let key = known_key_of(&decode(item)?)?;
    // Deleting a missing object succeeds.
    if state.alias(key.borrowed()).is_none() {
        return Ok(Plan::commands(Vec::new()));
    }
    Ok(Plan::command(Command::DeleteAlias(key)))
}

fn as_it_stands(outcome: &Outcome) -> Option<Vec<u8>> {
    let Outcome::Alias(alias) = outcome else {
        return None;
    };
    let mut out = Vec::new();
    // The caller has just changed it.
    put_alias(&mut out, alias, Permits::ALL);
    Some(out)
}

fn find(state: &State, query: &Query) -> Result<ObjectPage, Failure> {
    let found = state.aliases().filter(|alias| {
        let texts = [
            ("alias", &*alias.key.name),
            ("alias_namespace", &*alias.key.namespace),
            ("service", &*alias.target.name),
            ("namespace", &*alias.target.namespace),
            ("owner", &*alias.owners),
            ("id", &*alias.id),
        ];
        texts.iter().all(|(key, text)| allows(query.get(key), text))
            && query.viewer.sees_service(state, &alias.target)
    });
    page_of(
        query,
        found.collect(),
        9,
        |alias| alias.key.clone(),
        |out, alias| {
            let functions = ["UpdateServiceAlias", "DeleteServiceAliases"];
            let permits = query.viewer.service_permits(state, functions, &alias.target);
            put_alias(out, alias, permits);
        },
    )
}
