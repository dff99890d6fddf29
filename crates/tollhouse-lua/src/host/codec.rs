//! Encodings and digests: JSON, base64, URIs, arguments, hashes.

use std::rc::Rc;

use aws_lc_rs::{digest, hmac, rand};
use base64::Engine;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use md5::{Digest, Md5};
use mlua::{LuaString, Result, Table, Value};
use tollhouse_model::variable::decode_argument;

use super::builder::{Host, error};
use crate::json::{from_lua, to_lua};

/// Arguments of a query that are decoded, as in OpenResty.
const ARGUMENTS_MAX: usize = 100;

/// Random bytes that a script may ask for at once.
const RANDOM_BYTES_MAX: usize = 4_096;

const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);
const PLAIN: GeneralPurpose = GeneralPurpose::new(&STANDARD, LENIENT);
const UNPADDED: GeneralPurpose = GeneralPurpose::new(&STANDARD, LENIENT.with_encode_padding(false));
const IN_URLS: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, LENIENT.with_encode_padding(false));

pub(super) fn add(host: &Host) -> Result<()> {
    let marks = Rc::clone(&host.marks);
    host.add("json_encode", move |lua, value: Value| {
        let text = from_lua(&marks, &value, 0)
            .and_then(|value| serde_json::to_string(&value).map_err(|error| error.to_string()));
        Ok(match text {
            Ok(text) => (Value::String(lua.create_string(text)?), None),
            Err(problem) => (Value::Nil, Some(problem)),
        })
    })?;
    let marks = Rc::clone(&host.marks);
    host.add("json_decode", move |lua, text: Value| {
        let Value::String(text) = text else {
            let kind = text.type_name();
            return Ok((Value::Nil, Some(format!("expected a string, got {kind}"))));
        };
        Ok(match serde_json::from_slice::<serde_json::Value>(&text.as_bytes()) {
            Ok(value) => (to_lua(lua, &marks, &value)?, None),
            Err(problem) => (Value::Nil, Some(problem.to_string())),
        })
    })?;
    base64_functions(host)?;
    digests(host)?;
    uris(host)
}

fn base64_functions(host: &Host) -> Result<()> {
    host.add("encode_base64", |_, (text, no_padding): (LuaString, Option<bool>)| {
        let engine = if no_padding == Some(true) { &UNPADDED } else { &PLAIN };
        Ok(engine.encode(text.as_bytes()))
    })?;
    host.add("decode_base64", |lua, text: LuaString| {
        let decoded = PLAIN.decode(text.as_bytes()).ok();
        decoded.map(|bytes| lua.create_string(bytes)).transpose()
    })?;
    host.add("encode_base64url", |_, text: LuaString| Ok(IN_URLS.encode(text.as_bytes())))?;
    host.add("decode_base64url", |lua, text: LuaString| {
        let decoded = IN_URLS.decode(text.as_bytes()).ok();
        decoded.map(|bytes| lua.create_string(bytes)).transpose()
    })?;
    host.add("to_hex", |_, text: LuaString| Ok(hex(&text.as_bytes())))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn digest_of(name: &str, text: &[u8]) -> Option<Vec<u8>> {
    let algorithm = match name {
        "md5" => return Some(Md5::digest(text).to_vec()),
        "sha1" => &digest::SHA1_FOR_LEGACY_USE_ONLY,
        "sha224" => &digest::SHA224,
        "sha256" => &digest::SHA256,
        "sha384" => &digest::SHA384,
        "sha512" => &digest::SHA512,
        _ => return None,
    };
    Some(digest::digest(algorithm, text).as_ref().to_vec())
}

fn hmac_of(name: &str, key: &[u8], text: &[u8]) -> Option<Vec<u8>> {
    let algorithm = match name {
        "sha1" => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        "sha256" => hmac::HMAC_SHA256,
        "sha384" => hmac::HMAC_SHA384,
        "sha512" => hmac::HMAC_SHA512,
        _ => return None,
    };
    Some(hmac::sign(&hmac::Key::new(algorithm, key), text).as_ref().to_vec())
}

fn digests(host: &Host) -> Result<()> {
    host.add("digest", |lua, (name, text): (LuaString, LuaString)| {
        match digest_of(&name.to_str()?, &text.as_bytes()) {
            Some(bytes) => lua.create_string(bytes),
            None => error("unknown digest"),
        }
    })?;
    host.add("md5", |_, text: LuaString| Ok(hex(&Md5::digest(&*text.as_bytes()))))?;
    host.add("md5_bin", |lua, text: LuaString| lua.create_string(Md5::digest(&*text.as_bytes())))?;
    host.add("sha1_bin", |lua, text: LuaString| {
        lua.create_string(digest_of("sha1", &text.as_bytes()).unwrap_or_default())
    })?;
    host.add("hmac_sha1", |lua, (key, text): (LuaString, LuaString)| {
        lua.create_string(hmac_of("sha1", &key.as_bytes(), &text.as_bytes()).unwrap_or_default())
    })?;
    host.add("hmac", |lua, (name, key, text): (LuaString, LuaString, LuaString)| {
        match hmac_of(&name.to_str()?, &key.as_bytes(), &text.as_bytes()) {
            Some(bytes) => lua.create_string(bytes),
            None => {
                error("this HMAC algorithm is not available: SHA1, SHA256, SHA384 and SHA512 are")
            }
        }
    })?;
    host.add("equal", |_, (one, other): (LuaString, LuaString)| {
        let (one, other) = (one.as_bytes(), other.as_bytes());
        Ok(aws_lc_rs::constant_time::verify_slices_are_equal(&one, &other).is_ok())
    })?;
    host.add("crc32", |_, text: LuaString| {
        let mut crc = u32::MAX;
        for byte in text.as_bytes().iter() {
            crc ^= u32::from(*byte);
            for _ in 0..8 {
                crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
            }
        }
        Ok(f64::from(!crc))
    })?;
    host.add("random_bytes", |lua, count: usize| {
        let mut bytes = vec![0; count.min(RANDOM_BYTES_MAX)];
        match rand::fill(&mut bytes) {
            Ok(()) => lua.create_string(bytes),
            Err(_) => error("the system's random number generator is unavailable"),
        }
    })?;
    host.add("uuid", |_, ()| {
        let mut bytes = [0; 16];
        if rand::fill(&mut bytes).is_err() {
            return error("the system's random number generator is unavailable");
        }
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        let text = hex(&bytes);
        let parts = [&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]];
        Ok(parts.join("-"))
    })
}

