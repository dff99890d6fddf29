//! Service contracts in the console, which edits what clients report: contents, and interfaces one by one.
//!
//! An edit names the revision that it was made from, so that of two at once none is lost: the later one is refused.

use super::{List, ObjectPage, Plan, Write, any_of, page_of};
use crate::code::Code;
use crate::dialect::contracts::{check, id_of, new_contract, put_contract};
use crate::http::failure::Failure;
use crate::http::query::{Query, allows};
use crate::registration::hex_digest;
use crate::v1::interface_descriptor::Source;
use crate::v1::{InterfaceDescriptor, ServiceContract};
use crate::wire::answer::response;
use prost::Message;
use std::sync::Arc;
use tollhouse_registry::{Command, Contract, NewContract, State};

const MESSAGE: &str = "v1.ServiceContract";
/// Extra capacity for the id, the revision and both times.
const SERVER_FIELDS_BYTES: usize = 128;

pub(in crate::http) static CREATE: Write = Write::whole(MESSAGE, response::CONTRACT, plan_create);
pub(in crate::http) static SET_INTERFACES: Write =
    Write::whole(MESSAGE, response::CONTRACT, |state, item| {
        plan_edit(state, item, |contract, sent| contract.interfaces = sent)
    });
pub(in crate::http) static APPEND_INTERFACES: Write =
    Write::whole(MESSAGE, response::CONTRACT, |state, item| {
        plan_edit(state, item, |contract, sent| {
            remove_interfaces(contract, &sent);
            contract.interfaces.extend(sent);
        })
    });
pub(in crate::http) static DELETE_INTERFACES: Write =
    Write::whole(MESSAGE, response::CONTRACT, |state, item| {
        plan_edit(state, item, |contract, sent| remove_interfaces(contract, &sent))
    });
pub(in crate::http) static DELETE: Write = Write::whole(MESSAGE, response::CONTRACT, plan_delete);
pub(in crate::http) static LIST: List = List {
    function: "DescribeServiceContracts",
    keys: &["id", "namespace", "service", "type", "name", "protocol", "version", "brief"],
    find,
};

fn decode(item: &[u8]) -> Result<ServiceContract, Failure> {
    ServiceContract::decode(item).map_err(|_| Code::ParseException.into())
}

/// Creates a contract; of one that exists, the contents are replaced, and the interfaces where some are sent.
fn plan_create(state: &State, item: &[u8]) -> Result<Plan, Failure> {
    let mut sent = decode(item)?;
    check(&sent)?;
    let id = id_of(&sent)?;
    sent.interfaces = described(&id, sent.interfaces)?;
    let Some(stored) = state.contract(&id) else {
        let new = new_contract(&sent, sent.encode_to_vec().into());
        return Ok(put(NewContract { id: id.into(), ..new }));
    };
    let mut contract = decode(&stored.body)?;
    contract.content = sent.content;
    if !sent.interfaces.is_empty() {
        contract.interfaces = sent.interfaces;
    }
    Ok(replace(stored, &contract))
}

/// Edits the interfaces of a contract that exists.
fn plan_edit(
    state: &State,
    item: &[u8],
    edit: impl FnOnce(&mut ServiceContract, Vec<InterfaceDescriptor>),
) -> Result<Plan, Failure> {
    let sent = decode(item)?;
    let id = id_of(&sent)?;
    let stored = state.contract(&id).ok_or(Code::NotFoundResource)?;
    let interfaces = described(&id, sent.interfaces)?;
    let mut contract = decode(&stored.body)?;
    edit(&mut contract, interfaces);
    Ok(replace(stored, &contract))
}

fn replace(stored: &Contract, contract: &ServiceContract) -> Plan {
    let body = contract.encode_to_vec();
    if *body == *stored.body {
        return Plan::nothing_changes();
    }
    put(NewContract {
        id: Arc::clone(&stored.id),
        service: stored.service.clone(),
        kind: stored.kind.clone(),
        protocol: stored.protocol.clone(),
        version: stored.version.clone(),
        over: Some(stored.revision),
        body: body.into(),
    })
}

fn put(new: NewContract) -> Plan {
    Plan::command(Command::PutContract(Box::new(new)))
}

/// Returns the interfaces as the console describes them: each with an id, which follows from the
/// contract, method, path and name where none is given.
fn described(
    contract: &str,
    interfaces: Vec<InterfaceDescriptor>,
) -> Result<Vec<InterfaceDescriptor>, Failure> {
    let source = Source::Manual as i32;
    let described = interfaces.into_iter().map(|mut interface| {
        let InterfaceDescriptor { method, path, name, .. } = &interface;
        if interface.id.is_empty() && path.is_empty() {
            let detail = "invalid service_contract interface path".to_owned();
            return Err(Failure::with(Code::BadRequest, detail));
        }
        if interface.id.is_empty() {
            let text = format!("{contract}##{method}##{path}##{name}##{source}");
            interface.id = hex_digest(text.as_bytes());
        }
        interface.source = source;
        Ok(interface)
    });
    described.collect()
}

/// Removes the interfaces whose ids occur in `others`.
fn remove_interfaces(contract: &mut ServiceContract, others: &[InterfaceDescriptor]) {
    contract.interfaces.retain(|stored| others.iter().all(|other| other.id != stored.id));
}

fn plan_delete(state: &State, item: &[u8]) -> Result<Plan, Failure> {
    let contract = decode(item)?;
    match state.contract(&id_of(&contract)?) {
        Some(stored) => Ok(Plan::command(Command::DeleteContract(Arc::clone(&stored.id)))),
        // Deleting a missing object succeeds.
        None => Ok(Plan::commands(Vec::new())),
    }
}

fn find(state: &State, query: &Query) -> Result<ObjectPage, Failure> {
    let found = state.contracts().filter(|contract| {
        let texts = [
            ("id", &*contract.id),
            ("namespace", &*contract.service.namespace),
            ("service", &*contract.service.name),
            ("type", &*contract.kind),
            ("name", &*contract.kind),
            ("protocol", &*contract.protocol),
            ("version", &*contract.version),
        ];
        texts.iter().all(|(key, text)| allows(query.get(key), text))
            && query.viewer.sees_service(state, &contract.service)
    });
    page_of(
        query,
        found.collect(),
        22,
        |contract| Arc::clone(&contract.id),
        |out, contract| {
            let mut message = Vec::with_capacity(contract.body.len() + SERVER_FIELDS_BYTES);
            put_contract(&mut message, contract);
            out.extend_from_slice(&any_of(MESSAGE, &message));
        },
    )
}
