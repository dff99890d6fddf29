//! Redirects clients: to a URI with variables, to a path rewritten by a pattern, or to the same
//! address over TLS.
//!
//! # Example
//! ```json
//! {"uri": "https://new.example$request_uri", "ret_code": 301}
//! ```
//!
//! # Answers
//! - `ret_code`, 302 by default, with `Location`
//! - 301 for GET and HEAD, 308 for others, with `http_to_https`
//! - 500 when matching the pattern takes too long
//!
//! # Notes
//! A request whose path does not match `regex_uri` goes on to its node. `http_to_https` trusts
//! `X-Forwarded-Proto`. It redirects to `plugin_attr.redirect.https_port`, or else to the port that
//! serves TLS, and omits port 443. Values are encoded for their part of the URI; a variable at the
//! start of the URI may hold a whole address.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tollhouse_model::expr::pattern::{Case, Pattern};
use tollhouse_model::variable::Variable;
use tollhouse_plugin::{
    Answer, Brand, Category, ConfError, Flow, Phases, Plugin, RefusalKind, RequestContext, Scope,
    Step,
};

use crate::shared::confs::defaults::defaults;
use crate::shared::confs::patterns;
use crate::shared::confs::status::status_of;
use crate::shared::confs::substitute::{self, OutputPart, Replacement};
use crate::shared::messages::body;
use crate::shared::messages::uri::{self, AddressWriter, Literals};

/// Default port of `https`, which a URI need not contain.
const HTTPS_PORT: u64 = 443;

/// Configuration of `redirect`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Status of the redirect; 302 by default. `http_to_https` uses its own.
    #[serde(default = "default_status")]
    #[schemars(range(min = 200))]
    pub ret_code: i64,
    /// Target of the redirect; may contain variables (`$host`, `${arg_a}`).
    #[schemars(
        length(min = 2),
        regex(
            pattern = r"(\\\$[0-9a-zA-Z_]+)|\$\{([0-9a-zA-Z_]+)\}|\$([0-9a-zA-Z_]+)|(\$|[^$\\]+)"
        )
    )]
    pub uri: Option<String>,
    /// Pattern for the path and its replacement, which may contain groups (`$1`).
    #[schemars(length(min = 2, max = 2))]
    pub regex_uri: Option<Vec<String>>,
    /// Whether requests without TLS are redirected to the same address with TLS. Excludes
    /// `append_query_string`.
    pub http_to_https: Option<bool>,
    /// Whether the conf's literal text in the path is percent-encoded; off by default. Values of
    /// variables always are.
    #[serde(default)]
    pub encode_uri: bool,
    /// Whether the request's query is appended to the target; off by default.
    #[serde(default)]
    pub append_query_string: bool,
}

defaults! {
    default_status: i64 = 302;
}

#[derive(Debug)]
pub struct Redirect {
    target: Target,
    status: u16,
    literals: Literals,
    query: Query,
    brand: Brand,
}

#[derive(Debug)]
enum Target {
    Uri(Vec<Segment>),
    Pattern(Pattern, Replacement),
    Https(Vec<Segment>),
    /// Configured as `http_to_https: false`, which redirects nothing.
    Nowhere,
}

#[derive(Debug, PartialEq, Eq)]
enum Segment {
    Text(String),
    Variable(Variable),
}

#[derive(Debug, PartialEq, Eq)]
enum Query {
    Dropped,
    Appended,
}

impl Plugin for Redirect {
    const NAME: &'static str = "redirect";
    const PRIORITY: i32 = 900;
    const CATEGORY: Category = Category::Traffic;
    const PHASES: Phases = Phases::REWRITE;
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        schema["oneOf"] = json!([
            { "required": ["uri"] },
            { "required": ["regex_uri"] },
            { "required": ["http_to_https"] },
        ]);
    }

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        if config.http_to_https == Some(true) && config.append_query_string {
            let both = "only one of `http_to_https` and `append_query_string` can be configured.";
            return Err(both.into());
        }
        Ok(Self {
            target: Target::parse(&config, scope)?,
            status: status_of(config.ret_code),
            literals: if config.encode_uri { Literals::Encoded } else { Literals::AsWritten },
            query: if config.append_query_string { Query::Appended } else { Query::Dropped },
            brand: scope.services.brand,
        })
    }

    fn rewrite<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        if !self.target.reads_body() {
            return self.answer(cx).map_or(Step::Continue, Step::from);
        }
        Step::wait(async move {
            match body::read_for_variables(cx).await {
                Ok(()) => self.answer(cx).map_or(Flow::Continue, Flow::from),
                Err(answer) => answer.into(),
            }
        })
    }
}

