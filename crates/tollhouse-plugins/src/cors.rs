//! Tells browsers which origins may use an API (CORS), and answers preflight requests.
//!
//! `*` allows everything. `**` allows everything too, but answers with the requested origin, method
//! or header name, so that it may be combined with credentials.
//!
//! # Example
//! ```json
//! {
//!   "allow_origins": "https://app.example.com,https://admin.example.com",
//!   "allow_methods": "GET,POST",
//!   "allow_headers": "Content-Type,Authorization",
//!   "allow_credential": true,
//!   "max_age": 3600
//! }
//! ```
//!
//! # Answers
//! - 200 without a body to every `OPTIONS`
//!
//! # Notes
//! Preflights are answered before authentication. An answer names only the origin of its request;
//! other origins get no CORS headers. Answers that differ between origins carry `Vary: Origin`, so
//! that caches keep them apart.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tollhouse_model::expr::pattern::Case;
use tollhouse_plugin::{
    Answer, Category, ConfError, MetadataSpec, Phases, Plugin, RequestContext, ResponseContext,
    Scope, Step,
};

use crate::shared::confs::defaults::defaults;
use crate::shared::confs::patterns::Patterns;

/// Configuration of `cors`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Allowed origins, separated by commas. `*` (the default) allows all; `**` allows all and
    /// echoes the request's origin.
    #[serde(default = "all")]
    #[schemars(regex(pattern = ORIGINS_PATTERN))]
    pub allow_origins: String,
    /// Allowed methods, separated by commas. `*` (the default) or `**` allows all.
    #[serde(default = "all")]
    pub allow_methods: String,
    /// Request headers that pages may send, separated by commas. `*` (the default) allows all; `**`
    /// echoes the requested ones.
    #[serde(default = "all")]
    pub allow_headers: String,
    /// Response headers that pages may read, separated by commas; `*` for all.
    pub expose_headers: Option<String>,
    /// Seconds for which browsers may cache a preflight; 5 by default, -1 disables caching.
    #[serde(default = "default_max_age")]
    pub max_age: i64,
    /// Whether pages may send cookies and other credentials. Excludes `*` in all fields.
    #[serde(default)]
    pub allow_credential: bool,
    /// Regular expressions of allowed origins. Replaces `allow_origins`.
    #[schemars(
        length(min = 1),
        inner(length(min = 1, max = 4096)),
        extend("uniqueItems" = true)
    )]
    pub allow_origins_by_regex: Option<Vec<String>>,
    /// Names of origin lists in the plugin's metadata. The origins of these lists are allowed too.
    #[schemars(
        length(min = 1),
        inner(length(min = 1, max = 4096)),
        extend("uniqueItems" = true)
    )]
    pub allow_origins_by_metadata: Option<Vec<String>>,
    /// Origins that may read resource timings, separated by commas. `*` allows all; `**` allows all
    /// and echoes the request's origin.
    #[schemars(regex(pattern = ORIGINS_PATTERN))]
    pub timing_allow_origins: Option<String>,
    /// Regular expressions of origins that may read timings. Replaces `timing_allow_origins`.
    #[schemars(
        length(min = 1),
        inner(length(min = 1, max = 4096)),
        extend("uniqueItems" = true)
    )]
    pub timing_allow_origins_by_regex: Option<Vec<String>>,
}

/// Origins separated by commas, or `*`, `**` or `null`.
const ORIGINS_PATTERN: &str = r"^(\*|\*\*|null|\w+://[^,]+(,\w+://[^,]+)*)$";

const METHODS: &str = "GET,POST,PUT,DELETE,PATCH,HEAD,OPTIONS,CONNECT,TRACE";

fn all() -> String {
    "*".into()
}

defaults! {
    default_max_age: i64 = 5;
}

#[derive(Debug)]
pub struct Cors {
    origins: Origins,
    /// Metadata lists that the conf names; `None` if it names none.
    listed: Option<Box<[Origins]>>,
    timing: Option<Origins>,
    /// Header lines that do not depend on the request.
    fixed: Vec<(&'static str, String)>,
    echoes_headers: bool,
}

#[derive(Debug)]
enum Origins {
    /// Any origin; the answer is `*`.
    Everybody,
    /// All origins; the request's origin is echoed.
    Asking,
    Listed(HashSet<Box<[u8]>>),
    Matching(Patterns),
}

impl Origins {
    fn read(text: &str) -> Self {
        match text {
            "*" => Origins::Everybody,
            "**" => Origins::Asking,
            list => {
                let origins = list.split(',').filter(|origin| !origin.is_empty());
                Origins::Listed(origins.map(|origin| origin.as_bytes().into()).collect())
            }
        }
    }

    fn matching(texts: &[String]) -> Result<Self, ConfError> {
        Patterns::compile(texts, Case::Sensitive).map(Origins::Matching)
    }

    /// Returns the value of `Access-Control-Allow-Origin` for `asking`; `None` omits the header.
    fn answer<'a>(&'a self, asking: Option<&'a [u8]>) -> Option<&'a [u8]> {
        match self {
            Origins::Everybody => Some(b"*"),
            Origins::Asking => Some(asking.unwrap_or(b"*")),
            Origins::Listed(origins) => asking.filter(|asking| origins.contains(*asking)),
            Origins::Matching(patterns) => {
                asking.filter(|asking| patterns.is_match(asking).unwrap_or(false))
            }
        }
    }

