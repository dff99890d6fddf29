//! Imports into a store, from the document to the stored objects.

use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;
use tollhouse_config::{Bootstrap, Format};
use tollhouse_model::{Id, Kind};

use super::*;
use crate::cli::objects;
use tollhouse_control::secrets;

/// Data directory with a bootstrap configuration for it.
struct Place {
    folder: TempDir,
    bootstrap: Bootstrap,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let data_dir = folder.path().join("data");
        Self { bootstrap: Bootstrap { data_dir, ..Bootstrap::default() }, folder }
    }

    /// Imports a document, and returns the exit code.
    fn import(&self, document: &str, flags: &[&str]) -> ExitCode {
        let file = self.folder.path().join("document.yaml");
        fs::write(&file, document).expect("the folder can be written");
        let data_dir = format!("data_dir={}", self.bootstrap.data_dir.display());
        let mut words = vec!["import", "--yes", "--set", &data_dir];
        words.extend(flags);
        let file = file.to_str().expect("the path is text");
        words.push(file);
        run(&parsed(&words)).expect("the store can be used")
    }

    fn stored(&self) -> Vec<(String, Value)> {
        let listing = tollhouse_store::read_directory(&self.bootstrap.data_dir, "/apisix/");
        let value = |bytes: &[u8]| serde_json::from_slice(bytes).expect("values are JSON");
        let entries = listing.expect("there is a store").entries;
        entries.into_iter().map(|entry| (entry.key.into(), value(&entry.value))).collect()
    }

    fn exported(&self) -> String {
        let listing = tollhouse_store::read_directory(&self.bootstrap.data_dir, "/apisix/");
        let (found, wrong) = objects::from_listing(&listing.expect("there is a store"), "/apisix");
        assert!(wrong.is_empty(), "{wrong}");
        let items: Vec<_> =
            found.into_iter().map(|((kind, _), object)| (kind, object.value)).collect();
        declarative::write(&items, Format::Yaml)
    }
}

fn parsed(words: &[&str]) -> ImportArguments {
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        import: ImportArguments,
    }
    <Line as clap::Parser>::parse_from(words).import
}

const DOCUMENT: &str = "
routes:
  - id: 1
    uri: /a
    service_id: s
