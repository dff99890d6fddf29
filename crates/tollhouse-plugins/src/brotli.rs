//! Compresses answers with brotli for clients that accept it.
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
//! Answers that are already encoded are not compressed again. If gzip is configured too, clients
//! that accept both get brotli. Other plugins see the body before compression, whatever their
//! priority. `Content-Length` is removed, and a strong `ETag` becomes a weak one, in answers to HEAD
//! too. Answers with `Cache-Control: no-transform` are not compressed. Levels above 6 cost much more
//! CPU time than they save in bytes.

use ::brotli::CompressorWriter;
use ::brotli::enc::BrotliEncoderParams;
use ::brotli::enc::backward_references::BrotliEncoderMode;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tollhouse_plugin::{Category, ConfError, Phases, Plugin, ResponseContext, Scope};

use crate::shared::confs::defaults::defaults;
use crate::shared::messages::compression::{
    self, Conditions, Encoder, EncodingFilter, Flush, Types,
};

/// Buffer of the encoder, in bytes.
const PIECE_BYTES: usize = 4096;

/// Configuration of `brotli`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Content types to compress, without parameters; `"*"` for all.
    #[serde(default = "compression::default_types")]
    pub types: Types,
    /// Shortest body that is compressed, in bytes. Bodies of unknown length are always compressed.
    #[serde(default = "compression::default_length_min")]
    #[schemars(range(min = 1))]
    pub min_length: u64,
    /// Kind of content that the encoder is tuned for: 0 any (the default), 1 text, 2 fonts.
    #[serde(default)]
    #[schemars(range(min = 0, max = 2))]
    pub mode: u32,
    /// Compression level, from 0 (fastest) to 11 (smallest); 6 by default.
    #[serde(default = "default_level")]
    #[schemars(range(min = 0, max = 11))]
    pub comp_level: i32,
    /// Window size, as a power of two in bytes; 19 by default. Larger windows find repetitions
    /// further back and use more memory.
    #[serde(default = "default_window")]
    pub lgwin: i32,
    /// Input block size, as a power of two in bytes. 0, the default, derives it from the level.
    #[serde(default)]
    pub lgblock: i32,
    /// Lowest HTTP version whose clients get compressed answers; 1.1 by default.
    #[serde(default = "compression::default_http_version")]
    pub http_version: f64,
    /// Whether `Vary: Accept-Encoding` is added to answers. Set it if a shared cache is in front of
    /// the gateway.
    pub vary: Option<bool>,
}

defaults! {
    default_level: i32 = 6;
    default_window: i32 = 19;
}

pub struct Brotli {
    conditions: Conditions,
    parameters: BrotliEncoderParams,
    vary: bool,
}

impl Plugin for Brotli {
    const NAME: &'static str = "brotli";
    const PRIORITY: i32 = 996;
    const CATEGORY: Category = Category::Traffic;
    const PHASES: Phases = Phases::RESPONSE;
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        compression::adjust_schema(schema);
        let windows: Vec<u32> = std::iter::once(0).chain(10..=24).collect();
        let blocks: Vec<u32> = std::iter::once(0).chain(16..=24).collect();
        schema["properties"]["lgwin"]["enum"] = json!(windows);
        schema["properties"]["lgblock"]["enum"] = json!(blocks);
    }

    fn compile(config: Config, _scope: &Scope<'_>) -> Result<Self, ConfError> {
        let mode = match config.mode {
            1 => BrotliEncoderMode::BROTLI_MODE_TEXT,
            2 => BrotliEncoderMode::BROTLI_MODE_FONT,
            _ => BrotliEncoderMode::BROTLI_MODE_GENERIC,
        };
        Ok(Self {
            conditions: Conditions {
                types: config.types,
                length_min: config.min_length,
                http_version: config.http_version,
            },
            parameters: BrotliEncoderParams {
                mode,
                quality: config.comp_level,
                lgwin: config.lgwin,
                lgblock: config.lgblock,
                ..BrotliEncoderParams::default()
            },
            vary: config.vary == Some(true),
        })
    }

    fn response(&self, cx: &mut ResponseContext<'_>) {
        if !self.conditions.hold(cx) {
            return;
        }
        if self.vary {
            compression::vary_by_encoding(cx);
        }
        let is_welcome = cx.request_header("Accept-Encoding").is_some_and(|value| accepts(&value));
        let is_encoded = cx.header("Content-Encoding").is_some();
        let is_encodable = compression::is_encodable(cx);
        // Part of a body (206) cannot be encoded separately.
        if !is_welcome || is_encoded || !is_encodable || cx.status() == 206 {
            return;
        }
        cx.remove_header("Content-Length");
        cx.remove_header("Accept-Ranges");
        compression::weaken_tag(cx);
        cx.set_header("Content-Encoding", b"br");
        let encoder = CompressorWriter::with_params(Vec::new(), PIECE_BYTES, &self.parameters);
        cx.encode_body_last(Box::new(EncodingFilter::new(encoder, Flush::from_response(cx))));
    }
}

