//! Load generators: their command lines, chosen so that both generators of a duel send equal
//! requests, and parsers for the number of answered requests in their output.

use super::super::wrk;
use crate::plan::Plan;
use crate::shell;
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Server that the requests go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Server {
    /// nginx with `return 200`.
    Http1,
    /// nginx with `return 200` and HTTP/2 by prior knowledge.
    Http2,
    /// A gRPC server that returns the message that it gets.
    Grpc,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    Wrk,
    OurWrk,
    Ab,
    OurAb,
    H2load,
    OurHttp2,
    Ghz,
    OurGrpc,
}

/// Number of concurrent requests; over HTTP/2 it is the product of connections and streams.
const CONNECTIONS: &str = "64";
const MULTIPLEXED_CONNECTIONS: &str = "8";
const STREAMS: &str = "8";
/// Number of requests for ab, more than any machine answers in a round; ab reserves memory for all
/// of them.
const AB_REQUESTS: &str = "2000000";

/// Name of the file with the definition of the gRPC service.
const PROTO_FILE: &str = "echo.proto";
const RESULT_FILE: &str = "result.json";
const PROTO: &str = "syntax = \"proto3\";\npackage bench;\n\
                     message Text { string text = 1; }\n\
                     service Echo { rpc Say(Text) returns (Text); }\n";
const CALL: &str = "bench.Echo.Say";
const MESSAGE: &str = "{\"text\":\"hello\"}";

/// Numbers of answered and failed requests, as a generator printed them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestCounts {
    pub(crate) requests: u64,
    pub(crate) errors: u64,
}

impl Tool {
    /// Returns the generator's name in tables.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Wrk => "wrk",
            Self::OurWrk => "tollhouse bench wrk",
            Self::Ab => "ab",
            Self::OurAb => "tollhouse bench ab",
            Self::H2load => "h2load",
            Self::OurHttp2 => "tollhouse bench http --http2",
            Self::Ghz => "ghz",
            Self::OurGrpc => "tollhouse bench grpc",
        }
    }

    /// Returns the name of the executable; for Tollhouse's generator, the binary under test is used
    /// instead.
    pub(super) fn program(self) -> &'static str {
        match self {
            Self::Wrk => "wrk",
            Self::Ab => "ab",
            Self::H2load => "h2load",
            Self::Ghz => "ghz",
            Self::OurWrk | Self::OurAb | Self::OurHttp2 | Self::OurGrpc => "tollhouse",
        }
    }

    /// Returns the command of one run on the core of the load; its files are in `folder`.
    pub(super) fn command(
        self,
        plan: &Plan,
        folder: &Path,
        port: u16,
        duration: Duration,
    ) -> Result<Command> {
        std::fs::write(folder.join(PROTO_FILE), PROTO)?;
        let mut command = match self.program() {
            "tollhouse" => Command::new(&plan.binary),
            program => shell::command(program),
        };
        command.current_dir(folder).args(self.words(port, duration.as_secs().max(1)));
        Ok(command)
    }

    fn words(self, port: u16, seconds: u64) -> Vec<String> {
        let host = format!("127.0.0.1:{port}");
        let (url, time) = (format!("http://{host}/"), format!("{seconds}s"));
        let (seconds, time) = (seconds.to_string(), time.as_str());
        let (c, cm, m) = (CONNECTIONS, MULTIPLEXED_CONNECTIONS, STREAMS);
        let ab = ["-q", "-k", "-c", c, "-t", &seconds, "-n", AB_REQUESTS, &url];
        let ours = ["-t", "1", "-c", cm, "-m", m, "-d", time, "--quiet", "--json", RESULT_FILE];
        let words: Vec<&str> = match self {
            Self::Wrk => vec!["-t1", "-c", c, "-d", time, "--latency", &url],
            Self::OurWrk => vec!["bench", "wrk", "-t1", "-c", c, "-d", time, "--latency", &url],
            Self::Ab => ab.to_vec(),
            Self::OurAb => ["bench", "ab"].into_iter().chain(ab).collect(),
            Self::H2load => vec!["-t", "1", "-c", cm, "-m", m, "-D", &seconds, &url],
            Self::OurHttp2 => ["bench", "http", "--http2", &url].into_iter().chain(ours).collect(),
            Self::Ghz => {
                let call = ["--insecure", "--proto", PROTO_FILE, "--call", CALL, "-d", MESSAGE];
                let load = ["-c", c, "--connections", cm, "-z", time];
                let end = ["--duration-stop", "wait", &host];
                call.into_iter().chain(load).chain(end).collect()
            }
            Self::OurGrpc => {
                let call = ["bench", "grpc", &host, "--proto", PROTO_FILE, "--call", CALL];
                call.into_iter().chain(["--data", MESSAGE]).chain(ours).collect()
            }
        };
        words.into_iter().map(ToOwned::to_owned).collect()
    }

    /// Parses the request counts in the output of the generator, or in the result file that it
    /// wrote.
    pub(super) fn read(self, text: &str, folder: &Path) -> Result<RequestCounts> {
        let found = match self {
            Self::Wrk | Self::OurWrk => wrk::parse(text).map(|outcome| RequestCounts {
                requests: outcome.requests,
                errors: outcome.errors,
            }),
            Self::Ab | Self::OurAb => read_ab(text),
            Self::H2load => read_h2load(text),
            Self::Ghz => read_ghz(text),
            Self::OurHttp2 | Self::OurGrpc => {
                read_result(&std::fs::read_to_string(folder.join(RESULT_FILE))?)
            }
        };
        found.context("the number of requests is not where it was expected")
    }
}

