//! Reports on small documents, word for word.

mod documents;

use base64::Engine;
use clap::Parser;
use tollhouse_load::report::paint::Paint;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    arguments: CheckArguments,
}

/// Folder of files, which is deleted at the end of the test.
struct Folder(tempfile::TempDir);

impl Folder {
    fn with_files(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory can be made");
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).expect("the file can be written");
        }
        Self(folder)
    }

    /// Returns the report for a command line, in which `@name` stands for a file of the folder.
    fn check(&self, line: &[&str]) -> (String, bool) {
        self.check_in(line, &|_| None)
    }

    /// Returns the report as [`Self::check`] does, with these environment variables.
    fn check_in(&self, line: &[&str], environment: Environment<'_>) -> (String, bool) {
        let root = self.0.path().display().to_string();
        let words = line.iter().map(|word| word.replace('@', &format!("{root}/")));
        let line = Line::parse_from(std::iter::once("check".to_owned()).chain(words));
        let report = super::check(&line.arguments, Report::new(Paint::Plain), environment);
        (report.text().replace(&format!("{root}/"), ""), report.has_errors())
    }
}

const GOOD: &str = r#"
routes:
  - id: 1
    uri: /a
    upstream_id: 1
upstreams:
  - id: 1
    nodes: {"127.0.0.1:1980": 1}
#END
"#;

#[test]
fn a_good_file_is_one_line() {
    let folder = Folder::with_files(&[("apisix.yaml", GOOD)]);
    let expected = "apisix.yaml (resources): 1 route, 1 upstream, 0 errors, 0 warnings\n";
    assert_eq!(folder.check(&["@apisix.yaml"]), (expected.to_owned(), false));
}

#[test]
fn every_problem_is_told_with_path_value_and_hint() {
    let text = r#"{
        "routes": [
            {"id": "a", "uri": 7, "upstream_id": "u"},
            {"id": "b", "uri": "/b", "service_id": "webb",
                "plugins": {"kafka-proxy": {}, "uri-blocker": {"block_rules": 1}}},
            {"id": "c", "uri": "/c", "upstream_id": "nowhere", "plugin_config_id": "p"},
            {"id": "d", "uri": "/d", "upstream": {"nodes": {"127.0.0.1:1": 0}}},
            {"id": "e", "uri": "/e", "service_id": "bare"},
            {"id": "f", "uri": "/f", "plugins": {"mocking": {"_meta": {"disable": true}}}},
            {"id": "g", "uri": "/g", "upstream_id": "v", "plugins": {"key-auht": {}}}
        ],
        "services": [{"id": "web", "upstream_id": "gone"}, {"id": "bare"}],
        "upstreams": [{"id": "v", "nodes": {"127.0.0.1:1": 1}}],
        "plugins": []
    }"#;
    let folder = Folder::with_files(&[("apisix.json", text)]);
    let (report, has_errors) = folder.check(&["@apisix.json"]);
    assert!(has_errors);
    let expected = "\
warning: apisix.json: plugins: \"plugins\" is not served yet
    hint:  it has no effect
error: apisix.json: routes[0].uri: wrong type: expected string, got number
    value: 7
warning: apisix.json: routes[0]: it is not known which requests are its own
    hint:  it refuses none of them: another route may answer them until this is mended
warning: apisix.json: routes[1].service_id: no object of that id in services
    value: \"webb\"
    hint:  did you mean \"web\"? its requests are answered 404 (service_not_found)
warning: apisix.json: routes[1].plugins.kafka-proxy: plugin \"kafka-proxy\" is not part of this build
    hint:  it has no effect: requests pass as if it were not there
error: apisix.json: routes[1].plugins.uri-blocker: failed to check the configuration of plugin \
uri-blocker err: property \"block_rules\" validation failed: wrong type: expected array, got number
warning: apisix.json: routes[2].plugin_config_id: no object of that id in plugin_configs
    value: \"p\"
    hint:  its requests are answered 503 (plugin_config_not_found)
warning: apisix.json: routes[2].upstream_id: no object of that id in upstreams
    value: \"nowhere\"
    hint:  its requests are answered 502 (upstream_not_found)
warning: apisix.json: routes[3].upstream.nodes: no node with a weight above 0
    hint:  its requests are answered 503 (no_nodes)