/// Whether `Accept-Encoding` accepts brotli, by name or by `*`.
fn accepts(list: &[u8]) -> bool {
    let named = compression::acceptance(list, "br");
    named.or_else(|| compression::acceptance(list, "*")).unwrap_or(false)
}

impl Encoder for CompressorWriter<Vec<u8>> {
    fn written(&mut self) -> &mut Vec<u8> {
        self.get_mut()
    }

    fn finish(self) -> Vec<u8> {
        self.into_inner()
    }
}

#[cfg(test)]
mod tests {
    use tollhouse_plugin::testing::{FakeExchange, Harness, Reply};
    use tollhouse_plugin::{BodyFilter, Piece};

    use super::*;
    use crate::shared::messages::compression::Encoding;

    fn respond(conf: &Value, accept: &str, head: &str, body: &[&str]) -> Reply {
        let request = format!("GET / HTTP/1.1\nAccept-Encoding: {accept}\n\n");
        Harness::new::<Brotli>(conf).respond(&mut FakeExchange::parse(&request, 0), head, body)
    }

    const PAGE: &str = "200\nContent-Type: text/html";

    #[test]
    fn a_body_is_compressed_and_its_head_says_so() {
        let text = "a".repeat(500);
        for mode in 0..3 {
            let conf = json!({"mode": mode, "vary": true, "lgwin": mode * 10});
            let head = format!("{PAGE}\nContent-Length: 1000\nETag: \"a\"\nLast-Modified: x");
            let reply = respond(&conf, "gzip, br", &head, &[&text, &text]);
            assert_eq!(reply.header("content-encoding"), Some("br"));
            assert_eq!(reply.header("content-length"), None);
            assert_eq!(reply.header("etag"), Some("W/\"a\""));
            assert_eq!(reply.header("last-modified"), Some("x"));
            assert_eq!(reply.header("vary"), Some("Accept-Encoding"));
            assert!(reply.bytes.len() < 100);
            let decoded = Encoding::Brotli.decode(&reply.bytes, 10_000).unwrap();
            assert_eq!(decoded, "a".repeat(1000).as_bytes());
        }
    }

    #[test]
    fn pieces_of_unknown_length_are_not_held_back() {
        let parameters = BrotliEncoderParams::default();
        let encoder = CompressorWriter::with_params(Vec::new(), PIECE_BYTES, &parameters);
        let mut encoder = EncodingFilter::new(encoder, Flush::EachPiece);
        let mut out = Vec::new();
        encoder.filter(b"first", Piece::Middle, &mut out);
        let mut read = [0; 5];
        let mut decoder = ::brotli::Decompressor::new(out.as_slice(), 64);
        std::io::Read::read_exact(&mut decoder, &mut read).unwrap();
        assert_eq!(&read, b"first");
    }

