//! The files that Tollhouse starts with: the bootstrap configuration, and resources in the format
//! of APISIX's standalone mode.

use anyhow::Result;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tollhouse_testbed::{Bootstrap, Listen, free_port};

/// Key of the Admin API in every run; its listener is on loopback and only lives as long as the
/// case.
pub(crate) const ADMIN_KEY: &str = "bench-0123456789abcdef0123456789";

/// Returns the listeners that most cases need: the data plane on `port`, and metrics on a free
/// port.
pub(crate) fn listen(port: u16) -> Result<Listen> {
    Ok(Listen { http: port, metrics: free_port()?, ..Listen::default() })
}

/// Writes the files that Tollhouse starts with to a folder, and returns the path of
/// `tollhouse.yaml`.
pub(crate) fn write(folder: &Path, bootstrap: &Bootstrap<'_>, resources: &str) -> Result<PathBuf> {
    std::fs::write(folder.join("resources.json"), resources)?;
    let path = folder.join("tollhouse.yaml");
    std::fs::write(&path, bootstrap.text(folder))?;
    Ok(path)
}

/// Returns the path of a route by its number.
pub(crate) fn route_path(number: usize) -> String {
    format!("/r/{number}")
}

/// Returns the name of a consumer by its number.
pub(crate) fn consumer_name(number: usize) -> String {
    format!("consumer_{number}")
}

/// Returns the key of a consumer by its number.
pub(crate) fn consumer_key(number: usize) -> String {
    format!("key-{number:08}-of-a-consumer")
}

/// Returns the header line with the key of a consumer.
pub(crate) fn key_line(number: usize) -> String {
    format!("apikey: {}\r\n", consumer_key(number))
}

/// Returns a route without plugins; the churn case changes its priority.
pub(crate) fn route_json(origin_port: u16, number: usize) -> String {
    let path = route_path(number);
    format!(
        "{{\"id\":\"{number}\",\"uri\":\"{path}\",\"priority\":0,\"upstream\":\
         {{\"type\":\"roundrobin\",\"nodes\":{{\"127.0.0.1:{origin_port}\":1}}}}}}"
    )
}

/// Returns a resources file with this number of routes.
pub(crate) fn routes_json(origin_port: u16, routes: usize) -> String {
    let list: Vec<String> = (0..routes).map(|n| route_json(origin_port, n)).collect();
    format!("{{\"routes\":[{}]}}", list.join(",\n"))
}

/// Returns a route with its own plugins.
pub(crate) fn route_with_plugins(origin_port: u16, number: usize, plugins: &Value) -> Value {
    json!({
        "id": number.to_string(),
        "uri": route_path(number),
        "plugins": plugins,
        "upstream": { "type": "roundrobin", "nodes": { format!("127.0.0.1:{origin_port}"): 1 } },
    })
}

/// Returns a limit-count configuration whose limit is never reached.
pub(crate) fn limit() -> Value {
    json!({ "count": 2_000_000_000, "time_window": 60, "rejected_code": 503, "key": "remote_addr" })
}

/// Returns confs of `key-auth` and `limit-count`, the plugins of the budget for requests with
/// plugins.
pub(crate) fn key_auth_and_limit() -> Value {
    json!({ "key-auth": {}, "limit-count": limit() })
}

/// Returns a consumer with a key.
pub(crate) fn consumer(number: usize) -> Value {
    json!({
        "username": consumer_name(number),
        "plugins": { "key-auth": { "key": consumer_key(number) } },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_json_with_every_route() {
        let value: Value = serde_json::from_str(&routes_json(81, 3)).unwrap();
        assert_eq!(value["routes"].as_array().unwrap().len(), 3);
        assert_eq!(value["routes"][2]["uri"], "/r/2");
        assert_eq!(value["routes"][0]["upstream"]["nodes"]["127.0.0.1:81"], 1);
    }

    #[test]
    fn routes_and_consumers_are_numbered() {
        let route = route_with_plugins(81, 7, &json!({ "key-auth": {} }));
        assert_eq!((&route["id"], &route["uri"]), (&json!("7"), &json!("/r/7")));
        assert_eq!(consumer(3)["plugins"]["key-auth"]["key"], consumer_key(3));
    }
}
