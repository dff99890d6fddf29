//! The scenarios: which plugins, how many routes and consumers, and what is sent to them.

use crate::bench::gateway::{self, consumer_key, key_line, route_path};
use crate::bench::wrk::P95_LINE;
use serde_json::{Value, json};

/// The body of every answer, as small as the published benchmark's.
pub(crate) const BODY_BYTES: usize = 200;

/// What is on each route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plugins {
    None,
    LimitCount,
    KeyAuth,
    KeyAuthAndLimitCount,
    Mocking,
}

/// How much there is of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) routes: usize,
    pub(crate) consumers: usize,
}

pub(crate) const ONE: Size = Size { routes: 1, consumers: 1 };
pub(crate) const HUNDRED: Size = Size { routes: 100, consumers: 100 };
pub(crate) const MANY: Size = Size { routes: 10_000, consumers: 1_000 };

impl Plugins {
    /// All of them, in the order of the tables.
    pub(crate) const ALL: [Self; 5] =
        [Self::None, Self::LimitCount, Self::KeyAuth, Self::KeyAuthAndLimitCount, Self::Mocking];

    /// Their name in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::LimitCount => "limit-count",
            Self::KeyAuth => "key-auth",
            Self::KeyAuthAndLimitCount => "key-auth + limit-count",
            Self::Mocking => "mocking",
        }
    }

    fn confs(self) -> Value {
        match self {
            Self::None => json!({}),
            Self::LimitCount => json!({ "limit-count": gateway::limit() }),
            Self::KeyAuth => json!({ "key-auth": {} }),
            Self::KeyAuthAndLimitCount => gateway::key_auth_and_limit(),
            Self::Mocking => json!({ "mocking": {
                "content_type": "text/plain",
                "response_status": 200,
                "response_example": own_answer(),
            } }),
        }
    }

    /// A resources file in which every route has these plugins.
    pub(crate) fn resources(self, size: Size, origin_port: u16) -> String {
        let confs = self.confs();
        let routes: Vec<Value> = (0..size.routes)
            .map(|number| gateway::route_with_plugins(origin_port, number, &confs))
            .collect();
        let consumers: Vec<Value> = (0..size.consumers).map(gateway::consumer).collect();
        json!({ "routes": routes, "consumers": consumers }).to_string()
    }
}

impl Size {
    /// How it is written in tables.
    pub(crate) fn title(self) -> String {
        let Self { routes, consumers } = self;
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        format!("{routes} route{}, {consumers} consumer{}", plural(routes), plural(consumers))
    }

    /// The header line that the last route wants.
    pub(crate) fn last_key_line(self) -> String {
        key_line((self.routes - 1) % self.consumers)
    }

    /// A script for wrk that takes a random route each time, with the key of its consumer. All
    /// scenarios are sent the same requests, keys included, so that what differs is the plugins.
    /// Requests are rendered beforehand: choosing one costs the load little.
    pub(crate) fn script(self) -> String {
        let Self { routes, consumers } = self;
        let keys: Vec<String> =
            (0..consumers).map(|number| format!("\"{}\"", consumer_key(number))).collect();
        let prefix = route_path(0);
        let prefix = prefix.trim_end_matches('0');
        format!(
            "local keys = {{{}}}\n\
             local requests = {{}}\n\
             function init(args)\n  \
               for n = 0, {routes} - 1 do\n    \
                 local headers = {{ apikey = keys[n % {consumers} + 1] }}\n    \
                 requests[n + 1] = wrk.format(\"GET\", \"{prefix}\" .. n, headers)\n  \
               end\n  \
               math.randomseed(1)\n\
             end\n\
             function request() return requests[math.random({routes})] end\n\
             function done(summary, latency)\n  \
               io.write(string.format(\"{P95_LINE} %d\\n\", latency:percentile(95)))\n\
             end\n",
            keys.join(", ")
        )
    }
}

/// What a proxy answers that answers by itself.
pub(crate) fn own_answer() -> String {
    "x".repeat(BODY_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_has_the_plugins_and_every_consumer_a_key() {
        for plugins in Plugins::ALL {
            let text = plugins.resources(HUNDRED, 81);
            let value: Value = serde_json::from_str(&text).unwrap();
            let count = |name: &str| value[name].as_array().unwrap().len();
            assert_eq!((count("routes"), count("consumers")), (100, 100), "{plugins:?}");
            assert_eq!(value["routes"][99]["plugins"], plugins.confs());
        }
    }

    #[test]
    fn the_probe_carries_the_key_that_the_script_uses() {
        assert_eq!(MANY.last_key_line(), key_line(999));
        assert_eq!(ONE.last_key_line(), key_line(0));
        let script = HUNDRED.script();
        assert!(
            script.contains("\"/r/\" .. n") && script.contains("keys[n % 100 + 1]"),
            "{script}"
        );
        assert_eq!(script.matches("\"key-").count(), 100);
    }

    #[test]
    fn sizes_are_written_in_words() {
        assert_eq!(ONE.title(), "1 route, 1 consumer");
        assert_eq!(MANY.title(), "10000 routes, 1000 consumers");
    }
}
