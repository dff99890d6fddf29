//! Runs the load generator against the registry: writes a plan file with one case, and reads the
//! numbers of answers and the times from the result.

use super::server::{DONE, Registry};
use crate::plan::Plan;
use crate::shell;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::process::Command;
use std::time::Duration;

/// File with the definitions of the messages of the calls.
const PROTO: &str = "crates/tollhouse-load/src/suite/polaris.proto";

#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Calls(u64),
    After(Duration),
}

#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) method: &'static str,
    pub(crate) message: Value,
    pub(crate) connections: u64,
    /// Number of concurrent calls on each connection.
    pub(crate) streams: u64,
    /// Number of calls per second; with `None`, calls are sent as fast as they are answered.
    pub(crate) rate: Option<f64>,
    pub(crate) end: End,
}

/// Result of a run. Times are in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) calls: f64,
    pub(crate) seconds: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
    /// CPU time of the registry per call in microseconds, in user space and kernel.
    pub(crate) server_cpu: f64,
}

impl Load {
    /// Returns a load that runs as fast as possible, with `in_flight` concurrent calls over eight
    /// connections.
    pub(crate) fn closed(method: &'static str, message: Value, in_flight: u64, end: End) -> Self {
        const CONNECTIONS: u64 = 8;
        let connections = CONNECTIONS.min(in_flight);
        let streams = in_flight / connections;
        Self { method, message, connections, streams, rate: None, end }
    }

    /// Runs the load against a registry.
    pub(super) fn run(&self, plan: &Plan, registry: &Registry) -> Result<Sample> {
        self.run_at(plan, registry.grpc, &|| registry.cpu_time())
    }

    /// Runs the load against the registry on a port, and reads its CPU time before and after.
    pub(crate) fn run_at(
        &self,
        plan: &Plan,
        port: u16,
        cpu_time: &dyn Fn() -> Result<Duration>,
    ) -> Result<Sample> {
        let folder = shell::fresh_folder()?;
        let file = folder.path().join("plan.yaml");
        std::fs::write(&file, self.plan(port).to_string())?;
        let result = folder.path().join("result.json");
        let mut command = Command::new(&plan.binary);
        command.args(["bench", "run"]).arg(&file).args(["--quiet", "--json"]).arg(&result);
        let before = cpu_time()?;
        let output = command.current_dir(folder.path()).output()?;
        let server = cpu_time()?.saturating_sub(before);
        let text = std::fs::read_to_string(&result).with_context(|| {
            let printed = String::from_utf8_lossy(&output.stderr);
            format!("{} was not measured:\n{printed}", self.method)
        })?;
        let report: Value = serde_json::from_str(&text)?;
        let sample = Sample::read(&report, server);
        let sample = sample.with_context(|| format!("an unexpected result:\n{text:.2000}"))?;
        let counts = &report["results"][0]["counts"];
        if counts["failed"].as_f64() != Some(0.0) {
            bail!("{}: {} calls failed: {}", self.method, counts["failed"], counts["messages"]);
        }
        Ok(sample)
    }

    /// Returns the plan file as JSON, which is also YAML.
    fn plan(&self, port: u16) -> Value {
        let mut load = json!({
            "connections": self.connections, "streams": self.streams, "workers": 1,
            "warm_up": "0s", "timeout": "30s",
        });
        match self.end {
            End::Calls(calls) => load["requests"] = json!(calls),
            End::After(time) => load["duration"] = json!(format!("{}ms", time.as_millis())),
        }
        if let Some(rate) = self.rate {
            load["pace"] = json!({ "rate": rate });
        }
        let case = json!({
            "name": self.method,
            "target": format!("grpc://127.0.0.1:{port}"),
            "load": load,
            "grpc": {
                "call": format!("v1.PolarisGRPC.{}", self.method),
                "proto": shell::workspace_root().join(PROTO),
                "data": { "json": self.message },
            },
            "checks": { "body_json": ["/code", DONE] },
        });
        json!({ "name": self.method, "cases": [case] })
    }
}

impl Sample {
    fn read(report: &Value, server: Duration) -> Option<Self> {
        let result = &report["results"][0];
        let calls = result["counts"]["completed"].as_f64()?;
        let times = &result["response_time"];
        let percentile = |wanted: f64| {
            let pairs = times["percentiles"].as_array()?;
            let pair = pairs.iter().find(|pair| pair[0].as_f64() == Some(wanted))?;
            Some(pair[1].as_f64()? / 1e3)
        };
        Some(Self {
            calls,
            seconds: result["elapsed_ns"].as_f64()? / 1e9,
            p50: percentile(50.0)?,
            p99: percentile(99.0)?,
            max: times["max_ns"].as_f64()? / 1e3,
            server_cpu: server.as_secs_f64() * 1e6 / calls,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_read_and_what_it_took_is_divided() {
        let report = json!({ "results": [{
            "elapsed_ns": 2e9,
            "counts": { "completed": 1000 },
            "response_time": {
                "max_ns": 9000, "percentiles": [[50.0, 1000], [99.0, 4000]],
            },
        }]});
        let server = Duration::from_millis(20);
        let sample = Sample::read(&report, server).unwrap();
        assert_eq!(sample.server_cpu, 20.0);
        assert_eq!((sample.p50, sample.p99, sample.max), (1.0, 4.0, 9.0));
        assert_eq!(sample.seconds, 2.0);
        assert!(Sample::read(&json!({}), server).is_none());
    }

    #[test]
    fn a_load_is_a_plan_of_one_case() {
        let load = Load::closed("Heartbeat", json!({ "id": "a" }), 64, End::Calls(9));
        let case = &load.plan(8091)["cases"][0];
        assert_eq!(case["target"], "grpc://127.0.0.1:8091");
        assert_eq!(case["load"]["connections"], 8);
        assert_eq!(case["load"]["streams"], 8);
        assert_eq!(case["checks"]["body_json"], json!(["/code", 200_000]));
        assert!(shell::workspace_root().join(PROTO).is_file());
    }
}
