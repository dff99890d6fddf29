//! Compresses answers with gzip for clients that accept it.
//!
//! # Example
//! ```json
//! {"types": ["text/html", "application/json"], "comp_level": 5, "vary": true}
//! ```
//!
//! # Answers
//! None.
//!
//! # Notes
//! Answers with status 200, 403 or 404 are compressed unless they are already encoded. Other
//! plugins see the body before compression, whatever their priority. `Content-Length` is removed,
//! and a strong `ETag` becomes a weak one. A body of unknown length is compressed piece by piece as
//! it arrives. `buffers` is accepted and has no effect, because nothing is buffered. The head of an
//! answer to HEAD is the same as to GET. Answers with `Cache-Control: no-transform` are not
//! compressed.

use flate2::Compression;
use flate2::write::GzEncoder;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tollhouse_plugin::{Category, ConfError, Phases, Plugin, ResponseContext, Scope};

use crate::shared::confs::defaults::defaults;
use crate::shared::messages::compression::{
    self, Conditions, Encoder, EncodingFilter, Flush, Types,
};

/// Configuration of `gzip`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Content types to compress, without parameters; `"*"` for all.
    #[serde(default = "compression::default_types")]
    pub types: Types,
    /// Shortest body that is compressed, in bytes. Bodies of unknown length are always compressed.
    #[serde(default = "compression::default_length_min")]
    #[schemars(range(min = 1))]
    pub min_length: u64,
    /// Compression level, from 1 (fastest, the default) to 9 (smallest).
    #[serde(default = "default_level")]
    #[schemars(range(min = 1, max = 9))]
    pub comp_level: u32,
    /// Lowest HTTP version whose clients get compressed answers; 1.1 by default.
    #[serde(default = "compression::default_http_version")]
    pub http_version: f64,
    /// Accepted for compatibility with APISIX; has no effect.
    #[serde(default)]
    pub buffers: Buffers,
    /// Whether `Vary: Accept-Encoding` is added to answers. Set it if a shared cache is in front of
    /// the gateway.
    pub vary: Option<bool>,
}

/// Buffers of APISIX; accepted for compatibility, without effect.
#[derive(Debug, Deserialize, serde::Serialize, JsonSchema)]
pub struct Buffers {
    /// Number of buffers.
    #[serde(default = "default_buffers")]
    #[schemars(range(min = 1))]
    pub number: u64,
    /// Size of each buffer in bytes.
    #[serde(default = "default_buffer_bytes")]
    #[schemars(range(min = 1))]
    pub size: u64,
}

impl Default for Buffers {
    fn default() -> Self {
        Self { number: default_buffers(), size: default_buffer_bytes() }
    }
}

defaults! {
    default_level: u32 = 1;
    default_buffers: u64 = 32;
    default_buffer_bytes: u64 = 4096;
}

#[derive(Debug)]
pub struct Gzip {
    conditions: Conditions,
    level: u32,
    vary: bool,
}

impl Plugin for Gzip {
    const NAME: &'static str = "gzip";
    const PRIORITY: i32 = 995;
    const CATEGORY: Category = Category::Traffic;
    const PHASES: Phases = Phases::RESPONSE;
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        compression::adjust_schema(schema);
    }

    fn compile(config: Config, _scope: &Scope<'_>) -> Result<Self, ConfError> {
        let conditions = Conditions {
            types: config.types,
            length_min: config.min_length,
            http_version: config.http_version,
        };
        Ok(Self { conditions, level: config.comp_level, vary: config.vary == Some(true) })
    }

    fn response(&self, cx: &mut ResponseContext<'_>) {
        if !self.conditions.hold(cx) {
            return;
        }
        if self.vary {
            compression::vary_by_encoding(cx);
        }
        let is_welcome = cx
            .request_header("Accept-Encoding")
            .is_some_and(|list| compression::acceptance(&list, "gzip") == Some(true));
        let is_encoded = cx.header("Content-Encoding").is_some_and(|value| !value.is_empty());
        let is_encodable = compression::is_encodable(cx);
        if !is_welcome || is_encoded || !is_encodable || !matches!(cx.status(), 200 | 403 | 404) {
            return;
        }
        cx.remove_header("Content-Length");
        cx.remove_header("Accept-Ranges");
        compression::weaken_tag(cx);
        cx.set_header("Content-Encoding", b"gzip");
        let encoder = GzEncoder::new(Vec::new(), Compression::new(self.level));
        cx.encode_body_last(Box::new(EncodingFilter::new(encoder, Flush::from_response(cx))));
    }
}

