//! Answers instead of a node, with an example or with random values that satisfy a schema.
//!
//! # Example
//! ```json
//! {
//!   "content_type": "application/json",
//!   "response_status": 201,
//!   "response_example": "{\"path\": \"$uri\"}",
//!   "response_headers": {"X-Mocked": "yes"}
//! }
//! ```
//!
//! # Answers
//! - `response_status` with the example or the generated body
//!
//! # Notes
//! The answer comes after plugins of the rewrite phase, such as authentication, and before all
//! other plugins of the access phase. An example without variables is sent without a copy.

use std::borrow::Cow;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tollhouse_model::limits::SECONDS_MAX;
use tollhouse_plugin::{
    Answer, AnswerBody, Category, ConfError, Flow, Phases, Plugin, RequestContext, Scope, Step,
};
use tollhouse_stdx::random::Random;

use self::generate::Form;
use crate::shared::confs::defaults::defaults;
use crate::shared::confs::header_fields::{self, HeaderFields};
use crate::shared::confs::text::Text;
use crate::shared::messages::body;

mod generate;

/// Configuration of `mocking`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Delay of the answer in seconds; 0 by default.
    #[serde(default)]
    pub delay: i64,
    /// Status of the answer; 200 by default.
    #[serde(default = "default_response_status")]
    #[schemars(range(min = 100, max = 999))]
    pub response_status: u16,
    /// Content type of the answer: JSON, XML, plain text or HTML; `application/json;charset=utf8`
    /// by default.
    #[serde(default = "default_content_type")]
    pub content_type: String,
    /// Body of the answer; may contain variables.
    pub response_example: Option<String>,
    /// JSON Schema from which a body is generated. Ignored if there is an example.
    pub response_schema: Option<Map<String, Value>>,
    /// Whether the answer names the gateway in `x-mock-by`; on by default.
    #[serde(default = "default_with_mock_header")]
    pub with_mock_header: bool,
    /// Headers of the answer; values may contain variables.
    pub response_headers: Option<Map<String, Value>>,
}

defaults! {
    default_response_status: u16 = 200;
    default_with_mock_header: bool = true;
}

fn default_content_type() -> String {
    "application/json;charset=utf8".into()
}

#[derive(Debug)]
pub struct Mocking {
    delay: Duration,
    status: u16,
    content_type: Option<String>,
    mocked_by: Option<String>,
    headers: HeaderFields,
    body: Body,
    reads_body: bool,
}

#[derive(Debug)]
enum Body {
    Example(Text),
    MadeUp { schema: Map<String, Value>, form: Form },
}

impl Plugin for Mocking {
    const NAME: &'static str = "mocking";
    const PRIORITY: i32 = 10900;
    const CATEGORY: Category = Category::Transformation;
    const PHASES: Phases = Phases::ACCESS;
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        schema["anyOf"] =
            json!([{"required": ["response_example"]}, {"required": ["response_schema"]}]);
        header_fields::rules(&mut schema["properties"]["response_headers"]);
    }

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        let form = form_of(&config.content_type)?;
        let fields = config.response_headers.as_ref();
        let names_type = fields.is_some_and(|fields| {
            fields.keys().any(|name| name.eq_ignore_ascii_case("content-type"))
        });
        let schema = config.response_schema.unwrap_or_default();
        let example = config.response_example.as_deref().map(Text::parse);
        let headers = HeaderFields::read(fields);
        let reads_body = headers.reads_body() || example.as_ref().is_some_and(Text::reads_body);
        let server_token = &scope.services.server_token;
        Ok(Self {
            // A negative delay counts as zero.
            delay: Duration::from_secs_f64((config.delay as f64).clamp(0.0, SECONDS_MAX)),
            status: config.response_status,
            headers,
            reads_body,
            content_type: (!names_type).then_some(config.content_type),
            mocked_by: config.with_mock_header.then(|| server_token.clone()),
            body: example.map_or(Body::MadeUp { schema, form }, Body::Example),
        })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        if self.delay.is_zero() && !self.reads_body {
            return self.answer(cx).into();
        }
        Step::wait(async move {
            if self.reads_body
                && let Err(answer) = body::read_for_variables(cx).await
            {
                return Flow::from(answer);
            }
            cx.sleep(self.delay).await;
            Flow::from(self.answer(cx))
        })
    }
}

impl Mocking {
    fn answer<'a>(&'a self, cx: &RequestContext<'_>) -> Answer<'a> {
        let mut answer = Answer::status(self.status);
        let own = [("Content-Type", &self.content_type), ("x-mock-by", &self.mocked_by)];
        for (name, value) in own {
            if let Some(value) = value {
                answer.headers.push((Cow::Borrowed(name), Cow::Borrowed(value.as_bytes())));
            }
        }
        self.headers.add_to(&mut answer, cx.variables());
        answer.body = AnswerBody::Text(self.body(cx));
        answer
    }

