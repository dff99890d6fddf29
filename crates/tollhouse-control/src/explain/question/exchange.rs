//! [`Exchange`] for a question, so that conditions of plugins can be evaluated without a
//! connection.

use std::borrow::Cow;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use tollhouse_model::variable::Lookup;
use tollhouse_plugin::{BodyError, Consumer, Exchange, LocalFuture, Moment, RequestEdits};
use tollhouse_router::request_uri;

use super::Question;

impl Exchange for Question {
    fn method(&self) -> &[u8] {
        Question::method(self)
    }

    fn path(&self) -> &[u8] {
        &self.path
    }

    fn query(&self) -> Option<&[u8]> {
        Question::query(self)
    }

    fn request_uri(&self) -> Cow<'_, [u8]> {
        Cow::Owned(request_uri(&self.path, Question::query(self)))
    }

    fn real_request_uri(&self) -> Cow<'_, [u8]> {
        self.head.origin_form(&self.bytes)
    }

    fn client_header(&self, name: &[u8]) -> Option<&[u8]> {
        self.head.fields.find(name, &self.bytes)
    }

    fn each_client_header(&self, visit: &mut dyn FnMut(&[u8], &[u8])) {
        self.header_lines().for_each(|(name, value)| visit(name, value));
    }

    fn asks_websocket(&self) -> bool {
        self.head.upgrade
    }

    fn remote_address(&self) -> IpAddr {
        self.remote_addr
    }

    fn peer_address(&self) -> IpAddr {
        self.remote_addr
    }

    fn is_tls(&self) -> bool {
        self.scheme == "https"
    }

    fn edits(&self) -> &RequestEdits {
        &self.edits
    }

    fn edits_mut(&mut self) -> &mut RequestEdits {
        &mut self.edits
    }

    fn read_body<'a>(&'a mut self, bytes_max: u64) -> LocalFuture<'a, Result<(), BodyError>> {
        let fits = u64::try_from(self.body.len()).is_ok_and(|length| length <= bytes_max);
        Box::pin(std::future::ready(fits.then_some(()).ok_or(BodyError::TooLarge)))
    }

    fn body(&self) -> Option<&[u8]> {
        Some(&self.body)
    }

    fn note_consumer(&mut self, _consumer: &Consumer) {}

    fn now(&self) -> Moment {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let unix_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        Moment { monotonic_ms: unix_ms, unix_ms }
    }

    fn random(&self) -> u64 {
        0
    }

    fn sleep<'a>(&'a mut self, _time: Duration) -> LocalFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    fn as_lookup(&self) -> &dyn Lookup {
        self
    }
}
