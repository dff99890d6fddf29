//! Parser of upstreams, by the schema of APISIX's Admin API.
//!
//! Nodes, discovery, balancing, slow start and health checks are parsed in the files beside this
//! one.

use serde_json::Value;

use super::{
    HttpVersion, KeepalivePool, NodeTrust, PassHost, ProxyHeader, Scheme, Upstream, UpstreamTls,
};
use super::{balance, checks, discovery, nodes, warm_up};
use crate::limits::{AUTHORITIES_CHARS_MAX, CERTIFICATE_CHARS, PRIVATE_KEY_CHARS};
use crate::reader::{Fields, Reader, Unknown};
use crate::{Id, Problems, certificate};

const FIELDS: [&str; 24] = [
    "id",
    "nodes",
    "service_name",
    "discovery_type",
    "discovery_args",
    "type",
    "hash_on",
    "key",
    "warm_up_conf",
    "warmup",
    "scheme",
    "http_version",
    "retries",
    "retry_timeout",
    "timeout",
    "pass_host",
    "upstream_host",
    "proxy_protocol",
    "keepalive_pool",
    "tls",
    "checks",
    "name",
    "desc",
    "labels",
];

/// Prefix of a certificate or key in PEM form.
const PEM_MARK: &str = "-----BEGIN";

#[derive(Clone, Copy)]
enum PassHostMode {
    Pass,
    Node,
    Rewrite,
}

impl Upstream {
    /// Parses a document; returns `None` if any problem is an error. An inline upstream of a route
    /// or service has no id.
    pub fn parse(id: Option<Id>, value: &Value, path: &str) -> (Option<Self>, Problems) {
        let mut problems = Problems::new();
        let upstream = read(&mut Reader::new(path, &mut problems), id, value);
        (upstream.filter(|_| !problems.has_errors()), problems)
    }

    /// Reads the `upstream` of a route or service.
    pub(crate) fn read_inline(reader: &mut Reader<'_>, value: &Value) -> Option<Self> {
        read(reader, None, value)
    }
}

fn read(reader: &mut Reader<'_>, id: Option<Id>, value: &Value) -> Option<Upstream> {
    let fields = reader.record(value, &FIELDS, Unknown::Refused)?;
    check_source(reader, fields);
    reader.own_keys(fields, id.as_ref());
    let description = reader.description(fields);
    // Read first, because default ports, HTTP versions and trust depend on it.
    let scheme = reader.optional(fields, "scheme", read_scheme).unwrap_or(Scheme::Http);
    Some(Upstream {
        id,
        nodes: reader
            .optional(fields, "nodes", |reader, value| nodes::read(reader, value, scheme))
            .unwrap_or_default(),
        discovery: discovery::read(reader, fields),
        balance: balance::read(reader, fields),
        warm_up: warm_up::read(reader, fields),
        scheme,
        http_version: reader
            .optional(fields, "http_version", |reader, value| {
                read_http_version(reader, value, scheme)
            })
            .unwrap_or_default(),
        retries: reader.optional(fields, "retries", |reader, value| {
            reader.integer(value, 0..=i64::from(u32::MAX)).and_then(|count| count.try_into().ok())
        }),
        retry_timeout: reader
            .optional(fields, "retry_timeout", Reader::seconds)
            .filter(|time| !time.is_zero()),
        timeout: reader.optional(fields, "timeout", Reader::timeouts),
        pass_host: read_pass_host(reader, fields),
        proxy_protocol: reader.optional(fields, "proxy_protocol", |reader, value| {
            reader.one_of(value, &[("v1", ProxyHeader::V1), ("v2", ProxyHeader::V2)])
        }),
        keepalive_pool: reader.optional(fields, "keepalive_pool", read_keepalive_pool),
        tls: reader.optional(fields, "tls", read_tls).flatten(),
        node_trust: reader
            .optional(fields, "tls", |reader, value| read_node_trust(reader, value, scheme))
            .unwrap_or_default(),
        checks: reader.optional(fields, "checks", checks::read),
        name: description.name,
        desc: description.desc,
        labels: description.labels,
    })
}

