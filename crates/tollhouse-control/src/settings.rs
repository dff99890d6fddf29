//! Conversion of the bootstrap file into settings of each part: data plane, name resolution, and
//! access log.
//!
//! Only the access log is opened here. Submodules check settings and divide file descriptors and
//! memory.

mod check;
pub mod descriptors;
mod machine_memory;
pub mod spans;

use std::sync::Arc;

use anyhow::Context;
use tollhouse_config::Bootstrap;
use tollhouse_config::bootstrap::{
    AccessLog as AccessLogSettings, AccessLogFormat, AccessLogTarget,
    AmbiguousPaths as AmbiguousPathsKey, ClientHalfClose, Peer, RouterMode, Workers,
};
use tollhouse_http::HeadLimits;
use tollhouse_model::body::BodyLimits;
use tollhouse_model::stream_route::ListenedPorts;
use tollhouse_model::{Problem, network};
use tollhouse_net::HalfClose;
use tollhouse_net::resolve::ResolverSettings;
use tollhouse_net::server_tls::{HostError, ServerTerms, Versions};
use tollhouse_net::unix::UNIX_PEER;
use tollhouse_plugins::shenyu::PluginEngines;
use tollhouse_proxy::Settings;
use tollhouse_proxy::l4::open_ports::OpenPorts;
use tollhouse_proxy::settings::{
    Limits, ProxyProtocol, RealIp, ShenyuSettings, StreamSettings, TlsSettings,
};
use tollhouse_router::{AmbiguousPaths, Mode, NormalizeOptions};
use tollhouse_shenyu::answer::Statuses;
use tollhouse_shenyu::filters::{Cross, Filters, LocalKey};
use tollhouse_shenyu_gateway::Terms as ShenyuTerms;
use tollhouse_stdx::MemoryBudget;
use tollhouse_telemetry::Metrics;
use tollhouse_telemetry::access_log::{AccessLog, Escape, Layout, Target, Variable};

pub use self::check::check;

use crate::plugins::{brand, server_token};

/// Divisor of the usable memory that gives the default budget for buffered bodies and responses.
/// The rest is for other data of the process and for socket buffers of the system.
const MEMORY_PART: u64 = 4;

/// Derives the settings of the data plane from the bootstrap configuration.
pub fn data_plane(bootstrap: &Bootstrap) -> Settings {
    let networks = |peers: &[Peer]| {
        let network = |peer: &Peer| match peer {
            Peer::Network(network) => Some(*network),
            Peer::UnixSocket => network::parse(&UNIX_PEER.ip().to_string()),
        };
        peers.iter().filter_map(network).collect()
    };
    let trusted = bootstrap.trusted_addresses.clone();
    Settings {
        router_mode: match bootstrap.router {
            RouterMode::HostUri => Mode::HostUri,
            RouterMode::Uri => Mode::Uri,
            RouterMode::UriWithParameter => Mode::UriWithParameter,
        },
        normalize: NormalizeOptions {
            servlet_params: bootstrap.normalize_uri_like_servlet,
            encoded_slash: bootstrap.match_uri_encoded_slash,
            delete_tail_slash: bootstrap.delete_uri_tail_slash,
        },
        ambiguous_paths: match bootstrap.ambiguous_paths {
            AmbiguousPathsKey::Refuse => AmbiguousPaths::Refuse,
            AmbiguousPathsKey::Allow => AmbiguousPaths::Allow,
        },
        tls: tls(bootstrap),
        limits: limits(bootstrap),
        server: server_token(bootstrap).to_owned(),
        brand: brand(bootstrap),
        trace_in_errors: bootstrap.tracing.in_errors,
        show_upstream_status: bootstrap.show_upstream_status_in_response_header,
        on_client_half_close: match bootstrap.on_client_half_close {
            ClientHalfClose::Abort => HalfClose::Abort,
            ClientHalfClose::Wait => HalfClose::Wait,
        },
        // An empty list means that the setting is absent, which differs from trusting no address.
        trusted_addresses: (!trusted.is_empty()).then_some(trusted),
        real_ip: RealIp {
            header: bootstrap.real_ip.header.to_ascii_lowercase(),
            from: networks(&bootstrap.real_ip.from),
            recursive: bootstrap.real_ip.recursive,
        },
        upstream_keepalive: bootstrap.upstream_keepalive,
        disable_health_checks: bootstrap.disable_upstream_healthcheck,
        resolve_timeout: bootstrap.dns.timeout,
        drain_time: bootstrap.drain_time,
        streams: streams(bootstrap),
        proxy_protocol: ProxyProtocol {
            from: bootstrap.proxy_protocol.from.clone(),
            header_time: bootstrap.proxy_protocol.header_time,
        },
        shenyu: shenyu(bootstrap),
    }
}

