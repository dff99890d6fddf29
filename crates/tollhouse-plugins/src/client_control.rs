//! Limits the length of request bodies.
//!
//! # Example
//! ```json
//! {"max_body_size": 1048576}
//! ```
//!
//! # Answers
//! - 413 to a request whose body is longer
//!
//! # Notes
//! A length that the head tells is refused at once; a body that tells none is refused as soon as
//! it turns out to be longer.

use schemars::JsonSchema;
use serde::Deserialize;
use tollhouse_plugin::{Answer, Category, ConfError, Phases, Plugin, RequestContext, Scope, Step};

/// What a route says.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Most bytes that a body may have; 0 for no limit, not even the gateway's own.
    #[schemars(range(min = 0))]
    pub max_body_size: Option<u64>,
}

/// The plugin.
#[derive(Debug)]
pub struct ClientControl {
    body_bytes_max: Option<u64>,
}

impl Plugin for ClientControl {
    const NAME: &'static str = "client-control";
    const PRIORITY: i32 = 22000;
    const CATEGORY: Category = Category::Traffic;
    const JUDGES_PATH: bool = true;
    const PHASES: Phases = Phases::REWRITE;
    type Config = Config;

    fn compile(config: Config, _scope: &Scope<'_>) -> Result<Self, ConfError> {
        let unlimited = |bytes| if bytes == 0 { u64::MAX } else { bytes };
        Ok(Self { body_bytes_max: config.max_body_size.map(unlimited) })
    }

    fn rewrite<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        let Some(bytes_max) = self.body_bytes_max else { return Step::Continue };
        if content_length(cx).is_some_and(|bytes| bytes > bytes_max) {
            return Answer::status(413).into();
        }
        cx.edits().body_bytes_max = Some(bytes_max);
        Step::Continue
    }
}

fn content_length(cx: &RequestContext<'_>) -> Option<u64> {
    let value = cx.header("content-length")?;
    std::str::from_utf8(&value).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tollhouse_plugin::testing::Harness;

    use super::*;

    #[test]
    fn lengths_are_refused_at_once_or_left_to_be_counted() {
        let sent = |bytes: u32| format!("POST / HTTP/1.1\nContent-Length: {bytes}\n\n");
        let chunked = "POST / HTTP/1.1\nTransfer-Encoding: chunked\n\n".to_owned();
        let unlimited = format!("body_bytes_max {}\n", u64::MAX);
        for (conf, request, status, edits) in [
            (json!({"max_body_size": 5}), sent(5), 0, "body_bytes_max 5\n"),
            (json!({"max_body_size": 5}), sent(6), 413, ""),
            (json!({"max_body_size": 5}), chunked, 0, "body_bytes_max 5\n"),
            (json!({"max_body_size": 0}), sent(6), 0, &unlimited),
            (json!({}), sent(6), 0, ""),
        ] {
            let outcome = Harness::new::<ClientControl>(&conf).request(&request);
            assert_eq!((outcome.status(), &*outcome.edits), (status, edits), "{conf} {request}");
        }
    }

    #[test]
    fn bad_confs_are_refused() {
        let cases = [
            (json!({"max_body_size": -1}), "expected -1 to be at least 0"),
            (json!({"max_body_size": "1"}), "wrong type: expected integer, got string"),
        ];
        for (conf, inner) in cases {
            let expected = format!("property \"max_body_size\" validation failed: {inner}");
            assert_eq!(Harness::refusal::<ClientControl>(&conf), expected);
        }
    }
}
