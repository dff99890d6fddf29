//! Allows or refuses requests by the labels of the consumer that sends them.
//!
//! A label of the consumer holds one value, several values separated by commas, or a JSON array.
//! Each of these values is compared with the lists.
//!
//! # Example
//! ```json
//! {"allow_labels": {"team": ["billing", "support"]}, "deny_labels": {"state": ["blocked"]}}
//! ```
//!
//! # Answers
//! - 401 `Missing authentication.` when the request has no authenticated consumer
//! - `rejected_code`, 403 by default, with `rejected_msg` or `The consumer is forbidden.`
//!
//! # Notes
//! Denied labels are checked before allowed ones. The fields about external users describe the
//! labels of users whom a plugin such as `openid-connect` authenticates without a consumer. No
//! plugin of this version provides such labels.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tollhouse_model::json::Path;
use tollhouse_plugin::{
    Answer, Category, ConfError, Consumer, Phases, Plugin, RefusalKind, RequestContext, Scope, Step,
};

use crate::shared::confs::defaults::defaults;
use crate::shared::confs::status::status_of;

/// Label names, each with its list of values.
type Labels = BTreeMap<String, Vec<String>>;

/// Consumers that may pass, selected by label.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Labels that admit a consumer: one match is enough. Unset: every label is admitted.
    pub allow_labels: Option<Labels>,
    /// Labels that exclude a consumer: one match is enough, whatever `allow_labels` says.
    pub deny_labels: Option<Labels>,
    /// JSON path of the labels in the data of an external user; `groups` by default.
    #[serde(default = "default_field")]
    #[schemars(length(min = 1))]
    pub external_user_label_field: String,
    /// Name of the label in the rules above, for external users. Unset: the path itself.
    #[schemars(length(min = 1))]
    pub external_user_label_field_key: Option<String>,
    /// Format of several values in one label of an external user.
    pub external_user_label_field_parser: Option<Parser>,
    /// Separator of the values, a regular expression. Required if the parser is `segmented_text`.
    #[schemars(length(min = 1))]
    pub external_user_label_field_separator: Option<String>,
    /// Status of a refusal; 403 by default.
    #[serde(default = "default_status")]
    #[schemars(range(min = 200))]
    pub rejected_code: i64,
    /// Message of a refusal. Unset: `The consumer is forbidden.`
    pub rejected_msg: Option<String>,
}

/// Format of several values in one label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Parser {
    SegmentedText,
    Json,
    Table,
}

/// Refuses a text that is not a JSON path. A leading `$` is optional.
fn check_path(field: &str) -> Result<(), ConfError> {
    let path = field.strip_prefix('$').filter(|rest| rest.starts_with(['.', '['])).unwrap_or(field);
    match Path::parse(path) {
        Ok(_) => Ok(()),
        Err(error) => {
            let text = format!("invalid JSON path {field:?}: {error}");
            Err(ConfError::in_field("external_user_label_field", text))
        }
    }
}

defaults! {
    default_field: String = "groups".into();
    default_status: i64 = 403;
}

#[derive(Debug)]
pub struct Acl {
    allowed: Option<Labels>,
    denied: Option<Labels>,
    status: u16,
    refusal: String,
}

impl Plugin for Acl {
    const NAME: &'static str = "acl";
    const PRIORITY: i32 = 2410;
    const CATEGORY: Category = Category::Security;
    const PHASES: Phases = Phases::ACCESS;
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        for (field, description) in [
            ("allow_labels", "Labels that admit a consumer: one match is enough."),
            ("deny_labels", "Labels that exclude a consumer: one match is enough."),
        ] {
            schema["properties"][field] = json!({
                "description": description,
                "type": "object",
                "minProperties": 1,
                "patternProperties": {
                    ".*": {"type": "array", "minItems": 1, "items": {"type": "string"}},
                },
            });
        }
        schema["allOf"] = json!([{
            "if": {
                "required": ["external_user_label_field_parser"],
                "properties": {"external_user_label_field_parser": {"const": "segmented_text"}},
            },
            "then": {"required": ["external_user_label_field_separator"]},
        }]);
        schema["anyOf"] = json!([{"required": ["allow_labels"]}, {"required": ["deny_labels"]}]);
    }

    fn compile(config: Config, _scope: &Scope<'_>) -> Result<Self, ConfError> {
        check_path(&config.external_user_label_field)?;
        let refusal = config.rejected_msg.unwrap_or_else(|| "The consumer is forbidden.".into());
        Ok(Self {
            allowed: config.allow_labels,
            denied: config.deny_labels,
            status: status_of(config.rejected_code),
            refusal,
        })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        let Some(consumer) = cx.consumer() else {
            return Answer::message(401, "Missing authentication.")
                .refused(RefusalKind::AuthMissing)
                .into();
        };
        if self.permits(consumer) {
            return Step::Continue;
        }
        Answer::message(self.status, &self.refusal).refused(RefusalKind::DeniedByRule).into()
    }
}

impl Acl {
    fn permits(&self, consumer: &Consumer) -> bool {
        let has_one = |labels: &Labels| has_label(consumer, labels);
        !self.denied.as_ref().is_some_and(has_one) && self.allowed.as_ref().is_none_or(has_one)
    }
}

