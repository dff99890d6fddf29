//! Registration, deregistration and heartbeats of instances.

use std::sync::Arc;

use bytes::Bytes;
use tollhouse_registry::{
    Command, HeartbeatOutcome, Outcome, is_host, is_instance_id, is_namespace_name, is_service_name,
};

use super::meter::Method;
use super::{CallReply, Caller, Dialect, HEAD_BYTES_USUAL, Undecodable, put_code};
use crate::access::{Door, Gate};
use crate::code::Code;
use crate::registration::{check_lengths, computed_id, new_instance};
use crate::wire::answer::response;
use crate::wire::write::{put_nested, put_text_value};
use crate::wire::{InstanceRequest, put_identity};

impl Dialect {
    /// `RegisterInstance`: registers or replaces an instance.
    ///
    /// # Errors
    /// If the message cannot be decoded as `Instance`.
    pub async fn register(
        &self,
        caller: &Caller<'_>,
        message: Bytes,
    ) -> Result<CallReply, Undecodable> {
        let timed = self.meter.start(Method::Register);
        let request = InstanceRequest::parse(&message)?;
        let caller = caller.with_token(request.service_token);
        let command = Command::Register(Box::new(new_instance(&request)));
        let replied = match self.submit_for(Door::Client, &caller, command).await {
            Ok(Outcome::Instance(instance)) => {
                let code = Code::ExecuteSuccess;
                let mut out = Vec::with_capacity(4 * HEAD_BYTES_USUAL);
                put_code(&mut out, code, None);
                put_nested(&mut out, response::INSTANCE, |out| put_identity(out, &instance));
                CallReply::made(code, out)
            }
            Ok(_) => echo(Code::ExecuteException, &message),
            Err(failure) => CallReply::failed(&failure, response::INSTANCE, &message),
        };
        Ok(timed.end(replied))
    }

    /// `DeregisterInstance`: removes an instance; an unknown one is not an error.
    ///
    /// # Errors
    /// If the message cannot be decoded as `Instance`.
    pub async fn deregister(
        &self,
        caller: &Caller<'_>,
        message: Bytes,
    ) -> Result<CallReply, Undecodable> {
        let timed = self.meter.start(Method::Deregister);
        let request = InstanceRequest::parse(&message)?;
        let caller = caller.with_token(request.service_token);
        if let Err(code) = self.admit_any(Door::Client, &caller) {
            return Ok(timed.end(echo(code, &message)));
        }
        // If an id is given, the other fields are ignored.
        if request.id.is_none()
            && let Err(refusal) = check_lengths(&request)
        {
            return Ok(timed.end(CallReply::refused(&refusal, response::INSTANCE, &message)));
        }
        let id = match id_of(&request) {
            Ok(id) => id,
            Err(code) => return Ok(timed.end(echo(code, &message))),
        };
        let has_id = request.id.is_some();
        let command = Command::Deregister(Arc::from(id.as_str()));
        let replied = match self.submit_for(Door::Client, &caller, command).await {
            Ok(_) if has_id => echo(Code::ExecuteSuccess, &message),
            Ok(_) => echo_with_id(Code::ExecuteSuccess, &message, &id),
            Err(failure) => CallReply::failed(&failure, response::INSTANCE, &message),
        };
        Ok(timed.end(replied))
    }

    /// `Heartbeat`: records a heartbeat of an instance.
    ///
    /// # Errors
    /// If the message cannot be decoded as `Instance`.
    pub fn heartbeat(&self, caller: &Caller<'_>, message: &[u8]) -> Result<CallReply, Undecodable> {
        let timed = self.meter.start(Method::Heartbeat);
        let request = InstanceRequest::parse(message)?;
        let caller = caller.with_token(request.service_token);
        let code = match self.beat(&caller, &request) {
            Ok(HeartbeatOutcome::Recorded | HeartbeatOutcome::Tolerated) => Code::ExecuteSuccess,
            Ok(HeartbeatOutcome::Unknown) => Code::NotFoundResource,
            Ok(HeartbeatOutcome::BadId) => Code::InvalidInstanceID,
            Err(code) => code,
        };
        Ok(timed.end(echo(code, message)))
    }

    fn beat(
        &self,
        caller: &Caller<'_>,
        request: &InstanceRequest<'_>,
    ) -> Result<HeartbeatOutcome, Code> {
        self.admit_any(Door::Client, caller)?;
        let computed;
        let id = match request.id {
            Some(id) => id,
            None => {
                computed = id_of(request)?;
                &computed
            }
        };
        self.admit_beat(caller, id)?;
        Ok(self.registry.heartbeat(id))
    }

    /// Checks that a client may keep an instance alive: that it may register the instance.
    pub(super) fn admit_beat(&self, caller: &Caller<'_>, id: &str) -> Result<(), Code> {
        if self.access.gate(Door::Client) == Gate::Open {
            return Ok(());
        }
        let state = self.registry.state();
        self.rights(&state, Door::Client, caller).instance("RegisterInstance", id)
    }
}

fn echo(code: Code, message: &[u8]) -> CallReply {
    CallReply::echo(code, None, response::INSTANCE, message)
}

/// Creates an echo, and appends the id that the message left out; protobuf allows fields in any
/// order.
fn echo_with_id(code: Code, message: &[u8], id: &str) -> CallReply {
    const ID: u32 = 1;
    let mut out = Vec::with_capacity(2 * HEAD_BYTES_USUAL + message.len());
    put_code(&mut out, code, None);
    put_nested(&mut out, response::INSTANCE, |out| {
        out.extend_from_slice(message);
        put_text_value(out, ID, id);
    });
    CallReply::made(code, out)
}

/// Returns the explicit id of a request, or the one derived from its address.
pub(crate) fn id_of(request: &InstanceRequest<'_>) -> Result<String, Code> {
    match request.id {
        Some(id) if is_instance_id(id) => return Ok(id.to_owned()),
        Some(_) => return Err(Code::InvalidInstanceID),
        None => {}
    }
    let checks = [
        (request.service.is_some_and(is_service_name), Code::InvalidServiceName),
        (request.namespace.is_some_and(is_namespace_name), Code::InvalidNamespaceName),
        (request.host.is_some_and(is_host), Code::InvalidInstanceHost),
        (request.port.is_some_and(|port| port <= u32::from(u16::MAX)), Code::InvalidInstancePort),
    ];
    for (is_good, code) in checks {
        if !is_good {
            return Err(code);
        }
    }
    Ok(computed_id(request))
}
