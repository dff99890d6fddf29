//! `tollhouse registry register`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use hyper::StatusCode;
use serde_json::{Map, Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::name::{Address, ServiceName, pair, segment};
use super::remote::Remote;
use crate::cli::admin_client::refusal;
use crate::cli::gateway::Gateway;
use crate::cli::stdout;

/// Default interval between heartbeats in seconds.
const TTL_SECONDS_DEFAULT: u8 = 5;

/// Arguments of `register`.
#[derive(Debug, Args)]
pub struct RegisterArguments {
    #[command(flatten)]
    gateway: Gateway,
    /// Service of the instance; created if missing.
    #[arg(value_name = "NAMESPACE/SERVICE")]
    service: ServiceName,
    /// Address of the instance.
    #[arg(value_name = "HOST:PORT")]
    address: Address,
    /// Id of the instance; by default derived from service and address, as clients do it.
    #[arg(long)]
    id: Option<String>,
    /// Share of the traffic; 0 gets none [default: 100].
    #[arg(long)]
    weight: Option<u16>,
    /// Seconds between heartbeats, 1 to 60; after three times as long without one the instance
    /// counts as unhealthy. Without this and without --heartbeat its health is not checked.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u8).range(1..=60))]
    ttl: Option<u8>,
    /// A pair of metadata; may be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    metadata: Vec<(String, String)>,
    /// Version of the instance.
    #[arg(long = "instance-version", visible_alias = "version", value_name = "VERSION")]
    instance_version: Option<String>,
    /// Protocol of the instance, such as `http` or `grpc`.
    #[arg(long)]
    protocol: Option<String>,
    /// Keep traffic away from the instance.
    #[arg(long)]
    isolated: bool,
    /// Keep running and send heartbeats until Ctrl-C; then deregister the instance. The default TTL
    /// is then 5 seconds.
    #[arg(long)]
    heartbeat: bool,
    /// Print the instance as JSON.
    #[arg(long)]
    json: bool,
}

impl RegisterArguments {
    /// Returns the interval between heartbeats in seconds; `None` if health is not checked.
    fn ttl_seconds(&self) -> Option<u8> {
        self.ttl.or(self.heartbeat.then_some(TTL_SECONDS_DEFAULT))
    }

    /// Returns the body for the Admin API.
    fn body(&self) -> Value {
        let mut fields = Map::new();
        let mut put = |name: &str, value: Option<Value>| {
            fields.extend(value.map(|value| (name.to_owned(), value)));
        };
        put("namespace", Some(self.service.namespace.as_str().into()));
        put("service", Some(self.service.name.as_str().into()));
        put("host", Some(self.address.host.as_str().into()));
        put("port", Some(self.address.port.into()));
        put("id", self.id.as_deref().map(Value::from));
        put("weight", self.weight.map(Value::from));
        put("ttl_seconds", self.ttl_seconds().map(Value::from));
        put("version", self.instance_version.as_deref().map(Value::from));
        put("protocol", self.protocol.as_deref().map(Value::from));
        put("isolated", self.isolated.then_some(true.into()));
        let pairs = self.metadata.iter().map(|(key, value)| (key.clone(), value.as_str().into()));
        put("metadata", Some(Value::Object(pairs.collect())));
        Value::Object(fields)
    }
}

/// Registers the instance; with `--heartbeat`, sends heartbeats until a signal.
pub fn run(arguments: &RegisterArguments) -> anyhow::Result<ExitCode> {
    let bootstrap = match arguments.gateway.load() {
        Ok(bootstrap) => bootstrap,
        Err(code) => return Ok(code),
    };
    let mut remote = Remote::open(&arguments.gateway, &bootstrap)?;
    // The handlers are installed before the registration, so that a signal cannot end the command
    // without deregistering the instance.
    let mut signals = Signals::new(&remote)?;
    let id = register(&mut remote, arguments)?;
    let Some(ttl) = arguments.ttl_seconds().filter(|_| arguments.heartbeat) else {
        return Ok(ExitCode::SUCCESS);
    };
    eprintln!("sending a heartbeat every {ttl} s; Ctrl-C deregisters it");
    while !signals.come_within(&remote, Duration::from_secs(ttl.into())) {
        beat(&mut remote, arguments, &id);
    }
    remote.get("DELETE", &format!("instances/{}", segment(&id)), None)?;
    eprintln!("deregistered {id}");
    Ok(ExitCode::SUCCESS)
}

/// Registers the instance, prints it, and returns its id.
fn register(remote: &mut Remote, arguments: &RegisterArguments) -> anyhow::Result<String> {
    let instance = remote.get("POST", "instances", Some(&arguments.body()))?;
    let Some(id) = instance["id"].as_str() else {
        bail!("the answer has no id; is that a Tollhouse?");
    };
    let text = if arguments.json {
        serde_json::to_string_pretty(&instance)? + "\n"
    } else {
        format!("registered {} as {id}\n", arguments.service)
    };
    stdout::print(&text)?;
    Ok(id.to_owned())
}

/// Sends a heartbeat. A failure is printed and the next heartbeat tries again, because the gateway
/// may be restarting.
fn beat(remote: &mut Remote, arguments: &RegisterArguments, id: &str) {
    let path = format!("instances/{}/heartbeat", segment(id));
    let done = match remote.ask("POST", &path, Some(&json!({}))) {
        Ok((StatusCode::NOT_FOUND, _)) => {
            eprintln!("it is not registered any more; registering it again");
            register(remote, arguments).map(drop)
        }
        Ok((status, _)) if status.is_success() => Ok(()),
        Ok((status, answer)) => Err(anyhow::anyhow!("{}", refusal(status, &answer))),
        Err(error) => Err(error),
    };
    if let Err(error) = done {
        eprintln!("a heartbeat failed: {error:#}");
    }
}

/// Signals on which the command deregisters and ends.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new(remote: &Remote) -> anyhow::Result<Self> {
        let _guard = remote.runtime().enter();
        let open = |kind| signal(kind).context("signals cannot be waited for");
        Ok(Self {
            interrupt: open(SignalKind::interrupt())?,
            terminate: open(SignalKind::terminate())?,
        })
    }

    /// Waits up to `time`. Returns whether a signal came.
    fn come_within(&mut self, remote: &Remote, time: Duration) -> bool {
        remote.runtime().block_on(async {
            tokio::select! {
                _ = self.interrupt.recv() => true,
                _ = self.terminate.recv() => true,
                () = tokio::time::sleep(time) => false,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        arguments: RegisterArguments,
    }

    fn body(line: &str) -> Value {
        let words = std::iter::once("register").chain(line.split_whitespace());
        Line::try_parse_from(words).expect("it is a command").arguments.body()
    }

    #[test]
    fn flags_become_an_instance() {
        let table = [
            (
                "svc 10.0.0.1:80",
                json!({"namespace": "default", "service": "svc", "host": "10.0.0.1", "port": 80,
                    "metadata": {}}),
            ),
            (
                "ns/svc [::1]:80 --weight 0 --ttl 3 --metadata a=b=c --metadata d= --version 2 \
                 --protocol grpc --isolated --id i",
                json!({"namespace": "ns", "service": "svc", "host": "::1", "port": 80, "id": "i",
                    "weight": 0, "ttl_seconds": 3, "version": "2", "protocol": "grpc",
                    "isolated": true, "metadata": {"a": "b=c", "d": ""}}),
            ),
        ];
        for (line, expected) in table {
            assert_eq!(body(line), expected, "{line}");
        }
        assert_eq!(body("svc a:1 --heartbeat")["ttl_seconds"], 5);
        assert!(Line::try_parse_from(["register", "svc", "a:1", "--ttl", "61"]).is_err());
    }
}
