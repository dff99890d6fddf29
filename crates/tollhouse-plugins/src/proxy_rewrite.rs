//! Changes the path, host, method and headers of requests before nodes get them.
//!
//! # Example
//! ```json
//! {"regex_uri": ["^/api/(.*)", "/$1"], "host": "node.internal", "headers": {"set": {"X-Id": "$arg_id"}}}
//! ```
//!
//! # Answers
//! - 500 with `error_msg` when matching a pattern takes too long
//!
//! # Notes
//! `uri` takes precedence over `regex_uri`, of which the first pair with a matching pattern is
//! used. The client's query is kept and appended, unless `uri` already contains it (`$args`,
//! `$request_uri`). Values are encoded for their part of the URI, so that they cannot end the path
//! or add an argument. Headers are added first, then set, then removed. A list adds or sets one
//! line per value. Values may contain variables (`$arg_id`) and groups of the matching pattern
//! (`$1`); a header whose value is empty is removed. `host` sets the node's `Host`. If it is unset,
//! a `Host` among the headers does. A request whose new `Host` is invalid gets 500. The client's
//! address is appended to an `X-Forwarded-For` set here. By default the node gets the normalised
//! path. With `use_real_request_uri_unsafe` it gets the path as sent, even if another plugin has
//! checked the normalised one.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tollhouse_model::expr::pattern::{Case, Groups, Pattern};
use tollhouse_model::template::{Template, TemplatePart};
use tollhouse_plugin::{
    Answer, Category, ConfError, Flow, Phases, Plugin, RefusalKind, RequestContext, Scope, Step,
};

use crate::shared::confs::headers;
use crate::shared::confs::patterns;
use crate::shared::confs::substitute::{self, OutputPart, Replacement};
use crate::shared::messages::body;
use crate::shared::messages::uri::{self, AddressWriter, Literals};

/// Methods that a request may be changed to.
const METHODS: [&str; 14] = [
    "OPTIONS", "MKCOL", "COPY", "TRACE", "GET", "PATCH", "POST", "UNLOCK", "PUT", "LOCK", "HEAD",
    "PROPFIND", "DELETE", "MOVE",
];

/// Configuration of `proxy-rewrite`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Path and query for the node; may contain variables. Unset: those of the request.
    #[schemars(length(min = 1, max = 4096), regex(pattern = r"^\/.*"))]
    pub uri: Option<String>,
    /// Method for the node. Unset: that of the request.
    pub method: Option<String>,
    /// Pairs of pattern and replacement for the path. The first match is used; a replacement may
    /// contain groups (`$1`).
    #[schemars(length(min = 2))]
    pub regex_uri: Option<Vec<String>>,
    /// Value of `Host` for the node. Unset: chosen by the upstream's `pass_host`.
    #[schemars(regex(pattern = r"^[0-9a-zA-Z-.]+(:\d{1,5})?$"))]
    pub host: Option<String>,
    /// Headers for the node: an object with `add`, `set` and `remove`, or a map of headers to set.
    pub headers: Option<Map<String, Value>>,
    /// Whether to start from path and query exactly as sent instead of the normalised path; off by
    /// default. Unsafe if other plugins decide by the path.
    #[serde(default)]
    pub use_real_request_uri_unsafe: bool,
}

#[derive(Debug)]
pub struct ProxyRewrite {
    uri: Option<Template>,
    rules: Vec<Rule>,
    host: Option<String>,
    method: Option<&'static str>,
    headers: HeaderRules,
    is_raw: bool,
    /// Whether a template uses variables from the request's body.
    reads_body: bool,
}

/// Pattern and replacement of a pair in `regex_uri`.
#[derive(Debug)]
struct Rule {
    text: String,
    pattern: Pattern,
    replacement: Replacement,
}

#[derive(Debug, Default)]
struct HeaderRules {
    add: Vec<HeaderRule>,
    set: Vec<HeaderRule>,
    remove: Vec<String>,
}

/// Header with the values of its lines.
#[derive(Debug)]
struct HeaderRule {
    name: String,
    values: Vec<HeaderValue>,
}

/// Header value with variables and groups of the matched pattern.
#[derive(Debug)]
struct HeaderValue(Vec<ValuePart>);

#[derive(Debug)]
enum ValuePart {
    Template(Template),
    Group(usize),
}

/// Path that a pattern matched, with its groups.
struct Captures {
    path: Vec<u8>,
    groups: Groups,
}