services:
  - id: s
    upstream: {nodes: {\"127.0.0.1:1980\": 1}}
consumers:
  - username: jack
    plugins: {key-auth: {key: very-secret}}
  - id: jack/credentials/c1
    plugins: {basic-auth: {username: jack, password: hidden}}
plugin_metadata:
  - id: cors
    allow_origins: {a: \"https://a.com\"}
#END
";

#[test]
fn a_document_becomes_objects_with_secrets_sealed() {
    let place = Place::new();
    assert_eq!(place.import(DOCUMENT, &[]), ExitCode::SUCCESS);
    let stored = place.stored();
    let keys: Vec<&str> = stored.iter().map(|(key, _)| key.as_str()).collect();
    let expected = [
        "/apisix/consumers/jack",
        "/apisix/consumers/jack/credentials/c1",
        "/apisix/plugin_metadata/cors",
        "/apisix/routes/1",
        "/apisix/services/s",
    ];
    assert_eq!(keys, expected);
    let text = format!("{stored:?}");
    assert!(!text.contains("very-secret") && !text.contains("hidden"), "{text}");
    let keyring =
        secrets::keyring_if_any(&place.bootstrap).expect("it is good").expect("it is kept");
    let sealed = stored[0].1.pointer("/plugins/key-auth/key").and_then(Value::as_str);
    let hidden = sealed.and_then(|sealed| keyring.hidden_in(sealed, "consumers/jack key-auth.key"));
    assert_eq!(hidden.as_deref(), Some("very-secret"));
    assert_eq!(stored[1].1["id"], "c1");
    assert_eq!(stored[2].1["id"], "cors");
    assert!(stored[3].1["create_time"].is_u64() && stored[3].1["update_time"].is_u64());
}

#[test]
fn importing_what_was_exported_changes_nothing() {
    let place = Place::new();
    assert_eq!(place.import(DOCUMENT, &[]), ExitCode::SUCCESS);
    let revision = |place: &Place| {
        tollhouse_store::read_directory(&place.bootstrap.data_dir, "").expect("a store").revision
    };
    let (before, document) = (revision(&place), place.exported());
    assert_eq!(place.import(&document, &["--prune"]), ExitCode::SUCCESS);
    assert_eq!(revision(&place), before, "{document}");
    assert_eq!(place.import(DOCUMENT, &["--prune"]), ExitCode::SUCCESS);
    assert_eq!(revision(&place), before, "secrets in the clear are the same secrets");
}

#[test]
fn what_another_machine_sealed_is_refused() {
    let (here, there) = (Place::new(), Place::new());
    assert_eq!(here.import(DOCUMENT, &[]), ExitCode::SUCCESS);
    let exported = here.exported();
    assert!(exported.contains("tollhouse-sealed:1:") && !exported.contains("very-secret"));
    assert_eq!(there.import(&exported, &[]), ExitCode::from(UNUSABLE));
    assert_eq!(there.stored(), []);
    let upstream = "upstreams: [{id: 1, nodes: {\"127.0.0.1:1\": 1}, tls: {client_cert: c, \
                    client_key: \"tollhouse-sealed:1:0:AA\"}}]\n#END\n";
    assert_eq!(there.import(upstream, &[]), ExitCode::from(UNUSABLE));
}

#[test]
fn a_keyring_that_is_lost_or_anothers_keeps_everything_out() {
    let place = Place::new();
    assert_eq!(place.import(DOCUMENT, &[]), ExitCode::SUCCESS);
    let keyring = secrets::keyring_path(&place.bootstrap);
    fs::remove_file(&keyring).expect("it is kept");
    let open = || Target::open(&parsed(&["import", "x.yaml"]), &place.bootstrap).err();
    let error = format!("{:#}", open().expect("the keyring is not there"));
    assert!(error.contains("put it back as"), "{error}");
    assert!(!keyring.exists(), "none is made in its place");
    fs::write(&keyring, "0123456789abcdef\n").expect("the folder can be written");
    let error = format!("{:#}", open().expect("the keyring is another's"));
    assert!(error.contains("was sealed with another keyring"), "{error}");
}

#[test]
fn one_bad_object_keeps_everything_out() {
    let place = Place::new();
    assert_eq!(place.import(DOCUMENT, &[]), ExitCode::SUCCESS);
    let before = place.stored();
    let bad = [
        "routes: [{id: 2, uri: /b, upstream_id: u}, {id: 3, uri: 7}]\n#END\n",
        "routes: [{id: 2, uri: /b, upstream_id: u, plugins: {key-auth: {header: 1}}}]\n#END\n",
        "routes: [{id: 2, uri: \"${{NOBODY_HAS_SET_THIS}}\", upstream_id: u}]\n#END\n",
        "routes: [{id: 2, uri: /b, upstream_id: u}, 7]\n#END\n",
        "routes: 7\n#END\n",
        "routes: []\n",
        "{",
    ];
    for document in bad {
        let code = place.import(document, &["--prune"]);
        assert_eq!(code, ExitCode::from(UNUSABLE), "{document}");
        assert_eq!(place.stored(), before, "{document}");
    }
}

#[test]
fn only_what_is_asked_for_is_written_and_deleted() {
    let place = Place::new();
    assert_eq!(place.import(DOCUMENT, &["--dry-run"]), ExitCode::SUCCESS);
    assert!(!place.bootstrap.data_dir.exists(), "nothing is made by looking");
    assert_eq!(place.import(DOCUMENT, &[]), ExitCode::SUCCESS);
    let before = place.stored();
    let smaller = "routes: [{id: 1, uri: /b, service_id: s}]\nservices: [{id: s}]\n#END\n";
    assert_eq!(place.import(smaller, &["--dry-run", "--prune"]), ExitCode::SUCCESS);
    assert_eq!(place.stored(), before);
    assert_eq!(place.import(smaller, &[]), ExitCode::SUCCESS);
    assert_eq!(place.stored().len(), before.len());
    assert_eq!(place.import(smaller, &["--prune"]), ExitCode::SUCCESS);
    let left: Vec<String> = place.stored().into_iter().map(|(key, _)| key).collect();
    assert_eq!(left, ["/apisix/routes/1", "/apisix/services/s"]);
}

#[test]
fn names_may_lead_to_what_is_there_already() {
    let document =
        |text: &str| declarative::parse(text, Format::Yaml, &|_| None).expect("it is a document");
    let new = document("routes: [{id: 1, uri: /, service_id: s}]\n#END\n");
    let fields = json!({"id": "s", "upstream": {"nodes": {"127.0.0.1:80": 1}}});
    let fields = fields.as_object().expect("an object").clone();
    let service = objects::Object::new(Kind::Service, &Id::new("s"), fields);
    let there = Objects::from([((Kind::Service, Id::new("s")), service)]);
    for (flags, expected) in [(&[][..], 0), (&["--prune"][..], 1)] {
        let words: Vec<&str> = ["import", "x.yaml"].iter().chain(flags).copied().collect();
        let all = remaining(&there, &new, &parsed(&words));
        let found = check::check_beside(&new, &all, &[]);
        assert_eq!(found.len(), expected, "{found}");
    }
}

#[test]
fn a_store_that_is_in_use_is_left_with_the_remedy() {
    let place = Place::new();
    let location = tollhouse_store::Location::Directory(place.bootstrap.data_dir.clone());
    let _held = tollhouse_store::open(&location).expect("nobody else has it");
    let error = Target::open(&parsed(&["import", "x.yaml"]), &place.bootstrap).err();
    let error = format!("{:#}", error.expect("the store is in use"));
    assert!(error.contains("--admin http://127.0.0.1:9180"), "{error}");
}

#[test]
fn an_ngxway_becomes_routes_and_upstreams_of_the_store() {
    let place = Place::new();
    let folder = place.folder.path().join("vhosts");
    fs::create_dir(&folder).expect("the folder can be written");
    let upstream = "upstream api_host { server 10.0.0.7:8000 weight=100; }";
    let vhosts = "server { listen 8090; gzip on; location /api/ { proxy_cache c; proxy_read_timeout 10s; \
        proxy_set_header Host $host; proxy_pass http://api_host; } location = /x { return 404; } }";
    fs::write(folder.join("upstream.conf"), upstream).expect("it is written");
    fs::write(folder.join("vhosts.conf"), vhosts).expect("it is written");
    let data_dir = format!("data_dir={}", place.bootstrap.data_dir.display());
    let folder = folder.to_str().expect("the path is text");
    let words = ["import", "ngxway", "--yes", "--set", &data_dir, folder];
    assert_eq!(run(&parsed(&words)).expect("the store can be used"), ExitCode::SUCCESS);
    let keys: Vec<String> = place.stored().into_iter().map(|(key, _)| key).collect();
    let expected =
        ["/apisix/routes/ngxway-1", "/apisix/routes/ngxway-2", "/apisix/upstreams/api_host"];
    assert_eq!(keys, expected);
    fs::write(place.folder.path().join("vhosts/vhosts.conf"), "server {").expect("it is written");
    assert!(run(&parsed(&words)).is_err_and(|error| error.to_string().contains("line 1")));
}
