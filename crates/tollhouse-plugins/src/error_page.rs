//! Replaces the body of the gateway's own errors. The pages are in the plugin's metadata; answers of
//! nodes pass unchanged.
//!
//! # Example
//! ```json
//! {}
//! ```
//!
//! # Answers
//! The status of the error with the body of its page.
//!
//! # Notes
//! Metadata such as `{"enable": true, "error_404": {"body": "<h1>Not here</h1>", "content_type":
//! "text/html"}}` has the pages of the statuses 404, 500, 502 and 503.
//!
//! Errors without a page, or with an empty one, keep their body. For errors of requests that match
//! no route, put the plugin into a global rule.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tollhouse_plugin::response::Source;
use tollhouse_plugin::{
    BodyFilter, Category, ConfError, Effect, MetadataSpec, Phases, Piece, Plugin, ResponseContext,
    Scope,
};

use crate::shared::messages::answer_body;

/// Configuration of `error-page`, which has no fields.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {}

/// Metadata of `error-page`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct Metadata {
    /// Whether pages are sent; off by default.
    #[serde(default)]
    pub enable: bool,
    /// Page for the status 404.
    pub error_404: Option<Page>,
    /// Page for the status 500.
    pub error_500: Option<Page>,
    /// Page for the status 502.
    pub error_502: Option<Page>,
    /// Page for the status 503.
    pub error_503: Option<Page>,
}

/// Page for one status.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct Page {
    /// Body of the answer; a short page with the status by default.
    pub body: Option<String>,
    /// Value of the header `Content-Type`.
    #[serde(default = "default_content_type")]
    pub content_type: String,
}

fn default_content_type() -> String {
    "text/html".to_owned()
}

/// Pages by status.
#[derive(Debug)]
pub struct ErrorPage {
    pages: Vec<(u16, Arc<[u8]>, String)>,
}

impl Plugin for ErrorPage {
    const NAME: &'static str = "error-page";
    const PRIORITY: i32 = 450;
    const CATEGORY: Category = Category::Transformation;
    const PHASES: Phases = Phases::RESPONSE;
    type Config = Config;

    fn metadata() -> Option<MetadataSpec> {
        Some(MetadataSpec::new::<Metadata>())
    }

    fn compile(_config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        let metadata = scope.metadata.cloned().unwrap_or(Value::Object(Default::default()));
        let metadata: Metadata =
            serde_json::from_value(metadata).map_err(|error| error.to_string())?;
        let pages = [
            (404, "404 Not Found", metadata.error_404),
            (500, "500 Internal Server Error", metadata.error_500),
            (502, "502 Bad Gateway", metadata.error_502),
            (503, "503 Service Unavailable", metadata.error_503),
        ];
        let brand = scope.services.brand;
        let pages = pages.into_iter().filter_map(|(status, title, page)| {
            let page = page.filter(|_| metadata.enable)?;
            let body = page.body.unwrap_or_else(|| brand.page(title));
            let bytes: Arc<[u8]> = body.into_bytes().into();
            (!bytes.is_empty()).then_some((status, bytes, page.content_type))
        });
        Ok(Self { pages: pages.collect() })
    }

    fn response(&self, cx: &mut ResponseContext<'_>) {
        if cx.source() == Source::Upstream {
            return;
        }
        let status = cx.status();
        let Some((_, body, kind)) = self.pages.iter().find(|(other, ..)| *other == status) else {
            return;
        };
        answer_body::forget_old_body(cx);
        cx.set_header("content-type", kind.as_bytes());
        cx.filter_body(Effect::Rewrites, Box::new(PageBody(Arc::clone(body))));
    }
}

/// Body in the place of the gateway's.
struct PageBody(Arc<[u8]>);

impl BodyFilter for PageBody {
    fn filter(&mut self, _input: &[u8], piece: Piece, out: &mut Vec<u8>) {
        if piece.is_last() {
            out.extend_from_slice(&self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tollhouse_plugin::testing::{FakeExchange, Harness, configure_among};
    use tollhouse_plugin::{Catalogue, Services};

    use super::*;

    fn pages(metadata: &Value) -> ErrorPage {
        let services = Arc::new(Services::new("test"));
        let scope = Scope {
            owner: "routes/1",
            conf: &json!({}),
            metadata: Some(metadata),
            protos: None,
            catalogue: &Catalogue::empty(),
            services: &services,
        };
        ErrorPage::compile(Config {}, &scope).expect("good metadata")
    }

    #[test]
    fn only_errors_of_the_gateway_with_a_page_get_one() {
        let metadata = json!({"enable": true, "error_404": {"body": "gone"}, "error_500": {},
            "error_502": {"body": ""}});
        let found = pages(&metadata);
        let statuses: Vec<u16> = found.pages.iter().map(|(status, ..)| *status).collect();
        assert_eq!(statuses, [404, 500]);
        assert!(pages(&json!({"error_404": {"body": "x"}})).pages.is_empty(), "not enabled");
        let services = Arc::new(Services::new("test"));
        let catalogue = Catalogue::empty();
        let made = configure_among::<ErrorPage>(&json!({}), &services, &catalogue, Some(&metadata));
        let mut harness = Harness::with(made.expect("a good conf"), services);
        let mut exchange = FakeExchange::parse("GET / HTTP/1.1\n\n", 0);
        let reply = harness.respond(&mut exchange, "404", &["of the node"]);
        assert_eq!(reply.body, "of the node", "answers of nodes pass");
    }
}
