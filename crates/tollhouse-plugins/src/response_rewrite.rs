//! Changes the status, headers and body of answers before clients get them.
//!
//! # Example
//! ```json
//! {
//!   "status_code": 200,
//!   "headers": {"set": {"X-Node": "$balancer_ip"}, "remove": ["X-Debug"]},
//!   "filters": [{"regex": "internal", "replace": "public", "scope": "global"}],
//!   "vars": [["status", "==", 404]]
//! }
//! ```
//!
//! # Answers
//! 502 `answer_unreadable` instead of an answer that `filters` cannot read.
//!
//! # Notes
//! Applies to answers of nodes and of the gateway alike. `vars` is evaluated when the head of the
//! answer is known. Headers are added first, then set, then removed. With `body` or `filters`,
//! `Content-Length`, `Content-Encoding`, `ETag` and `Last-Modified` are removed. `filters` need the
//! whole body, in gzip, in brotli or unencoded, so nodes are asked for no other encoding, whatever
//! the client accepts. A body in another encoding, one of more than `max_resp_body_size` bytes, and
//! one in which a search takes too long are refused, because the client would otherwise see what
//! the filters hide. In a line of `add`, the first colon ends the name.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tollhouse_model::Problems;
use tollhouse_model::expr::Expr;
use tollhouse_model::expr::pattern::{Case, Pattern};
use tollhouse_model::template::Template;
use tollhouse_plugin::{
    BodyFilter, Category, Codings, ConfError, Effect, Phases, Plugin, ResponseContext, Scope,
};

use self::filter::{Filters, FixedBody};
use crate::shared::auth::base64::decode_base64;
use crate::shared::confs::defaults::defaults;
use crate::shared::confs::headers;
use crate::shared::confs::patterns;
use crate::shared::confs::substitute::Replacement;
use crate::shared::messages::answer_body;
use crate::shared::messages::compression::Encoding;

mod filter;

/// Configuration of `response-rewrite`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Headers for the client: an object with `add` (lines such as `Name: value`), `set` and
    /// `remove`, or a map of headers to set. Values may contain variables.
    pub headers: Option<Map<String, Value>>,
    /// New body of the answer. Excludes `filters`.
    pub body: Option<String>,
    /// Whether `body` is base64; off by default.
    #[serde(default)]
    pub body_base64: bool,
    /// New status of the answer. Unset: unchanged.
    #[schemars(range(min = 200, max = 598))]
    pub status_code: Option<u16>,
    /// Condition on request and answer. Unset: every answer is changed.
    pub vars: Option<Vec<Value>>,
    /// Replacements in the body, applied in order. Excludes `body`.
    #[schemars(length(min = 1))]
    pub filters: Option<Vec<FilterConfig>>,
    /// Longest body that filters accept, in bytes; 64 MiB by default. Longer ones are refused.
    #[serde(default = "default_body_bytes_max")]
    #[schemars(range(min = 1))]
    pub max_resp_body_size: u64,
}

/// Replacement in the body.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct FilterConfig {
    /// Regular expression to search for.
    #[schemars(length(min = 1))]
    pub regex: String,
    /// Number of replacements: the first match (`once`, the default) or all (`global`).
    #[serde(default)]
    pub scope: Reach,
    /// Replacement text; may contain groups (`$1`).
    pub replace: String,
    /// Flags of the pattern, such as `i` to ignore case.
    #[serde(default = "default_options")]
    pub options: String,
}

/// Number of matches that are replaced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, serde::Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Reach {
    /// First match.
    #[default]
    Once,
    /// All matches.
    Global,
}

defaults! {
    default_options: String = "jo".into();
    /// Maximum body length in bytes: 64 MiB, the default of comparable gateways.
    default_body_bytes_max: u64 = 67_108_864;
}

#[derive(Debug)]
pub struct ResponseRewrite {
    vars: Option<Expr>,
    status: Option<u16>,
    headers: HeaderRules,
    body: Option<std::sync::Arc<[u8]>>,
    filters: std::sync::Arc<[Filter]>,
    body_bytes_max: u64,
}

#[derive(Debug, Default)]
struct HeaderRules {
    add: Vec<(String, Template)>,
    set: Vec<(String, Template)>,
    remove: Vec<String>,
}

/// Search and replacement, with the compiled pattern.
#[derive(Debug)]
struct Filter {
    pattern: Pattern,
    replacement: Replacement,
    reach: Reach,
}

impl Plugin for ResponseRewrite {
    const NAME: &'static str = "response-rewrite";
    const PRIORITY: i32 = 899;
    const CATEGORY: Category = Category::Transformation;
    const PHASES: Phases = Phases::RESPONSE;
    const EXPRESSIONS: &'static [&'static str] = &["vars"];
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        let description = schema["properties"]["headers"]["description"].take();
        let line = json!({ "type": "string", "pattern": "^[^:]+:.+$" });
        let structured = json!({
            "properties": {
                "add": { "type": "array", "minItems": 1, "items": line },
                "set": headers::map_schema(),
                "remove": headers::names_schema(),
            },
        });
        schema["properties"]["headers"] =
            json!({ "description": description, "anyOf": [headers::map_schema(), structured] });
        schema["dependencies"] = json!({
            "body": { "not": { "required": ["filters"] } },
            "filters": { "not": { "required": ["body"] } },
        });
    }

    fn compile(config: Config, _scope: &Scope<'_>) -> Result<Self, ConfError> {
        let headers = HeaderRules::parse(&config.headers.unwrap_or_default())?;
        let body = match config.body_base64 {
            true => Some(decoded_body(config.body)?),
            false => config.body.map(|text| text.into_bytes().into()),
        };
        let vars = config.vars.map(|vars| expression(Value::Array(vars))).transpose()?;
        let filters = config.filters.unwrap_or_default();
        let filters: Result<Vec<Filter>, ConfError> = filters.iter().map(Filter::compile).collect();
        Ok(Self {
            vars,
            status: config.status_code,
            headers,
            body,
            filters: filters?.into(),
            body_bytes_max: config.max_resp_body_size,
        })
    }

    fn answer_codings(&self) -> Option<Codings> {
        (!self.filters.is_empty()).then_some(Encoding::READABLE)
    }

    fn response(&self, cx: &mut ResponseContext<'_>) {
        if self.vars.as_ref().is_some_and(|vars| !vars.matches(&cx.variables())) {
            return;
        }
        if let Some(status) = self.status {
            cx.set_status(status);
        }
        self.rewrite_body(cx);
        self.headers.apply(cx);
    }
}

