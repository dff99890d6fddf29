//! The variables of a TLS connection and of the certificate that the client has shown, under the names
//! that nginx gives them, without `ssl_`.
//!
//! A certificate is taken apart when somebody asks; a connection that nobody asks about holds no more
//! of it than the session does.

use std::borrow::Cow;

use tollhouse_model::certificate::ShownCertificate;
use tollhouse_net::server_tls::ServerTls;
use tollhouse_telemetry::HandshakeFailure;

use crate::connection::client::Client;

type Value<'a> = Option<Cow<'a, [u8]>>;

/// The value of `ssl_<name>`; nothing on a plain connection.
pub(super) fn named<'c>(client: &'c Client, name: &str) -> Value<'c> {
    let tls = client.link.stream.server_tls()?;
    match name {
        "protocol" => text(tls.protocol()?),
        "cipher" => text(tls.cipher()?),
        "server_name" => text(tls.server_name()?),
        "alpn_protocol" => tls.application_protocol().map(Cow::Borrowed),
        "session_reused" => text(if tls.is_resumed() { "r" } else { "." }),
        "client_verify" => text(verdict(client)),
        _ => of_certificate(tls, name.strip_prefix("client_")?),
    }
}

/// `NONE` without a certificate, `SUCCESS`, or `FAILED:` with the reason.
fn verdict(client: &Client) -> &'static str {
    let checked = client.tls.as_ref().and_then(|peer| peer.checked.as_ref());
    let Some(checked) = checked else { return "NONE" };
    match checked.verdict {
        Ok(()) => "SUCCESS",
        Err(HandshakeFailure::ClientCertificateMissing) => "NONE",
        Err(HandshakeFailure::ClientCertificateExpired) => "FAILED:certificate has expired",
        Err(HandshakeFailure::ClientCertificateUntrusted) => {
            "FAILED:unable to get local issuer certificate"
        }
        Err(HandshakeFailure::ClientCertificateTooDeep) => "FAILED:certificate chain too long",
        Err(_) => "FAILED:certificate rejected",
    }
}

fn of_certificate<'a>(tls: &ServerTls, name: &str) -> Value<'a> {
    let shown = ShownCertificate::parse(tls.client_certificates().first()?)?;
    let value = match name {
        "s_dn" => shown.subject(),
        "i_dn" => shown.issuer(),
        "serial" => shown.serial(),
        "fingerprint" => shown.fingerprint(),
        "v_start" => shown.not_before(),
        "v_end" => shown.not_after(),
        "v_remain" => shown.days_left(std::time::SystemTime::now()).to_string(),
        "raw_cert" => shown.pem(),
        // On several lines of a header, as nginx folds it.
        "cert" => shown.pem().trim_end().replace('\n', "\n\t"),
        "escaped_cert" => escaped(&shown.pem()),
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
    Some(Cow::Borrowed(value.as_bytes()))
}
