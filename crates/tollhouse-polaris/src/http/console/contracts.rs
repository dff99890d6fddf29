//! Console calls for service contracts: list and delete; clients write them.

use super::{Found, List, Plan, Write, any_of, page_of};
use crate::code::Code;
use crate::dialect::contracts::{id_of, put_contract};
use crate::http::failure::Failure;
use crate::http::query::{Query, allows};
use crate::v1;
use crate::wire::answer::response;
use prost::Message;
use std::sync::Arc;
use tollhouse_registry::{Command, State};

const MESSAGE: &str = "v1.ServiceContract";
/// Extra capacity for the id, the revision and both times.
const SERVER_FIELDS_BYTES: usize = 128;

pub(in crate::http) static DELETE: Write = Write::whole(MESSAGE, response::CONTRACT, plan_delete);
pub(in crate::http) static LIST: List = List {
    keys: &["id", "namespace", "service", "type", "name", "protocol", "version", "brief"],
    find,
};

fn plan_delete(state: &State, item: &[u8]) -> Result<Plan, Failure> {
    let contract = v1::ServiceContract::decode(item).map_err(|_| Code::ParseException)?;
    match state.contract(&id_of(&contract)?) {
        Some(known) => Ok(Plan::command(Command::DeleteContract(Arc::clone(&known.id)))),
        // Deleting a missing object succeeds.
        None => Ok(Plan::commands(Vec::new())),
    }
}

fn find(state: &State, query: &Query) -> Result<Found, Failure> {
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
