//! Request as conditions see it at a point of the chain.

use std::borrow::Cow;
use std::cell::OnceCell;

use tollhouse_model::variable::{Variable, cookie_value, query_argument};
use tollhouse_plugin::{Exchange, RequestContext};
use tollhouse_shenyu::matching::{CivilTime, Request};
use tollhouse_stdx::civil;

use crate::turn::Facts;

pub(crate) struct View<'a> {
    exchange: &'a dyn Exchange,
    path: &'a str,
    query: Option<&'a [u8]>,
    facts: &'a Facts,
    client_ip: OnceCell<String>,
    domain: OnceCell<String>,
}

impl<'a> View<'a> {
    /// Creates a view of the request behind `exchange`, with path and query as plugins have changed
    /// them.
    pub(crate) fn new(
        exchange: &'a dyn Exchange,
        path: &'a str,
        query: Option<&'a [u8]>,
        facts: &'a Facts,
    ) -> Self {
        let (client_ip, domain) = (OnceCell::new(), OnceCell::new());
        Self { exchange, path, query, facts, client_ip, domain }
    }
}

impl Request for View<'_> {
    fn path(&self) -> &str {
        self.path
    }

    fn method(&self) -> &str {
        std::str::from_utf8(self.exchange.method()).unwrap_or_default()
    }

    fn domain(&self) -> &str {
        self.domain.get_or_init(|| {
            let host = self.exchange.as_lookup().variable(&Variable::Host);
            host.map(|host| text(host).into_owned()).unwrap_or_default()
        })
    }

    fn client_ip(&self) -> &str {
        self.client_ip.get_or_init(|| {
            let edited = self.exchange.edits().remote.map(|(address, _)| address);
            edited.unwrap_or_else(|| self.exchange.remote_address()).to_string()
        })
    }

    fn header(&self, name: &str) -> Option<Cow<'_, str>> {
        self.exchange.header(name.as_bytes()).map(text)
    }

    fn query(&self, name: &str) -> Option<Cow<'_, str>> {
        query_argument(self.query?, name).map(text)
    }

    fn cookie(&self, name: &str) -> Option<Cow<'_, str>> {
        let cookies = self.exchange.header(b"cookie")?;
        let value = cookie_value(&cookies, name)?;
        Some(Cow::Owned(String::from_utf8_lossy(value).into_owned()))
    }

    fn context(&self, field: &str) -> Option<Cow<'_, str>> {
        let facts = self.facts;
        Some(match field {
            "contextPath" => Cow::Borrowed(&*facts.context_path),
            "module" => Cow::Borrowed(&*facts.module),
            "appKey" => Cow::Borrowed(&*facts.app_key),
            "rpcType" => Cow::Borrowed(facts.rpc_type.name()),
            "path" => Cow::Borrowed(self.path),
            "method" => Cow::Borrowed(self.path),
            "httpMethod" => Cow::Borrowed(self.method()),
            _ => return None,
        })
    }

    fn local_time(&self) -> CivilTime {
        civil_time(self.exchange.now().unix_ms)
    }
}

/// Converts bytes to text; invalid UTF-8 is replaced.
pub(crate) fn text(bytes: Cow<'_, [u8]>) -> Cow<'_, str> {
    match bytes {
        Cow::Borrowed(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => String::from_utf8_lossy(bytes),
        },
        Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
    }
}

/// Returns the lines of a header as text, joined; invalid UTF-8 is replaced.
pub(crate) fn text_header(cx: &RequestContext<'_>, name: &str) -> Option<String> {
    cx.header(name).map(|value| String::from_utf8_lossy(&value).into_owned())
}

/// Converts milliseconds since 1970 to UTC.
pub(crate) fn civil_time(unix_ms: u64) -> CivilTime {
    let seconds = i64::try_from(unix_ms / 1000).unwrap_or(i64::MAX);
    let time = civil::CivilTime::from_unix_seconds(seconds);
    let civil::CivilTime { year, month, day, hour, minute, second, .. } = time;
    CivilTime { year, month, day, hour, minute, second }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01 00:00:00"),
            (951_782_400, "2000-02-29 00:00:00"),
            (1_700_000_000, "2023-11-14 22:13:20"),
            (4_107_542_399, "2100-02-28 23:59:59"),
            (4_107_542_400, "2100-03-01 00:00:00"),
        ] {
            assert_eq!(Some(civil_time(seconds * 1000)), CivilTime::parse(expected), "{expected}");
        }
    }
}
