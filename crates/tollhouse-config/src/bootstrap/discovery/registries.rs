//! Sections of the table `discovery`, one for each kind of registry.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value};

use super::section::{Section, ServersDefaults};
use super::{
    ConsulKvRegistry, ConsulRegistry, DiscoveryRegistries, EurekaRegistry, KubernetesRegistry,
    KubernetesToken, NacosRegistry, RegistryServers,
};
use crate::bootstrap::shape::Refusal;

const SECTIONS: [&str; 6] = ["consul", "consul_kv", "nacos", "eureka", "kubernetes", "dns"];

/// Keys of APISIX that have no effect here, with the reason.
const IGNORED: [(&str, &str); 6] = [
    ("shared_size", "services are kept in the memory of the process"),
    ("sort_type", "the order of nodes does not matter to balancing"),
    ("dump", "the last nodes are kept in memory only"),
    ("default_service", "an upstream whose service is unknown is answered 503"),
    ("watch_endpoint_slices", "endpoint slices are watched in any case"),
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
    found.consul_kv = consul_kv(table.get("consul_kv"), refusals);
    found.nacos = nacos(table.get("nacos"), refusals);
    found.eureka = eureka(table.get("eureka"), refusals);
    found.kubernetes = kubernetes(table.get("kubernetes"), refusals);
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
    let mut section = Section::open("consul", value, &KEYS, refusals)?.with_wait();
    let skip_services = section.texts("skip_services");
    Some(ConsulRegistry { skip_services, ..agents(&mut section) })
}

fn consul_kv(value: Option<&Value>, refusals: &mut Vec<Refusal>) -> Option<ConsulKvRegistry> {
    const KEYS: [&str; 11] = [
        "servers",
        "token",
        "fetch_interval",
        "keepalive",
        "prefix",
        "weight",
        "timeout",
        "skip_keys",
        "ca",
        "dump",
        "default_service",
    ];
    let mut section = Section::open("consul_kv", value, &KEYS, refusals)?.with_wait();
    let prefix = section.text("prefix").unwrap_or_else(|| "upstreams".to_owned());
    Some(ConsulKvRegistry {
        consul: agents(&mut section),
        prefix: prefix.trim_matches('/').to_owned(),
        skip_keys: section.texts("skip_keys"),
    })
}

/// Reads the settings that both sources over Consul have.
fn agents(section: &mut Section<'_, '_>) -> ConsulRegistry {
    const DEFAULTS: ServersDefaults = ServersDefaults {
        key: "servers",
        timeouts_ms: &[("connect", 2_000), ("read", 2_000)],
        fetch_interval_s: 3,
    };
    let wait_s = section.value("timeout").and_then(|timeout| timeout.get("wait"));
    let wait_s = wait_s.map_or(Some(60), Value::as_u64);
    let wait_s = wait_s.filter(|wait_s| (1..=WAIT_S_MAX).contains(wait_s));
    if wait_s.is_none() {
        section.refuse("timeout.wait", &format!("expected 1 to {WAIT_S_MAX} seconds"), "");
    }
    let wait =
        section.is_on_by_default("keepalive").then_some(Duration::from_secs(wait_s.unwrap_or(60)));
    ConsulRegistry {
        access: section.servers(&DEFAULTS),
        token: section.secret("token"),
        weight: section.weight(1),
        wait,
        skip_services: Vec::new(),
    }
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

/// Folder with the token and the CA certificates of a pod's service account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Timeout of a call to an API server.
const KUBERNETES_TIMEOUT: Duration = Duration::from_secs(10);

fn kubernetes(value: Option<&Value>, refusals: &mut Vec<Refusal>) -> Option<KubernetesRegistry> {
    const KEYS: [&str; 7] = [
        "service",
        "client",
        "default_weight",
        "fetch_interval",
        "ca",
        "shared_size",
        "watch_endpoint_slices",
    ];
    let mut section = Section::open("kubernetes", value, &KEYS, refusals)?;
    let weight = section.whole("default_weight", 0..=65_535).unwrap_or(50);
    let fetch_interval = section.whole("fetch_interval", 1..=3_600).unwrap_or(3);
    let account = |file: &str| Path::new(SERVICE_ACCOUNT).join(file);
    // Outside of a pod, certificates are those of the system.
    let pod_ca = Some(account("ca.crt")).filter(|path| path.exists());
    let ca = section.text("ca").map(PathBuf::from).or(pod_ca);
    let (service, client) = (section.value("service"), section.value("client"));
    let server = api_server(service, refusals);
    Some(KubernetesRegistry {
        access: RegistryServers {
            servers: server.into_iter().collect(),
            timeout: KUBERNETES_TIMEOUT,
            fetch_interval: Duration::from_secs(fetch_interval),
            ca,
        },
        token: Some(token(client, refusals).unwrap_or(KubernetesToken::File(account("token")))),
        weight: u32::try_from(weight).unwrap_or(u32::MAX),
    })
}

fn api_server(value: Option<&Value>, refusals: &mut Vec<Refusal>) -> Option<super::RegistryServer> {
    let name = "kubernetes.service";
    let section = Section::open(name, value, &["schema", "host", "port"], refusals);
    let Some(mut section) = section else {
        refusals.push(Refusal::new(
            format!("{name}: missing"),
            "write host and port of the API server",
        ));
        return None;
    };
    let scheme = section.text("schema").unwrap_or_else(|| "https".to_owned());
    // APISIX writes ports as texts.
    let port = match section.value("port") {
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => section.text("port"),
    };
    let (Some(host), Some(port)) = (section.text("host"), port) else {
        let hint = "outside of a pod, write host and port of the API server";
        section.refuse("host", "missing, and KUBERNETES_SERVICE_HOST is not set", hint);
        return None;
    };
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let server = super::section::server(&format!("{scheme}://{host}:{port}"));
    let is_plain = server.as_ref().is_some_and(|server| server.credentials.is_none());
    if !is_plain || port.parse::<u16>().is_err() {
        section.refuse("host", "schema, host and port are not the address of a server", "");
    }
    server
}

fn token(value: Option<&Value>, refusals: &mut Vec<Refusal>) -> Option<KubernetesToken> {
    let mut section =
        Section::open("kubernetes.client", value, &["token", "token_file"], refusals)?;
    match (section.secret("token"), section.text("token_file")) {
        (Some(_), Some(_)) => {
            section.refuse("token", "token and token_file exclude each other", "");
            None
        }
        (Some(token), None) => Some(KubernetesToken::Text(token)),
        (None, file) => file.map(|file| KubernetesToken::File(file.into())),
    }
}