warning: apisix.json: routes[4]: it leads to no upstream, and it has no plugin that could answer
    hint:  its requests are answered 503 (no_nodes)
warning: apisix.json: routes[5]: it leads to no upstream, and it has no plugin that could answer
    hint:  its requests are answered 503 (no_nodes)
error: apisix.json: routes[6].plugins.key-auht: plugin \"key-auht\" is not part of this build
    hint:  did you mean \"key-auth\"? requests that it might protect are answered 503 \
(plugin_unavailable) until it is removed, or named in skip_plugins
warning: apisix.json: services[0].upstream_id: no object of that id in upstreams
    value: \"gone\"
    hint:  its requests are answered 502 (upstream_not_found)
apisix.json (resources): 7 routes, 2 services, 1 upstream, 3 errors, 10 warnings
";
    assert_eq!(report, expected);
}

#[test]
fn names_of_two_certificates_and_stream_routes_to_nowhere_are_told() {
    let ssl = |id: &str, names: &str, more: &str| {
        format!(
            r#"{{"id": "{id}", {names}, "cert": "$secret://vault/1/c/a", "key": "$secret://vault/1/c/b"{more}}}"#
        )
    };
    let text = format!(
        r#"{{
        "ssls": [{}, {}, {}, {}],
        "stream_routes": [
            {{"id": "1", "upstream_id": "none"}},
            {{"id": "2", "server_port": 9100}},
            {{"id": "3", "upstream": {{"nodes": {{"127.0.0.1:1": 1}}}}}}
        ]
    }}"#,
        ssl("b", r#""snis": ["A.test", "b.test"]"#, ""),
        ssl("a", r#""sni": "a.test""#, ""),
        ssl("off", r#""sni": "a.test""#, r#", "status": 0"#),
        ssl("c", r#""sni": "c.test""#, ""),
    );
    let folder = Folder::with_files(&[("apisix.json", &text)]);
    let (report, has_errors) = folder.check(&["@apisix.json"]);
    let expected = "\
warning: apisix.json: ssls[0].snis: a.test stands in ssl a too
    hint:  clients are shown the certificate of the lowest id, a
warning: apisix.json: ssls[1].snis: a.test stands in ssl b too
    hint:  clients are shown the certificate of the lowest id, a
warning: apisix.json: stream_routes[0].upstream_id: no object of that id in upstreams
    value: \"none\"
    hint:  its connections are closed (upstream_not_found)
warning: apisix.json: stream_routes[1]: it leads to no upstream, and it has no plugin that could choose one
    hint:  its connections are closed (no_nodes)
apisix.json (resources): 4 ssl objects, 3 stream routes, 0 errors, 4 warnings
";
    assert_eq!(report, expected);
    assert!(!has_errors);
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
}

#[test]
fn certificates_in_the_environment_are_read_as_the_gateway_reads_them() {
    let make = |name: &str| {
        let key = rcgen::KeyPair::generate().expect("a key");
        let params = rcgen::CertificateParams::new(vec![name.to_owned()]).expect("a name");
        let own = params.self_signed(&key).expect("a certificate");
        (pem("CERTIFICATE", own.der()), pem("PRIVATE KEY", &key.serialize_der()))
    };
    let ((cert, key), (_, other_key)) = (make("a.test"), make("b.test"));
    let text = r#"{"ssls": [
        {"id": "1", "sni": "a.test", "cert": "$env://CERT", "key": "$ENV://PAIR/key"}
    ]}"#;
    let folder = Folder::with_files(&[("apisix.json", text)]);
    let check = |cert: Option<&str>, key: Option<&str>| {
        let pair = key.map(|key| serde_json::json!({ "key": key }).to_string());
        let environment = |name: &str| match name {
            "CERT" => cert.map(str::to_owned),
            "PAIR" => pair.clone(),
            "TOLLHOUSE_SECRETS_ENV" => Some("CERT,PAIR".to_owned()),
            _ => None,
        };
        folder.check_in(&["@apisix.json"], &environment)
    };
    let (report, has_errors) = check(Some(&cert), Some(&key));
    assert_eq!((report.lines().count(), has_errors), (1, false), "{report}");
    let (report, has_errors) = check(Some(&cert), Some(&other_key));
    assert!(
        has_errors && report.contains("the key does not belong to the certificate"),
        "{report}"
    );
    let (report, has_errors) = check(Some("none"), Some(&key));
    assert!(has_errors && report.contains("ssls[0].cert"), "{report}");
    let (report, has_errors) = check(Some(&cert), None);
    let expected = "warning: apisix.json: ssls[0].key: nothing answers for $ENV://PAIR/key here";
    assert!(!has_errors && report.contains(expected), "{report}");
    assert!(!report.contains("PRIVATE KEY"), "{report}");
}

