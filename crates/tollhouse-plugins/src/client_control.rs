//! Limits the length of request bodies.
//!
//! # Example
//! ```json
//! {"max_body_size": 1048576}
//! ```
//!
//! # Answers
//! - 413 to a request whose body exceeds the limit
//!
//! # Notes
//! A request whose `Content-Length` exceeds the limit is refused at once. A body without a declared
//! length is refused as soon as it exceeds the limit.

use schemars::JsonSchema;
use serde::Deserialize;
use tollhouse_plugin::{
    Answer, Category, ConfError, Phases, Plugin, RefusalKind, RequestContext, Scope, Step,
};

/// Configuration of `client-control`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Largest request body, in bytes. 0 removes every limit, including the gateway's own. Unset:
    /// the gateway's limit applies.
    #[schemars(range(min = 0))]
    pub max_body_size: Option<u64>,
}

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
            return Answer::status(413).refused(RefusalKind::RequestInvalid).into();
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
