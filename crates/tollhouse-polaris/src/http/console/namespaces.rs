//! Console calls for namespaces.

use super::services::TOKEN_BYTES;
use super::{Get, List, ObjectPage, Plan, Write, page_of};
use crate::access::random_digits;
use crate::code::Code;
use crate::dialect::rights::grantees;
use crate::http::failure::Failure;
use crate::http::query::Query;
use crate::v1;
use crate::wire::answer::response;
use crate::wire::put_console_namespace;
use crate::wire::write::{put_nested, put_number, put_text_value};
use prost::Message;
use std::cell::Cell;
use std::sync::Arc;
use tollhouse_registry::identity::Resource;
use tollhouse_registry::{Command, Namespace, NamespaceChange, NamespaceView, Outcome, State};

const MESSAGE: &str = "v1.Namespace";

/// Field of `v1.BatchQueryResponse` with the counts of the page's namespaces together.
const SUMMARY: u32 = 23;

pub(in crate::http) static CREATE: Write =
    Write::one_by_one(MESSAGE, response::NAMESPACE, plan_create);
pub(in crate::http) static UPDATE: Write =
    Write::one_by_one(MESSAGE, response::NAMESPACE, plan_update);
pub(in crate::http) static DELETE: Write =
    Write::one_by_one(MESSAGE, response::NAMESPACE, plan_delete);
pub(in crate::http) static RENEW_TOKEN: Write =
    Write::one_by_one(MESSAGE, response::NAMESPACE, plan_token);
pub(in crate::http) static LIST: List =
    List { function: "DescribeNamespaces", keys: &["name", "owner", "id"], find };
pub(in crate::http) static GET_TOKEN: Get =
    Get { function: "DescribeNamespaceToken", keys: &["name", "token"], find: find_token };

fn read(item: &[u8]) -> Result<v1::Namespace, Failure> {
    let namespace = v1::Namespace::decode(item).map_err(|_| Code::ParseException)?;
    super::services::check_name(namespace.name.as_deref(), Code::InvalidNamespaceName)?;
    Ok(namespace)
}

fn change_of(namespace: &v1::Namespace) -> NamespaceChange {
    let labels = &namespace.metadata;
    NamespaceChange {
        comment: namespace.comment.clone(),
        owners: namespace.owners.clone(),
        metadata: (!labels.is_empty()).then(|| super::services::labels_of(labels)),
        export_to: (!namespace.service_export_to.is_empty())
            .then(|| namespace.service_export_to.clone()),
        token: None,
    }
}

fn plan_create(state: &State, item: &[u8]) -> Result<Plan, Failure> {
    let namespace = read(item)?;
    let name = namespace.name.as_deref().unwrap_or_default();
    if state.namespace(name).is_some() {
        return Err(Code::ExistedResource.into());
    }
    let grantees = grantees(state, &namespace.user_ids, &namespace.group_ids)?;
    let create = Plan::command(Command::CreateNamespace(name.into(), change_of(&namespace)));
    Ok(create.answering(with_token).granted_to(grantees))
}

fn plan_update(state: &State, item: &[u8]) -> Result<Plan, Failure> {
    let namespace = read(item)?;
    let name = known(state, &namespace)?;
    Ok(Plan::command(Command::UpdateNamespace(name.into(), change_of(&namespace))))
}

fn plan_delete(state: &State, item: &[u8]) -> Result<Plan, Failure> {
    let namespace = read(item)?;
    // Deleting a missing object succeeds.
    let Ok(name) = known(state, &namespace) else {
        return Ok(Plan::commands(Vec::new()));
    };
    Ok(Plan::command(Command::DeleteNamespace(name.into())))
}

fn plan_token(state: &State, item: &[u8]) -> Result<Plan, Failure> {
    let namespace = read(item)?;
    let name = known(state, &namespace)?;
    let token = Some(random_digits::<TOKEN_BYTES>());
    let change = NamespaceChange { token, ..NamespaceChange::default() };
    Ok(Plan::command(Command::UpdateNamespace(name.into(), change)).answering(with_token))
}

fn known<'a>(state: &State, namespace: &'a v1::Namespace) -> Result<&'a str, Failure> {
    let name = namespace.name.as_deref().unwrap_or_default();
    state.namespace(name).map(|_| name).ok_or_else(|| Code::NotFoundNamespace.into())
}

fn with_token(outcome: &Outcome) -> Option<Vec<u8>> {
    let Outcome::Namespace(namespace) = outcome else {
        return None;
    };
    let mut out = Vec::new();
    put_text_value(&mut out, 1, &namespace.name);
    put_text_value(&mut out, 4, &namespace.token);
    Some(out)
}

fn find_token(state: &State, query: &Query) -> Result<Vec<u8>, Failure> {
    let name = query.required("name", Code::InvalidNamespaceName)?;
    if !query.viewer.sees(state, Resource::namespace(name)) {
        return Err(Code::NotAllowedAccess.into());
    }
    let view = state.namespace(name).ok_or(Code::NotFoundNamespace)?;
    let mut out = Vec::new();
    put_nested(&mut out, response::NAMESPACE, |out| {
        put_text_value(out, 1, &view.namespace.name);
        put_text_value(out, 4, &view.namespace.token);
    });
    Ok(out)
}

fn namespace_resource(namespace: &Namespace) -> Resource<'_> {
    Resource { labels: Some(&namespace.metadata), ..Resource::namespace(&namespace.name) }
}

fn find(state: &State, query: &Query) -> Result<ObjectPage, Failure> {
    let found = state.namespaces().filter(|view| {
        let namespace = &view.namespace;
        query.allows_any("name", &namespace.name)
            && query.allows_any("owner", &namespace.owners)
            && query.allows_any("id", &namespace.name)
            && query.viewer.sees(state, namespace_resource(namespace))
    });
    let name_of = |view: &&Arc<NamespaceView>| Arc::clone(&view.namespace.name);
    let summary = Cell::new([0_u32; 3]);
    let mut page = page_of(query, found.collect(), 5, name_of, |out, view| {
        let counts = [view.services.len() as u32, view.counts.healthy, view.counts.total];
        summary.set(std::array::from_fn(|at| summary.get()[at].saturating_add(counts[at])));
        let resource = namespace_resource(&view.namespace);
        let permits =
            query.viewer.permits(state, ["UpdateNamespaces", "DeleteNamespaces"], resource);
        put_console_namespace(out, view, permits);
    })?;
    put_nested(&mut page.fields, SUMMARY, |out| {
        for (number, count) in (1..).zip(summary.get()) {
            put_number(out, number, count.into());
        }
    });
    Ok(page)
}