impl Plugin for ProxyRewrite {
    const NAME: &'static str = "proxy-rewrite";
    const PRIORITY: i32 = 1008;
    const CATEGORY: Category = Category::Transformation;
    const PHASES: Phases = Phases::REWRITE;
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        schema["minProperties"] = json!(1);
        schema["properties"]["method"]["enum"] = json!(METHODS);
        let description = schema["properties"]["headers"]["description"].take();
        let structured = json!({
            "type": "object",
            "minProperties": 1,
            "additionalProperties": false,
            "properties": {
                "add": headers::lists_schema(),
                "set": headers::lists_schema(),
                "remove": headers::names_schema(),
            },
        });
        schema["properties"]["headers"] =
            json!({ "description": description, "oneOf": [structured, headers::map_schema()] });
    }

    fn compile(config: Config, _scope: &Scope<'_>) -> Result<Self, ConfError> {
        let rules = rules_of(&config.regex_uri.unwrap_or_default())?;
        let uri = config.uri.as_deref().map(Template::parse);
        let headers = HeaderRules::parse(&config.headers.unwrap_or_default())?;
        Ok(Self {
            reads_body: uri.as_ref().is_some_and(Template::reads_body) || headers.reads_body(),
            uri,
            rules,
            host: config.host,
            method: config.method.and_then(|name| METHODS.into_iter().find(|&m| m == name)),
            headers,
            is_raw: config.use_real_request_uri_unsafe,
        })
    }

    fn rewrite<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        if !self.reads_body {
            return self.apply(cx).map_or(Step::Continue, Step::from);
        }
        Step::wait(async move {
            match body::read_for_variables(cx).await {
                Ok(()) => self.apply(cx).map_or(Flow::Continue, Flow::from),
                Err(answer) => answer.into(),
            }
        })
    }
}

impl ProxyRewrite {
    /// Applies the changes. Returns an answer if they fail.
    fn apply<'a>(&self, cx: &mut RequestContext<'_>) -> Option<Answer<'a>> {
        if let Some(host) = &self.host {
            cx.edits().host = Some(host.as_bytes().to_vec());
        }
        let captures = match self.rewrite_uri(cx) {
            Ok(captures) => captures,
            Err(given_up) => {
                return Some(
                    Answer::error_msg(500, &given_up.to_string())
                        .refused(RefusalKind::PluginFailed),
                );
            }
        };
        self.rewrite_headers(cx, captures.as_ref());
        if let Some(method) = self.method {
            cx.edits().method = Some(method);
        }
        None
    }
}

/// Error: matching a pattern took too many steps. The client gets an error, because a node with the
/// unchanged path would serve something that the rule redirects.
#[derive(Debug, thiserror::Error)]
#[error("failed to match the uri {path} ({pattern})  : pcre_exec() failed: -8")]
struct GivenUp {
    path: String,
    pattern: String,
}

fn rules_of(texts: &[String]) -> Result<Vec<Rule>, ConfError> {
    let (pairs, rest) = texts.as_chunks::<2>();
    if !rest.is_empty() {
        return Err("The length of regex_uri should be an even number".into());
    }
    let rule = |[text, target]: &[String; 2]| {
        let invalid = |error| format!("invalid regex_uri({text}, {target}), err:{error}");
        let pattern = patterns::compile(text, Case::Sensitive).map_err(invalid)?;
        let replacement = Replacement::parse(target).map_err(invalid)?;
        Ok(Rule { text: text.clone(), pattern, replacement })
    };
    pairs.iter().map(rule).collect()
}

impl ProxyRewrite {
    /// Sets the URI for the node and returns the groups of the matching pattern.
    fn rewrite_uri(&self, cx: &mut RequestContext<'_>) -> Result<Option<Captures>, GivenUp> {
        let (uri, captures) = match &self.uri {
            Some(template) => (self.fill_in(template, cx), None),
            None if self.is_raw => {
                let sent = cx.real_request_uri().into_owned();
                let mut uri = Vec::with_capacity(sent.len());
                let write = &mut |part: OutputPart<'_>| match part {
                    OutputPart::Text(bytes) | OutputPart::Value(bytes) => {
                        uri.extend_from_slice(bytes)
                    }
                };
                match self.substitute(&sent, write)? {
                    Some(captures) => (uri, Some(captures)),
                    None => (sent, None),
                }
            }
            None => {
                let path = cx.path().to_vec();
                let mut writer = AddressWriter::new(cx, Literals::Encoded);
                let write = &mut |part: OutputPart<'_>| match part {
                    OutputPart::Text(text) => writer.text(text),
                    OutputPart::Value(value) => writer.path_part(value),
                };
                let captures = self.substitute(&path, write)?;
                let uri = match captures {
                    Some(_) => writer.into_bytes(),
                    None => cx.escaped_path().into_owned(),
                };
                (with_query(cx, uri), captures)
            }
        };
        if cx.edits().upstream_uri().is_some() || *uri != *cx.real_request_uri() {
            cx.edits().set_upstream_uri(&uri);
        }
        Ok(captures)
    }

    /// Fills the request's values into `uri`.
    fn fill_in(&self, template: &Template, cx: &mut RequestContext<'_>) -> Vec<u8> {
        let literals = if self.is_raw { Literals::AsWritten } else { Literals::Encoded };
        let mut writer = AddressWriter::new(cx, literals);
        for part in template.parts() {
            match part {
                TemplatePart::Text(text) => writer.text(text.as_bytes()),
                TemplatePart::Variable { variable, default } => {
                    writer.variable(cx, variable, default);
                }
            }
        }
        let uri = writer.into_bytes();
        if template.variables().any(uri::brings_query) { uri } else { with_query(cx, uri) }
    }

    /// Writes the replacement of the first pair whose pattern matches `path`.
    fn substitute(
        &self,
        path: &[u8],
        write: &mut dyn FnMut(OutputPart<'_>),
    ) -> Result<Option<Captures>, GivenUp> {
        for rule in &self.rules {
            let found = substitute::first_in_parts(&rule.pattern, path, &rule.replacement, write);
            let found = found.map_err(|_| GivenUp {
                path: String::from_utf8_lossy(path).into_owned(),
                pattern: rule.text.clone(),
            })?;
            if let Some(groups) = found {
                return Ok(Some(Captures { path: path.to_vec(), groups }));
            }
        }
        Ok(None)
    }

    fn rewrite_headers(&self, cx: &mut RequestContext<'_>, captures: Option<&Captures>) {
        for HeaderRule { name, values } in &self.headers.add {
            for value in values {
                let value = value.render(cx, captures);
                if name.eq_ignore_ascii_case("host") {
                    self.set_host(cx, value);
                } else if !value.is_empty() {
                    cx.edits().headers.add(name, &value);
                }
            }
        }
        for HeaderRule { name, values } in &self.headers.set {
            let values: Vec<Vec<u8>> = values.iter().map(|v| v.render(cx, captures)).collect();
            if name.eq_ignore_ascii_case("host") {
                values.into_iter().take(1).for_each(|value| self.set_host(cx, value));
                continue;
            }
            cx.remove_header(name);
            for value in values.iter().filter(|value| !value.is_empty()) {
                cx.edits().headers.add(name, value);
            }
        }
        self.headers.remove.iter().for_each(|name| cx.remove_header(name));
    }

    /// Sets the single `Host` of the node, unless the field `host` does.
    fn set_host(&self, cx: &mut RequestContext<'_>, value: Vec<u8>) {
        if self.host.is_none() && !value.is_empty() {
            cx.edits().host = Some(value);
        }
    }
}

