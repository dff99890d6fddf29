//! Sections of the table `discovery`, one for each kind of registry.

use std::time::Duration;

use serde_json::{Map, Value};

use super::section::{Section, ServersDefaults};
use super::{ConsulRegistry, DiscoveryRegistries, EurekaRegistry, NacosRegistry};
use crate::bootstrap::shape::Refusal;

const SECTIONS: [&str; 4] = ["consul", "nacos", "eureka", "dns"];

/// Keys of APISIX that have no effect here, with the reason.
const IGNORED: [(&str, &str); 5] = [
    ("shared_size", "services are kept in the memory of the process"),
    ("sort_type", "the order of nodes does not matter to balancing"),
    ("dump", "the last nodes are kept in memory only"),
    ("default_service", "an upstream whose service is unknown is answered 503"),
    ("servers", "name servers are those of `dns.servers`"),
];

/// Longest wait of a blocking query in seconds, which is Consul's own limit.
const WAIT_S_MAX: u64 = 600;

/// Reads all sections.
pub(super) fn read(table: &Map<String, Value>, refusals: &mut Vec<Refusal>) -> DiscoveryRegistries {
    let mut found = DiscoveryRegistries::default();
    for name in table.keys().filter(|name| !SECTIONS.contains(&name.as_str())) {
        let hint = format!("known registries: {}", SECTIONS.join(", "));
        refusals.push(Refusal::new(format!("unknown registry \"{name}\""), hint));
    }
    for (section, value) in table {
        let Value::Object(fields) = value else { continue };
        let is_dns = section == "dns";
        let ignored = IGNORED.iter().filter(|(key, _)| (*key == "servers") == is_dns);
        let ignored = ignored.filter(|(key, _)| fields.contains_key(*key));
        found.ignored.extend(ignored.map(|(key, why)| (format!("{section}.{key}"), *why)));
    }
    found.consul = consul(table.get("consul"), refusals);
    found.nacos = nacos(table.get("nacos"), refusals);
    found.eureka = eureka(table.get("eureka"), refusals);
    found
}

fn consul(value: Option<&Value>, refusals: &mut Vec<Refusal>) -> Option<ConsulRegistry> {
    const KEYS: [&str; 12] = [
        "servers",
        "token",
        "fetch_interval",
        "keepalive",
        "weight",
        "timeout",
        "skip_services",
        "ca",
        "shared_size",
        "sort_type",
        "dump",
        "default_service",
    ];
    const DEFAULTS: ServersDefaults = ServersDefaults {
        key: "servers",
        timeouts_ms: &[("connect", 2_000), ("read", 2_000)],
        fetch_interval_s: 3,
    };
    let mut section = Section::open("consul", value, &KEYS, refusals)?.with_wait();
    let wait_s = section.value("timeout").and_then(|timeout| timeout.get("wait"));
    let wait_s = wait_s.map_or(Some(60), Value::as_u64);
    let wait_s = wait_s.filter(|wait_s| (1..=WAIT_S_MAX).contains(wait_s));
    if wait_s.is_none() {
        section.refuse("timeout.wait", &format!("expected 1 to {WAIT_S_MAX} seconds"), "");
    }
    let wait = section.flag("keepalive", true).then_some(Duration::from_secs(wait_s.unwrap_or(60)));
    Some(ConsulRegistry {
        access: section.servers(&DEFAULTS),
        token: section.secret("token"),
        weight: section.weight(1),
        wait,
        skip_services: section.texts("skip_services"),
    })
}

fn nacos(value: Option<&Value>, refusals: &mut Vec<Refusal>) -> Option<NacosRegistry> {
    const KEYS: [&str; 8] =
        ["host", "fetch_interval", "prefix", "weight", "timeout", "access_key", "secret_key", "ca"];
    const DEFAULTS: ServersDefaults = ServersDefaults {
        key: "host",
        timeouts_ms: &[("connect", 2_000), ("send", 2_000), ("read", 5_000)],
        fetch_interval_s: 30,
    };
    let mut section = Section::open("nacos", value, &KEYS, refusals)?;
    let keys = (section.secret("access_key"), section.secret("secret_key"));
    let keys = match keys {
        (Some(access), Some(secret)) => Some((access, secret)),
        (None, None) => None,
        _ => {
            section.refuse("secret_key", "access_key and secret_key belong together", "");
            None
        }
    };
    Some(NacosRegistry {
        access: section.servers(&DEFAULTS),
        prefix: section.prefix("/nacos/v1/"),
        weight: section.weight(100),
        keys,
    })
}

fn eureka(value: Option<&Value>, refusals: &mut Vec<Refusal>) -> Option<EurekaRegistry> {
    const KEYS: [&str; 6] = ["host", "fetch_interval", "prefix", "weight", "timeout", "ca"];
    const DEFAULTS: ServersDefaults = ServersDefaults {
        key: "host",
        timeouts_ms: &[("connect", 2_000), ("send", 2_000), ("read", 5_000)],
        fetch_interval_s: 30,
    };
    let mut section = Section::open("eureka", value, &KEYS, refusals)?;
    Some(EurekaRegistry {
        access: section.servers(&DEFAULTS),
        prefix: section.prefix("/eureka/"),
        weight: section.weight(100),
    })
}