impl Redirect {
    /// Builds the redirect; `None` if the request goes on.
    fn answer<'a>(&self, cx: &mut RequestContext<'_>) -> Option<Answer<'a>> {
        let (mut location, status) = match &self.target {
            Target::Uri(segments) => (self.concat(segments, cx), self.status),
            Target::Pattern(pattern, replacement) => {
                let mut writer = AddressWriter::new(cx, self.literals);
                let write = &mut |part: OutputPart<'_>| match part {
                    OutputPart::Text(text) => writer.text(text),
                    OutputPart::Value(value) => writer.path_part(value),
                };
                match substitute::first_in_parts(pattern, cx.path(), replacement, write) {
                    Ok(Some(_)) => (writer.into_bytes(), self.status),
                    Ok(None) => return None,
                    Err(_) => return Some(Answer::status(500).refused(RefusalKind::PluginFailed)),
                }
            }
            Target::Https(segments) if is_plain(cx) => {
                let is_safe = matches!(cx.method(), b"GET" | b"HEAD");
                (self.concat(segments, cx), if is_safe { 301 } else { 308 })
            }
            Target::Https(_) | Target::Nowhere => return None,
        };
        if let (Query::Appended, Some(query)) = (&self.query, uri::query_for_node(cx)) {
            uri::append_query(&mut location, &query);
        }
        Some(answer(status, location, self.brand))
    }

    fn concat(&self, segments: &[Segment], cx: &RequestContext<'_>) -> Vec<u8> {
        let mut writer = AddressWriter::new(cx, self.literals);
        for segment in segments {
            match segment {
                Segment::Text(text) => writer.text(text.as_bytes()),
                Segment::Variable(variable) => writer.variable(cx, variable, ""),
            }
        }
        writer.into_bytes()
    }
}

impl Target {
    /// Whether a variable reads the request's body.
    fn reads_body(&self) -> bool {
        let (Target::Uri(segments) | Target::Https(segments)) = self else { return false };
        let reads_body = |segment: &Segment| match segment {
            Segment::Text(_) => false,
            Segment::Variable(variable) => variable.reads_body(),
        };
        segments.iter().any(reads_body)
    }

    fn parse(config: &Config, scope: &Scope<'_>) -> Result<Target, ConfError> {
        if let Some(uri) = &config.uri {
            return Ok(Target::Uri(segments(uri)));
        }
        if let Some([text, target]) = config.regex_uri.as_deref() {
            let invalid = |error| format!("invalid regex_uri ({text}, {target}), err:{error}");
            let pattern = patterns::compile(text, Case::Sensitive).map_err(invalid)?;
            let replacement = Replacement::parse(target).map_err(invalid)?;
            return Ok(Target::Pattern(pattern, replacement));
        }
        if config.http_to_https != Some(true) {
            return Ok(Target::Nowhere);
        }
        let configured = scope.services.attribute("redirect", "https_port").and_then(Value::as_u64);
        let port = configured.or(scope.services.tls_port.map(u64::from));
        Ok(Target::Https(match port {
            Some(port @ 1..=65535) if port != HTTPS_PORT => {
                segments(&format!("https://$host:{port}$real_request_uri"))
            }
            _ => segments("https://$host$real_request_uri"),
        }))
    }
}

/// True for a request without TLS, at the gateway or at the proxy in front. An unknown
/// scheme counts as one without, so that no value of the header but `https` avoids the redirect.
fn is_plain(cx: &RequestContext<'_>) -> bool {
    match cx.header("X-Forwarded-Proto") {
        Some(scheme) => *scheme != *b"https",
        None => !cx.is_tls(),
    }
}

/// Splits a URI into text and variables. An escaped variable (`\$host`) stays as written; a
/// backslash before any other character is dropped.
fn segments(uri: &str) -> Vec<Segment> {
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let word = |text: &str| text.find(|letter| !is_word(letter)).unwrap_or(text.len());
    let mut found = Vec::new();
    let mut rest = uri;
    while let Some(first) = rest.chars().next() {
        let behind = &rest[first.len_utf8()..];
        let (segment, length) = match first {
            '\\' => {
                // A backslash before `$` stays and makes the variable literal; any other backslash
                // is dropped, as in APISIX.
                let length = behind.strip_prefix('$').map_or(0, word);
                if length == 0 {
                    rest = behind;
                    continue;
                }
                let text = &rest[..length + "\\$".len()];
                (Segment::Text(text.into()), text.len())
            }
            '$' => {
                let braced = behind.strip_prefix('{').and_then(|inside| inside.split_once('}'));
                let braced = braced
                    .map(|(name, _)| name)
                    .filter(|name| !name.is_empty() && name.chars().all(is_word));
                match (braced, word(behind)) {
                    (Some(name), _) => {
                        (Segment::Variable(Variable::parse(name)), name.len() + "${}".len())
                    }
                    (None, 0) => (Segment::Text("$".into()), 1),
                    (None, length) => {
                        (Segment::Variable(Variable::parse(&behind[..length])), length + 1)
                    }
                }
            }
            _ => {
                let length = rest.find(['$', '\\']).unwrap_or(rest.len());
                (Segment::Text(rest[..length].into()), length)
            }
        };
        found.push(segment);
        rest = &rest[length..];
    }
    found
}

fn answer<'a>(status: u16, location: Vec<u8>, brand: Brand) -> Answer<'a> {
    let reason = match status {
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        _ => return Answer::status(status).with_header("Location", location),
    };
    let page = brand.page(&format!("{status} {reason}"));
    Answer::text(status, page.into_bytes())
        .with_header("Content-Type", &b"text/html; charset=utf-8"[..])
        .with_header("Location", location)
}

#[cfg(test)]
mod tests;
