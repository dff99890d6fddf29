//! Appends an entry for every exchange to a file: one JSON object per line, written when the
//! exchange ends.
//!
//! The file is reopened after it has been moved away, so that logs can be rotated by renaming.
//!
//! # Example
//! ```json
//! {"path": "logs/file.log", "match": [[["arg_name", "==", "jack"]]]}
//! ```
//!
//! # Answers
//! None, except 413 when a chunked request body that is to be logged exceeds 64 MiB.
//!
//! # Notes
//! Requests never wait for the disk. At most 8,192 lines and 64 MiB wait to be written. Further
//! lines are dropped, and the gateway's own log reports that.
//!
//! Files are kept below `log_files.folder` of the bootstrap file, by default `logs` in the data
//! folder. A relative path starts there, and an absolute path must be inside it. Directories are
//! created as needed. Links below the folder are not followed.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tollhouse_plugin::{
    Category, ConfError, LogContext, MetadataSpec, Phases, Plugin, RequestContext, ResponseContext,
    Scope, Step,
};

use crate::logging::file::{LogFile, LogWriter};
use crate::logging::folder::LogPath;
use crate::logging::{BodyFields, Entries, FormatFields};
use crate::shared::confs::conditions::AnyOf;

/// Problem of a conf without `path` whose metadata has none either.
const PATH_MISSING: &str = r#"property "path" is not set in either the plugin conf or the metadata"#;

/// Configuration of `file-logger`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Path of the file, below `log_files.folder` of the bootstrap file. Unset: the path in the
    /// plugin's metadata.
    pub path: Option<String>,
    /// Expressions; an exchange is logged only if at least one of them holds. Unset: every exchange
    /// is logged.
    #[serde(rename = "match")]
    #[schemars(length(max = 20))]
    pub matches: Option<Vec<Value>>,
    /// Bodies in entries.
    #[serde(flatten)]
    pub bodies: BodyFields,
    /// Format of entries.
    #[serde(flatten)]
    pub format: FormatFields,
}

/// Plugin metadata: defaults for every conf.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Metadata {
    /// Path of the file for confs that name none.
    pub path: Option<String>,
    /// Log format for confs that have none.
    pub log_format: Option<Map<String, Value>>,
    /// Additional fields for confs that have none.
    pub log_format_extra: Option<Map<String, Value>>,
}

#[derive(Debug)]
pub struct FileLogger {
    entries: Entries,
    file: Arc<LogFile>,
    matches: Option<AnyOf>,
}

