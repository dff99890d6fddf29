//! Tests of the table of keys, of the precedence of sources, and of problem texts in golden files.

use std::collections::HashSet;

use proptest::prelude::*;
use serde_json::Value;
use tollhouse_model::Problems;

use super::keys::KEYS;
use super::*;
use crate::golden;

fn nothing(_: &str) -> Option<String> {
    None
}

fn load(text: &str) -> Result<Loaded, Problems> {
    Bootstrap::parse(Some(text), &nothing, &[])
}

#[test]
fn golden_bootstrap_files() {
    golden::check("bootstrap", |input| {
        match Bootstrap::parse(Some(input), &golden::environment, &[]) {
            Err(problems) => format!("refused\n{problems}"),
            Ok(loaded) => {
                let lines = loaded.describe();
                let given = lines.lines().filter(|line| !line.ends_with("(default)"));
                let given: Vec<&str> = given.collect();
                format!("{}\n{}", given.join("\n"), loaded.problems)
            }
        }
    });
}

#[test]
fn nothing_given_is_the_documented_default() {
    let loaded = Bootstrap::load(None, &nothing, &[]).expect("defaults are good");
    assert_eq!(loaded.bootstrap, Bootstrap::default());
    assert_eq!(loaded.problems.to_string(), "");
    assert!(loaded.sources().all(|(_, source)| *source == Source::Default));
    assert!(loaded.describe().starts_with("data_dir = ./tollhouse-data (default)\n"));
    assert!(loaded.describe().contains("listen.http = 127.0.0.1:9080 (default)\n"));
}

#[test]
fn cargo_run_keeps_data_out_of_the_source_tree() {
    let home = |name: &str| match name {
        "CARGO_MANIFEST_DIR" => Some(env!("CARGO_MANIFEST_DIR").to_owned()),
        "HOME" => Some("/home/one".to_owned()),
        _ => None,
    };
    let state = |name: &str| match name {
        "XDG_STATE_HOME" => Some("/state".to_owned()),
        name => home(name),
    };
    let elsewhere = |name: &str| match name {
        "CARGO_MANIFEST_DIR" => Some("/another/tree/package".to_owned()),
        name => home(name),
    };
    let folder = |text: &str, environment: &dyn Fn(&str) -> Option<String>| {
        let loaded = Bootstrap::parse(Some(text), &|name: &str| environment(name), &[]);
        loaded.expect("it is good").bootstrap.data_dir.display().to_string()
    };
    assert_eq!(folder("", &home), "/home/one/.local/state/tollhouse");
    assert_eq!(folder("", &state), "/state/tollhouse");
    assert_eq!(folder("data_dir: /d", &state), "/d", "the file takes precedence");
    assert_eq!(folder("", &elsewhere), "./tollhouse-data", "started outside of the tree");
}

#[test]
fn every_default_reads_back_as_it_is_shown() {
    for key in KEYS {
        let mut bootstrap = Bootstrap::default();
        let shown = (key.show)(&bootstrap);
        if shown == "null" {
            continue;
        }
        let text = if shown == "[]" { String::new() } else { shown };
        assert_eq!((key.read)(&mut bootstrap, &Value::from(text)), Ok(()), "{}", key.name);
        assert_eq!(bootstrap, Bootstrap::default(), "{}", key.name);
    }
}

#[test]
fn names_and_variables_are_unique_and_documented() {
    let names: HashSet<&str> = KEYS.iter().map(|key| key.name).collect();
    let variables: HashSet<String> = KEYS.iter().map(|key| key.variable()).collect();
    assert_eq!((names.len(), variables.len()), (KEYS.len(), KEYS.len()));
    for key in KEYS {
        assert!(key.doc.ends_with('.') && !key.doc.contains('|'), "{}", key.name);
    }
    assert_eq!(reference_markdown().matches("\n| `").count(), KEYS.len());
}

