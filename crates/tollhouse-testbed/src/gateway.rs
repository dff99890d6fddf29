//! Bootstrap file of Tollhouse in a measurement: the listeners that are needed, all others off.

use std::fmt::Write;
use std::path::Path;

/// Ports of the listeners on loopback; 0 disables a listener.
#[derive(Debug, Clone, Copy, Default)]
pub struct Listen {
    /// Port of the data plane without TLS.
    pub http: u16,
    /// Port of the data plane over TLS.
    pub https: u16,
    /// TCP port of the stream proxy.
    pub stream_tcp: u16,
    /// UDP port of the stream proxy.
    pub stream_udp: u16,
    /// Port of the Admin API.
    pub admin: u16,
    /// Port of the metrics.
    pub metrics: u16,
    /// Port of the registry over gRPC.
    pub registry_grpc: u16,
    /// Port of the registry over HTTP.
    pub registry_http: u16,
    /// Port of ShenYu's admin.
    pub shenyu: u16,
}

/// Settings in the bootstrap file of a measured gateway.
#[derive(Debug, Clone)]
pub struct Bootstrap<'a> {
    /// Folder of the data; by default `data` beside the file.
    pub data: Option<&'a Path>,
    /// Whether objects come from `resources.json` beside the file.
    pub has_resources: bool,
    /// Number of data plane workers.
    pub workers: usize,
    /// Ports of the listeners that are opened.
    pub listen: Listen,
    /// Format of the access log, or `off`.
    pub access_log: &'a str,
    /// Further lines at the top level of the file.
    pub settings: &'a str,
}

impl Default for Bootstrap<'_> {
    /// Returns the settings of most measurements: one worker, objects from `resources.json`, no
    /// access log.
    fn default() -> Self {
        Self {
            data: None,
            has_resources: true,
            workers: 1,
            listen: Listen::default(),
            access_log: "off",
            settings: "",
        }
    }
}

impl Bootstrap<'_> {
    /// Returns the text of the bootstrap file of a gateway whose files are in `folder`.
    pub fn text(&self, folder: &Path) -> String {
        let place = folder.display();
        let data = self.data.map_or_else(|| folder.join("data"), Path::to_owned);
        let mut text =
            format!("data_dir: {}\nworkers: {}\nlisten:\n", data.display(), self.workers);
        self.listen.write(&mut text);
        if self.has_resources {
            let _ = writeln!(text, "resources: {place}/resources.json");
        }
        text.push_str(self.settings);
        let log = self.access_log;
        let _ = writeln!(text, "access_log: {{ format: \"{log}\", file: \"{place}/access.log\" }}");
        text
    }
}

impl Listen {
    fn write(&self, text: &mut String) {
        let address = |port: u16| match port {
            0 => String::new(),
            port => format!("\"127.0.0.1:{port}\""),
        };
        let streams = [(self.stream_tcp, "tcp"), (self.stream_udp, "udp")];
        let streams: Vec<String> = streams
            .into_iter()
            .filter(|(port, _)| *port != 0)
            .map(|(port, protocol)| {
                format!("{{ address: {}, protocol: {protocol} }}", address(port))
            })
            .collect();
        for (key, list) in [
            ("http", address(self.http)),
            ("https", address(self.https)),
            ("stream", streams.join(", ")),
        ] {
            let _ = writeln!(text, "  {key}: [{list}]");
        }
        for (key, port) in [
            ("admin", self.admin),
            ("control", 0),
            ("metrics", self.metrics),
            ("registry_grpc", self.registry_grpc),
            ("registry_http", self.registry_http),
            ("shenyu", self.shenyu),
        ] {
            let value = if port == 0 { "\"\"".to_owned() } else { address(port) };
            let _ = writeln!(text, "  {key}: {value}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_named_listeners_are_on() {
        let listen = Listen { http: 80, stream_udp: 53, metrics: 90, ..Listen::default() };
        let bootstrap = Bootstrap { listen, settings: "tls: {}\n", ..Bootstrap::default() };
        let expected = "data_dir: /a/data\nworkers: 1\nlisten:\n  http: [\"127.0.0.1:80\"]\n  \
                        https: []\n  stream: [{ address: \"127.0.0.1:53\", protocol: udp }]\n  \
                        admin: \"\"\n  control: \"\"\n  metrics: \"127.0.0.1:90\"\n  \
                        registry_grpc: \"\"\n  registry_http: \"\"\n  shenyu: \"\"\n\
                        resources: /a/resources.json\ntls: {}\n\
                        access_log: { format: \"off\", file: \"/a/access.log\" }\n";
        assert_eq!(bootstrap.text(Path::new("/a")), expected);
    }

    #[test]
    fn a_store_may_be_in_another_folder() {
        let data = Some(Path::new("/disk"));
        let bootstrap = Bootstrap { data, has_resources: false, ..Bootstrap::default() };
        let text = bootstrap.text(Path::new("/a"));
        assert!(text.starts_with("data_dir: /disk\n") && !text.contains("resources"), "{text}");
    }
}
