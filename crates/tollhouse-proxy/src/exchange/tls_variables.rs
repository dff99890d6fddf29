//! The variables of a TLS connection and of the certificate that the client has shown, under the names
//! that nginx gives them, without `ssl_`.
//!
//! A certificate is taken apart when somebody asks.

use std::borrow::Cow;

use tollhouse_model::certificate::CertificateView;

use crate::connection::handshake::TlsPeer;

type Value<'a> = Option<Cow<'a, [u8]>>;

/// The value of `ssl_<name>` on a connection over TLS.
pub(crate) fn named<'p>(peer: &'p TlsPeer, name: &str) -> Value<'p> {
    match name {
        "protocol" => text(peer.protocol),
        "cipher" => text(peer.cipher),
        "server_name" => text(peer.server_name()),
        "alpn_protocol" => text(peer.application_protocol),
        "session_reused" => text(if peer.is_resumed { "r" } else { "." }),
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
        // On several lines of a header, as nginx folds it.
        "cert" => view.pem().trim_end().replace('\n', "\n\t"),
        "escaped_cert" => escaped(&view.pem()),
        _ => return None,
    };
    Some(Cow::Owned(value.into_bytes()))
}

/// As nginx escapes it: everything but letters, digits and a few marks.
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
