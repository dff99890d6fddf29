//! Execution of `sign`: checks the signature of a request.

use std::borrow::Cow;

use tollhouse_plugin::{Identity, RequestContext};
use tollhouse_shenyu::answer::Answer;
use tollhouse_shenyu::sign::{Applications, SignHeaders, Signed};

use crate::turn::Turn;

/// Largest body that can be signed, because it is buffered before anything is forwarded.
pub(crate) const SIGNED_BODY_BYTES_MAX: u64 = 8 << 20;

/// Checks the signature of a request. The body must have been read if the rule covers it.
///
/// # Errors
///
/// The answer with which the request is refused.
pub(crate) fn check_signature(
    applications: &Applications,
    cx: &mut RequestContext<'_>,
    turn: &mut Turn,
    delay_minutes: u32,
    reads_body: bool,
) -> Result<(), Answer> {
    let header = |cx: &RequestContext<'_>, name: &str| {
        let value = cx.header(name).unwrap_or_default();
        String::from_utf8_lossy(&value).into_owned()
    };
    let version = header(cx, "version");
    let app_key = header(cx, "appKey");
    let timestamp = header(cx, "timestamp");
    let sign = header(cx, "sign");
    let mut authorization = header(cx, "ShenYu-Authorization");
    if authorization.is_empty() {
        authorization = header(cx, "Authorization");
    }
    let query = turn.query.as_deref().map(decode);
    let raw_query = turn.query.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
    let signed = Signed {
        headers: SignHeaders {
            version: &version,
            app_key: &app_key,
            timestamp: &timestamp,
            sign: &sign,
            authorization: &authorization,
        },
        path: turn.asked(),
        query: query.as_deref(),
        raw_query: &raw_query,
        body: reads_body.then(|| cx.body()),
        module: &turn.facts.module,
        now_ms: i64::try_from(cx.now().unix_ms).unwrap_or(i64::MAX),
    };
    let signer = applications.check(&signed, delay_minutes)?;
    let app_param = signer.app_param.map(str::to_owned);
    let app_key = signer.app_key.to_owned();
    cx.note_identity(Identity { by: "sign", name: app_key.as_bytes(), grant: b"" });
    turn.facts.app_key = app_key;
    // A client's own header would be mistaken for the gateway's.
    cx.remove_header("appParam");
    if let Some(app_param) = app_param {
        cx.set_header("appParam", app_param.as_bytes());
    }
    Ok(())
}

/// Returns the decoded parameters of a query, in order.
pub(crate) fn parameters(query: &[u8]) -> Vec<(Cow<'static, str>, Cow<'static, str>)> {
    let pairs = query.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let at = pair.iter().position(|byte| *byte == b'=');
            let (name, value) = at.map_or((pair, &b""[..]), |at| (&pair[..at], &pair[at + 1..]));
            (Cow::Owned(decode_part(name)), Cow::Owned(decode_part(value)))
        })
        .collect()
}

fn decode_part(part: &[u8]) -> String {
    let spaced: Vec<u8> =
        part.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
    decode(&spaced)
}

/// Percent-decodes bytes to text; invalid UTF-8 is replaced.
fn decode(bytes: &[u8]) -> String {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&byte, behind)) = rest.split_first() {
        let hex = |at: usize| behind.get(at).and_then(|digit| (*digit as char).to_digit(16));
        match (byte, hex(0), hex(1)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                rest = &behind[2..];
            }
            _ => {
                out.push(byte);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_in_their_order() {
        let found = parameters(b"b=1+2&a=%e4%bd%A0&&c&d=%zz=");
        let pairs: Vec<_> = found.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(pairs, [("b", "1 2"), ("a", "\u{4f60}"), ("c", ""), ("d", "%zz=")]);
    }
}