/// Returns the settings for requests that ShenYu's objects handle.
fn shenyu(bootstrap: &Bootstrap) -> ShenyuSettings {
    let shenyu = &bootstrap.shenyu;
    ShenyuSettings {
        terms: ShenyuTerms {
            statuses: match shenyu.compatible_statuses {
                true => Statuses::Compatible,
                false => Statuses::Honest,
            },
            sign_delay_minutes: u32::try_from(shenyu.sign_delay.as_secs().div_ceil(60))
                .unwrap_or(u32::MAX),
            namespace: shenyu.namespace.clone().unwrap_or_default(),
            filters: shenyu_filters(shenyu),
            opens_ports: shenyu.tcp_address.is_some(),
        },
        comes_first: shenyu.comes_first,
        // A serving process replaces them by engines that also deliver data.
        engines: Some(Arc::new(PluginEngines::default())),
        ports: shenyu.tcp_address.as_deref().and_then(|address| {
            let address = address.parse().ok()?;
            Some(Arc::new(OpenPorts::new(address)))
        }),
        // Set by a serving process.
        local: None,
    }
}

fn shenyu_filters(shenyu: &tollhouse_config::bootstrap::Shenyu) -> Filters {
    let cross = &shenyu.cross;
    let set = |paths: &[String]| paths.iter().cloned().collect();
    // Invalid digests have been refused by `check`.
    let local_key = shenyu.local_key_sha512.as_ref();
    Filters {
        collapse_slashes: shenyu.collapse_slashes,
        local_key: local_key.and_then(|digest| LocalKey::parse(digest.expose()).ok()),
        cross: cross.enabled.then(|| Cross {
            origins: set(&cross.origins),
            headers: cross.headers.clone(),
            exposed: cross.exposed.clone(),
            credentials: cross.credentials,
            max_age_s: cross.max_age.as_secs(),
        }),
        health_prefixes: shenyu.health_paths.clone(),
        actuator: shenyu.actuator,
        file_bytes_max: shenyu.file_bytes.unwrap_or(0),
        exclude: set(&shenyu.exclude_paths),
        fallback: set(&shenyu.fallback_paths),
    }
}

fn streams(bootstrap: &Bootstrap) -> StreamSettings {
    let limits = &bootstrap.limits;
    let count = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    StreamSettings {
        idle_time: limits.stream_idle_time,
        half_closed_time: limits.stream_half_closed_time,
        first_bytes_time: limits.stream_first_bytes_time,
        udp_idle_time: limits.udp_idle_time,
        udp_sessions_per_worker: count(limits.udp_sessions_per_worker),
        udp_sessions_per_address: count(limits.udp_sessions_per_address),
        listened: listened_ports(bootstrap),
    }
}

/// Returns the ports with listeners for stream routes.
pub fn listened_ports(bootstrap: &Bootstrap) -> ListenedPorts {
    ListenedPorts::only(bootstrap.listen.stream.iter().map(|listener| listener.address.port()))
}

/// Returns the TLS settings for clients, without ticket keys: only a serving process creates those.
fn tls(bootstrap: &Bootstrap) -> TlsSettings {
    TlsSettings {
        // `check` has already refused unknown cipher suites.
        terms: server_terms(bootstrap).unwrap_or_default(),
        fallback_sni: bootstrap.tls.fallback_sni.as_deref().map(plain_host),
    }
}

/// Returns the TLS cipher suites and versions.
///
/// # Errors
/// If a cipher suite is unknown.
fn server_terms(bootstrap: &Bootstrap) -> Result<ServerTerms, HostError> {
    let tls = &bootstrap.tls;
    let named = |version: &str| tls.protocols.iter().any(|name| name == version);
    let versions = Versions { v1_2: named("TLSv1.2"), v1_3: named("TLSv1.3") };
    ServerTerms::new(&tls.ciphers, versions, None)
}