/// Whether the consumer has one of the listed values in one of the listed labels.
fn has_label(consumer: &Consumer, labels: &Labels) -> bool {
    labels.iter().any(|(name, wanted)| {
        let value = consumer.labels.get(name);
        value.is_some_and(|value| wanted.iter().any(|wanted| contains(value, wanted)))
    })
}

/// Whether a label's value equals `wanted` or is a list that contains it.
fn contains(value: &str, wanted: &str) -> bool {
    if value.starts_with('[') {
        let items: Vec<Value> = serde_json::from_str(value).unwrap_or_default();
        return items.iter().any(|item| item == wanted);
    }
    if !value.contains(',') {
        return value == wanted;
    }
    // Spaces around a comma belong to the separator; those at both ends of the text belong to the
    // values.
    let last = value.matches(',').count();
    value.split(',').enumerate().any(|(index, item)| {
        let item = if index > 0 { item.trim_ascii_start() } else { item };
        let item = if index < last { item.trim_ascii_end() } else { item };
        item == wanted
    })
}

#[cfg(test)]
mod tests {
    use tollhouse_plugin::testing::{FakeExchange, Harness, Outcome};

    use super::*;

    fn sent(conf: &Value, labels: &[(&str, &str)], who: Option<&str>) -> Outcome {
        let labels = labels.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        let mut harness = Harness::new::<Acl>(conf).plain_consumer(Consumer {
            username: "jack".into(),
            group_id: None,
            custom_id: None,
            labels: labels.collect(),
            has_plugins: false,
            number: 0,
        });
        harness.run_as(&mut FakeExchange::parse("GET / HTTP/1.1\n\n", 0), who)
    }

    #[test]
    fn labels_decide_and_denial_comes_first() {
        let team = json!({"team": ["a", "b"]});
        for (conf, labels, passes) in [
            (json!({"allow_labels": team}), &[("team", "b")][..], true),
            (json!({"allow_labels": team}), &[("team", "c")], false),
            (json!({"allow_labels": team}), &[("x", "a")], false),
            (json!({"allow_labels": team}), &[], false),
            (json!({"deny_labels": team}), &[("team", "b")], false),
            (json!({"deny_labels": team}), &[("team", "c")], true),
            (json!({"deny_labels": team}), &[], true),
            (json!({"allow_labels": team, "deny_labels": team}), &[("team", "a")], false),
            (
                json!({"allow_labels": team, "deny_labels": {"x": ["y"]}}),
                &[("team", "a"), ("x", "z")],
                true,
            ),
        ] {
            let outcome = sent(&conf, labels, Some("jack"));
            assert_eq!(outcome.passes(), passes, "{conf} {labels:?}");
            if !passes {
                assert_eq!(outcome.status(), 403);
                assert_eq!(outcome.body(), "{\"message\":\"The consumer is forbidden.\"}\n");
            }
        }
    }

    #[test]
    fn a_label_may_hold_several_values() {
        for (value, expected) in [
            ("a", true),
            ("x,a", true),
            ("x , a", true),
            ("a ,x", true),
            (" a,x", false),
            ("ab,x", false),
            ("[\"x\", \"a\"]", true),
            ("[\"x\"]", false),
            ("[1, null]", false),
            ("[a", false),
            ("", false),
        ] {
            assert_eq!(contains(value, "a"), expected, "{value}");
        }
    }

    #[test]
    fn nobody_known_must_authenticate() {
        let outcome = sent(&json!({"deny_labels": {"a": ["b"]}}), &[], None);
        assert_eq!(outcome.status(), 401);
        assert_eq!(outcome.body(), "{\"message\":\"Missing authentication.\"}\n");
    }

    #[test]
    fn a_refusal_says_what_it_is_told_to() {
        let conf =
            json!({"allow_labels": {"a": ["b"]}, "rejected_code": 401, "rejected_msg": "no"});
        let outcome = sent(&conf, &[], Some("jack"));
        assert_eq!((outcome.status(), outcome.body()), (401, "{\"message\":\"no\"}\n"));
    }

    #[test]
    fn bad_confs_are_refused() {
        for (conf, inner) in [
            (
                json!({}),
                "object matches none of the required: [\"allow_labels\"] or [\"deny_labels\"]",
            ),
            (json!({"allow_labels": {}}), "expect object to have at least 1 properties"),
            (json!({"allow_labels": {"a": []}}), "expect array to have at least 1 items"),
            (
                json!({"deny_labels": {"a": "b"}}),
                "failed to validate a (matching \".*\"): wrong type: expected array, got string",
            ),
            (
                json!({
                    "deny_labels": {"a": ["b"]},
                    "external_user_label_field_parser": "segmented_text",
                }),
                "allOf 1 failed: then clause did not match",
            ),
            (
                json!({
                    "deny_labels": {"a": ["b"]}, "external_user_label_field": "$..([invalid",
                }),
                "invalid JSON path \"$..([invalid\": unexpected 'i' at character 5",
            ),
        ] {
            let refusal = Harness::refusal::<Acl>(&conf);
            assert!(refusal.ends_with(inner), "{refusal}");
        }
    }
}