#[test]
fn bootstrap_files_are_checked_with_the_flags_over_them() {
    let folder =
        Folder::with_files(&[("tollhouse.yaml", "wrokers: 2\n"), ("good.yaml", "workers: 2\n")]);
    let (report, has_errors) = folder.check(&["@tollhouse.yaml"]);
    assert!(has_errors);
    assert!(report.contains("did you mean \"workers\"?"), "{report}");
    assert!(report.ends_with("tollhouse.yaml (bootstrap): 1 error, 0 warnings\n"), "{report}");

    let (report, has_errors) = folder.check(&["--show", "--set", "log=warn", "@good.yaml"]);
    assert!(!has_errors, "{report}");
    assert!(report.contains("  workers = 2 (file)\n"), "{report}");
    assert!(report.contains("  log = warn (flag)\n"), "{report}");
}

#[test]
fn without_files_the_configuration_and_its_resources_are_checked() {
    let folder = Folder::with_files(&[("apisix.yaml", GOOD)]);
    let resources = format!("resources={}", folder.0.path().join("apisix.yaml").display());
    let (report, has_errors) = folder.check(&["--set", &resources]);
    assert!(!has_errors);
    assert!(report.contains("configuration (bootstrap): 0 errors"), "{report}");
    assert!(report.contains("apisix.yaml (resources): 1 route, 1 upstream, 0 errors"), "{report}");
}

#[test]
fn a_missing_file_is_an_error_with_its_remedy() {
    let folder = Folder::with_files(&[]);
    for line in
        [&["@none.yaml"][..], &["--config", "@none.yaml"], &["--set", "resources=@none.yaml"]]
    {
        let (report, has_errors) = folder.check(line);
        assert!(has_errors);
        assert!(report.contains("error: none.yaml: cannot be opened"), "{report}");
        assert!(report.contains("hint:  name a file that exists"), "{report}");
    }
}

#[test]
fn an_unfinished_file_is_an_error() {
    let folder = Folder::with_files(&[("apisix.yaml", "routes: []\n")]);
    let (report, has_errors) = folder.check(&["@apisix.yaml"]);
    assert!(has_errors);
    assert!(report.contains("incomplete: its last line is not #END"), "{report}");
}

#[test]
fn a_conf_is_checked_with_what_metadata_says() {
    let routes = "routes:\n  - {id: 1, uri: /a, plugins: {file-logger: {}}}\n";
    let metadata = "plugin_metadata:\n  - {id: file-logger, path: logs/a.log}\n";
    let folder = Folder::with_files(&[
        ("without.yaml", &format!("{routes}#END\n")),
        ("with.yaml", &format!("{routes}{metadata}#END\n")),
    ]);
    let (report, has_errors) = folder.check(&["@without.yaml"]);
    assert!(has_errors && report.contains("property \"path\" is not set"), "{report}");
    let (report, has_errors) = folder.check(&["@with.yaml"]);
    assert!(!has_errors, "{report}");
}

#[test]
fn a_conf_that_lacks_a_field_is_told_which() {
    let routes = "routes:\n  - {id: 1, uri: /a, plugins: {limit-count: {count: 1}}}\n#END\n";
    let folder = Folder::with_files(&[("apisix.yaml", routes)]);
    let (report, _) = folder.check(&["@apisix.yaml"]);
    assert!(report.contains("\"time_window\" is required beside \"count\""), "{report}");
}