/// Requires exactly one source of nodes: a list, or service discovery.
fn check_source(reader: &mut Reader<'_>, fields: &Fields) {
    let listed = fields.contains_key("nodes");
    let named = fields.contains_key("service_name") && fields.contains_key("discovery_type");
    if listed && named {
        let reason = "value should match only one schema, but matches both schemas 1 and 2";
        reader.error_unquoted(reason, "give either \"nodes\" or a \"service_name\"");
    }
    if !listed && !named {
        let reason = "value should match only one schema, but matches none";
        let hint = "give \"nodes\", or \"service_name\" together with \"discovery_type\"";
        reader.error_unquoted(reason, hint);
    }
}

fn read_scheme(reader: &mut Reader<'_>, value: &Value) -> Option<Scheme> {
    match reader.text(value)? {
        "http" => Some(Scheme::Http),
        "https" => Some(Scheme::Https),
        "tcp" => Some(Scheme::Tcp),
        "tls" => Some(Scheme::Tls),
        "udp" => Some(Scheme::Udp),
        "grpc" => Some(Scheme::Grpc),
        "grpcs" => Some(Scheme::Grpcs),
        other @ "kafka" => {
            let reason = format!("scheme \"{other}\" is not served yet");
            let hint = "schemes served are http, https, grpc, grpcs, tcp, tls and udp";
            reader.error(value, reason, hint);
            None
        }
        _ => {
            reader.error(
                value,
                "matches none of the enum values",
                "use http, https, grpc or grpcs, and for stream routes tcp, tls or udp",
            );
            None
        }
    }
}

fn read_http_version(
    reader: &mut Reader<'_>,
    value: &Value,
    scheme: Scheme,
) -> Option<HttpVersion> {
    let version = match reader.text(value)? {
        "1.1" => HttpVersion::Http11,
        "2" => HttpVersion::Http2,
        _ => {
            let reason = "matches none of the enum values";
            reader.error(value, reason, "use \"1.1\" or \"2\"");
            return None;
        }
    };
    if !matches!(scheme, Scheme::Http | Scheme::Https) {
        let reason = "has no effect: it applies to the schemes http and https only";
        reader.warning(value, reason, "remove it");
    }
    Some(version)
}

fn read_pass_host(reader: &mut Reader<'_>, fields: &Fields) -> PassHost {
    let host = reader.optional(fields, "upstream_host", Reader::host);
    let mode = reader.optional(fields, "pass_host", |reader, value| {
        reader.one_of(
            value,
            &[
                ("pass", PassHostMode::Pass),
                ("node", PassHostMode::Node),
                ("rewrite", PassHostMode::Rewrite),
            ],
        )
    });
    match (mode, host) {
        (None | Some(PassHostMode::Pass), _) => PassHost::Pass,
        (Some(PassHostMode::Node), _) => PassHost::Node,
        (Some(PassHostMode::Rewrite), Some(host)) => PassHost::Rewrite(host.to_owned()),
        (Some(PassHostMode::Rewrite), None) => {
            // An invalid host was reported at its own field.
            if !fields.contains_key("upstream_host") {
                let reason = "`upstream_host` can't be empty when `pass_host` is `rewrite`";
                reader.error_unquoted(reason, "give the host that nodes shall see");
            }
            PassHost::Pass
        }
    }
}

fn read_keepalive_pool(reader: &mut Reader<'_>, value: &Value) -> Option<KeepalivePool> {
    let fields = reader.object(value, &["size", "idle_timeout", "requests"], Unknown::Ignored)?;
    let default = KeepalivePool::default();
    let mut count = |name, default| {
        let value = reader
            .optional(fields, name, |reader, value| reader.integer(value, 1..=i64::from(u32::MAX)));
        value.and_then(|count| count.try_into().ok()).unwrap_or(default)
    };
    Some(KeepalivePool {
        size: count("size", default.size),
        requests: count("requests", default.requests),
        idle_timeout: reader
            .optional(fields, "idle_timeout", Reader::seconds)
            .unwrap_or(default.idle_timeout),
    })
}