#[test]
fn flags_beat_the_environment_which_beats_the_file() {
    let file = Some("workers: 1\ndrain_time: 1s\nlog: warn\n");
    let environment = |name: &str| match name {
        "TOLLHOUSE_WORKERS" => Some("2".to_owned()),
        "TOLLHOUSE_DRAIN_TIME" => Some("2s".to_owned()),
        "TOLLHOUSE_LISTEN_HTTP" => Some("9080, [::1]:9081".to_owned()),
        _ => None,
    };
    let flags = [("workers".to_owned(), "3".to_owned())];
    let loaded = Bootstrap::parse(file, &environment, &flags).expect("all of it is good");
    assert_eq!(loaded.bootstrap.workers, Workers::Count(3));
    assert_eq!(loaded.bootstrap.drain_time, Duration::from_secs(2));
    let text = loaded.describe();
    for line in [
        "workers = 3 (flag)",
        "drain_time = 2s (environment TOLLHOUSE_DRAIN_TIME)",
        "log = warn (file)",
        "listen.http = 0.0.0.0:9080, [::1]:9081 (environment TOLLHOUSE_LISTEN_HTTP)",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }
}

#[test]
fn a_listener_takes_several_forms_and_can_be_off() {
    let table = [
        ("9080", "0.0.0.0:9080"),
        ("\"9080\"", "0.0.0.0:9080"),
        ("[9080, '127.0.0.1:81']", "0.0.0.0:9080, 127.0.0.1:81"),
        ("'[::]:9080'", "[::]:9080"),
        ("['[::1]:1']", "[::1]:1"),
        ("127.0.0.1:0", "127.0.0.1:0"),
        ("[]", "off"),
        ("''", "off"),
        ("['']", "off"),
        ("off", "off"),
    ];
    for (written, expected) in table {
        let loaded = load(&format!("listen: {{http: {written}}}")).expect("the form is good");
        let line = format!("listen.http = {expected} (file)");
        assert!(loaded.describe().contains(&line), "{written}");
    }
    let loaded = load("listen: {control: 7}").expect("a bare port is good");
    assert_eq!(loaded.bootstrap.listen.control, [SocketAddr::from(([127, 0, 0, 1], 7))]);
}

#[test]
fn the_access_log_follows_the_data_folder() {
    let loaded = load("data_dir: /d").expect("it is good");
    let expected = AccessLogTarget::File("/d/access.log".into());
    assert_eq!(loaded.bootstrap.access_log.file, expected);
    let loaded = load("{data_dir: /d, access_log: {file: '-'}}").expect("it is good");
    assert_eq!(loaded.bootstrap.access_log.file, AccessLogTarget::StandardOutput);
}

#[test]
fn the_admin_key_never_reaches_a_message() {
    for text in ["admin: {key: s3cret}", "admin: {key: {a: s3cret}}", "admin: {kye: s3cret}"] {
        let shown = match load(text) {
            Ok(loaded) => format!("{loaded:?} {}", loaded.describe()),
            Err(problems) => format!("{problems} {problems:?}"),
        };
        assert!(!shown.contains("s3cret"), "{shown}");
    }
}

#[test]
fn secrets_that_open_two_doors_and_keys_that_can_be_guessed_are_refused() {
    const ONE: &str = "one-key-of-the-gateway";
    let table = [
        (
            format!("admin: {{key: {ONE}, viewer_key: {ONE}}}"),
            "admin.viewer_key: the same secret as admin.key",
        ),
        (
            format!("{{admin: {{key: {ONE}}}, registry: {{password: {ONE}}}}}"),
            "registry.password: the same secret as admin.key",
        ),
        (
            format!("registry: {{token: {ONE}, client_token: {ONE}}}"),
            "registry.client_token: the same secret as registry.token",
        ),
        (
            format!(
                "{{admin: {{keys: [{{name: a, key: {ONE}, role: viewer}}]}}, registry: {{token: {ONE}}}}}"
            ),
            "admin.keys: the same secret as registry.token",
        ),
        ("admin: {key: short}".to_owned(), "admin.key: the key can be guessed"),
        ("admin: {viewer_key: short}".to_owned(), "admin.viewer_key: the key can be guessed"),
    ];
    for (text, expected) in table {
        let problems = load(&text).expect_err(&text).to_string();
        assert!(problems.contains(expected), "{text}: {problems}");
        assert!(!problems.contains(ONE) && !problems.contains("short"), "{problems}");
    }
    assert!(load(&format!("{{admin: {{key: {ONE}}}, registry: {{password: another}}}}")).is_ok());
}

