//! Shared code of gzip and brotli: conditions for encoding an answer, and the filter that encodes
//! it. Also decoding, for plugins that need to read an encoded body.

use std::io::{Read, Write};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tollhouse_plugin::{BodyFilter, Codings, Piece, ResponseContext};

/// Size of one read from a decoder, in bytes.
const PIECE_BYTES: usize = 8192;

/// Content types to compress.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Types {
    /// `"*"`: all types.
    All(String),
    /// Listed types, without parameters.
    Listed(Vec<String>),
}

pub(crate) fn default_types() -> Types {
    Types::Listed(vec!["text/html".into()])
}

pub(crate) fn default_http_version() -> f64 {
    1.1
}

/// Returns the default of `min_length`: bodies shorter than this many bytes are not compressed.
pub(crate) fn default_length_min() -> u64 {
    20
}

/// Adds rules for `types` and `http_version` that attributes cannot express.
pub(crate) fn adjust_schema(schema: &mut Value) {
    let fields = &mut schema["properties"];
    fields["types"] = json!({
        "description": fields["types"]["description"].take(),
        "anyOf": [
            { "type": "array", "minItems": 1, "items": { "type": "string", "minLength": 1 } },
            { "enum": ["*"] },
        ],
        "default": ["text/html"],
    });
    fields["http_version"] = json!({
        "description": fields["http_version"]["description"].take(),
        "enum": [1.1, 1.0],
        "default": 1.1,
    });
}

/// Conditions for encoding an answer that both plugins share.
#[derive(Debug)]
pub(crate) struct Conditions {
    pub(crate) types: Types,
    pub(crate) length_min: u64,
    pub(crate) http_version: f64,
}

impl Conditions {
    /// Whether content type, length and protocol version allow encoding. An unknown length counts
    /// as long enough.
    pub(crate) fn hold(&self, cx: &ResponseContext<'_>) -> bool {
        let Some(content_type) = cx.header("Content-Type") else { return false };
        let is_listed = match &self.types {
            Types::All(_) => true,
            Types::Listed(types) => {
                let name = content_type.split(|&byte| byte == b';').next().unwrap_or_default();
                types.iter().any(|other| other.as_bytes() == name)
            }
        };
        let facts = cx.facts();
        is_listed
            && !refuses_transformation(cx)
            && length_of(cx).is_none_or(|length| length >= self.length_min)
            && (facts.client_is_http11 || self.http_version < 1.1)
    }
}

/// Returns the length of the body. For HEAD, that is the length of the body for GET (RFC 9110
/// §9.3.2).
fn length_of(cx: &ResponseContext<'_>) -> Option<u64> {
    let said = || std::str::from_utf8(cx.header("Content-Length")?).ok()?.trim().parse().ok();
    cx.facts().content_length.or_else(said)
}

/// Whether the answer forbids changes of its content (`no-transform`, RFC 9110 §7.7).
fn refuses_transformation(cx: &ResponseContext<'_>) -> bool {
    cx.header_list("Cache-Control").is_some_and(|list| {
        let mut directives = list.split(|byte| *byte == b',');
        directives.any(|directive| directive.trim_ascii().eq_ignore_ascii_case(b"no-transform"))
    })
}

/// Whether the answer has a body, or is an answer to HEAD whose head must equal that of GET (RFC
/// 9110 §9.3.2).
pub(crate) fn is_encodable(cx: &ResponseContext<'_>) -> bool {
    let never_has_one = matches!(cx.status(), 100..200 | 204 | 304);
    cx.facts().has_body || (cx.request().method() == b"HEAD" && !never_has_one)
}

/// Adds `Vary: Accept-Encoding`, unless it is already present.
pub(crate) fn vary_by_encoding(cx: &mut ResponseContext<'_>) {
    let is_said = cx.header_list("Vary").is_some_and(|list| {
        let mut names = list.split(|byte| *byte == b',');
        names.any(|name| name.trim_ascii().eq_ignore_ascii_case(b"Accept-Encoding"))
    });
    if !is_said {
        cx.add_header("Vary", b"Accept-Encoding");
    }
}

/// Returns whether `Accept-Encoding` gives an encoding a quality above zero; `None` if it does not
/// list the encoding.
pub(crate) fn acceptance(list: &[u8], encoding: &str) -> Option<bool> {
    let list = String::from_utf8_lossy(list).to_ascii_lowercase();
    let names = |choice: &str| {
        let name = choice.split(';').next().unwrap_or_default();
        name.split_ascii_whitespace().any(|word| word == encoding)
    };
    list.split(',').find(|choice| names(choice)).map(has_quality)
}

