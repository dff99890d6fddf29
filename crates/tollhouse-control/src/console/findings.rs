//! Findings for operators, each with a weight and a remedy. They are derived from the overview and
//! the settings; no check is run.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tollhouse_config::Bootstrap;

/// Time before expiry, in seconds, from which a certificate is a finding.
const ENDS_SOON_S: i64 = 14 * 86_400;

/// The findings, the most serious first.
pub(super) fn findings(overview: &Value, bootstrap: &Bootstrap, now_s: i64) -> Value {
    let mut found = Vec::new();
    let mut add = |is_grave: bool, title: String, detail: &str, remedy: &str| {
        found.push((
            is_grave,
            json!({
                "weight": if is_grave { "grave" } else { "notable" },
                "title": title,
                "detail": detail,
                "remedy": remedy,
            }),
        ));
    };
    let list = |name: &str| overview[name].as_array().map_or(&[][..], Vec::as_slice);
    for down in list("down") {
        let title = format!("{} is down", down["part"].as_str().unwrap_or_default());
        add(true, title, down["reason"].as_str().unwrap_or_default(), "see the log of the process");
    }
    let count = |name: &str| overview[name].as_u64().unwrap_or_default();
    let problems = count("problem_count");
    if problems > 0 {
        let title = counted(problems, "problem", "problems") + " in the configuration";
        let detail = "objects with a problem are set aside, and serve as they were last good";
        add(true, title, detail, "each problem names its object and what helps; see the overview");
    }
    let nodes = &overview["nodes"];
    let unhealthy = nodes["unhealthy"].as_u64().unwrap_or_default();
    if unhealthy > 0 {
        let title = counted(unhealthy, "node does", "nodes do") + " not serve";
        add(true, title, "health checks or requests fail", "see the reason on the page of nodes");
    }
    let unresolved = nodes["unresolved"].as_u64().unwrap_or_default();
    if unresolved > 0 {
        let title = counted(unresolved, "node has", "nodes have") + " no address";
        add(
            false,
            title,
            "their names are not known to the name servers",
            "check the names, and dns.servers",
        );
    }
    for certificate in list("certificates") {
        let left_s = certificate["ends_at"].as_i64().unwrap_or(i64::MAX) - now_s;
        if left_s < ENDS_SOON_S {
            let id = certificate["id"].as_str().unwrap_or_default();
            let title = match left_s {
                ..0 => format!("the certificate {id} has ended"),
                _ => {
                    let days = u64::try_from(left_s / 86_400).unwrap_or_default();
                    format!("the certificate {id} ends in {}", counted(days, "day", "days"))
                }
            };
            add(
                left_s < 0,
                title,
                "clients refuse it from its end on",
                "write a new one to the same object",
            );
        }
    }
    add_doors(bootstrap, &mut add);
    // The sort is stable: equal weights keep the order of the checks above.
    found.sort_by_key(|(is_grave, _)| !is_grave);
    found.into_iter().map(|(_, finding)| finding).collect()
}

/// A number with the singular or plural of its noun.
fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Adds findings about missing access protection.
fn add_doors(bootstrap: &Bootstrap, add: &mut impl FnMut(bool, String, &str, &str)) {
    let admin = &bootstrap.admin;
    let is_far = |addresses: &[SocketAddr]| addresses.iter().any(|it| !it.ip().is_loopback());
    if !admin.key_required {
        let title = "this gateway can be changed without a key".to_owned();
        add(true, title, "admin.key_required is false", "set admin.key_required to true");
    }
    if is_far(&bootstrap.listen.admin) && admin.tls.cert.is_none() {
        let title = "keys of the Admin API cross the network in the clear".to_owned();
        let detail = "listen.admin is reached from other machines, without TLS";
        add(true, title, detail, "set admin.tls.cert and admin.tls.key, or listen on 127.0.0.1");
    }
    if is_far(&bootstrap.listen.control) && bootstrap.control.tls.client_ca.is_none() {
        let title = "all clients of the control API can read the configuration".to_owned();
        let detail = "listen.control is reached from other machines, and asks for no certificate";
        add(false, title, detail, "set control.tls.client_ca, or listen on 127.0.0.1");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn titles(overview: &Value, bootstrap: &Bootstrap) -> Vec<String> {
        let found = findings(overview, bootstrap, 1_000_000);
        let found = found.as_array().expect("a list");
        found.iter().map(|it| it["title"].as_str().unwrap_or_default().to_owned()).collect()
    }

    #[test]
    fn a_gateway_in_order_has_none() {
        assert!(titles(&json!({"nodes": {}}), &Bootstrap::default()).is_empty());
    }

    #[test]
    fn what_is_grave_comes_first() {
        let mut bootstrap = Bootstrap::default();
        bootstrap.admin.key_required = false;
        bootstrap.listen.admin = vec![SocketAddr::from(([0, 0, 0, 0], 9180))];
        let overview = json!({
            "down": [{"part": "registry", "reason": "the port is taken"}],
            "problem_count": 2,
            "nodes": {"unhealthy": 1, "unresolved": 1},
            "certificates": [{"id": "a", "ends_at": 1}, {"id": "b", "ends_at": 1_000_000 + 86_400}],
        });
        let expected = [
            "registry is down",
            "2 problems in the configuration",
            "1 node does not serve",
            "the certificate a has ended",
            "this gateway can be changed without a key",
            "keys of the Admin API cross the network in the clear",
            "1 node has no address",
            "the certificate b ends in 1 day",
        ];
        assert_eq!(titles(&overview, &bootstrap), expected);
    }
}