/// Escapes a text for a URI component. Letters, digits and `-._~` stay.
fn escape(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(byte);
        } else {
            out.extend(format!("%{byte:02X}").into_bytes());
        }
    }
}

fn append_argument(name: &[u8], value: &Value, out: &mut Vec<u8>) -> Result<()> {
    let mut put = |value: Option<&[u8]>| {
        if !out.is_empty() {
            out.push(b'&');
        }
        escape(name, out);
        if let Some(value) = value {
            out.push(b'=');
            escape(value, out);
        }
    };
    match value {
        Value::Boolean(true) => put(None),
        Value::Boolean(false) | Value::Nil => {}
        Value::String(text) => put(Some(&text.as_bytes())),
        Value::Table(items) => {
            for item in items.sequence_values::<Value>() {
                append_argument(name, &item?, out)?;
            }
        }
        other => put(Some(other.to_string()?.as_bytes())),
    }
    Ok(())
}

fn uris(host: &Host) -> Result<()> {
    host.add("escape_uri", |lua, text: LuaString| {
        let mut out = Vec::new();
        escape(&text.as_bytes(), &mut out);
        lua.create_string(out)
    })?;
    host.add("unescape_uri", |lua, text: LuaString| {
        let text = text.as_bytes();
        lua.create_string(&*decode_argument(&text))
    })?;
    host.add("encode_args", |lua, args: Table| {
        let mut out = Vec::new();
        for pair in args.pairs::<Value, Value>() {
            let (name, value) = pair?;
            append_argument(name.to_string()?.as_bytes(), &value, &mut out)?;
        }
        lua.create_string(out)
    })?;
    host.add("decode_args", |lua, (text, max): (LuaString, Option<usize>)| {
        let (text, args) = (text.as_bytes(), lua.create_table()?);
        let max = max.filter(|max| *max > 0).unwrap_or(ARGUMENTS_MAX).min(1_000);
        for part in text.split(|byte| *byte == b'&').filter(|part| !part.is_empty()).take(max) {
            let mut sides = part.splitn(2, |byte| *byte == b'=');
            let name = lua.create_string(&*decode_argument(sides.next().unwrap_or_default()))?;
            let value = match sides.next() {
                Some(value) => Value::String(lua.create_string(&*decode_argument(value))?),
                None => Value::Boolean(true),
            };
            match args.raw_get::<Value>(&name)? {
                Value::Nil => args.raw_set(name, value)?,
                Value::Table(list) => list.raw_push(value)?,
                first => args.raw_set(name, lua.create_sequence_from([first, value])?)?,
            }
        }
        Ok(args)
    })
}
