//! Variables of a TLS connection and its client certificate, under nginx's names without `ssl_`.
//!
//! The certificate is parsed on each access.

use std::borrow::Cow;

use tollhouse_model::certificate::CertificateView;

use crate::connection::handshake::TlsPeer;

type Value<'a> = Option<Cow<'a, [u8]>>;

/// Returns the value of `ssl_<name>` on a TLS connection.
pub(crate) fn named<'p>(peer: &'p TlsPeer, name: &str) -> Value<'p> {
    match name {
        "protocol" => text(peer.protocol),
        "cipher" => text(peer.cipher),
        "server_name" => text(peer.server_name()),
        "alpn_protocol" => text(peer.application_protocol),
        "session_reused" => text(peer.resumption()),
        "client_verify" => text(peer.verdict()),
        _ => certificate_value(peer, name.strip_prefix("client_")?),
    }
}

fn certificate_value<'p>(peer: &'p TlsPeer, name: &str) -> Value<'p> {
    let view = CertificateView::parse(peer.certificates.first()?)?;
    let value = match name {
        "s_dn" => view.subject(),
        "i_dn" => view.issuer(),
        "serial" => view.serial(),
        "fingerprint" => view.fingerprint(),
        "v_start" => view.not_before(),
        "v_end" => view.not_after(),
        "v_remain" => view.days_left(std::time::SystemTime::now()).to_string(),
        "raw_cert" => view.pem(),
        // Folded over several header lines, as nginx does.
        "cert" => view.pem().trim_end().replace('\n', "\n\t"),
        "escaped_cert" => escaped(&view.pem()),
        _ => return None,
    };
    Some(Cow::Owned(value.into_bytes()))
}

/// Percent-encodes a text as nginx does: all bytes except letters, digits and `-._~`.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 5 / 4);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn text<'a>(value: &'a str) -> Value<'a> {
    (!value.is_empty()).then_some(Cow::Borrowed(value.as_bytes()))
}
