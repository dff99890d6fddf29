//! Plugins that an object uses and this build does not contain, and the decision whether they may
//! be skipped.
//!
//! A plugin may be the only protection of a node, and an unknown name may be that of such a plugin,
//! misspelled. Requests of the object are therefore refused. Only two kinds of plugins are skipped:
//! those that are known not to protect anything, and those that the operator lists.

use tollhouse_model::Problem;
use tollhouse_stdx::nearest;

use crate::scope::Scope;
use crate::validation::Role;

/// Plugins whose absence lets no unwanted request pass and reveals no hidden data: loggers,
/// tracers, encodings and protocols.
const HARMLESS: &[&str] = &[
    "ai-cache",
    "ai-rag",
    "batch-requests",
    "body-transformer",
    "brotli",
    "clickhouse-logger",
    "datadog",
    "degraphql",
    "elasticsearch-logger",
    "error-log-logger",
    "example-plugin",
    "file-logger",
    "google-cloud-logging",
    "graphql-proxy-cache",
    "grpc-transcode",
    "grpc-web",
    "gzip",
    "http-logger",
    "inspect",
    "kafka-logger",
    "kafka-proxy",
    "lago",
    "log-rotate",
    "loggly",
    "loki-logger",
    "mqtt-proxy",
    "node-status",
    "ocsp-stapling",
    "opentelemetry",
    "prometheus",
    "proxy-buffering",
    "proxy-control",
    "proxy-mirror",
    "request-id",
    "rocketmq-logger",
    "server-info",
    "skywalking",
    "skywalking-logger",
    "sls-logger",
    "splunk-hec-logging",
    "syslog",
    "tcp-logger",
    "tencent-cloud-cls",
    "toolset",
    "traffic-label",
    "udp-logger",
    "zipkin",
];

/// Plugins that answer in the place of the route's nodes. Without such a plugin, requests with their
/// credentials would go to nodes that were never meant to get them.
const REPLACING: &[&str] = &[
    "ai-proxy",
    "ai-proxy-multi",
    "aws-lambda",
    "azure-functions",
    "dubbo-proxy",
    "http-dubbo",
    "mcp-bridge",
    "openapi-to-mcp",
    "openfunction",
    "openwhisk",
];

/// Plugins that this build refuses on purpose, each with another way to the same end.
const ALTERNATIVES: &[(&str, &str)] = &[
    ("dubbo-proxy", "routes of ShenYu's gateway call services of Dubbo; see docs/guides/shenyu.md"),
    ("gm", "certificates with SM2 keys are not supported; use RSA or ECDSA certificates"),
];

/// APISIX plugins that this build lacks and that protect, may protect, or run custom code. A
/// misspelled plugin name is compared with them for suggestions.
const PROTECTING: &[&str] = &[
    "ai-aliyun-content-moderation",
    "ai-aws-content-moderation",
    "ai-lakera-guard",
    "ai-prompt-decorator",
    "ai-prompt-guard",
    "ai-prompt-template",
    "ai-rate-limiting",
    "ai-request-rewrite",
    "attach-consumer-label",
    "authz-casbin",
    "authz-casdoor",
    "authz-keycloak",
    "cas-auth",
    "chaitin-waf",
    "data-mask",
    "dingtalk-auth",
    "error-page",
    "exit-transformer",
    "ext-plugin-post-req",
    "ext-plugin-post-resp",
    "ext-plugin-pre-req",
    "feishu-auth",
    "forward-auth",
    "gm",
    "graphql-limit-count",
    "ip-restriction",
    "jwe-decrypt",
    "key-auth",
    "ldap-auth",
    "ldap-auth-advanced",
    "limit-count",
    "oas-validator",
    "openid-connect",
    "saml-auth",
    "serverless-post-function",
    "serverless-pre-function",
    "wolf-rbac",
];

/// APISIX auth plugins that consumers may have confs of. If the plugin is missing, such a conf
/// identifies no consumer, which is safe.
const IDENTIFYING: [&str; 4] = ["jwe-decrypt", "ldap-auth", "ldap-auth-advanced", "wolf-rbac"];

/// Entry in the list of skipped plugins that stands for all plugins.
pub const ALL: &str = "*";