impl Encoder for GzEncoder<Vec<u8>> {
    fn written(&mut self) -> &mut Vec<u8> {
        self.get_mut()
    }

    fn finish(self) -> Vec<u8> {
        self.finish().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tollhouse_plugin::testing::{FakeExchange, Harness, Reply};
    use tollhouse_plugin::{BodyFilter, Piece};

    use super::*;
    use crate::shared::messages::compression::Encoding;

    fn respond(conf: &Value, accept: &str, head: &str, body: &[&str]) -> Reply {
        let request = format!("GET / HTTP/1.1\nAccept-Encoding: {accept}\n\n");
        Harness::new::<Gzip>(conf).respond(&mut FakeExchange::parse(&request, 0), head, body)
    }

    const PAGE: &str = "200\nContent-Type: text/html; charset=utf-8";

    #[test]
    fn a_body_is_compressed_and_its_head_says_so() {
        let head = format!("{PAGE}\nContent-Length: 1000\nETag: \"a\"\nAccept-Ranges: bytes");
        let text = "a".repeat(500);
        let reply = respond(&json!({}), "gzip", &head, &[&text, &text]);
        assert_eq!(reply.header("content-encoding"), Some("gzip"));
        assert_eq!(reply.header("content-length"), None);
        assert_eq!(reply.header("accept-ranges"), None);
        assert_eq!(reply.header("etag"), Some("W/\"a\""));
        assert_eq!(reply.header("vary"), None);
        assert!(reply.bytes.len() < 100);
        let decoded = Encoding::Gzip.decode(&reply.bytes, 10_000).unwrap();
        assert_eq!(decoded, "a".repeat(1000).as_bytes());
    }

    #[test]
    fn pieces_of_unknown_length_are_not_held_back() {
        let encoder = GzEncoder::new(Vec::new(), Compression::new(1));
        let mut encoder = EncodingFilter::new(encoder, Flush::EachPiece);
        let mut out = Vec::new();
        encoder.filter(b"first", Piece::Middle, &mut out);
        // The output so far is flushed, so it can be read up to its end.
        let mut read = [0; 5];
        let mut decoder = flate2::read::GzDecoder::new(out.as_slice());
        std::io::Read::read_exact(&mut decoder, &mut read).unwrap();
        assert_eq!(&read, b"first");
    }

    struct Page;

    impl tollhouse_plugin::ResponseHead for Page {
        fn find(&self, name: &[u8]) -> Option<&[u8]> {
            name.eq_ignore_ascii_case(b"content-type").then_some(b"text/html")
        }

        fn each(&self, visit: &mut dyn FnMut(&[u8], &[u8])) {
            visit(b"Content-Type", b"text/html");
        }
    }

    #[test]
    fn what_plugins_of_lower_priority_make_of_the_body_is_compressed_too() {
        let exchange = FakeExchange::parse("GET / HTTP/1.1\nAccept-Encoding: gzip\n\n", 0);
        let (mut edits, mut filters) = (tollhouse_plugin::HeaderEdits::default(), Vec::new());
        let mut memory = tollhouse_plugin::Memory::default();
        let facts = tollhouse_plugin::response::ResponseFacts {
            status: 200,
            source: tollhouse_plugin::response::Source::Upstream,
            has_body: true,
            content_length: None,
            client_is_http11: true,
        };
        let mut cx =
            ResponseContext::new(&exchange, &Page, &mut edits, &mut filters, &mut memory, facts);
        Harness::new::<Gzip>(&json!({})).handler.response(&mut cx);
        let echo = json!({"before_body": "<", "after_body": ">"});
        Harness::new::<crate::echo::Echo>(&echo).handler.response(&mut cx);
        assert_eq!(cx.header("Content-Encoding"), Some(&b"gzip"[..]));
        let mut body = b"hello".to_vec();
        for (_, filter) in &mut filters {
            let mut out = Vec::new();
            filter.filter(&body, Piece::Last, &mut out);
            body = out;
        }
        assert_eq!(Encoding::Gzip.decode(&body, 100).unwrap(), b"<hello>");
    }

    #[test]
    fn only_what_qualifies_is_compressed() {
        let typed = |status, kind: &str| format!("{status}\nContent-Type: {kind}");
        for (conf, accept, head, expected) in [
            (json!({}), "gzip", PAGE.to_owned(), true),
            (json!({}), "br;q=1, gzip;q=0.1", PAGE.into(), true),
            (json!({}), "gzip, br", PAGE.into(), true),
            (json!({}), "GZIP", PAGE.into(), true),
            (json!({}), "gzip;q=0", PAGE.into(), false),
            (json!({}), "gzip;q=0.000, br", PAGE.into(), false),
            (json!({}), "xgzip, gzipx", PAGE.into(), false),
            (json!({}), "*", PAGE.into(), false),
            (json!({}), "", PAGE.into(), false),
            (json!({}), "gzip", typed(200, "text/plain"), false),
            (json!({}), "gzip", "200".into(), false),
            (json!({}), "gzip", typed(404, "text/html"), true),
            (json!({}), "gzip", typed(500, "text/html"), false),
            (json!({}), "gzip", format!("{PAGE}\nContent-Encoding: br"), false),
            (json!({}), "gzip", format!("{PAGE}\nCache-Control: a, No-Transform"), false),
            (json!({}), "gzip", format!("{PAGE}\nContent-Length: 19"), false),
            (json!({}), "gzip", format!("{PAGE}\nContent-Length: 20"), true),
            (json!({"min_length": 21}), "gzip", format!("{PAGE}\nContent-Length: 20"), false),
            (json!({"types": "*"}), "gzip", typed(200, "text/plain"), true),
            (json!({"types": "*"}), "gzip", "200".into(), false),
            (json!({"types": ["a/b", "text/plain"]}), "gzip", typed(200, "text/plain"), true),
        ] {
            let reply = respond(&conf, accept, &head, &["hello"]);
            let is_encoded = reply.header("content-encoding") == Some("gzip");
            assert_eq!(is_encoded, expected, "{conf} {accept} {head}");
            assert_eq!(reply.body == "hello", !expected, "{conf} {accept} {head}");
        }
    }

    #[test]
    fn older_clients_get_answers_as_they_are_and_heads_say_what_get_would() {
        for (request, conf, expected) in [
            ("GET / HTTP/1.0\nAccept-Encoding: gzip\n\n", json!({}), false),
            ("GET / HTTP/1.0\nAccept-Encoding: gzip\n\n", json!({"http_version": 1.0}), true),
            ("HEAD / HTTP/1.1\nAccept-Encoding: gzip\n\n", json!({}), true),
            ("HEAD / HTTP/1.1\nAccept-Encoding: br\n\n", json!({}), false),
        ] {
            let mut exchange = FakeExchange::parse(request, 0);
            let reply = Harness::new::<Gzip>(&conf).respond(&mut exchange, PAGE, &["hello"]);
            assert_eq!(reply.header("content-encoding").is_some(), expected, "{request}");
        }
    }

    #[test]
    fn vary_is_added_whether_or_not_the_client_accepts() {
        for accept in ["gzip", "br"] {
            let reply = respond(&json!({"vary": true}), accept, PAGE, &["hello"]);
            assert_eq!(reply.header("vary"), Some("Accept-Encoding"), "{accept}");
        }
    }

    #[test]
    fn bad_confs_are_refused() {
        for (conf, expected) in [
            (json!({"types": []}), "property \"types\" validation failed: "),
            (json!({"types": "a"}), "property \"types\" validation failed: "),
            (
                json!({"comp_level": 10}),
                "property \"comp_level\" validation failed: expected 10 to be at most 9",
            ),
            (
                json!({"http_version": 2}),
                "property \"http_version\" validation failed: matches none of the enum values",
            ),
            (
                json!({"min_length": 0}),
                "property \"min_length\" validation failed: expected 0 to be at least 1",
            ),
            (
                json!({"buffers": {"number": 0}}),
                "property \"buffers\" validation failed: property \"number\" validation failed: \
                 expected 0 to be at least 1",
            ),
        ] {
            let refusal = Harness::refusal::<Gzip>(&conf);
            assert!(refusal.starts_with(expected), "{conf}: {refusal}");
        }
    }
}
