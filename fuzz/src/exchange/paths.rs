//! Paths: requests that reach the node must not have a path that circumvents the protection of a
//! plugin.
//!
//! The protected path is known. Every way in which servers interpret a path is tried on the
//! requests that reached the node. If one of the results is the protected path, the plugin should
//! have refused the request.

use serde_json::{Value, json};

use super::oracle::Play;

/// Path that no request may reach, in the configurations of this module.
const GUARDED: &str = "/guarded";

/// Part of these configurations that identifies them in reports.
const SIGN: &str = "^/guarded";

/// Returns plugins that check the path themselves, and others that check it in their conditions.
pub fn plugins() -> Vec<Value> {
    let rule = json!([["uri", "~~", SIGN]]);
    vec![
        json!({"uri-blocker": {"block_rules": [SIGN]}}),
        json!({"fault-injection": {"abort": {"http_status": 403, "vars": [rule]}}}),
        json!({"workflow": {"rules": [{"case": rule, "actions": [["return", {"code": 403}]]}]}}),
        json!({"uri-blocker": {"block_rules": [SIGN]}, "proxy-cache": {
            "cache_strategy": "memory", "cache_zone": "memory_cache", "cache_ttl": 1,
        }}),
        json!({"uri-blocker": {"block_rules": [SIGN]}, "key-auth": {"hide_credentials": true}}),
    ]
}

/// Returns the paths that reached the node although one interpretation of them is protected.
pub fn findings(play: &Play<'_>) -> Vec<String> {
    if !play.configuration.contains(SIGN) {
        return Vec::new();
    }
    let heads = play.seen.heads.iter();
    heads.filter_map(|head| check(target(head)?).err()).collect()
}

/// Returns the target in an HTTP/1.1 head, or in the fields of a stream.
fn target(head: &[u8]) -> Option<&[u8]> {
    let lines = || head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    if let Some(path) = lines().find_map(|line| line.strip_prefix(b":path: ")) {
        return Some(path);
    }
    lines().next()?.split(|byte| *byte == b' ').nth(1)
}

fn check(target: &[u8]) -> Result<(), String> {
    let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    for parameters in [Parameters::Data, Parameters::CutOff] {
        for backslash in [Backslash::Data, Backslash::Slash] {
            let read = read(path, parameters, backslash);
            if read.starts_with(GUARDED.as_bytes()) {
                let text = path.escape_ascii();
                return Err(format!("the node reads {text} as {}", read.escape_ascii()));
            }
        }
    }
    Ok(())
}

/// Interpretation of `;` in a segment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parameters {
    Data,
    CutOff,
}

/// Interpretation of a backslash.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Backslash {
    Data,
    Slash,
}

/// Returns the path as a server reads it that decodes everything once, including slashes.
fn read(path: &[u8], parameters: Parameters, backslash: Backslash) -> Vec<u8> {
    // Servlet containers remove parameters before they decode.
    let mut bare = Vec::new();
    let mut in_parameters = false;
    for &byte in path {
        in_parameters =
            byte != b'/' && (in_parameters || (byte == b';' && parameters == Parameters::CutOff));
        if !in_parameters {
            bare.push(byte);
        }
    }
    let mut decoded = Vec::new();
    let mut rest = bare.as_slice();
    while let Some((&first, after)) = rest.split_first() {
        let digit = |at: usize| after.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        let (byte, width) = match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => ((high << 4 | low) as u8, 2),
            _ => (first, 0),
        };
        decoded.push(if byte == b'\\' && backslash == Backslash::Slash { b'/' } else { byte });
        rest = &after[width..];
    }
    let mut segments: Vec<&[u8]> = Vec::new();
    for segment in decoded.split(|byte| *byte == b'/') {
        match segment {
            b"" | b"." => {}
            b".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    [&b"/"[..], &segments.join(&b'/')].concat()
}