impl Plugin for FileLogger {
    const NAME: &'static str = "file-logger";
    const PRIORITY: i32 = 399;
    const CATEGORY: Category = Category::Observability;
    const PHASES: Phases = Entries::PHASES;
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        schema["properties"]["match"]["items"] =
            json!({"anyOf": [{"type": "array"}, {"type": "string"}]});
    }

    fn metadata() -> Option<MetadataSpec> {
        Some(MetadataSpec::new::<Metadata>())
    }

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        let from_metadata = || scope.metadata_field("path").and_then(Value::as_str);
        let path = config.path.as_deref().or_else(from_metadata);
        let path = path.ok_or(PATH_MISSING)?;
        let path = LogPath::parse(&scope.services.log_folder, path)?;
        let writer = scope.keep("", LogWriter::default);
        let in_match = |error| format!("failed to validate the 'match' expression: {error}");
        let matches = config.matches.as_deref().map(AnyOf::parse).transpose().map_err(in_match)?;
        Ok(Self {
            entries: Entries::compile(config.bodies, config.format, scope)?,
            // Confs that name the same file share its queue.
            file: scope.keep(&path.whole().to_string_lossy(), || {
                LogFile::new(path.clone(), Arc::clone(&scope.services.queues), writer)
            }),
            matches,
        })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        self.entries.access(cx)
    }

    fn response(&self, cx: &mut ResponseContext<'_>) {
        self.entries.response(cx);
    }

    fn log(&self, cx: &mut LogContext<'_>) {
        if self.matches.as_ref().is_some_and(|any| !any.matches(cx.variables())) {
            return;
        }
        let mut line = self.entries.entry(cx).to_string().into_bytes();
        line.push(b'\n');
        self.file.append(line);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use tollhouse_plugin::testing::{FakeExchange, Harness, configure, configure_among};
    use tollhouse_plugin::{Catalogue, PluginType, Services, Transfer};

    use super::*;

    fn services(folder: &std::path::Path) -> Arc<Services> {
        let mut services = Services::new("APISIX/3.18.0");
        services.log_folder = folder.to_owned();
        Arc::new(services)
    }

    fn harness(folder: &std::path::Path, conf: &Value) -> Harness {
        let services = services(folder);
        let handler = configure::<FileLogger>(conf, &services).unwrap();
        Harness::with(handler, services)
    }

    fn log(harness: &mut Harness, request: &str) {
        let mut exchange = FakeExchange::parse(request, 0);
        assert!(harness.run(&mut exchange).passes());
        harness.respond(&mut exchange, "200", &["hello"]);
        let transfer = Transfer { status: 200, route_id: "1", ..Transfer::default() };
        harness.log(&mut exchange, transfer);
    }

    /// Reads the file once it has `lines` lines; polls, because the writer is a separate thread.
    fn lines(path: &std::path::Path, lines: usize) -> Vec<Value> {
        let start = Instant::now();
        loop {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            if text.ends_with('\n') && text.lines().count() >= lines {
                return text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            }
            assert!(start.elapsed() < Duration::from_secs(10), "{text}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn every_exchange_is_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file.log");
        let conf = json!({"path": "file.log", "log_format": {"uri": "$uri", "body": "$resp_body"},
            "include_resp_body": true});
        let mut harness = harness(dir.path(), &conf);
        log(&mut harness, "GET /1 HTTP/1.1\n\n");
        log(&mut harness, "GET /2 HTTP/1.1\n\n");
        let entry = |uri| json!({"uri": uri, "body": "hello", "route_id": "1"});
        assert_eq!(lines(&path, 2), [entry("/1"), entry("/2")]);
    }

    #[test]
    fn only_what_matches_is_logged() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file.log");
        let conf = json!({"path": path, "log_format": {"uri": "$request_uri"},
            "match": [[["arg_name", "==", "jack"]], [["arg_name", "==", "rose"]]]});
        let mut harness = harness(dir.path(), &conf);
        for name in ["jack", "jim", "rose"] {
            log(&mut harness, &format!("GET /?name={name} HTTP/1.1\n\n"));
        }
        let logged = lines(&path, 2);
        assert_eq!(logged[0]["uri"], "/?name=jack");
        assert_eq!(logged[1]["uri"], "/?name=rose");
    }

    #[test]
    fn metadata_names_the_file_where_the_conf_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("meta.log");
        let services = services(dir.path());
        let catalogue = Catalogue::new([PluginType::new::<FileLogger>()]);
        let metadata = json!({"path": path});
        let handler =
            configure_among::<FileLogger>(&json!({}), &services, &catalogue, Some(&metadata));
        let mut harness = Harness::with(handler.unwrap(), services);
        log(&mut harness, "GET /1 HTTP/1.1\n\n");
        assert_eq!(lines(&path, 1)[0]["request"]["uri"], "/1");
    }

    #[test]
    fn bad_confs_are_refused() {
        for (conf, inner) in [
            (json!({}), PATH_MISSING),
            (json!({"path": 1}), "wrong type: expected string, got number"),
            (
                json!({"path": "a", "match": [[["arg_a", "=", "1"]]]}),
                "failed to validate the 'match' expression: invalid operator '='",
            ),
        ] {
            let refusal = Harness::refusal::<FileLogger>(&conf);
            assert!(refusal.ends_with(inner), "{refusal}");
        }
    }
}
