//! Tests of the table `discovery`.

use super::*;
use crate::bootstrap::Bootstrap;

fn parse(text: &str) -> Result<(DiscoveryRegistries, String), String> {
    let environment = |name: &str| (name == "TOKEN").then(|| "hush".to_owned());
    match Bootstrap::parse(Some(text), &environment, &[]) {
        Ok(loaded) => {
            let described = format!("{}{}", loaded.problems, loaded.describe());
            Ok((loaded.bootstrap.discovery, described))
        }
        Err(problems) => Err(problems.to_string()),
    }
}

#[test]
fn registries_are_configured_as_in_apisix() {
    let text = r#"
discovery:
  consul:
    servers: ["http://127.0.0.1:8500/", "https://consul.example:8501"]
    token: "$env://TOKEN"
    timeout: {connect: 1000, read: 500, wait: 30}
    skip_services: [vault]
    shared_size: 64m
  nacos:
    host: ["http://nacos:p@ss@10.0.0.1:8848"]
    access_key: key
    secret_key: "$env://TOKEN"
  eureka:
    host: ["http://10.0.0.2:8761"]
    prefix: eureka
    weight: 7
"#;
    let (found, described) = parse(text).expect("valid");
    let consul = found.consul.expect("a section");
    let urls: Vec<&str> = consul.access.servers.iter().map(|it| it.url.as_str()).collect();
    assert_eq!(urls, ["http://127.0.0.1:8500", "https://consul.example:8501"]);
    assert_eq!(consul.token.as_ref().map(Secret::expose), Some("hush"));
    assert_eq!(consul.access.timeout, Duration::from_millis(1_500));
    assert_eq!(consul.access.fetch_interval, Duration::from_secs(3));
    assert_eq!((consul.wait, consul.weight), (Some(Duration::from_secs(30)), 1));
    assert_eq!(consul.skip_services, ["vault"]);
    let nacos = found.nacos.expect("a section");
    let [server] = &nacos.access.servers[..] else { panic!("one server") };
    assert_eq!(server.url, "http://10.0.0.1:8848");
    assert_eq!(server.credentials.as_ref().map(Secret::expose), Some("nacos:p@ss"));
    assert_eq!((&*nacos.prefix, nacos.weight), ("/nacos/v1/", 100));
    assert_eq!(nacos.keys.map(|(_, secret)| secret.expose().to_owned()).as_deref(), Some("hush"));
    let eureka = found.eureka.expect("a section");
    assert_eq!((&*eureka.prefix, eureka.weight), ("/eureka/", 7));
    assert!(described.contains("discovery.consul.shared_size"), "{described}");
    assert!(!described.contains("hush") && !described.contains("p@ss"), "{described}");
}

#[test]
fn the_api_server_of_a_pod_is_found_in_its_environment() {
    let environment = |name: &str| {
        let known = [("KUBERNETES_SERVICE_HOST", "10.0.0.1"), ("KUBERNETES_SERVICE_PORT", "443")];
        known.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    };
    let kubernetes = |section: &str, environment: &dyn Fn(&str) -> Option<String>| {
        let text = format!("discovery: {{kubernetes: {section}}}");
        let loaded = Bootstrap::parse(Some(&text), &|name| environment(name), &[]);
        loaded.map(|loaded| loaded.bootstrap.discovery.kubernetes.expect("a section"))
    };
    let reference = "{service: {host: \"${KUBERNETES_SERVICE_HOST}\", schema: http}}";
    for (section, expected) in [("{}", "https://10.0.0.1:443"), (reference, "http://10.0.0.1:443")]
    {
        let found = kubernetes(section, &environment).expect("valid");
        assert_eq!(found.access.servers[0].url, expected);
        let file = "/var/run/secrets/kubernetes.io/serviceaccount/token";
        assert_eq!((found.weight, found.token), (50, Some(KubernetesToken::File(file.into()))));
    }
    let outside = kubernetes("{}", &|_| None).expect_err("outside of a pod");
    assert!(outside.to_string().contains("KUBERNETES_SERVICE_HOST is not set"), "{outside}");
    let whole = "{service: {host: \"::1\", port: 6443}, client: {token: hush}, default_weight: 7}";
    let found = kubernetes(whole, &environment).expect("valid");
    assert_eq!((&*found.access.servers[0].url, found.weight), ("https://[::1]:6443", 7));
    assert_eq!(found.token, Some(KubernetesToken::Text(Secret::new("hush"))));
}

#[test]
fn a_registry_that_is_not_blocking_is_polled() {
    let text = "discovery: {consul: {servers: [\"http://c:8500\"], keepalive: false}}";
    let (found, _) = parse(text).expect("valid");
    assert_eq!(found.consul.expect("a section").wait, None);
}

#[test]
fn invalid_settings_are_named_without_their_values() {
    for (section, expected) in [
        ("consul: {}", "consul.servers: missing"),
        ("consul: {servers: [\"c:8500\"]}", "consul.servers: one of them is not the address"),
        ("consul: {server: []}", "consul: unknown key \"server\""),
        ("consul: {servers: [\"http://c\"], token: 7}", "consul.token: expected a text"),
        ("consul: {servers: [\"http://c\"], weight: 0}", "consul.weight: expected an integer"),
        ("consul: {servers: [\"http://c\"], timeout: {wait: 601}}", "consul.timeout.wait"),
        ("consul: {servers: [\"http://c\"], timeout: {raed: 1}}", "unknown key \"raed\""),
        ("nacos: {host: [\"http://n\"], access_key: hush}", "belong together"),
        ("nacos: {host: [\"http://n\"], prefix: \"/a/../b\"}", "nacos.prefix: invalid path"),
        ("eureka: []", "eureka: expected a table"),
        (
            "kubernetes: {service: {host: h, port: 1}, client: {token: hush, token_file: f}}",
            "exclude",
        ),
        ("kubernetes: {service: {host: h, port: 1}, namespace_selector: {}}", "unknown key"),
        ("zookeeper: {}", "unknown registry \"zookeeper\""),
        ("consul: {servers: [\"http://hush:x@\"]}", "consul.servers"),
        ("consul: {servers: [\"http://c\"], token: \"$env://ABSENT\"}", "\"ABSENT\" is not set"),
    ] {
        let problems = parse(&format!("discovery: {{{section}}}")).expect_err(section);
        assert!(problems.contains(expected), "{section}: {problems}");
        assert!(!problems.contains("hush"), "{problems}");
    }
}
