//! Allows or refuses requests by the labels of the consumer, or of the external user, that sends them.
//!
//! A label of the consumer holds one value, several values separated by commas, or a JSON array.
//! Each of these values is compared with the lists. A request without a consumer is judged by its
//! external user, whose claims a function in Lua sets as `ctx.external_user`: by the values at
//! `external_user_label_field`.
//!
//! # Example
//! ```json
//! {"allow_labels": {"team": ["billing", "support"]}, "deny_labels": {"state": ["blocked"]}}
//! ```
//!
//! # Answers
//! - 401 `Missing authentication.` when the request has neither consumer nor external user
//! - `rejected_code`, 403 by default, with `rejected_msg` or `The consumer is forbidden.`
//!
//! # Notes
//! Denied labels are checked before allowed ones. A label of an external user without a parser is
//! read as that of a consumer, or is a list of values. With a parser, a value that it cannot read
//! has no labels; a separator that is not a valid pattern reads none. If the path finds several
//! values, each is parsed, and all of them count.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tollhouse_model::expr::pattern::{Case, Pattern};
use tollhouse_model::json::{Document, Path};
use tollhouse_plugin::user::ExternalUser;
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

/// Parses a JSON path. A leading `$` is optional.
fn parse_path(field: &str) -> Result<Path, ConfError> {
    let path = field.strip_prefix('$').filter(|rest| rest.starts_with(['.', '['])).unwrap_or(field);
    Path::parse(path).map_err(|error| {
        let text = format!("invalid JSON path {field:?}: {error}");
        ConfError::in_field("external_user_label_field", text)
    })
}

/// Labels of external users: where they are, and how they are read.
#[derive(Debug)]
struct UserLabels {
    path: Path,
    /// Name of the label in the rules.
    name: String,
    parser: Option<Parser>,
    /// Separator with the white space around it; `None` if it is invalid.
    separator: Option<Pattern>,
}

/// A value that its parser does not take, such as a list for `segmented_text`.
struct Unreadable;

impl UserLabels {
    fn compile(config: &Config) -> Result<Self, ConfError> {
        let field = &config.external_user_label_field;
        let separator = config.external_user_label_field_separator.as_deref().unwrap_or(",");
        let separator = Pattern::compile(&format!(r"\s*{separator}\s*"), Case::Sensitive);
        if let Err(error) = &separator {
            tracing::warn!(%error, "acl: the separator is not a valid pattern; no label is read");
        }
        Ok(Self {
            path: parse_path(field)?,
            name: config.external_user_label_field_key.clone().unwrap_or_else(|| field.clone()),
            parser: config.external_user_label_field_parser,
            separator: separator.ok(),
        })
    }

    /// Returns the values of the label; `None` if the user does not have it.
    fn values(&self, user: &Value) -> Result<Option<Vec<Value>>, Unreadable> {
        let text = user.to_string();
        let found = Document::parse(text.as_bytes()).map(|document| self.path.find_each(&document));
        let found = found.unwrap_or_default().into_iter();
        let found = found.filter_map(|text| serde_json::from_str(&text).ok());
        let found: Vec<Value> = found.filter(|value| *value != Value::Null).collect();
        let values = match &found[..] {
            [] => return Ok(None),
            [value] => match self.parser {
                Some(parser) => self.parsed(parser, value)?,
                None => by_kind(value),
            },
            several => {
                let mut all = Vec::new();
                for value in several {
                    all.extend(match self.parser.filter(|_| value.is_string()) {
                        Some(parser) => self.parsed(parser, value)?,
                        None => by_kind(value),
                    });
                }
                all
            }
        };
        Ok(Some(values))
    }

    fn parsed(&self, parser: Parser, value: &Value) -> Result<Vec<Value>, Unreadable> {
        Ok(match (parser, value) {
            (Parser::SegmentedText, Value::String(text)) => {
                self.separator.as_ref().map_or_else(Vec::new, |it| segments(text, it))
            }
            // APISIX fails on them, so that rules that only deny let nothing pass.
            (Parser::SegmentedText, _) => return Err(Unreadable),
            (Parser::Json, Value::String(text)) => list_of(text),
            (Parser::Table, Value::Array(values)) => values.clone(),
            (Parser::Table, Value::Object(_)) | (Parser::Json | Parser::Table, _) => Vec::new(),
        })
    }
}

/// Returns the values of a label without a parser.
fn by_kind(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(values) => values.clone(),
        Value::String(text) => values_of(text),
        _ => Vec::new(),
    }
}

fn list_of(text: &str) -> Vec<Value> {
    let is_list = text.starts_with('[');
    if is_list { serde_json::from_str(text).unwrap_or_default() } else { Vec::new() }
}

/// Splits a text at a separator. One that matches the empty text splits into single characters.
fn segments(text: &str, separator: &Pattern) -> Vec<Value> {
    let mut values = Vec::new();
    let (mut start, mut at) = (0, 0);
    while at < text.len() {
        let found = separator.groups_at(text.as_bytes(), at).ok().flatten();
        let Some(range) = found.and_then(|groups| groups.into_iter().next().flatten()) else {
            break;
        };
        let is_empty = range.is_empty();
        let (end, next) = if is_empty && range.start == start {
            let step = text[start..].chars().next().map_or(1, char::len_utf8);
            (start + step, start + step)
        } else {
            (range.start, range.end)
        };
        values.push(text[start..end].into());
        (start, at) = (next, next);
    }
    if start < text.len() {
        values.push(text[start..].into());
    }
    values
}