/// Appends the client's query to the new path.
fn with_query(cx: &mut RequestContext<'_>, mut uri: Vec<u8>) -> Vec<u8> {
    if let Some(query) = uri::query_for_node(cx) {
        uri::append_query(&mut uri, &query);
    }
    uri
}

impl HeaderRules {
    fn parse(conf: &Map<String, Value>) -> Result<HeaderRules, ConfError> {
        if headers::is_structured(conf) {
            return Ok(HeaderRules {
                add: HeaderRule::all(headers::lists(conf.get("add"))),
                set: HeaderRule::all(headers::lists(conf.get("set"))),
                remove: headers::names(conf.get("remove")),
            });
        }
        headers::check_map(conf)?;
        let lists = headers::lists(Some(&Value::Object(conf.clone())));
        for (name, values) in &lists {
            if !headers::is_name(name) {
                return Err("invalid field character in header".into());
            }
            if !values.iter().all(|value| headers::is_value(value)) {
                return Err("invalid value character in header".into());
            }
        }
        Ok(HeaderRules { set: HeaderRule::all(lists), ..HeaderRules::default() })
    }

    fn reads_body(&self) -> bool {
        let values = self.add.iter().chain(&self.set).flat_map(|rule| &rule.values);
        values.flat_map(|value| &value.0).any(|part| match part {
            ValuePart::Template(template) => template.reads_body(),
            ValuePart::Group(_) => false,
        })
    }
}

impl HeaderRule {
    fn all(lists: Vec<(String, Vec<String>)>) -> Vec<HeaderRule> {
        let rule = |(name, values): (String, Vec<String>)| HeaderRule {
            name,
            values: values.iter().map(|value| HeaderValue::parse(value)).collect(),
        };
        lists.into_iter().map(rule).collect()
    }
}

impl HeaderValue {
    /// Parses a text: groups first; the text between them may contain variables.
    fn parse(text: &str) -> HeaderValue {
        let mut parts = Vec::new();
        let (mut begin, mut at) = (0, 0);
        while let Some(dollar) = text[at..].find('$').map(|offset| at + offset) {
            at = dollar + 1;
            let is_escaped = text[..dollar].ends_with('\\');
            let group = substitute::group_number(&text[at..]).filter(|_| !is_escaped);
            if let Some((number, rest)) = group {
                if begin < dollar {
                    parts.push(ValuePart::Template(Template::parse(&text[begin..dollar])));
                }
                parts.push(ValuePart::Group(number));
                at = text.len() - rest.len();
                begin = at;
            }
        }
        if begin < text.len() {
            parts.push(ValuePart::Template(Template::parse(&text[begin..])));
        }
        HeaderValue(parts)
    }

    fn render(&self, cx: &RequestContext<'_>, captures: Option<&Captures>) -> Vec<u8> {
        let mut out = Vec::new();
        for part in &self.0 {
            match (part, captures) {
                (ValuePart::Template(template), _) => template.render(cx.variables(), &mut out),
                (ValuePart::Group(number), Some(Captures { path, groups })) => {
                    out.extend_from_slice(substitute::group(path, groups, *number));
                }
                (ValuePart::Group(_), None) => {}
            }
        }
        out
    }
}

#[cfg(test)]
mod tests;