/// Reads the client certificate; `Some(None)` if none is configured.
fn read_tls(reader: &mut Reader<'_>, value: &Value) -> Option<Option<UpstreamTls>> {
    let known = ["client_cert_id", "client_cert", "client_key", "verify", "ca"];
    let fields = reader.object(value, &known, Unknown::Ignored)?;
    let object = reader.optional(fields, "client_cert_id", Reader::id);
    if object.is_some() && (fields.contains_key("client_cert") || fields.contains_key("client_key"))
    {
        let reason = "client_cert_id cannot be combined with client_cert and client_key";
        reader.error_unquoted(reason, "leave out client_cert and client_key");
    }
    for (one, other) in [("client_cert", "client_key"), ("client_key", "client_cert")] {
        if fields.contains_key(one) && !fields.contains_key(other) {
            reader.error_unquoted(
                format!("property \"{other}\" is required when \"{one}\" is set"),
                "",
            );
        }
    }
    let client_cert = reader.optional(fields, "client_cert", |reader, value| {
        let text = reader.secret_within(value, CERTIFICATE_CHARS.0..=CERTIFICATE_CHARS.1)?;
        pem(reader, text, "failed to parse cert: no PEM block")
    });
    let client_key = reader.optional(fields, "client_key", |reader, value| {
        let text = reader.secret_within(value, PRIVATE_KEY_CHARS.0..=PRIVATE_KEY_CHARS.1)?;
        pem(reader, text, "failed to decrypt previous encrypted key")
    });
    // An incomplete pair was reported above. It must not lead to a handshake without a certificate.
    let pair = client_cert.zip(client_key);
    let pair = pair.map(|(client_cert, client_key)| UpstreamTls::Pair { client_cert, client_key });
    Some(object.map(UpstreamTls::Object).or(pair))
}

/// Reads how certificates of nodes are verified. `ca` without `verify` implies `verify: true`.
fn read_node_trust(reader: &mut Reader<'_>, value: &Value, scheme: Scheme) -> Option<NodeTrust> {
    // A value that is not an object was reported by `read_tls`.
    let fields = value.as_object()?;
    let verify = reader.optional(fields, "verify", Reader::boolean);
    let ca = reader.optional(fields, "ca", |reader, value| {
        let text = reader.secret_within(value, CERTIFICATE_CHARS.0..=AUTHORITIES_CHARS_MAX)?;
        if let Err(error) = certificate::check_authorities(text) {
            let hint = "give the PEM text of the certificates that sign those of nodes";
            reader.error_unquoted(format!("failed to read the authorities: {error}"), hint);
            return None;
        }
        Some(text.to_owned())
    });
    if verify == Some(false) || (verify.is_none() && !fields.contains_key("ca")) {
        if let Some(value) = fields.get("ca") {
            reader.optional(fields, "ca", |reader, _| {
                let reason = "has no effect: verify is false";
                reader.warning(value, reason, "leave verify out, or set it to true");
                Some(())
            });
        }
        return None;
    }
    if !scheme.is_encrypted() {
        let name = if fields.contains_key("verify") { "verify" } else { "ca" };
        reader.optional(fields, name, |reader, value| {
            let reason = "has no effect: nodes of this scheme speak no TLS";
            reader.warning(value, reason, "use the scheme https, grpcs or tls");
            Some(())
        });
    }
    Some(ca.map_or(NodeTrust::System, NodeTrust::Authorities))
}

fn pem(reader: &mut Reader<'_>, text: &str, reason: &str) -> Option<String> {
    if !text.contains(PEM_MARK) {
        reader.error_unquoted(reason, "give the PEM text, from -----BEGIN to the end");
        return None;
    }
    Some(text.to_owned())
}