defaults! {
    default_field: String = "groups".into();
    default_status: i64 = 403;
}

#[derive(Debug)]
pub struct Acl {
    allowed: Option<Labels>,
    denied: Option<Labels>,
    of_users: UserLabels,
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
        let of_users = UserLabels::compile(&config)?;
        let refusal = config.rejected_msg.unwrap_or_else(|| "The consumer is forbidden.".into());
        Ok(Self {
            allowed: config.allow_labels,
            denied: config.deny_labels,
            of_users,
            status: status_of(config.rejected_code),
            refusal,
        })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        let passes = match (cx.consumer(), cx.shared::<ExternalUser>()) {
            (Some(consumer), _) => self.permits(|labels| has_label(consumer, labels)),
            (None, Some(user)) => self.permits_user(user),
            (None, None) => {
                return Answer::message(401, "Missing authentication.")
                    .refused(RefusalKind::AuthMissing)
                    .into();
            }
        };
        if passes {
            return Step::Continue;
        }
        Answer::message(self.status, &self.refusal).refused(RefusalKind::DeniedByRule).into()
    }
}

impl Acl {
    fn permits(&self, has_one: impl Fn(&Labels) -> bool) -> bool {
        !self.denied.as_ref().is_some_and(&has_one) && self.allowed.as_ref().is_none_or(&has_one)
    }

    fn permits_user(&self, ExternalUser(user): &ExternalUser) -> bool {
        let Ok(values) = self.of_users.values(user) else { return false };
        self.permits(|labels| match (labels.get(&self.of_users.name), &values) {
            (Some(wanted), Some(values)) => {
                values.iter().any(|value| wanted.iter().any(|wanted| value == wanted))
            }
            _ => false,
        })
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
    values_of(value).iter().any(|item| item == wanted)
}

/// Returns the values of a label that is a text: a JSON array, values with commas between, or one
/// value.
fn values_of(value: &str) -> Vec<Value> {
    if value.starts_with('[') {
        return list_of(value);
    }
    // Spaces around a comma belong to the separator; those at both ends of the text belong to the
    // values.
    let last = value.matches(',').count();
    let items = value.split(',').enumerate().map(|(index, item)| {
        let item = if index > 0 { item.trim_ascii_start() } else { item };
        if index < last { item.trim_ascii_end() } else { item }
    });
    items.map(Value::from).collect()
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
    fn an_external_user_is_judged_by_the_labels_at_the_path() {
        let conf = |more: Value| {
            let mut conf = json!({"allow_labels": {"team": ["cloud", "infra"], "org": ["api7"]}});
            conf.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            conf
        };
        let at = |path: &str, parser: &str| {
            conf(json!({
                "external_user_label_field": path, "external_user_label_field_key": "team",
                "external_user_label_field_parser": parser,
                "external_user_label_field_separator": "\\|",
            }))
        };
        let team = |team: Value| json!({"orgs": {"api7": {"team": team}}});
        let plain = conf(json!({"external_user_label_field": "team"}));
        let text = "segmented_text";
        let mut packed = team(json!("cloud|infra"));
        packed["orgs"]["apache"] = json!({"team": ["devops", "qa"]});
        let mut bad_separator = at("$..team", text);
        bad_separator["external_user_label_field_separator"] = json!("(bad");
        let mut bare_bar = at("$..team", text);
        bare_bar["external_user_label_field_separator"] = json!("|");
        for (conf, user, passes) in [
            (&plain, json!({"team": ["infra"]}), true),
            (&plain, json!({"team": ["fake"]}), false),
            (&plain, json!({"team": "x, cloud"}), true),
            (&plain, json!({"team": 1}), false),
            (&plain, json!({}), false),
            (&plain, json!("cloud"), false),
            (&at("$.orgs..team", "table"), team(json!(["cloud", "infra"])), true),
            (&at("$.orgs..team", "table"), team(json!("cloud")), false),
            (&at("$.orgs..team", text), team(json!("a | infra")), true),
            (&at("$.orgs..team", text), team(json!(["cloud"])), false),
            (&at("$..team", "json"), team(json!("[\"cloud\", \"infra\"]")), true),
            (&at("$..team", "json"), team(json!("cloud")), false),
            (&at("$.orgs..team", text), packed, true),
            (&bad_separator, team(json!("cloud")), false),
            (&bare_bar, team(json!("cloud|infra")), false),
            // Without a key, the path is the name of the label.
            (&conf(json!({"external_user_label_field": "$..team"})), team(json!("cloud")), false),
        ] {
            let mut harness = Harness::new::<Acl>(conf);
            let mut exchange = FakeExchange::parse("GET / HTTP/1.1\n\n", 0);
            exchange.memory.put(0, ExternalUser(user.clone()));
            assert_eq!(harness.run(&mut exchange).passes(), passes, "{conf} {user}");
        }
    }

    #[test]
    fn labels_that_cannot_be_read_do_not_pass_rules_that_only_deny() {
        let conf = json!({
            "deny_labels": {"groups": ["x"]}, "external_user_label_field_parser": "segmented_text",
            "external_user_label_field_separator": ",",
        });
        for (user, passes) in [(json!({"groups": "a,b"}), true), (json!({"groups": ["x"]}), false)]
        {
            let mut exchange = FakeExchange::parse("GET / HTTP/1.1\n\n", 0);
            exchange.memory.put(0, ExternalUser(user));
            assert_eq!(Harness::new::<Acl>(&conf).run(&mut exchange).passes(), passes);
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