#[test]
fn an_unfinished_file_tells_its_other_faults_too() {
    let folder = Folder::with_files(&[
        ("objects.yaml", "routes:\n  - {id: 1, urii: /a}\n"),
        ("text.yaml", "routes: [\n"),
    ]);
    let (report, _) = folder.check(&["@objects.yaml"]);
    for expected in ["its last line is not #END", "did you mean \"uri\"?", "(resources): 1 route"] {
        assert!(report.contains(expected), "{expected}: {report}");
    }
    let (report, has_errors) = folder.check(&["@text.yaml"]);
    assert!(has_errors && report.contains("its last line is not #END"), "{report}");
    assert_eq!(report.matches("error: ").count(), 2, "{report}");
}

#[test]
fn definitions_and_what_is_transcoded_to_them_are_told() {
    let text = r#"{
        "routes": [
            {"id": "a", "uri": "/a", "upstream_id": "u", "plugins": {"grpc-transcode":
                {"proto_id": "shop", "service": "shop.Orders", "method": "Place"}}},
            {"id": "b", "uri": "/b", "upstream_id": "u", "plugins": {"grpc-transcode":
                {"proto_id": "shop", "service": "Orders", "method": "Place"}}},
            {"id": "c", "uri": "/c", "upstream_id": "u", "plugins": {"grpc-transcode":
                {"proto_id": "shap", "service": "shop.Orders", "method": "Place"}}}
        ],
        "upstreams": [{"id": "u", "scheme": "grpc", "nodes": {"127.0.0.1:1": 1}}],
        "protos": [
            {"id": "shop", "content": "syntax = \"proto3\"; package shop; message A {} service Orders { rpc Place (A) returns (A); }"},
            {"id": "bad", "content": "message A {"}
        ]
    }"#;
    let folder = Folder::with_files(&[("apisix.json", text)]);
    let (report, has_errors) = folder.check(&["@apisix.json"]);
    assert!(has_errors);
    for expected in [
        "routes[1].plugins.grpc-transcode: protos/shop has no method Orders/Place",
        "routes[2].plugins.grpc-transcode.proto_id: no object of that id in protos",
        "did you mean \"shop\"? its requests pass on as they are",
        "error: apisix.json: protos[1].content: expected a message field",
    ] {
        assert!(report.contains(expected), "{expected} in {report}");
    }
    assert!(!report.contains("routes[0]"), "{report}");
}

#[test]
fn objects_of_shenyu_are_counted_and_compiled_as_the_gateway_would() {
    let text = r#"
shenyu:
  plugins: [{name: divide, enabled: true}]
  selectors:
    - {id: s, pluginName: divide, name: order, type: 1, matchMode: 0, enabled: true, conditionList: [
        {paramType: uri, operator: regex, paramValue: "("}]}
#END
"#;
    let folder = Folder::with_files(&[("shenyu.yaml", text)]);
    let (report, has_errors) = folder.check(&["@shenyu.yaml"]);
    assert!(has_errors, "{report}");
    for expected in ["shenyu.selectors[0]", "(resources): 2 objects of ShenYu, 1 error"] {
        assert!(report.contains(expected), "{expected} in {report}");
    }
    let folder = Folder::with_files(&[("shenyu.yaml", &text.replace("\"(\"", "\"(a)\""))]);
    let (report, has_errors) = folder.check(&["@shenyu.yaml"]);
    assert!(!has_errors && report.contains("2 objects of ShenYu, 0 errors"), "{report}");
}

#[test]
fn a_stream_route_on_a_port_that_the_configuration_does_not_open_is_warned_about() {
    let routes = "stream_routes:\n  - {id: a, server_port: 9100, upstream: {nodes: {\"127.0.0.1:1\": 1}}}\n  \
                  - {id: b, server_port: 9101, upstream: {nodes: {\"127.0.0.1:1\": 1}}}\n#END\n";
    let bootstrap = "listen: {stream: [{address: 127.0.0.1:9100}]}\n";
    let folder = Folder::with_files(&[("routes.yaml", routes), ("tollhouse.yaml", bootstrap)]);
    let (report, has_errors) = folder.check(&["--config", "@tollhouse.yaml", "@routes.yaml"]);
    assert!(!has_errors && report.contains("0 errors, 1 warning"), "{report}");
    assert!(report.contains("nothing listens on port 9101"), "{report}");
    let (report, _) = folder.check(&["@routes.yaml"]);
    assert!(
        report.contains("0 warnings"),
        "listeners are unknown without a configuration: {report}"
    );
}
