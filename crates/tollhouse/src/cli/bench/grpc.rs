//! `tollhouse bench grpc`: measures gRPC calls. `tollhouse bench ghz` has ghz's own options.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tollhouse_load::case::{Case, GrpcCall, GrpcData, Protocol};
use tollhouse_load::error::BenchError;
use tollhouse_load::plan::Plan;
use tollhouse_stdx::fine_duration;

use super::load::LoadArguments;
use super::measure::measure;
use super::output::{OutputArguments, SessionArguments};
use super::tls::TlsArguments;

/// Arguments of `bench grpc`.
#[derive(Debug, Args)]
pub struct GrpcArguments {
    /// Target: HOST:PORT, or grpc://HOST:PORT; grpcs:// with TLS.
    target: String,
    #[command(flatten)]
    call: CallArguments,
    #[command(flatten)]
    load: LoadArguments,
    #[command(flatten)]
    tls: TlsArguments,
    #[command(flatten)]
    session: SessionArguments,
    #[command(flatten)]
    outputs: OutputArguments,
}

/// The call.
#[derive(Debug, Args)]
#[command(next_help_heading = "Call")]
struct CallArguments {
    /// The method: `package.Service.Method` or `package.Service/Method`.
    #[arg(long, value_name = "METHOD")]
    call: String,
    /// The method's .proto file; without it and --protoset, the server is asked (reflection).
    #[arg(long, value_name = "FILE", conflicts_with = "protoset")]
    proto: Option<PathBuf>,
    /// A compiled descriptor set.
    #[arg(long, value_name = "FILE")]
    protoset: Option<PathBuf>,
    /// Folder in which imports of --proto are searched; may be repeated.
    #[arg(long, value_name = "FOLDER")]
    import_path: Vec<PathBuf>,
    /// The message as JSON: an object, or a list of them (in turns, or the messages of a stream); `@FILE`
    /// reads a file. Templates such as `{{.RequestNumber}}` are filled in.
    #[arg(long, value_name = "JSON|@FILE", conflicts_with = "binary")]
    data: Option<String>,
    /// File with one encoded message.
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Metadata; may be repeated.
    #[arg(short = 'H', long, value_name = "NAME: VALUE", value_parser = super::http::parse_header)]
    metadata: Vec<(String, String)>,
    /// Value of `:authority`.
    #[arg(long, value_name = "NAME")]
    authority: Option<String>,
    /// Pause between messages of a stream.
    #[arg(long, value_name = "TIME", value_parser = fine_duration::parse)]
    stream_interval: Option<Duration>,
    /// Cancel a streaming call after this time.
    #[arg(long, value_name = "TIME", value_parser = fine_duration::parse)]
    stream_duration: Option<Duration>,
    /// End a streaming call after this number of messages.
    #[arg(long, value_name = "COUNT")]
    stream_messages: Option<u64>,
    /// Send and accept gzip.
    #[arg(long)]
    compression: bool,
}

/// Measures the call.
///
/// # Errors
/// If the call cannot be measured.
pub fn run(arguments: &GrpcArguments) -> Result<ExitCode, BenchError> {
    let mut plan = Plan::from_case(arguments.case());
    arguments.session.complete(&mut plan);
    measure(&plan, &arguments.outputs)
}

impl GrpcArguments {
    fn case(&self) -> Case {
        let has_scheme = self.target.contains("://");
        let target =
            if has_scheme { self.target.clone() } else { format!("grpc://{}", self.target) };
        let mut case = Case::new(target);
        case.protocol = Some(Protocol::Grpc);
        case.load = self.load.load();
        case.tls = self.tls.options();
        case.grpc = Some(self.call.call());
        case
    }
}

impl CallArguments {
    fn call(&self) -> GrpcCall {
        let data = self.data.as_deref().map(|data| match data.strip_prefix('@') {
            Some(path) => GrpcData::JsonFile(path.into()),
            None => GrpcData::Json(data.to_owned()),
        });
        let metadata: serde_json::Map<_, _> = self
            .metadata
            .iter()
            .map(|(name, value)| (name.clone(), value.as_str().into()))
            .collect();
        GrpcCall {
            call: self.call.clone(),
            proto: self.proto.clone(),
            protoset: self.protoset.clone(),
            import_paths: self.import_path.clone(),
            data: data.or_else(|| self.binary.clone().map(GrpcData::BinaryFile)),
            metadata: (!metadata.is_empty()).then_some(metadata.into()),
            authority: self.authority.clone(),
            stream_interval: self.stream_interval,
            stream_call_duration: self.stream_duration,
            stream_call_count: self.stream_messages,
            compression: self.compression,
            ..GrpcCall::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        grpc: GrpcArguments,
    }

    #[test]
    fn a_call_is_read_from_words() {
        let words = [
            "bench",
            "127.0.0.1:8091",
            "--call",
            "a.B.C",
            "--data",
            "@m.json",
            "-H",
            "k: v",
            "-m",
            "8",
        ];
        let case = Line::try_parse_from(words).expect("a call").grpc.case();
        case.validate().expect("a case that can be measured");
        assert_eq!(case.target, "grpc://127.0.0.1:8091");
        assert_eq!((case.protocol(), case.load.streams), (Protocol::Grpc, 8));
        let call = case.grpc.expect("a call");
        assert_eq!(call.data, Some(GrpcData::JsonFile("m.json".into())));
        assert_eq!(call.metadata, Some(serde_json::json!({"k": "v"})));
    }
}