    fn body(&self, cx: &RequestContext<'_>) -> Cow<'_, [u8]> {
        let (schema, form) = match &self.body {
            Body::Example(text) => return text.for_request(cx.variables()),
            Body::MadeUp { schema, form } => (schema, *form),
        };
        let text = generate::document(schema, form, &mut Random::seeded(cx.random()));
        if text.contains('$') {
            return Cow::Owned(Text::parse(&text).for_request(cx.variables()).into_owned());
        }
        Cow::Owned(text.into_bytes())
    }
}

/// Returns the format of generated bodies for a content type; parameters are ignored.
fn form_of(content_type: &str) -> Result<Form, ConfError> {
    let kind = content_type.rsplit_once(';').map_or(content_type, |(kind, _)| kind);
    match kind {
        "application/json" | "text/plain" => Ok(Form::Json),
        "application/xml" | "text/xml" => Ok(Form::Xml),
        "text/html" => Ok(Form::Empty),
        _ => Err("unsupported content type!".into()),
    }
}

#[cfg(test)]
mod tests {
    use tollhouse_plugin::testing::{Harness, Outcome};

    use super::*;

    fn run(conf: &Value) -> Outcome {
        Harness::new::<Mocking>(conf).request("GET /hello?name=jack HTTP/1.1\n\n")
    }

    #[test]
    fn an_example_is_sent_as_it_stands() {
        let outcome = run(&json!({"response_example": "{\"a\":\"b\"}", "response_status": 203}));
        assert_eq!((outcome.status(), outcome.body()), (203, "{\"a\":\"b\"}"));
        assert_eq!(outcome.header("content-type"), Some("application/json;charset=utf8"));
        assert_eq!(outcome.header("x-mock-by"), Some("APISIX/3.18.0"));
        let quiet = json!({"response_example": "", "with_mock_header": false});
        let outcome = run(&quiet);
        assert_eq!((outcome.status(), outcome.body()), (200, ""));
        assert_eq!(outcome.header("x-mock-by"), None);
    }

    #[test]
    fn a_fixed_example_is_never_copied() {
        let config = serde_json::from_value(json!({"response_example": "plain"})).unwrap();
        let catalogue = tollhouse_plugin::Catalogue::empty();
        let services = std::sync::Arc::new(tollhouse_plugin::Services::new(""));
        let scope = Scope {
            owner: "routes/1",
            conf: &Value::Null,
            metadata: None,
            protos: None,
            catalogue: &catalogue,
            services: &services,
        };
        let mocking = Mocking::compile(config, &scope).unwrap();
        assert!(matches!(&mocking.body, Body::Example(Text::Fixed(text)) if **text == *b"plain"));
    }

    #[test]
    fn variables_of_examples_and_headers_are_filled_in() {
        let outcome = run(&json!({
            "content_type": "text/plain",
            "response_example": "hello $arg_name from ${remote_addr}",
            "response_headers": {"X-Path": "$uri", "X-Number": 3},
        }));
        assert_eq!(outcome.body(), "hello jack from 127.0.0.1");
        assert_eq!(outcome.header("content-type"), Some("text/plain"));
        assert_eq!(outcome.header("x-path"), Some("/hello"));
        assert_eq!(outcome.header("x-number"), Some("3"));
    }

    #[test]
    fn the_body_is_read_where_it_is_asked_for() {
        let conf = json!({"response_example": "hello $post_arg_name"});
        let outcome = Harness::new::<Mocking>(&conf).request("POST / HTTP/1.1\n\nname=jack");
        assert_eq!(outcome.body(), "hello jack");
    }

    #[test]
    fn the_delay_is_in_seconds() {
        let outcome = run(&json!({"response_example": "a", "delay": 2}));
        assert_eq!((outcome.body(), outcome.slept), ("a", Duration::from_secs(2)));
        assert!(run(&json!({"response_example": "a", "delay": -1})).slept.is_zero());
    }

    #[test]
    fn bodies_are_made_up_in_the_form_of_their_type() {
        let schema = json!({"type": "object", "properties": {
            "field1": {"type": "string", "example": "$uri"},
            "field2": {"type": "object"},
        }});
        for (content_type, expected) in [
            ("text/plain", "{\"field1\":\"/hello\",\"field2\":{}}"),
            ("application/json; charset=utf8", "{\"field1\":\"/hello\",\"field2\":{}}"),
            ("text/html", ""),
        ] {
            let outcome = run(&json!({"content_type": content_type, "response_schema": schema}));
            assert_eq!(outcome.body(), expected, "{content_type}");
        }
        let xml = run(&json!({"content_type": "text/xml", "response_schema": schema}));
        assert!(xml.body().contains("<field1>/hello</field1>"), "{}", xml.body());
    }

    #[test]
    fn bad_confs_are_refused() {
        let cases = [
            (json!({}), "object matches none of the required"),
            (
                json!({"response_example": "a", "content_type": "image/png"}),
                "unsupported content type!",
            ),
            (
                json!({"response_example": "a", "response_status": 99}),
                "property \"response_status\" validation failed: expected 99 to be at least 100",
            ),
            (
                json!({"response_example": 1}),
                "property \"response_example\" validation failed: \
                 wrong type: expected string, got number",
            ),
        ];
        for (conf, expected) in cases {
            let refusal = Harness::refusal::<Mocking>(&conf);
            assert!(refusal.starts_with(expected), "{conf}: {refusal}");
        }
    }
}