impl ResponseRewrite {
    fn rewrite_body(&self, cx: &mut ResponseContext<'_>) {
        let filter: Box<dyn BodyFilter> = if !self.filters.is_empty() {
            if !cx.require_readable(Encoding::READABLE, self.body_bytes_max) {
                return;
            }
            let encoding = cx.header_list("Content-Encoding").filter(|_| !cx.is_encoded_last());
            let encoding = encoding.and_then(|name| Encoding::named(&name));
            let filters = std::sync::Arc::clone(&self.filters);
            Box::new(Filters::new(filters, encoding, cx.hold_body(), self.body_bytes_max))
        } else if let Some(body) = &self.body {
            Box::new(FixedBody(std::sync::Arc::clone(body)))
        } else {
            return;
        };
        answer_body::forget_old_body(cx);
        cx.filter_body(Effect::Rewrites, filter);
    }
}

/// Decodes a body in base64, which must not be empty.
fn decoded_body(text: Option<String>) -> Result<std::sync::Arc<[u8]>, ConfError> {
    let text = text.filter(|text| !text.is_empty());
    let body = text.and_then(|text| decode_base64(text.as_bytes()));
    body.map(Into::into).ok_or_else(|| "invalid base64 content".into())
}

fn expression(vars: Value) -> Result<Expr, ConfError> {
    let mut problems = Problems::new();
    let parsed = Expr::parse(&vars, "vars", &mut problems);
    parsed.ok_or_else(|| {
        let first = problems.iter().next().map(|problem| problem.reason.clone());
        first.unwrap_or_else(|| "failed to validate the 'vars' expression".into()).into()
    })
}

impl HeaderRules {
    fn parse(conf: &Map<String, Value>) -> Result<HeaderRules, ConfError> {
        let parsed = |pairs: Vec<(String, String)>| {
            pairs.into_iter().map(|(name, value)| (name, Template::parse(&value))).collect()
        };
        if headers::is_structured(conf) {
            let lines = headers::names(conf.get("add"));
            let line = |line: &String| {
                let (name, value) = line.split_once(':')?;
                Some((name.trim_end().to_owned(), value.trim_start().to_owned()))
            };
            return Ok(HeaderRules {
                add: parsed(lines.iter().filter_map(line).collect()),
                set: parsed(headers::pairs(conf.get("set"))),
                remove: headers::names(conf.get("remove")),
            });
        }
        headers::check_map(conf)?;
        let pairs = headers::pairs(Some(&Value::Object(conf.clone())));
        Ok(HeaderRules { set: parsed(pairs), ..HeaderRules::default() })
    }

    fn apply(&self, cx: &mut ResponseContext<'_>) {
        let render = |cx: &ResponseContext<'_>, template: &Template| {
            let mut value = Vec::new();
            template.render(&cx.variables(), &mut value);
            value
        };
        for (name, template) in &self.add {
            let value = render(cx, template);
            cx.add_header(name, &value);
        }
        for (name, template) in &self.set {
            let value = render(cx, template);
            cx.set_header(name, &value);
        }
        self.remove.iter().for_each(|name| cx.remove_header(name));
    }
}

impl Filter {
    fn compile(config: &FilterConfig) -> Result<Filter, ConfError> {
        let FilterConfig { regex, options, .. } = config;
        let invalid = |error| format!("regex \"{regex}\" validation failed: {error}");
        let text = with_flags(regex, options).map_err(invalid)?;
        let pattern = patterns::compile(&text, Case::Sensitive).map_err(invalid)?;
        let replacement = Replacement::parse(&config.replace).map_err(invalid)?;
        Ok(Filter { pattern, replacement, reach: config.scope })
    }
}

/// Returns a pattern with its flags inlined. Flags for compilation and caching (`j`, `o`, `d`, `D`,
/// `J`) and UTF-8 (`u`, `U`) have no effect.
fn with_flags(regex: &str, options: &str) -> Result<String, ConfError> {
    let mut inline = String::new();
    let mut anchor = "";
    for flag in options.chars() {
        match flag {
            'i' | 's' | 'm' | 'x' if !inline.contains(flag) => inline.push(flag),
            'a' => anchor = r"\A",
            'i' | 's' | 'm' | 'x' | 'j' | 'o' | 'd' | 'D' | 'J' | 'u' | 'U' => {}
            other => {
                return Err(format!("unknown flag \"{other}\" (flags \"{options}\")").into());
            }
        }
    }
    // The line end keeps a trailing comment of an extended pattern from swallowing the bracket.
    let end = if inline.contains('x') { "\n" } else { "" };
    Ok(match (inline.as_str(), anchor) {
        ("", "") => regex.to_owned(),
        ("", anchor) => format!("{anchor}(?:{regex})"),
        (flags, anchor) => format!("{anchor}(?{flags}:{regex}{end})"),
    })
}

#[cfg(test)]
mod tests;
