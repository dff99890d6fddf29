//! Clients say that they are there: SDKs do so before anything else, and every two minutes.

use bytes::Bytes;

use super::meter::Method;
use super::{Caller, Dialect, Replied, Undecodable, text};
use crate::code::Code;
use crate::wire::answer::response;
use crate::wire::{Fields, Value};

/// `Client.id`.
const ID: u32 = 5;

impl Dialect {
    /// `ReportClient`: a client is there. One without an id is answered and not remembered.
    ///
    /// # Errors
    /// The message is no `Client`.
    pub fn report_client(
        &self,
        caller: &Caller<'_>,
        message: &Bytes,
    ) -> Result<Replied, Undecodable> {
        let timed = self.meter.start(Method::ReportClient);
        let id = client_id(message)?;
        let code = match self.admit(caller, None) {
            Ok(()) => Code::ExecuteSuccess,
            Err(code) => code,
        };
        if let Some(id) = id.filter(|id| !id.is_empty() && code == Code::ExecuteSuccess) {
            // Copied: the message may be a view into a buffer of many others.
            self.registry.report_client(id, Bytes::copy_from_slice(message));
        }
        Ok(timed.end(Replied::echo(code, None, response::CLIENT, message)))
    }
}

fn client_id(message: &[u8]) -> Result<Option<&str>, Undecodable> {
    let mut id = None;
    for field in Fields::of(message) {
        let field = field?;
        if let (ID, Value::Bytes(wrapper)) = (field.number, field.value) {
            for inner in Fields::of(wrapper) {
                let inner = inner?;
                if let (1, Value::Bytes(bytes)) = (inner.number, inner.value) {
                    id = Some(text(bytes)?);
                }
            }
        }
    }
    Ok(id)
}
