//! Tells nodes labels of the authenticated consumer, in headers.
//!
//! # Example
//! ```json
//! {"headers": {"X-Consumer-Department": "$department", "X-Consumer-Company": "$company"}}
//! ```
//!
//! # Answers
//! - none of its own
//!
//! # Notes
//! Each value is `$` and the name of a label. A header whose label the consumer lacks is removed,
//! also when the client has sent it or no consumer is known, so that nodes can rely on these headers.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tollhouse_plugin::{Category, ConfError, Phases, Plugin, RequestContext, Scope, Step};

/// Configuration of `attach-consumer-label`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Names of headers, each with `$` and the name of a label.
    pub headers: Map<String, Value>,
}

#[derive(Debug)]
pub struct AttachConsumerLabel {
    /// Header names, each with the name of its label.
    headers: Box<[(String, String)]>,
}

impl Plugin for AttachConsumerLabel {
    const NAME: &'static str = "attach-consumer-label";
    const PRIORITY: i32 = 2399;
    const CATEGORY: Category = Category::Transformation;
    const PHASES: Phases = Phases::BEFORE_PROXY;
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        let headers = &mut schema["properties"]["headers"];
        headers["additionalProperties"] = json!({"type": "string", "pattern": r"^\$.*"});
        headers["minProperties"] = json!(1);
    }

    fn compile(config: Config, _scope: &Scope<'_>) -> Result<Self, ConfError> {
        let label = |value: Value| value.as_str()?.strip_prefix('$').map(str::to_owned);
        let headers = config.headers.into_iter();
        Ok(Self { headers: headers.filter_map(|(name, it)| Some((name, label(it)?))).collect() })
    }

    fn before_proxy<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        let consumer = cx.consumer();
        for (name, label) in &self.headers {
            match consumer.and_then(|consumer| consumer.labels.get(label)) {
                Some(value) => cx.set_header(name, value.as_bytes()),
                None => cx.remove_header(name),
            }
        }
        Step::Continue
    }
}

#[cfg(test)]
mod tests {
    use tollhouse_plugin::Consumer;
    use tollhouse_plugin::testing::{FakeExchange, Harness};

    use super::*;

    #[test]
    fn nodes_get_labels_and_no_copies_of_the_client() {
        let conf = json!({"headers": {"X-Department": "$department", "X-Role": "$role"}});
        let labels = [("department", "devops"), ("company", "api7")];
        let consumer = Consumer {
            username: "jack".into(),
            group_id: None,
            custom_id: None,
            labels: labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            has_plugins: false,
            number: 0,
        };
        let mut harness = Harness::new::<AttachConsumerLabel>(&conf).plain_consumer(consumer);
        let text = "GET / HTTP/1.1\nX-Department: forged\nX-Role: admin\n\n";
        let outcome = harness.run_as(&mut FakeExchange::parse(text, 0), Some("jack"));
        let expected = "+X-Consumer-Username: jack\n+X-Department: devops\n-X-Role\n";
        assert_eq!(outcome.edits, expected);
        assert_eq!(harness.request(text).edits, "-X-Department\n-X-Role\n");
    }

    #[test]
    fn bad_confs_are_refused() {
        for (conf, text) in [
            (json!({}), "property \"headers\" is required"),
            (json!({"headers": {}}), "expect object to have at least 1 properties"),
            (json!({"headers": {"X-A": "label"}}), "failed to match pattern"),
            (json!({"headers": {"X-A": 1}}), "wrong type: expected string, got number"),
        ] {
            let refusal = Harness::refusal::<AttachConsumerLabel>(&conf);
            assert!(refusal.contains(text), "{refusal}");
        }
    }
}