/// Whether `name` is a plugin of APISIX, according to the lists in this module.
pub fn is_of_apisix(name: &str) -> bool {
    all().any(|other| other == name)
}

fn all() -> impl Iterator<Item = &'static str> {
    [HARMLESS, REPLACING, PROTECTING].into_iter().flatten().copied()
}

/// Returns the problem for a plugin that is not in the catalogue: an error if requests of the
/// object must be refused, a warning if the plugin is skipped.
pub fn problem(name: &str, path: String, role: Role, scope: &Scope<'_>) -> Problem {
    let reason = format!("plugin \"{name}\" is not part of this build");
    let skipped = &scope.services.skipped_plugins;
    if HARMLESS.contains(&name) || skipped.iter().any(|skip| skip == name || skip == ALL) {
        let hint = "it has no effect: requests pass as if it were not there";
        return Problem::warning(path, reason).with_hint(hint);
    }
    if role == Role::Identity && IDENTIFYING.contains(&name) {
        return Problem::warning(path, reason).with_hint("it identifies no consumer");
    }
    let work = if REPLACING.contains(&name) { "answer" } else { "protect" };
    let refused = format!(
        "requests that it might {work} are answered 503 (plugin_unavailable) until it is removed, or \
         named in skip_plugins"
    );
    let known = scope.catalogue.iter().map(|plugin| plugin.name).chain(all());
    let near = nearest(name, known).filter(|_| !is_of_apisix(name));
    let alternative = ALTERNATIVES.iter().find(|(other, _)| *other == name);
    let hint = match (near, alternative) {
        (Some(near), _) => format!("did you mean \"{near}\"? {refused}"),
        (None, Some((_, alternative))) => format!("{alternative}; {refused}"),
        (None, None) => refused,
    };
    Problem::error(path, reason).with_hint(hint)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::Value;
    use tollhouse_model::problem::Severity;

    use super::*;
    use crate::{Catalogue, Services};

    fn severity_and_hint(name: &str, role: Role, skipped: &[&str]) -> (bool, String) {
        let mut services = Services::new("test");
        services.skipped_plugins = skipped.iter().map(|name| (*name).to_owned()).collect();
        let (services, catalogue) = (Arc::new(services), Catalogue::empty());
        let conf = Value::Null;
        let scope = Scope {
            owner: "routes/1",
            conf: &conf,
            metadata: None,
            protos: None,
            catalogue: &catalogue,
            services: &services,
        };
        let problem = problem(name, "here".into(), role, &scope);
        (problem.severity == Severity::Error, problem.hint)
    }

    #[test]
    fn only_what_protects_nothing_is_passed_over() {
        use Role::{Identity, Verifier};
        let table: [(&str, Role, &[&str], bool, &str); 15] = [
            ("openid-connect", Verifier, &[], true, "requests that it might protect"),
            ("chaitin-waf", Verifier, &[], true, "requests that it might protect"),
            ("ext-plugin-pre-req", Verifier, &[], true, "requests that it might protect"),
            ("key-auht", Verifier, &[], true, "did you mean \"key-auth\"? requests"),
            ("opentelemtry", Verifier, &[], true, "did you mean \"opentelemetry\"?"),
            ("ai-proxy", Verifier, &[], true, "requests that it might answer"),
            ("gm", Verifier, &[], true, "certificates with SM2 keys are not supported"),
            (
                "dubbo-proxy",
                Verifier,
                &[],
                true,
                "routes of ShenYu's gateway call services of Dubbo",
            ),
            ("my-own", Verifier, &[], true, "requests that it might protect"),
            ("kafka-logger", Verifier, &[], false, "it has no effect"),
            ("opentelemetry", Identity, &[], false, "it has no effect"),
            ("ldap-auth", Identity, &[], false, "it identifies no consumer"),
            ("ldap-auth", Verifier, &[], true, "requests that it might protect"),
            ("openid-connect", Verifier, &["openid-connect"], false, "it has no effect"),
            ("anything", Verifier, &["*"], false, "it has no effect"),
        ];
        for (name, role, skipped, is_error, hint) in table {
            let (error, said) = severity_and_hint(name, role, skipped);
            assert_eq!(error, is_error, "{name}");
            assert!(said.starts_with(hint), "{name}: {said}");
        }
    }
}