    fn allows(&self, asking: &[u8]) -> bool {
        self.answer(Some(asking)).is_some_and(|answer| answer == asking || answer == b"*")
    }
}

impl Plugin for Cors {
    const NAME: &'static str = "cors";
    const PRIORITY: i32 = 4000;
    const CATEGORY: Category = Category::Security;
    // CORS only restricts what browsers let pages read; it never keeps a request from a node.
    const JUDGES_PATH: bool = false;
    const PHASES: Phases = Phases::REWRITE.union(Phases::RESPONSE);
    type Config = Config;

    fn metadata() -> Option<MetadataSpec> {
        Some(MetadataSpec::with_schema(metadata_schema))
    }

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        refuse_credentials_for_all(&config)?;
        let by_regex = config.allow_origins_by_regex.as_deref().map(Origins::matching);
        let timing_by_regex =
            config.timing_allow_origins_by_regex.as_deref().map(Origins::matching).transpose()?;
        let timing = config.timing_allow_origins.as_deref().map(Origins::read);
        Ok(Self {
            origins: match by_regex {
                Some(origins) => origins?,
                None => Origins::read(&config.allow_origins),
            },
            listed: listed_origins(&config, scope),
            timing: timing_by_regex.or(timing),
            echoes_headers: config.allow_headers == "**",
            fixed: fixed_lines(config),
        })
    }

    fn rewrite<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        if cx.method() == b"OPTIONS" {
            return Answer::status(200).into();
        }
        Step::Continue
    }

    fn response(&self, cx: &mut ResponseContext<'_>) {
        let request = cx.request();
        let asking = request.client_header(b"origin");
        if self.answers_differ() {
            cx.add_header("Vary", b"Origin");
        }
        if let Some(origin) = self.allowed_origin(asking) {
            cx.set_header("Access-Control-Allow-Origin", origin);
            for (name, value) in &self.fixed {
                cx.set_header(name, value.as_bytes());
            }
            if self.echoes_headers {
                match request.client_header(b"access-control-request-headers") {
                    Some(asked) => cx.set_header("Access-Control-Allow-Headers", asked),
                    None => cx.remove_header("Access-Control-Allow-Headers"),
                }
            }
        }
        if let Some(origin) = self.timing.as_ref().and_then(|origins| origins.answer(asking)) {
            cx.set_header("Timing-Allow-Origin", origin);
        }
    }
}

impl Cors {
    /// Whether the answer depends on the origin of the request.
    fn answers_differ(&self) -> bool {
        self.listed.is_some() || !matches!(self.origins, Origins::Everybody)
    }

    /// Returns the value of `Access-Control-Allow-Origin`; `None` omits the header.
    fn allowed_origin<'a>(&'a self, asking: Option<&'a [u8]>) -> Option<&'a [u8]> {
        let Some(listed) = &self.listed else { return self.origins.answer(asking) };
        // Metadata lists come first; beside them, an `allow_origins` of `*` is ignored.
        let asking = asking?;
        if listed.iter().any(|origins| origins.allows(asking)) {
            return Some(asking);
        }
        match &self.origins {
            Origins::Everybody => None,
            origins => origins.answer(Some(asking)),
        }
    }
}

fn refuse_credentials_for_all(config: &Config) -> Result<(), ConfError> {
    let optional = [&config.expose_headers, &config.timing_allow_origins];
    let says_all = [&config.allow_origins, &config.allow_methods, &config.allow_headers]
        .into_iter()
        .chain(optional.into_iter().flatten())
        .any(|text| text == "*");
    if config.allow_credential && says_all {
        let refusal = "you can not set '*' for other option when 'allow_credential' is true";
        return Err(refusal.into());
    }
    Ok(())
}

fn listed_origins(config: &Config, scope: &Scope<'_>) -> Option<Box<[Origins]>> {
    let names = config.allow_origins_by_metadata.as_ref()?;
    let lists = scope.metadata_field("allow_origins");
    let list = |name: &String| lists?.get(name)?.as_str().map(Origins::read);
    Some(names.iter().filter_map(list).collect())
}

fn fixed_lines(config: Config) -> Vec<(&'static str, String)> {
    let methods =
        if config.allow_methods == "**" { METHODS.to_owned() } else { config.allow_methods };
    let mut lines = vec![
        ("Access-Control-Allow-Methods", methods),
        ("Access-Control-Max-Age", config.max_age.to_string()),
    ];
    if let Some(exposed) = config.expose_headers.filter(|exposed| !exposed.is_empty()) {
        lines.push(("Access-Control-Expose-Headers", exposed));
    }
    if config.allow_headers != "**" {
        lines.push(("Access-Control-Allow-Headers", config.allow_headers));
    }
    if config.allow_credential {
        lines.push(("Access-Control-Allow-Credentials", "true".to_owned()));
    }
    lines
}

fn metadata_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "allow_origins": {
                "description": "Lists of origins by name, for `allow_origins_by_metadata`.",
                "type": "object",
                "additionalProperties": {"type": "string", "pattern": ORIGINS_PATTERN},
            },
        },
    })
}

#[cfg(test)]
mod tests;