/// Returns the host name in the form used for comparisons with SNI: lower case, no trailing dot.
fn plain_host(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

fn limits(bootstrap: &Bootstrap) -> Limits {
    let limits = &bootstrap.limits;
    let count = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    Limits {
        head: HeadLimits {
            line_bytes: limits.request_line_bytes,
            fields_bytes: limits.header_bytes,
            header_count: limits.header_count,
        },
        body_bytes: limits.body_bytes.unwrap_or(u64::MAX),
        grpc_message_bytes: limits.grpc_message_bytes,
        variables: BodyLimits { fields: limits.post_args_bytes, graphql: limits.graphql_bytes },
        memory: MemoryBudget::new(
            limits.buffered_bytes.unwrap_or_else(|| machine_memory::usable_bytes() / MEMORY_PART),
        ),
        header_read_time: limits.header_read_time,
        idle_time: limits.idle_time,
        body_read_time: limits.body_read_time,
        send_time: limits.send_time,
        requests_per_connection: u64::from(limits.requests_per_connection),
        http2_streams: limits.http2_streams,
        connections_per_worker: count(limits.connections_per_worker),
        connections_per_address: limits.connections_per_address.map_or(0, count),
        silent_connections_per_worker: count(limits.silent_connections_per_worker),
        silent_connections_per_address: count(limits.silent_connections_per_address),
        handshakes_per_worker: i64::from(limits.handshakes_per_worker),
        handshake_time: limits.handshake_time,
        client_hello_bytes: limits.client_hello_bytes,
        ..Limits::default()
    }
}

pub fn resolver(bootstrap: &Bootstrap) -> ResolverSettings {
    ResolverSettings {
        servers: bootstrap.dns.servers.clone(),
        timeout: bootstrap.dns.timeout,
        valid: bootstrap.dns.valid,
    }
}

/// Returns the number of threads for a setting; `Auto` is one per available CPU.
pub fn worker_count(workers: Workers) -> usize {
    match workers {
        Workers::Count(count) => usize::from(count).max(1),
        Workers::Auto => std::thread::available_parallelism().map_or(1, usize::from),
    }
}

/// Opens the access log; `None` if it is off.
///
/// # Errors
/// If the format is invalid or the file cannot be opened.
pub fn access_log(bootstrap: &Bootstrap, metrics: &Metrics) -> anyhow::Result<Option<AccessLog>> {
    let layout = access_log_layout(&bootstrap.access_log);
    let Some(layout) = layout.map_err(|problem| anyhow::anyhow!("{problem}"))? else {
        return Ok(None);
    };
    let target = match &bootstrap.access_log.file {
        AccessLogTarget::StandardOutput => Target::Stdout,
        AccessLogTarget::File(path) => Target::File(path.clone()),
    };
    AccessLog::start(layout, &target, Arc::clone(metrics.process()))
        .with_context(|| {
            format!(
                "the access log {target:?} cannot be opened; check access_log.file and the \
                 permissions of its folder"
            )
        })
        .map(Some)
}

/// Returns the layout of a log line; `None` if the log is off.
fn access_log_layout(settings: &AccessLogSettings) -> Result<Option<Layout>, Problem> {
    match &settings.format {
        AccessLogFormat::Off => Ok(None),
        AccessLogFormat::Combined => Ok(Some(Layout::combined())),
        AccessLogFormat::Json => Ok(Some(Layout::json(&json_fields(&settings.fields)?))),
        AccessLogFormat::Template(text) => Layout::template(text, Escape::Default)
            .map(Some)
            .map_err(|error| Problem::error("access_log.format", error.to_string())),
    }
}

fn json_fields(names: &[String]) -> Result<Vec<Variable>, Problem> {
    if names.is_empty() {
        return Ok(tollhouse_telemetry::access_log::JSON_FIELDS.to_vec());
    }
    let field = |name: &String| {
        Variable::from_name(name.trim_start_matches('$')).ok_or_else(|| {
            let reason = format!("no field is called \"{name}\"");
            let all = Variable::ALL.iter().map(|variable| variable.name());
            let hint = tollhouse_stdx::nearest(name, all)
                .map(|near| format!("did you mean \"{near}\"?"))
                .unwrap_or_default();
            Problem::error("access_log.fields", reason).with_hint(hint)
        })
    };
    names.iter().map(field).collect()
}