/// Returns the number that follows a name at the beginning of a line.
fn number_after(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

fn read_ab(text: &str) -> Option<RequestCounts> {
    Some(RequestCounts {
        requests: number_after(text, "Complete requests:")?,
        errors: number_after(text, "Failed requests:")?
            + number_after(text, "Non-2xx responses:").unwrap_or(0),
    })
}

/// Reads `requests: 9 total, 9 started, 9 done, 8 succeeded, 1 failed, 0 errored, 0 timeout`.
pub(crate) fn read_h2load(text: &str) -> Option<RequestCounts> {
    let line = text.lines().find_map(|line| line.strip_prefix("requests: "))?;
    let of = |name: &str| {
        let part = line.split(", ").find_map(|part| part.strip_suffix(name))?;
        part.trim().parse::<u64>().ok()
    };
    Some(RequestCounts {
        requests: of("succeeded")?,
        errors: of("failed")? + of("errored")? + of("timeout")?,
    })
}

/// Reads `Count: 9` and, under the status codes, `[OK] 9 responses`.
fn read_ghz(text: &str) -> Option<RequestCounts> {
    let (all, good) = (number_after(text, "Count:")?, number_after(text, "[OK]")?);
    Some(RequestCounts { requests: good, errors: all.saturating_sub(good) })
}

/// Parses a result file of `tollhouse bench`.
fn read_result(text: &str) -> Option<RequestCounts> {
    let report: Value = serde_json::from_str(text).ok()?;
    let counts = &report["results"][0]["counts"];
    Some(RequestCounts {
        requests: counts["succeeded"].as_u64()?,
        errors: counts["failed"].as_u64()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_generator_tells_how_many_were_answered() {
        let ab = "Complete requests:      900\nFailed requests:        2\n   (Connect: 0)\n";
        let h2load = "finished in 5.00s, 180.00 req/s\nrequests: 900 total, 900 started, 900 done, \
                      898 succeeded, 1 failed, 1 errored, 0 timeout\n";
        let ghz = "Summary:\n  Count:\t900\n\nStatus code distribution:\n  \
                   [OK]            898 responses   \n  [Unavailable]   2 responses   \n";
        let ours = r#"{"results":[{"counts":{"succeeded":898,"failed":2}}]}"#;
        let counted = |requests| Some(RequestCounts { requests, errors: 2 });
        assert_eq!(read_ab(ab), counted(900));
        assert_eq!(read_h2load(h2load), counted(898));
        assert_eq!(read_ghz(ghz), counted(898));
        assert_eq!(read_result(ours), counted(898));
    }

    #[test]
    fn what_says_something_else_is_not_read() {
        assert_eq!(read_ab(""), None);
        assert_eq!(read_h2load("requests: many"), None);
        assert_eq!(read_ghz("Count: 5"), None);
        assert_eq!(read_result("{}"), None);
    }

    #[test]
    fn both_of_a_duel_have_as_many_requests_under_way() {
        let streams: usize = STREAMS.parse().expect("a number");
        let connections: usize = MULTIPLEXED_CONNECTIONS.parse().expect("a number");
        assert_eq!((streams * connections).to_string(), CONNECTIONS);
    }
}