    #[test]
    fn only_what_qualifies_is_compressed() {
        for (conf, accept, head, expected) in [
            (json!({}), "br", PAGE.to_owned(), true),
            (json!({}), "*", PAGE.into(), true),
            (json!({}), "gzip, br;q=0.5", PAGE.into(), true),
            (json!({}), "gzip,*;q=0.1", PAGE.into(), true),
            (json!({}), "br;q=0", PAGE.into(), false),
            (json!({}), "br;q=0.0, *", PAGE.into(), false),
            (json!({}), "BR", PAGE.into(), true),
            (json!({}), "gzip, deflate", PAGE.into(), false),
            (json!({}), "", PAGE.into(), false),
            (json!({}), "br", "200\nContent-Type: text/plain".into(), false),
            (json!({"types": "*"}), "br", "200\nContent-Type: text/plain".into(), true),
            (json!({"types": "*"}), "br", "200".into(), false),
            (json!({}), "br", format!("{PAGE}\nContent-Encoding: gzip"), false),
            (json!({}), "br", format!("{PAGE}\nCache-Control: no-transform"), false),
            (json!({}), "br", format!("{PAGE}\nContent-Length: 19"), false),
            (json!({}), "br", "500\nContent-Type: text/html".into(), true),
            (json!({}), "gzip\nAccept-Encoding: br", PAGE.into(), true),
            (
                json!({}),
                "br",
                "206\nContent-Type: text/html\nContent-Range: bytes 0-4/9".into(),
                false,
            ),
        ] {
            let reply = respond(&conf, accept, &head, &["hello"]);
            let is_encoded = reply.header("content-encoding") == Some("br");
            assert_eq!(is_encoded, expected, "{conf} {accept} {head}");
            assert_eq!(reply.body == "hello", !expected, "{conf} {accept} {head}");
        }
    }

    #[test]
    fn vary_is_added_whether_or_not_the_client_accepts_and_heads_say_what_get_would() {
        for accept in ["gzip", "br"] {
            let reply = respond(&json!({"vary": true}), accept, PAGE, &["hello"]);
            assert_eq!(reply.header("vary"), Some("Accept-Encoding"), "{accept}");
        }
        let mut exchange = FakeExchange::parse("HEAD / HTTP/1.1\nAccept-Encoding: br\n\n", 0);
        let head = format!("{PAGE}\nContent-Length: 1000\nETag: \"a\"");
        let reply = Harness::new::<Brotli>(&json!({})).respond(&mut exchange, &head, &[]);
        assert_eq!(reply.header("content-encoding"), Some("br"));
        assert_eq!((reply.header("content-length"), reply.header("etag")), (None, Some("W/\"a\"")));
    }

    #[test]
    fn only_a_valid_tag_becomes_a_weak_one() {
        for (tag, expected) in [
            ("\"a\"", Some("W/\"a\"")),
            ("W/\"a\"", Some("W/\"a\"")),
            ("\"\"", Some("W/\"\"")),
            ("a", None),
            ("\"a\"b\"", None),
            ("W/\"a\"b\"", None),
            ("\"a", None),
            ("\"", None),
            ("W/", None),
        ] {
            let reply = respond(&json!({}), "br", &format!("{PAGE}\nETag: {tag}"), &["hello"]);
            assert_eq!(reply.header("etag"), expected, "{tag}");
        }
    }

    #[test]
    fn bad_confs_are_refused() {
        for (conf, expected) in [
            (
                json!({"lgwin": 9}),
                "property \"lgwin\" validation failed: matches none of the enum values",
            ),
            (
                json!({"lgblock": 15}),
                "property \"lgblock\" validation failed: matches none of the enum values",
            ),
            (
                json!({"comp_level": 12}),
                "property \"comp_level\" validation failed: expected 12 to be at most 11",
            ),
            (json!({"mode": 3}), "property \"mode\" validation failed: expected 3 to be at most 2"),
        ] {
            let refusal = Harness::refusal::<Brotli>(&conf);
            assert_eq!(refusal, expected, "{conf}");
        }
    }
}