fn has_quality(choice: &str) -> bool {
    let mut parameters = choice.split(';').skip(1);
    let quality = parameters.find_map(|parameter| parameter.trim().strip_prefix("q="));
    quality.is_none_or(|quality| quality.trim().parse().is_ok_and(|quality: f32| quality > 0.0))
}

/// Streaming encoder whose output is in memory.
pub(crate) trait Encoder: Write + Send {
    /// Returns the buffer of encoded bytes, from which the caller takes them.
    fn written(&mut self) -> &mut Vec<u8>;
    /// Ends the encoding and returns the remaining bytes.
    fn finish(self) -> Vec<u8>;
}

/// Body filter that compresses answers.
pub(crate) struct EncodingFilter<E> {
    /// `None` after the end of the body.
    encoder: Option<E>,
    flush: Flush,
}

impl<E: Encoder> EncodingFilter<E> {
    pub(crate) fn new(encoder: E, flush: Flush) -> Self {
        Self { encoder: Some(encoder), flush }
    }
}

impl<E: Encoder> BodyFilter for EncodingFilter<E> {
    fn filter(&mut self, input: &[u8], piece: Piece, out: &mut Vec<u8>) {
        let Some(mut encoder) = self.encoder.take() else { return };
        // Writing to memory cannot fail.
        let _ = encoder.write_all(input);
        if piece.is_last() {
            out.extend(encoder.finish());
            return;
        }
        if self.flush == Flush::EachPiece && !input.is_empty() {
            let _ = encoder.flush();
        }
        out.append(encoder.written());
        self.encoder = Some(encoder);
    }
}

/// Time at which the encoder's buffered bytes are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flush {
    /// The compressor is flushed after each piece, because the next piece may take long to arrive.
    EachPiece,
    /// The compressor is flushed only at the end, for better compression.
    AtEnd,
}

impl Flush {
    /// Flushes only at the end if the length is known, because such a body arrives without pauses.
    pub(crate) fn from_response(cx: &ResponseContext<'_>) -> Flush {
        if cx.facts().content_length.is_some() { Flush::AtEnd } else { Flush::EachPiece }
    }
}

/// Content codings that plugins can decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Gzip,
    Brotli,
}

impl Encoding {
    pub(crate) const READABLE: Codings = Codings::GZIP.union(Codings::BROTLI);

    /// Returns the encoding that `Content-Encoding` names.
    pub(crate) fn named(name: &[u8]) -> Option<Encoding> {
        match name.trim_ascii().to_ascii_lowercase().as_slice() {
            b"gzip" => Some(Encoding::Gzip),
            b"br" => Some(Encoding::Brotli),
            _ => None,
        }
    }

    /// Decodes `body`; `None` if it is invalid, or decodes to more than `bytes_max` bytes.
    pub(crate) fn decode(self, body: &[u8], bytes_max: u64) -> Option<Vec<u8>> {
        let mut decoded = Vec::new();
        let limit = bytes_max.saturating_add(1);
        let result = match self {
            Encoding::Gzip => {
                flate2::read::MultiGzDecoder::new(body).take(limit).read_to_end(&mut decoded)
            }
            Encoding::Brotli => {
                brotli::Decompressor::new(body, PIECE_BYTES).take(limit).read_to_end(&mut decoded)
            }
        };
        result.ok().filter(|bytes| *bytes as u64 <= bytes_max).map(|_| decoded)
    }
}

/// Makes `ETag` weak, because the compressed body has equal meaning but other bytes. Removes a tag
/// that is not one quoted text (RFC 9110 §8.8.3), because clients could not compare its weak form.
pub(crate) fn weaken_tag(cx: &mut ResponseContext<'_>) {
    let Some(tag) = cx.header("ETag").map(<[u8]>::to_vec) else { return };
    let opaque = tag.strip_prefix(b"W/").unwrap_or(&tag);
    let inner = opaque.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
    match inner {
        Some(inner) if !inner.contains(&b'"') => {
            if opaque.len() == tag.len() {
                cx.set_header("ETag", &[b"W/", tag.as_slice()].concat());
            }
        }
        _ => cx.remove_header("ETag"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoding_is_accepted_by_its_name_and_quality() {
        for (list, expected) in [
            ("gzip", Some(true)),
            ("br, GZIP ;q=0.1", Some(true)),
            ("deflate gzip", Some(true)),
            ("gzip;q=1;x=y, br", Some(true)),
            ("gzip;q=0", Some(false)),
            ("gzip; q=0.000, br", Some(false)),
            ("gzip;q=none", Some(false)),
            ("xgzip, gzipx, *", None),
            ("", None),
        ] {
            assert_eq!(acceptance(list.as_bytes(), "gzip"), expected, "{list}");
        }
    }
}
