//! Allows or refuses requests by the client's address.
//!
//! # Example
//! ```json
//! {"whitelist": ["10.0.0.0/8", "fd00::/8", "127.0.0.1"]}
//! ```
//!
//! # Answers
//! - `response_code` with `message` when the client's address is not allowed
//!
//! # Notes
//! The address is the client's after real-ip processing. A check costs one binary search, however
//! long the list is.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tollhouse_plugin::{
    Answer, Category, ConfError, Phases, Plugin, RefusalKind, RequestContext, Scope, Step,
};

use crate::shared::confs::addresses::{AddressText, Addresses};
use crate::shared::confs::defaults::defaults;

/// Configuration of `ip-restriction`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Message for refused clients.
    #[serde(default = "default_message")]
    #[schemars(length(min = 1, max = 1024))]
    pub message: String,
    /// Status for refused clients; 403 by default, 404 hides that the resource exists.
    #[serde(default = "default_response_code")]
    #[schemars(range(min = 403, max = 404))]
    pub response_code: u16,
    /// Addresses and networks that may pass; all others are refused. Excludes `blacklist`.
    #[schemars(length(min = 1))]
    pub whitelist: Option<Vec<AddressText>>,
    /// Addresses and networks that are refused; all others pass. Excludes `whitelist`.
    #[schemars(length(min = 1))]
    pub blacklist: Option<Vec<AddressText>>,
}

defaults! {
    default_message: String = "Your IP address is not allowed".into();
    default_response_code: u16 = 403;
}

#[derive(Debug)]
pub struct IpRestriction {
    list: List,
    message: String,
    response_code: u16,
}

#[derive(Debug)]
enum List {
    Allowed(Addresses),
    Denied(Addresses),
}

impl Plugin for IpRestriction {
    const NAME: &'static str = "ip-restriction";
    const PRIORITY: i32 = 3000;
    const CATEGORY: Category = Category::Security;
    const PHASES: Phases = Phases::ACCESS;
    const SERVES_CONNECTIONS: bool = true;
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        schema["oneOf"] = json!([{"required": ["whitelist"]}, {"required": ["blacklist"]}]);
    }

    fn compile(config: Config, _scope: &Scope<'_>) -> Result<Self, ConfError> {
        let list = match (&config.whitelist, &config.blacklist) {
            (Some(allowed), _) => List::Allowed(Addresses::parse(allowed)?),
            (None, denied) => List::Denied(Addresses::parse(denied.as_deref().unwrap_or(&[]))?),
        };
        Ok(Self { list, message: config.message, response_code: config.response_code })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        let address = cx.remote_address();
        let is_allowed = match &self.list {
            List::Allowed(addresses) => addresses.contains(address),
            List::Denied(addresses) => !addresses.contains(address),
        };
        if is_allowed {
            return Step::Continue;
        }
        Answer::message(self.response_code, &self.message).refused(RefusalKind::DeniedByRule).into()
    }
}

#[cfg(test)]
mod tests {
    use tollhouse_plugin::testing::{FakeExchange, Harness};

    use super::*;

    fn status(conf: &Value, address: &str) -> u16 {
        let mut exchange = FakeExchange::parse("GET / HTTP/1.1\n\n", 0).from(address);
        Harness::new::<IpRestriction>(conf).run(&mut exchange).status()
    }

    #[test]
    fn only_addresses_of_a_whitelist_pass() {
        let conf = json!({"whitelist": ["127.0.0.0/24", "113.74.26.106", "::1"]});
        for (address, expected) in [
            ("127.0.0.1", 0),
            ("113.74.26.106", 0),
            ("::1", 0),
            ("113.74.26.107", 403),
            ("fe80::32", 403),
        ] {
            assert_eq!(status(&conf, address), expected, "{address}");
        }
    }

    #[test]
    fn all_but_addresses_of_a_blacklist_pass() {
        let conf = json!({"blacklist": ["127.0.0.0/24", "fe80::/32"], "response_code": 404});
        for (address, expected) in
            [("127.0.0.1", 404), ("fe80::32", 404), ("127.0.1.1", 0), ("::1", 0)]
        {
            assert_eq!(status(&conf, address), expected, "{address}");
        }
    }

    #[test]
    fn a_refusal_says_so_in_the_words_of_the_conf() {
        let mut harness = Harness::new::<IpRestriction>(&json!({"blacklist": ["127.0.0.1"]}));
        let body = "{\"message\":\"Your IP address is not allowed\"}\n";
        assert_eq!(harness.request("GET / HTTP/1.1\n\n").body(), body);
        let conf = json!({"blacklist": ["127.0.0.1"], "message": "no"});
        let outcome = Harness::new::<IpRestriction>(&conf).request("GET / HTTP/1.1\n\n");
        assert_eq!(outcome.body(), "{\"message\":\"no\"}\n");
    }

    #[test]
    fn bad_confs_are_refused() {
        let cases = [
            (json!({}), "value should match only one schema, but matches none"),
            (
                json!({"whitelist": ["::1"], "blacklist": ["::2"]}),
                "value should match only one schema, but matches both schemas 1 and 2",
            ),
            (
                json!({"blacklist": ["10.255.256.0/24"]}),
                "property \"blacklist\" validation failed: failed to validate item 1: \
                 object matches none of the required",
            ),
            (json!({"whitelist": ["::1/129"]}), "invalid ip address: ::1/129"),
            (
                json!({"whitelist": []}),
                "property \"whitelist\" validation failed: expect array to have at least 1 items",
            ),
            (
                json!({"whitelist": ["::1"], "response_code": 405}),
                "property \"response_code\" validation failed: expected 405 to be at most 404",
            ),
            (
                json!({"whitelist": ["::1"], "message": ""}),
                "property \"message\" validation failed: \
                 string too short, expected at least 1, got 0",
            ),
        ];
        for (conf, expected) in cases {
            assert_eq!(Harness::refusal::<IpRestriction>(&conf), expected, "{conf}");
        }
    }
}
