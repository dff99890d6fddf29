//! The files that Tollhouse starts with: the bootstrap configuration, and resources in the format
//! of APISIX's standalone mode.

use super::plan::Plan;
use super::process::{self, Running, free_port};
use anyhow::Result;
use serde_json::{Value, json};
use std::path::Path;

/// Key of the Admin API in every run; its listener is on loopback and only lives as long as the
/// case.
pub(crate) const ADMIN_KEY: &str = "bench-0123456789abcdef0123456789";

#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin<'a> {
    /// A resources file with this content.
    Resources(&'a str),
    /// The store in a folder, which an Admin API on this port writes.
    Store { data: &'a Path, admin_port: u16 },
    /// The store in a folder, which ShenYu's admin on this port writes.
    Shenyu { data: &'a Path, port: u16 },
}

/// Settings that differ between the cases.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bootstrap<'a> {
    pub(crate) port: u16,
    pub(crate) workers: usize,
    pub(crate) origin: Origin<'a>,
    /// Format of the access log, or `off`.
    pub(crate) access_log: &'a str,
}

impl<'a> Bootstrap<'a> {
    /// Returns the settings of most cases: one worker and a resources file.
    pub(crate) fn from_resources(port: u16, resources: &'a str) -> Self {
        Self { port, workers: 1, origin: Origin::Resources(resources), access_log: "off" }
    }

    /// Starts the program under test with these settings, on both cores.
    pub(crate) fn start(&self, plan: &Plan) -> Result<Running> {
        let folder = process::fresh_folder()?;
        self.write(folder.path())?;
        let mut command = plan.cores.on_both_cores(&plan.binary.display().to_string());
        command.args(["run", "--config"]).arg(folder.path().join("tollhouse.yaml"));
        Running::start(command, folder)
    }

    /// Writes `tollhouse.yaml` and the files that it refers to.
    pub(crate) fn write(&self, folder: &Path) -> Result<()> {
        let place = folder.display();
        let metrics_port = free_port()?;
        let Self { port, workers, access_log, .. } = self;
        let mut shenyu = String::new();
        let (data, admin, source) = match self.origin {
            Origin::Resources(resources) => {
                std::fs::write(folder.join("resources.json"), resources)?;
                let source = format!("resources: {place}/resources.json\n");
                (folder.join("data"), String::new(), source)
            }
            Origin::Store { data, admin_port } => {
                let source = format!("admin: {{ key: {ADMIN_KEY} }}\n");
                (data.to_owned(), format!("127.0.0.1:{admin_port}"), source)
            }
            Origin::Shenyu { data, port } => {
                shenyu = format!("127.0.0.1:{port}");
                (data.to_owned(), String::new(), String::new())
            }
        };
        let text = format!(
            "data_dir: {}\n\
             workers: {workers}\n\
             listen:\n  http: [\"127.0.0.1:{port}\"]\n  https: []\n  admin: \"{admin}\"\n  \
             control: \"\"\n  metrics: \"127.0.0.1:{metrics_port}\"\n  registry_grpc: \"\"\n  \
             registry_http: \"\"\n  shenyu: \"{shenyu}\"\n\
             {source}\
             access_log: {{ format: \"{access_log}\", file: \"{place}/access.log\" }}\n",
            data.display()
        );
        std::fs::write(folder.join("tollhouse.yaml"), text)?;
        Ok(())
    }
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

/// Returns a route with the given plugins.
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

/// Returns both plugins of the budget.
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

    fn written(bootstrap: &Bootstrap<'_>) -> String {
        let folder = tempfile::tempdir().unwrap();
        bootstrap.write(folder.path()).unwrap();
        std::fs::read_to_string(folder.path().join("tollhouse.yaml")).unwrap()
    }

    #[test]
    fn resources_are_json_with_every_route() {
        let value: Value = serde_json::from_str(&routes_json(81, 3)).unwrap();
        assert_eq!(value["routes"].as_array().unwrap().len(), 3);
        assert_eq!(value["routes"][2]["uri"], "/r/2");
        assert_eq!(value["routes"][0]["upstream"]["nodes"]["127.0.0.1:81"], 1);
    }

    #[test]
    fn the_admin_api_listens_only_beside_a_store() {
        let text = written(&Bootstrap::from_resources(80, "{}"));
        assert!(text.contains("admin: \"\"") && text.contains("resources: "), "{text}");
        let origin = Origin::Store { data: Path::new("/somewhere"), admin_port: 9180 };
        let text = written(&Bootstrap { port: 80, workers: 2, origin, access_log: "json" });
        assert!(text.contains("admin: \"127.0.0.1:9180\"") && !text.contains("resources: "));
        assert!(text.contains("workers: 2\n") && text.contains("data_dir: /somewhere\n"), "{text}");
    }

    #[test]
    fn routes_and_consumers_are_numbered() {
        let route = route_with_plugins(81, 7, &json!({ "key-auth": {} }));
        assert_eq!((&route["id"], &route["uri"]), (&json!("7"), &json!("/r/7")));
        assert_eq!(consumer(3)["plugins"]["key-auth"]["key"], consumer_key(3));
    }
}
