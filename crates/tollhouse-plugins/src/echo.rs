//! Replaces or surrounds the body of answers with fixed text, and sets headers. Meant for
//! experiments.
//!
//! # Example
//! ```json
//! {"before_body": "before ", "body": "hello\n", "headers": {"X-Echo": "1"}}
//! ```
//!
//! # Answers
//! 502 `answer_unreadable` instead of an encoded answer if `before_body` or `after_body` would
//! surround it.
//!
//! # Notes
//! If text surrounds the body, nodes are asked for unencoded answers. `Content-Length`,
//! `Content-Encoding`, `ETag` and `Last-Modified` of the answer are removed.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tollhouse_plugin::{
    BodyFilter, Category, Codings, ConfError, Effect, Phases, Piece, Plugin, ResponseContext, Scope,
};

use crate::shared::confs::headers;
use crate::shared::messages::answer_body;

/// Configuration of `echo`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Text before the body.
    pub before_body: Option<String>,
    /// Text that replaces the body.
    pub body: Option<String>,
    /// Text after the body.
    pub after_body: Option<String>,
    /// Headers to set on the answer.
    pub headers: Option<Map<String, Value>>,
}

#[derive(Debug)]
pub struct Echo {
    texts: Arc<Texts>,
    headers: Vec<(String, String)>,
}

#[derive(Debug)]
struct Texts {
    before: String,
    body: Option<String>,
    after: String,
}

impl Plugin for Echo {
    const NAME: &'static str = "echo";
    const PRIORITY: i32 = 412;
    const CATEGORY: Category = Category::Transformation;
    const PHASES: Phases = Phases::RESPONSE;
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        schema["minProperties"] = json!(1);
        schema["properties"]["headers"] = json!({
            "description": schema["properties"]["headers"]["description"].take(),
            "type": "object",
            "minProperties": 1,
        });
        schema["anyOf"] = json!([
            { "required": ["before_body"] },
            { "required": ["body"] },
            { "required": ["after_body"] },
        ]);
    }

    fn compile(config: Config, _scope: &Scope<'_>) -> Result<Self, ConfError> {
        let texts = Texts {
            before: config.before_body.unwrap_or_default(),
            body: config.body,
            after: config.after_body.unwrap_or_default(),
        };
        let headers = config.headers.map(Value::Object);
        Ok(Self { texts: Arc::new(texts), headers: headers::pairs(headers.as_ref()) })
    }

    fn answer_codings(&self) -> Option<Codings> {
        // Text around an encoded body would make it unreadable.
        self.texts.body.is_none().then_some(Codings::IDENTITY)
    }

    fn response(&self, cx: &mut ResponseContext<'_>) {
        let codings = self.answer_codings();
        if codings.is_some_and(|codings| !cx.require_readable(codings, u64::MAX)) {
            return;
        }
        answer_body::forget_old_body(cx);
        for (name, value) in &self.headers {
            cx.set_header(name, value.as_bytes());
        }
        let filter = Frame { texts: Arc::clone(&self.texts), has_begun: false };
        cx.filter_body(Effect::Rewrites, Box::new(filter));
    }
}

struct Frame {
    texts: Arc<Texts>,
    has_begun: bool,
}

impl BodyFilter for Frame {
    fn filter(&mut self, input: &[u8], piece: Piece, out: &mut Vec<u8>) {
        if !self.has_begun {
            self.has_begun = true;
            out.extend_from_slice(self.texts.before.as_bytes());
            out.extend_from_slice(self.texts.body.as_deref().unwrap_or_default().as_bytes());
        }
        if self.texts.body.is_none() {
            out.extend_from_slice(input);
        }
        if piece.is_last() {
            out.extend_from_slice(self.texts.after.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use tollhouse_plugin::testing::{FakeExchange, Harness};

    use super::*;

    #[test]
    fn texts_go_around_the_body_or_in_its_place() {
        for (conf, expected) in [
            (json!({"before_body": "<", "after_body": ">"}), "<hello world>"),
            (json!({"before_body": "<", "body": "x", "after_body": ">"}), "<x>"),
            (json!({"body": ""}), ""),
            (json!({"after_body": "!"}), "hello world!"),
        ] {
            let mut exchange = FakeExchange::parse("GET / HTTP/1.1\n\n", 0);
            let head = "200\nContent-Length: 11\nETag: \"a\"";
            let pieces = ["hello ", "world"];
            let reply = Harness::new::<Echo>(&conf).respond(&mut exchange, head, &pieces);
            assert_eq!(reply.body, expected, "{conf}");
            assert_eq!((reply.header("content-length"), reply.header("etag")), (None, None));
        }
    }

    #[test]
    fn headers_are_set() {
        let conf = json!({"body": "x", "headers": {"X-A": "2", "X-N": 3, "X-O": {}}});
        let mut exchange = FakeExchange::parse("GET / HTTP/1.1\n\n", 0);
        let reply = Harness::new::<Echo>(&conf).respond(&mut exchange, "200\nX-A: 1", &[]);
        let expected = [("X-A", "2"), ("X-N", "3")].map(|(n, v)| (n.into(), v.into()));
        assert_eq!(reply.headers, expected);
    }

    #[test]
    fn bad_confs_are_refused() {
        for (conf, expected) in [
            (json!({"headers": {"X": "1"}}), "object matches none of the required"),
            (
                json!({"body": 1}),
                "property \"body\" validation failed: wrong type: expected string",
            ),
            (
                json!({"body": "a", "headers": {}}),
                "property \"headers\" validation failed: expect object to have at least 1 prop",
            ),
        ] {
            let refusal = Harness::refusal::<Echo>(&conf);
            assert!(refusal.starts_with(expected), "{conf}: {refusal}");
        }
        assert_ne!(Harness::refusal::<Echo>(&json!({})), "");
    }
}
