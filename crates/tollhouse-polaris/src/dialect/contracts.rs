//! Service contracts: descriptions of interfaces that clients report and query.

use bytes::Bytes;
use prost::Message;
use tollhouse_registry::{Command, Contract, NewContract, Outcome, ServiceKey};

use super::meter::Method;
use super::{CallReply, Caller, Dialect, HEAD_BYTES_USUAL, Undecodable, put_code};
use crate::access::Door;
use crate::code::Code;
use crate::date::DateText;
use crate::registration::hex_digest;
use crate::v1::ServiceContract;
use crate::wire::answer::response;
use crate::wire::write::{put_nested, put_text};

impl Dialect {
    /// `ReportServiceContract`: stores the interfaces of a version of a service.
    ///
    /// # Errors
    /// If the message cannot be decoded as `ServiceContract`.
    pub async fn report_contract(
        &self,
        caller: &Caller<'_>,
        message: Bytes,
    ) -> Result<CallReply, Undecodable> {
        let timed = self.meter.start(Method::ReportContract);
        let contract = ServiceContract::decode(&*message)?;
        let admitted = self.admit_any(Door::Client, caller);
        if let Err(code) = admitted.and_then(|()| check(&contract)) {
            return Ok(timed.end(echo(code, &message)));
        }
        // Copied: the message may be a view into a buffer of many others.
        let new = new_contract(&contract, Bytes::copy_from_slice(&message));
        let command = Command::PutContract(Box::new(new));
        let replied = match self.submit_for(Door::Client, caller, command).await {
            Ok(Outcome::Contract(contract)) => contract_reply(&contract),
            Ok(_) => echo(Code::ExecuteException, &message),
            Err(failure) => CallReply::failed(&failure, response::CONTRACT, &message),
        };
        Ok(timed.end(replied))
    }

    /// `GetServiceContract`: returns a contract by its id, or by service and version.
    ///
    /// # Errors
    /// If the message cannot be decoded as `ServiceContract`.
    pub fn get_contract(
        &self,
        caller: &Caller<'_>,
        message: &[u8],
    ) -> Result<CallReply, Undecodable> {
        let timed = self.meter.start(Method::GetContract);
        let asked = ServiceContract::decode(message)?;
        let admitted = self.admit_any(Door::Client, caller);
        let id = match admitted.and_then(|()| id_of(&asked)) {
            Ok(id) => id,
            Err(code) => return Ok(timed.end(echo(code, message))),
        };
        let state = self.registry.state();
        let Some(contract) = state.contract(&id) else {
            return Ok(timed.end(echo(Code::NotFoundResource, message)));
        };
        let service = contract.service.borrowed();
        let replied = match self.admit_service(caller, "DiscoverServiceContract", service) {
            Ok(()) => contract_reply(contract),
            Err(code) => echo(code, message),
        };
        Ok(timed.end(replied))
    }
}

/// Returns a contract in the registry's form, whatever it replaces.
pub(crate) fn new_contract(contract: &ServiceContract, body: Bytes) -> NewContract {
    NewContract {
        id: contract_id(contract).into(),
        service: ServiceKey::new(&contract.namespace, &contract.service),
        kind: kind(contract).into(),
        protocol: contract.protocol.as_str().into(),
        version: contract.version.as_str().into(),
        over: None,
        body,
    }
}

/// Returns the explicit id of a contract, or the one derived from its fields.
pub(crate) fn id_of(contract: &ServiceContract) -> Result<String, Code> {
    if !contract.id.is_empty() {
        return Ok(contract.id.clone());
    }
    check(contract)?;
    Ok(contract_id(contract))
}

/// Checks that a contract names its service.
pub(crate) fn check(contract: &ServiceContract) -> Result<(), Code> {
    if contract.namespace.is_empty() {
        return Err(Code::InvalidNamespaceName);
    }
    if contract.service.is_empty() {
        return Err(Code::InvalidServiceName);
    }
    Ok(())
}

/// Returns the type of contract; older clients send it as `name`.
fn kind(contract: &ServiceContract) -> &str {
    if contract.r#type.is_empty() { &contract.name } else { &contract.r#type }
}

fn contract_id(contract: &ServiceContract) -> String {
    let ServiceContract { namespace, service, protocol, version, .. } = contract;
    let kind = kind(contract);
    hex_digest(format!("{namespace}##{service}##{kind}##{protocol}##{version}").as_bytes())
}

fn echo(code: Code, message: &[u8]) -> CallReply {
    CallReply::echo(code, None, response::CONTRACT, message)
}

fn contract_reply(contract: &Contract) -> CallReply {
    let code = Code::ExecuteSuccess;
    let mut out = Vec::with_capacity(4 * HEAD_BYTES_USUAL + contract.body.len());
    put_code(&mut out, code, None);
    put_nested(&mut out, response::CONTRACT, |out| put_contract(out, contract));
    CallReply::made(code, out)
}

/// Encodes a contract: the reported message, then the server's fields, which take precedence
/// because a later field wins.
pub(crate) fn put_contract(out: &mut Vec<u8>, contract: &Contract) {
    out.extend_from_slice(&contract.body);
    put_text(out, 1, &contract.id);
    put_text(out, 7, &contract.revision.to_string());
    put_text(out, 10, DateText::from_unix_seconds(contract.created_at).as_str());
    put_text(out, 11, DateText::from_unix_seconds(contract.modified_at).as_str());
}
