//! Called method and target address, from ghz's settings.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::settings::Settings;
use tollhouse_load::case::{GrpcCall, GrpcData, TlsOptions};
use tollhouse_load::error::BenchError;

/// Largest file of metadata in bytes; headers have a few kilobytes.
const METADATA_BYTES_MAX: u64 = 1 << 20;
/// Default limit of an answer in bytes, as in ghz.
const ANSWER_BYTES_MAX: usize = i32::MAX as usize;
/// Port of a target without one, as in gRPC.
const PORT_DEFAULT: &str = "443";
/// Path for data given as `@`.
const STANDARD_INPUT: &str = "/dev/stdin";

pub(super) struct Called {
    pub(super) target: String,
    pub(super) connect_to: Option<String>,
    pub(super) tls: TlsOptions,
    pub(super) grpc: GrpcCall,
}

pub(super) fn read(settings: &Settings) -> Result<Called, BenchError> {
    let scheme = if settings.toggle("insecure")? { "grpc" } else { "grpcs" };
    let Some(host) = settings.text("host")? else {
        return Err(settings.error("host", "is missing; write host:port at the end of the line"));
    };
    let place = place(&host).map_err(|why| settings.error("host", why))?;
    let path = |key: &str| Ok::<_, BenchError>(settings.text(key)?.map(PathBuf::from));
    let tls = if settings.toggle("insecure")? {
        // ghz ignores all TLS settings then.
        TlsOptions::default()
    } else {
        TlsOptions {
            insecure: settings.toggle("skipTLS")?,
            ca: path("cacert")?,
            cert: path("cert")?,
            key: path("key")?,
            server_name: settings.text("cname")?,
        }
    };
    let (target, connect_to) = match place {
        Place::Address(address) => (format!("{scheme}://{address}"), None),
        Place::Socket(path) => (format!("{scheme}://localhost"), Some(format!("unix:{path}"))),
    };
    Ok(Called { target, connect_to, tls, grpc: grpc(settings)? })
}

/// Kind of address in a host setting.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// Network address in the form `host:port`.
    Address(String),
    Socket(String),
}

/// Parses a gRPC target name: `host:port`, `dns:///host:port`, `unix:/path` and so on.
fn place(host: &str) -> Result<Place, String> {
    let after_authority = |rest: &str| match rest.strip_prefix("//") {
        Some(rest) => rest.split_once('/').map_or_else(String::new, |(_, rest)| rest.to_owned()),
        None => rest.to_owned(),
    };
    let address = match host.split_once(':') {
        Some(("unix", rest)) => {
            let path = rest.strip_prefix("//").unwrap_or(rest);
            return Ok(Place::Socket(path.to_owned()));
        }
        // `dns:8080` is a host with a port, as in gRPC.
        Some(("dns" | "passthrough", rest)) if !rest.bytes().all(|byte| byte.is_ascii_digit()) => {
            after_authority(rest)
        }
        Some(("ipv4" | "ipv6", rest)) => rest.to_owned(),
        Some((scheme @ ("http" | "https" | "grpc" | "grpcs" | "xds"), rest))
            if rest.starts_with("//") =>
        {
            return Err(format!("`{scheme}://` is not part of it; write host:port"));
        }
        _ => host.to_owned(),
    };
    if address.is_empty() || address.contains(['/', ',', ' ']) {
        return Err(format!("`{host}` is not host:port"));
    }
    let after_bracket = address.rsplit_once(']').map_or(address.as_str(), |(_, rest)| rest);
    if after_bracket.contains(':') {
        return Ok(Place::Address(address));
    }
    Ok(Place::Address(format!("{address}:{PORT_DEFAULT}")))
}

