//! Gives every request an id, by which it can be found in the logs of all programs that it passes.
//!
//! An id that the client sends is kept. The node gets it in a header, and so does the client unless
//! `include_in_response` is off.
//!
//! # Example
//! ```json
//! {"header_name": "X-Request-Id", "algorithm": "uuidv7"}
//! ```
//!
//! # Answers
//! None.
//!
//! # Notes
//! Ids are unique, but not secret: enough of them allow others to be predicted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tollhouse_plugin::{
    Category, ConfError, Phases, Plugin, RequestContext, ResponseContext, Scope, Step,
};

use crate::shared::confs::defaults::defaults;

mod ids;

/// Maximum length of a random id in characters, bounded because it is part of every request's head.
const RANGE_ID_CHARS_MAX: usize = 1024;

/// Configuration of `request-id`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Header that carries the id; `X-Request-Id` by default.
    #[serde(default = "default_header_name")]
    pub header_name: String,
    /// Whether the client gets the id in the answer; on by default.
    #[serde(default = "default_include_in_response")]
    pub include_in_response: bool,
    /// Format of ids; `uuid` by default.
    #[serde(default)]
    pub algorithm: Algorithm,
    /// Length and characters of `range_id` ids.
    #[serde(default)]
    pub range_id: RangeId,
}

/// Format of ids.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Algorithm {
    #[default]
    Uuid,
    Nanoid,
    RangeId,
    Ksuid,
    Uuidv7,
}

/// Length and characters of random ids.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RangeId {
    /// Number of characters; 16 by default.
    #[serde(default = "default_length")]
    #[schemars(range(min = 6, max = RANGE_ID_CHARS_MAX))]
    pub length: usize,
    /// Characters to choose from; letters and digits by default.
    #[serde(default = "default_char_set")]
    #[schemars(length(min = 6))]
    pub char_set: String,
}

impl Default for RangeId {
    fn default() -> Self {
        Self { length: default_length(), char_set: default_char_set() }
    }
}

defaults! {
    default_header_name: String = "X-Request-Id".into();
    default_include_in_response: bool = true;
    default_length: usize = 16;
    default_char_set: String = "abcdefghijklmnopqrstuvwxyzABCDEFGHIGKLMNOPQRSTUVWXYZ0123456789".into();
}

#[derive(Debug)]
pub struct RequestId {
    header_name: String,
    include_in_response: bool,
    algorithm: Algorithm,
    length: usize,
    characters: Box<[char]>,
}

/// Id of a request, stored for its answer.
#[derive(Default)]
struct RequestIdValue(Box<[u8]>);

impl Plugin for RequestId {
    const NAME: &'static str = "request-id";
    const PRIORITY: i32 = 12015;
    const CATEGORY: Category = Category::Traffic;
    const PHASES: Phases = Phases::REWRITE.union(Phases::RESPONSE);
    type Config = Config;

    fn compile(config: Config, _scope: &Scope<'_>) -> Result<Self, ConfError> {
        Ok(Self {
            header_name: config.header_name,
            include_in_response: config.include_in_response,
            algorithm: config.algorithm,
            length: config.range_id.length,
            characters: config.range_id.char_set.chars().collect(),
        })
    }

    fn rewrite<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        let sent = cx.header(&self.header_name).filter(|id| !id.is_empty());
        let sent: Option<Box<[u8]>> = sent.map(|id| (*id).into());
        let id = sent.unwrap_or_else(|| {
            let id = self.make(cx);
            cx.set_header(&self.header_name, id.as_bytes());
            id.into_bytes().into()
        });
        if self.include_in_response {
            cx.remember(RequestIdValue(id));
        }
        Step::Continue
    }

    fn response(&self, cx: &mut ResponseContext<'_>) {
        if cx.header(&self.header_name).is_some_and(|id| !id.is_empty()) {
            return;
        }
        if let Some(RequestIdValue(id)) = cx.recall::<RequestIdValue>().map(std::mem::take) {
            cx.set_header(&self.header_name, &id);
        }
    }
}

