//! Heartbeats of many instances in one message, as agents and cluster servers send them.

use tollhouse_registry::LastHeartbeat;

use super::instances::id_of;
use super::meter::Method;
use super::{CallReply, Caller, Dialect, Undecodable, text};
use crate::access::Door;
use crate::code::Code;
use crate::wire::write::{put_flag, put_message, put_nested, put_number, put_signed};
use crate::wire::{Fields, InstanceRequest, Value};

/// Field number of the list in the requests, and in the response with records.
const ITEMS: u32 = 1;

/// Maximum items of a message. Agents and servers send some hundred; a message of a million would
/// delay other calls by half a second.
const ITEMS_MAX: usize = 32 * 1024;

impl Dialect {
    /// `BatchHeartbeat`: records heartbeats of many instances. The response is always empty, also
    /// for unknown instances.
    ///
    /// # Errors
    /// If the message cannot be decoded as `HeartbeatsRequest`, or the caller's token is refused.
    pub fn batch_heartbeat(
        &self,
        caller: &Caller<'_>,
        message: &[u8],
    ) -> Result<CallReply, Undecodable> {
        let timed = self.meter.start(Method::BatchHeartbeat);
        if let Err(code) = self.admit_any(Door::Client, caller) {
            timed.end(CallReply::made(code, Vec::new()));
            return Err(Undecodable::Refused(code));
        }
        for item in items(message) {
            // The answer has no place for a code, so that foreign instances are left out silently.
            if let Some(id) = beating_id(item?)?
                && self.admit_beat(caller, &id).is_ok()
            {
                self.registry.heartbeat(&id);
            }
        }
        Ok(timed.end(CallReply::made(Code::ExecuteSuccess, Vec::new())))
    }

    /// `BatchGetHeartbeat`: returns the last heartbeats of instances.
    ///
    /// # Errors
    /// If the message cannot be decoded as `GetHeartbeatsRequest`, or the caller's token is
    /// refused.
    pub fn batch_get_heartbeat(
        &self,
        caller: &Caller<'_>,
        message: &[u8],
    ) -> Result<CallReply, Undecodable> {
        let timed = self.meter.start(Method::BatchGetHeartbeat);
        let mut out = Vec::new();
        if let Err(code) = self.admit_any(Door::Client, caller) {
            timed.end(CallReply::made(code, out));
            return Err(Undecodable::Refused(code));
        }
        for id in ids(message) {
            let id = id?;
            put_record(&mut out, id, self.registry.last_heartbeat(id));
        }
        Ok(timed.end(CallReply::made(Code::ExecuteSuccess, out)))
    }

    /// `BatchDelHeartbeat`: deletes the heartbeat records of ids; the health of instances does not
    /// change.
    ///
    /// # Errors
    /// If the message cannot be decoded as `DelHeartbeatsRequest`.
    pub fn batch_delete_heartbeat(
        &self,
        caller: &Caller<'_>,
        message: &[u8],
    ) -> Result<CallReply, Undecodable> {
        let timed = self.meter.start(Method::BatchDeleteHeartbeat);
        if let Err(code) = self.admit_any(Door::Client, caller) {
            let mut out = Vec::new();
            put_number(&mut out, 1, u64::from(code.number()));
            put_message(&mut out, 2, code.info().as_bytes());
            return Ok(timed.end(CallReply::made(code, out)));
        }
        for id in ids(message) {
            let id = id?;
            if self.admit_beat(caller, id).is_ok() {
                self.registry.forget_heartbeats(id);
            }
        }
        Ok(timed.end(CallReply::made(Code::ExecuteSuccess, Vec::new())))
    }
}

fn put_record(out: &mut Vec<u8>, id: &str, beat: Option<LastHeartbeat>) {
    put_nested(out, ITEMS, |out| {
        put_message(out, 1, id.as_bytes());
        let Some(beat) = beat else { return };
        put_number(out, 6, beat.at_ms / 1_000);
        put_flag(out, 7, true);
        put_signed(out, 8, i64::try_from(beat.count).unwrap_or(i64::MAX));
    });
}

/// Iterates over the ids of a request.
fn ids(message: &[u8]) -> impl Iterator<Item = Result<&str, Undecodable>> {
    items(message).map(|item| text(item?))
}

/// Iterates over the items of a request; fails after [`ITEMS_MAX`] items.
fn items(message: &[u8]) -> impl Iterator<Item = Result<&[u8], Undecodable>> {
    let items = Fields::new(message).filter_map(|field| match field {
        Err(error) => Some(Err(error.into())),
        Ok(field) if field.number == ITEMS => field.value.bytes().map(Ok),
        Ok(_) => None,
    });
    items.enumerate().map(|(place, item)| match place {
        ..ITEMS_MAX => item,
        _ => Err(Undecodable::TooMany(ITEMS_MAX)),
    })
}

/// Returns the instance id of a heartbeat in a batch; `None` if it names no valid instance.
fn beating_id(item: &[u8]) -> Result<Option<String>, Undecodable> {
    let mut request = InstanceRequest { port: Some(0), ..InstanceRequest::default() };
    for field in Fields::new(item) {
        let field = field?;
        match (field.number, field.value) {
            (1, Value::Bytes(bytes)) => request.id = text_in(bytes)?,
            (2, Value::Bytes(bytes)) => request.service = text_in(bytes)?,
            (3, Value::Bytes(bytes)) => request.namespace = text_in(bytes)?,
            (4, Value::Bytes(bytes)) => request.host = text_in(bytes)?,
            (5, Value::Varint(number)) => request.port = Some(number as u32),
            _ => {}
        }
    }
    Ok(id_of(&request).ok())
}

/// Decodes a plain text; an empty one counts as absent.
fn text_in(bytes: &[u8]) -> Result<Option<&str>, Undecodable> {
    Ok(Some(text(bytes)?).filter(|text| !text.is_empty()))
}