fn grpc(settings: &Settings) -> Result<GrpcCall, BenchError> {
    let Some(call) = settings.text("call")? else {
        return Err(settings.error("call", "is missing, such as package.Service.Method"));
    };
    let proto = settings.text("proto")?.map(PathBuf::from);
    if proto.as_ref().is_some_and(|path| path.extension().is_none_or(|end| end != "proto")) {
        return Err(settings.error("proto", "must be a file whose name ends with .proto"));
    }
    let answer_bytes_max = settings.bytes("max-recv-message-size")?;
    let answer_bytes_max = answer_bytes_max.and_then(|bytes| usize::try_from(bytes).ok());
    let reflect_metadata = settings.texts_by_name("reflect-metadata")?.unwrap_or_default();
    let grpc = GrpcCall {
        call,
        protoset: match proto {
            // As in ghz, the `.proto` file is used if both are given.
            Some(_) => None,
            None => settings.text("protoset")?.map(PathBuf::from),
        },
        proto,
        import_paths: settings.texts("import-paths")?.into_iter().map(PathBuf::from).collect(),
        data: data(settings)?,
        metadata: metadata(settings)?,
        reflect_metadata: reflect_metadata.into_iter().collect(),
        authority: settings.text("authority")?,
        stream_interval: settings.time_above_zero("stream-interval")?,
        stream_call_duration: settings.time_above_zero("stream-call-duration")?,
        stream_call_count: settings.count("stream-call-count")?.filter(|count| *count > 0),
        stream_dynamic_messages: settings.toggle("stream-dynamic-messages")?,
        disable_template_data: settings.toggle("disable-template-data")?,
        disable_template_functions: settings.toggle("disable-template-functions")?,
        compression: settings.toggle("enable-compression")?,
        answer_bytes_max: Some(answer_bytes_max.unwrap_or(ANSWER_BYTES_MAX)),
    };
    if grpc.stream_dynamic_messages && matches!(grpc.data, Some(GrpcData::BinaryFile(_))) {
        let why = "an encoded message holds nothing to fill in";
        return Err(settings.error("stream-dynamic-messages", why));
    }
    Ok(grpc)
}

/// Returns the messages. An encoded message takes precedence over a file, which takes precedence
/// over inline data.
fn data(settings: &Settings) -> Result<Option<GrpcData>, BenchError> {
    if let Some(path) = settings.text("binary-file")? {
        return Ok(Some(GrpcData::BinaryFile(path.into())));
    }
    if settings.toggle("binary")? {
        return Ok(Some(GrpcData::BinaryFile(STANDARD_INPUT.into())));
    }
    if let Some(path) = settings.text("data-file")? {
        let path = if path == "@" { STANDARD_INPUT.into() } else { path };
        return Ok(Some(GrpcData::JsonFile(path.into())));
    }
    let Some(value) = settings.any("data") else { return Ok(None) };
    let is_messages = match value {
        Value::String(text) if text == "@" => {
            return Ok(Some(GrpcData::JsonFile(STANDARD_INPUT.into())));
        }
        Value::Object(_) => true,
        Value::Array(items) => !items.is_empty() && items.iter().all(Value::is_object),
        _ => false,
    };
    if !is_messages {
        return Err(settings.error("data", "must be an object, or a list of objects"));
    }
    Ok(Some(GrpcData::Json(value.to_string())))
}

fn metadata(settings: &Settings) -> Result<Option<Value>, BenchError> {
    let Some(path) = settings.text("metadata-file")?.map(PathBuf::from) else {
        let texts = settings.texts_by_name("metadata")?;
        return Ok(texts.filter(|texts| !texts.is_empty()).map(|texts| {
            Value::Object(texts.into_iter().map(|(name, text)| (name, text.into())).collect())
        }));
    };
    let text = tollhouse_load::file::read_text(&path, METADATA_BYTES_MAX)?;
    let value: Value = serde_json::from_str(&text)
        .map_err(|error| BenchError::File { path: path.clone(), why: error.to_string() })?;
    if !value.is_object() {
        return Err(BenchError::File { path, why: "must be an object of texts".into() });
    }
    Ok(Some(value))
}

/// Converts a time to nanoseconds, as in ghz's report.
pub(super) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_read_as_grpc_names_targets() {
        let address = |text: &str| Place::Address(text.to_owned());
        for (host, expected) in [
            ("127.0.0.1:8091", address("127.0.0.1:8091")),
            ("localhost", address("localhost:443")),
            ("dns:///h.example:50051", address("h.example:50051")),
            ("dns://8.8.8.8/h.example:50051", address("h.example:50051")),
            ("dns:h.example:50051", address("h.example:50051")),
            ("dns:50051", address("dns:50051")),
            ("passthrough:///h:1", address("h:1")),
            ("ipv4:1.2.3.4:5", address("1.2.3.4:5")),
            ("[::1]:50051", address("[::1]:50051")),
            ("[::1]", address("[::1]:443")),
            ("unix:/run/x.sock", Place::Socket("/run/x.sock".into())),
            ("unix:///run/x.sock", Place::Socket("/run/x.sock".into())),
        ] {
            assert_eq!(place(host), Ok(expected), "{host}");
        }
        for host in ["http://h:1", "xds:///h", "", "a b", "dns:///", "ipv4:1.2.3.4:5,6.7.8.9:5"] {
            assert!(place(host).is_err(), "{host}");
        }
    }
}