impl RequestId {
    fn make(&self, cx: &RequestContext<'_>) -> String {
        let random = || cx.random();
        match self.algorithm {
            Algorithm::Uuid => ids::uuid_v4(&random),
            Algorithm::Nanoid => ids::nanoid(&random),
            Algorithm::RangeId => ids::random_text(&random, &self.characters, self.length),
            Algorithm::Ksuid => ids::ksuid(&random, cx.now().unix_ms),
            Algorithm::Uuidv7 => ids::uuid_v7(&random, cx.now().unix_ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tollhouse_plugin::testing::{FakeExchange, Harness};

    use super::*;

    /// Returns the node's id and the client's.
    fn ids(conf: &Value, lines: &str, node: &str) -> (String, Option<String>) {
        let mut harness = Harness::new::<RequestId>(conf);
        let mut exchange = FakeExchange::parse(&format!("GET / HTTP/1.1\n{lines}\n"), 0);
        let edits = harness.run(&mut exchange).edits;
        let reply = harness.respond(&mut exchange, node, &[]);
        let name = conf["header_name"].as_str().unwrap_or("X-Request-Id");
        let sent = edits.trim_end().strip_prefix(&format!("+{name}: ")).map(str::to_owned);
        (sent.unwrap_or(edits), reply.header(name).map(str::to_owned))
    }

    #[test]
    fn a_new_id_reaches_node_and_client() {
        let (sent, told) = ids(&json!({}), "", "200");
        assert_eq!((sent.len(), told), (36, Some(sent)));
        let (sent, told) = ids(&json!({"header_name": "X-My-Id"}), "X-My-Id:\n", "200");
        assert_eq!((sent.len(), told), (36, Some(sent)));
        let (sent, told) = ids(&json!({"include_in_response": false}), "", "200");
        assert_eq!((sent.len(), told), (36, None));
    }

    #[test]
    fn the_id_of_the_client_is_kept_and_so_is_that_of_the_node() {
        let (sent, told) = ids(&json!({}), "x-request-id: 123\n", "200");
        assert_eq!((&*sent, told.as_deref()), ("", Some("123")));
        let (_, told) = ids(&json!({}), "x-request-id: 123\n", "200\nX-Request-Id: 456");
        assert_eq!(told.as_deref(), Some("456"));
    }

    #[test]
    fn the_conf_says_how_ids_look() {
        for (algorithm, length) in
            [("uuid", 36), ("uuidv7", 36), ("nanoid", 21), ("ksuid", 27), ("range_id", 16)]
        {
            let (sent, _) = ids(&json!({"algorithm": algorithm}), "", "200");
            assert_eq!(sent.len(), length, "{algorithm}: {sent}");
        }
        let conf = json!({
            "algorithm": "range_id", "range_id": {"length": 20, "char_set": "abcdef"}
        });
        let (sent, _) = ids(&conf, "", "200");
        assert!(sent.len() == 20 && sent.chars().all(|letter| "abcdef".contains(letter)));
    }

    #[test]
    fn the_schema_shows_all_defaults() {
        let fields =
            tollhouse_plugin::PluginType::new::<RequestId>().schema()["properties"].clone();
        assert_eq!(fields["algorithm"]["default"], "uuid");
        let range_id = json!({"length": default_length(), "char_set": default_char_set()});
        assert_eq!(fields["range_id"]["default"], range_id);
    }

    #[test]
    fn bad_confs_are_refused() {
        let cases = [
            (
                json!({"algorithm": "bad"}),
                "property \"algorithm\" validation failed: matches none of the enum values",
            ),
            (
                json!({"include_in_response": "yes"}),
                "property \"include_in_response\" validation failed: \
                 wrong type: expected boolean, got string",
            ),
            (
                json!({"range_id": {"length": 5}}),
                "property \"range_id\" validation failed: property \"length\" validation failed: \
                 expected 5 to be at least 6",
            ),
            (
                json!({"range_id": {"char_set": "abcde"}}),
                "property \"range_id\" validation failed: property \"char_set\" validation \
                 failed: string too short, expected at least 6, got 5",
            ),
        ];
        for (conf, expected) in cases {
            assert_eq!(Harness::refusal::<RequestId>(&conf), expected, "{conf}");
        }
    }
}