#[test]
fn objects_reach_neither_the_data_folder_nor_the_settings() {
    let loaded = load("data_dir: /d").expect("it is good");
    assert_eq!(loaded.bootstrap.log_files.folder, std::path::PathBuf::from("/d/logs"));
    for (text, expected) in [
        ("{data_dir: /d/e, log_files: {folder: /d/e}}", Some("log_files.folder")),
        ("{data_dir: /d/e, log_files: {folder: /d}}", Some("log_files.folder")),
        ("{data_dir: /d/e, log_files: {folder: /d/e/x/..}}", Some("log_files.folder")),
        ("{data_dir: /d/e, log_files: {folder: /d/e/x}}", None),
        ("{data_dir: /d/e, log_files: {folder: /var/log/x}}", None),
        ("secrets: {env: [TOLLHOUSE_ADMIN_KEY]}", Some("secrets.env")),
        ("secrets: {env: ['TOLLHOUSE_*']}", Some("secrets.env")),
        ("secrets: {env: ['SHOP_*', VAULT_TOKEN]}", None),
    ] {
        let problems = load(text).err().map(|problems| problems.to_string());
        let found = problems.as_deref().unwrap_or_default();
        assert_eq!(problems.is_some(), expected.is_some(), "{text}: {found}");
        assert!(found.contains(expected.unwrap_or_default()), "{text}: {found}");
    }
}

#[test]
fn settings_that_could_not_be_kept_are_refused() {
    for (text, expected) in [
        ("limits: {header_bytes: 32KiB, request_line_bytes: 31KiB}", None),
        (
            "limits: {header_bytes: 32KiB, request_line_bytes: 32KiB}",
            Some("no head may be so long"),
        ),
        ("limits: {header_bytes: 64KiB}", Some("limits.header_bytes")),
        ("limits: {header_count: 257}", Some("limits.header_count")),
        ("listen: {http: '127.0.0.1:1, [::1]:1'}", None),
        ("listen: {admin: '127.0.0.1:1, [::1]:1'}", Some("it listens on one")),
        ("listen: {control: '127.0.0.1:1, [::1]:1'}", Some("it listens on one")),
        ("listen: {unix: ['unix:/a', 'unix:/b']}", None),
        ("listen: {unix: ['unix:/a', 'unix:/a']}", Some("unix:/a is there twice")),
    ] {
        let problems = load(text).err().map(|problems| problems.to_string());
        let found = problems.as_deref().unwrap_or_default();
        assert_eq!(problems.is_some(), expected.is_some(), "{text}: {found}");
        assert!(found.contains(expected.unwrap_or_default()), "{text}: {found}");
    }
}

#[test]
fn texts_that_plugins_are_told_are_shown_as_stars() {
    let loaded = load("plugin_attr: {p: {password: s3cret, on: true, list: [s3cret]}}");
    let shown = loaded.expect("it is good").describe();
    assert!(!shown.contains("s3cret") && shown.contains(r#""on":true"#), "{shown}");
}

#[test]
fn a_missing_file_is_named() {
    let missing = std::path::Path::new("no-such-folder/tollhouse.yaml");
    let problems = Bootstrap::load(Some(missing), &nothing, &[]).expect_err("it is missing");
    assert!(problems.to_string().starts_with("no-such-folder/tollhouse.yaml: cannot be read"));
}

#[test]
fn an_unknown_flag_is_refused() {
    let flags = [("listen.htp".to_owned(), "1".to_owned())];
    let problems = Bootstrap::parse(None, &nothing, &flags).expect_err("there is no such key");
    assert_eq!(
        problems.to_string(),
        "listen.htp: unknown key \"listen.htp\"; did you mean \"listen.http\"?"
    );
}

/// Strategy for texts of at most `chars_max` arbitrary characters.
fn any_text(chars_max: usize) -> impl Strategy<Value = String> {
    prop::collection::vec(any::<char>(), 0..=chars_max)
        .prop_map(|letters| letters.into_iter().collect())
}

proptest! {
    #[test]
    fn no_value_of_any_key_makes_it_panic(index in 0..KEYS.len(), text in any_text(20)) {
        let flags = [(KEYS[index].name.to_owned(), text)];
        let _ = Bootstrap::parse(None, &nothing, &flags);
    }

    #[test]
    fn no_text_makes_it_panic(text in any_text(100)) {
        let _ = load(&text);
    }
}
