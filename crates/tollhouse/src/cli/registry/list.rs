//! `tollhouse registry list`.

use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use super::name::{ServiceName, segment};
use super::remote::Remote;
use super::table::{Align, Table, ago};
use super::view::{Instance, Service};
use crate::cli::gateway::Gateway;
use crate::cli::stdout;

/// Arguments of `list`.
#[derive(Debug, Args)]
pub struct ListArguments {
    #[command(flatten)]
    gateway: Gateway,
    /// List the instances of this service or alias instead of services.
    #[arg(value_name = "NAMESPACE/SERVICE")]
    service: Option<ServiceName>,
    /// Only services or instances of this namespace.
    #[arg(long, value_name = "NAMESPACE", conflicts_with = "service")]
    namespace: Option<String>,
    /// List the instances of all services.
    #[arg(long, conflicts_with = "service")]
    instances: bool,
    /// Only unhealthy instances, or services with unhealthy instances.
    #[arg(long)]
    unhealthy: bool,
    /// Print the objects of the Admin API as a JSON array.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &ListArguments) -> anyhow::Result<ExitCode> {
    let bootstrap = match arguments.gateway.load() {
        Ok(bootstrap) => bootstrap,
        Err(code) => return Ok(code),
    };
    let mut remote = Remote::open(&arguments.gateway, &bootstrap)?;
    let namespace = arguments.namespace.as_deref().map(segment);
    let mut query = namespace.map(|name| format!("namespace={name}")).unwrap_or_default();
    let lists_instances = arguments.instances || arguments.service.is_some();
    if lists_instances && arguments.unhealthy {
        query.push_str("&healthy=false");
    }
    let path = match &arguments.service {
        Some(service) => format!("{}/instances", service.path()),
        None if lists_instances => "instances".to_owned(),
        None => "services".to_owned(),
    };
    let found = remote.list(&path, &query)?;
    if lists_instances {
        // Ages are computed with the registry's clock, because the local one may differ.
        let now_ms = remote.get("GET", "status", None)?["now_ms"].as_u64().unwrap_or_default();
        return show(arguments, &found, |instances| instance_table(instances, now_ms));
    }
    let found: Vec<Value> = found
        .into_iter()
        .filter(|service| !arguments.unhealthy || service["instances"]["unhealthy"] != 0)
        .collect();
    show(arguments, &found, service_table)
}

fn show<T: serde::de::DeserializeOwned>(
    arguments: &ListArguments,
    found: &[Value],
    table: impl FnOnce(&[T]) -> String,
) -> anyhow::Result<ExitCode> {
    let text = if arguments.json {
        serde_json::to_string_pretty(found)? + "\n"
    } else {
        let read: Result<Vec<T>, _> =
            found.iter().map(|value| serde_json::from_value(value.clone())).collect();
        table(&read?)
    };
    stdout::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn service_table(services: &[Service]) -> String {
    if services.is_empty() {
        return "no services\n".to_owned();
    }
    let mut table = Table::new(&[
        ("SERVICE", Align::Left),
        ("INSTANCES", Align::Right),
        ("HEALTHY", Align::Right),
        ("NOT CHECKED", Align::Right),
        ("UNHEALTHY", Align::Right),
        ("ISOLATED", Align::Right),
        ("MASS EXPIRY", Align::Left),
        ("METADATA", Align::Left),
    ]);
    for service in services {
        let counted = &service.instances;
        let expiry = service.mass_expiry.as_ref();
        let pairs: Vec<String> =
            service.metadata.iter().map(|(key, value)| format!("{key}={value}")).collect();
        table.push([
            format!("{}/{}", service.namespace, service.name),
            counted.total.to_string(),
            counted.healthy.saturating_sub(counted.unchecked).to_string(),
            counted.unchecked.to_string(),
            counted.unhealthy.to_string(),
            counted.isolated.to_string(),
            expiry.map(|expiry| format!("{} kept", expiry.kept)).unwrap_or_default(),
            pairs.join(","),
        ]);
    }
    table.render()
}

fn instance_table(instances: &[Instance], now_ms: u64) -> String {
    if instances.is_empty() {
        return "no instances\n".to_owned();
    }
    let mut table = Table::new(&[
        ("ADDRESS", Align::Left),
        ("STATE", Align::Left),
        ("WEIGHT", Align::Right),
        ("TTL", Align::Right),
        ("LAST BEAT", Align::Left),
        ("VERSION", Align::Left),
        ("PROTOCOL", Align::Left),
        ("SERVICE", Align::Left),
        ("METADATA", Align::Left),
        ("ID", Align::Left),
    ]);
    for instance in instances {
        table.push(row(instance, now_ms));
    }
    table.render()
}

fn row(instance: &Instance, now_ms: u64) -> [String; 10] {
    let beat = instance.last_beat.as_ref();
    let state = if instance.isolated && !instance.healthy {
        "isolated, unhealthy"
    } else {
        instance.state()
    };
    [
        instance.address(),
        state.to_owned(),
        instance.weight.to_string(),
        instance.ttl_seconds.map(|ttl| format!("{ttl}s")).unwrap_or_default(),
        beat.map(|beat| ago(now_ms, beat.at_ms)).unwrap_or_default(),
        instance.version.clone(),
        instance.protocol.clone(),
        format!("{}/{}", instance.namespace, instance.service),
        instance.labels(),
        instance.id.clone(),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::view::{HeartbeatCounts, InstanceCounts, MassExpiry};
    use super::*;

    #[test]
    fn instances_are_lines_with_their_state() {
        let healthy = Instance {
            id: "a".into(),
            namespace: "ns".into(),
            service: "svc".into(),
            host: "10.0.0.1".into(),
            port: 80,
            weight: 100,
            healthy: true,
            ttl_seconds: Some(5),
            last_beat: Some(HeartbeatCounts { at_ms: 7_000, count: 2 }),
            metadata: [("zone".to_owned(), "a".to_owned())].into(),
            ..Instance::default()
        };
        let isolated = Instance { isolated: true, host: "::1".into(), ..healthy.clone() };
        let silent = Instance { healthy: false, last_beat: None, ..healthy.clone() };
        let unchecked = Instance { ttl_seconds: None, last_beat: None, ..healthy.clone() };
        let text = instance_table(&[healthy, isolated, silent, unchecked], 9_000);
        let lines: Vec<String> = text
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(lines[1], "10.0.0.1:80 healthy 100 5s 2s ago - - ns/svc zone=a a");
        assert!(lines[2].starts_with("[::1]:80 isolated 100"), "{text}");
        assert!(lines[3].starts_with("10.0.0.1:80 unhealthy 100 5s - - -"), "{text}");
        assert!(lines[4].starts_with("10.0.0.1:80 not checked 100 - - - -"), "{text}");
        assert_eq!(instance_table(&[], 0), "no instances\n");
    }

    #[test]
    fn services_are_lines_with_their_counts() {
        let service = Service {
            namespace: "ns".into(),
            name: "svc".into(),
            instances: InstanceCounts {
                total: 4,
                healthy: 2,
                unchecked: 2,
                unhealthy: 1,
                isolated: 1,
            },
            mass_expiry: Some(MassExpiry { since_ms: 1, kept: 2 }),
            ..Service::default()
        };
        let text = service_table(&[service]);
        let line = text.lines().nth(1).expect("a line").split_whitespace();
        assert_eq!(line.collect::<Vec<_>>().join(" "), "ns/svc 4 0 2 1 1 2 kept -");
    }
}
