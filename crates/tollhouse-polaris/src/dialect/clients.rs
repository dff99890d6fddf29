//! Reports of clients: SDKs report themselves before any other call, and every two minutes.

use bytes::Bytes;

use super::meter::Method;
use super::{CallReply, Caller, Dialect, Undecodable, text};
use crate::access::Door;
use crate::code::Code;
use crate::wire::answer::response;
use crate::wire::{Fields, Value, put_location};

/// Field numbers of `Client`.
const HOST: u32 = 1;
const LOCATION: u32 = 4;
const ID: u32 = 5;

/// Fields that are stored: host, type, version, location, id and stat.
const SHOWN: std::ops::RangeInclusive<u32> = 1..=6;

impl Dialect {
    /// `ReportClient`: stores the report of a client. A report without an id, or one that is too
    /// long, is answered with success and not stored. The answer has the configured location of the
    /// client's host.
    ///
    /// # Errors
    /// If the message cannot be decoded as `Client`.
    pub fn report_client(
        &self,
        caller: &Caller<'_>,
        message: &Bytes,
    ) -> Result<CallReply, Undecodable> {
        let timed = self.meter.start(Method::ReportClient);
        let id = client_text(message, ID)?;
        let host = client_text(message, HOST)?.unwrap_or_default();
        let code = match self.admit_any(Door::Client, caller) {
            Ok(()) => Code::ExecuteSuccess,
            Err(code) => code,
        };
        // Appended, because the last of two fields with equal numbers is valid.
        let located = self.locations.find(host).map(|location| {
            let mut located = message.to_vec();
            put_location(&mut located, LOCATION, location);
            Bytes::from(located)
        });
        let message = located.as_ref().unwrap_or(message);
        if let Some(id) = id.filter(|id| !id.is_empty() && code == Code::ExecuteSuccess) {
            self.registry.report_client(id, remembered(message));
        }
        Ok(timed.end(CallReply::echo(code, None, response::CLIENT, message)))
    }
}

/// Copies the fields to store. A copy, because the message may be a view into a larger buffer;
/// without other fields, because they may be private.
fn remembered(message: &[u8]) -> Bytes {
    let fields = Fields::new(message).filter_map(Result::ok);
    let remembered = fields.filter(|field| SHOWN.contains(&field.number));
    let mut out = Vec::new();
    remembered.for_each(|field| out.extend_from_slice(&message[field.start..field.end]));
    out.into_boxed_slice().into()
}

/// Returns a text of a client's report by its field number.
fn client_text(message: &[u8], number: u32) -> Result<Option<&str>, Undecodable> {
    let mut found = None;
    for field in Fields::new(message) {
        let field = field?;
        if let (true, Value::Bytes(wrapper)) = (field.number == number, field.value) {
            for inner in Fields::new(wrapper) {
                let inner = inner?;
                if let (1, Value::Bytes(bytes)) = (inner.number, inner.value) {
                    found = Some(text(bytes)?);
                }
            }
        }
    }
    Ok(found)
}
