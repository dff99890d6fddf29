//! The files of deploy/, each as far as this machine can run it: a unit for systemd, an image's configuration, a
//! compose file, a chart.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tollhouse_testkit::program::{Ran, find, python, run, run_well};
use tollhouse_testkit::{ClosedPort, RawClient};

use crate::support::gateway;

const PROGRAM: &str = env!("CARGO_BIN_EXE_tollhouse");

/// Place of the program in the unit.
const INSTALLED: &str = "/usr/local/bin/tollhouse";

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Checks a configuration, without what this machine's environment says.
fn check(file: &Path, variables: &[(String, String)]) -> Ran {
    let mut command = Command::new(PROGRAM);
    command.args(["check", "--config"]).arg(file).env_remove("TOLLHOUSE_ADMIN_KEY");
    run(command.envs(variables.iter().map(|(name, value)| (name, value))))
}

#[test]
fn the_unit_is_sound() {
    let Some(analyze) = find("systemd-analyze") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let unit = folder.path().join("tollhouse.service");
    fs::write(&unit, read("systemd/tollhouse.service").replace(INSTALLED, PROGRAM)).expect("taken");
    let said = run_well(Command::new(analyze).arg("verify").arg(&unit));
    assert_eq!(said.trim(), "", "systemd complains about nothing");
}

/// Commands of the unit under this key, with the program and the configuration of a test.
fn commands_of_unit(key: &str, configuration: &Path) -> Vec<String> {
    let unit = read("systemd/tollhouse.service");
    let lines = unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    let configuration = configuration.display().to_string();
    let own = |line: &str| {
        line.replace(INSTALLED, PROGRAM).replace("/etc/tollhouse/tollhouse.yaml", &configuration)
    };
    lines.map(own).collect()
}

#[test]
fn a_reload_of_the_unit_starts_a_successor_that_becomes_the_main_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let notify = folder.path().join("notify");
    let manager = UnixDatagram::bind(&notify).expect("a socket");
    manager.set_read_timeout(Some(Duration::from_secs(60))).expect("a bound");
    let ready = || loop {
        let mut buffer = [0; 256];
        let count = manager.recv(&mut buffer).expect("a message");
        let text = String::from_utf8_lossy(&buffer[..count]).into_owned();
        if let Some(rest) = text.strip_prefix("READY=1\nMAINPID=") {
            return rest.lines().next().and_then(|id| id.parse::<u32>().ok()).expect("a number");
        }
    };
    let address = ClosedPort::new().address();
    let text = format!(
        "data_dir: {}\nworkers: 1\nlisten: {{http: '{address}', https: [], admin: [], control: '127.0.0.1:0', \
         metrics: '127.0.0.1:0', registry_grpc: [], registry_http: []}}\n",
        folder.path().join("data").display()
    );
    let notify = notify.to_str().expect("text");
    let first = gateway().bootstrap_text(&text).without_resources();
    let mut first = first.variable("NOTIFY_SOCKET", notify).start();
    assert_eq!(ready(), first.process());
    for line in commands_of_unit("ExecReload", &first.folder().join("bootstrap.yaml")) {
        // The successor stays behind the command, as in the unit: its output is not waited for.
        let mut command = Command::new("sh");
        command.arg("-c").arg(line).env("NOTIFY_SOCKET", notify);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        assert!(command.status().expect("a shell").success(), "{command:?}");
    }
    let successor = ready();
    let code = first.wait_exit().code();
    let answer = RawClient::connect(address).get("/demo");
    run_well(Command::new("sh").arg("-c").arg(format!("kill {successor}")));
    assert_ne!(successor, first.process());
    assert_eq!((code, answer.status()), (Some(0), 200), "the first gives way to the second");
}

#[test]
fn the_configuration_in_the_image_is_sound_and_opens_the_data_plane_alone() {
    let ran = check(&path("container.yaml"), &[]);
    assert!(ran.status.success() && ran.text.contains("0 errors, 0 warnings"), "{}", ran.text);
    let mut show = Command::new(PROGRAM);
    show.args(["check", "--show", "--config"]).arg(path("container.yaml"));
    let shown = run_well(&mut show);
    let open = shown
        .lines()
        .map(str::trim_start)
        .filter(|line| line.starts_with("listen.") && line.contains("0.0.0.0"));
    let open: Vec<&str> = open.map(|line| line.split(' ').next().unwrap_or_default()).collect();
    assert_eq!(open, ["listen.http", "listen.https"]);
}

#[test]
fn the_image_is_built_with_the_pinned_toolchain() {
    let root = path("..");
    let pinned = fs::read_to_string(root.join("rust-toolchain.toml")).expect("the file");
    let version = pinned.split('"').nth(1).expect("a version");
    assert!(read("Containerfile").contains(&format!("rust:{version}-")), "{version}");
    let ignored = fs::read_to_string(root.join(".dockerignore")).expect("the file");
    for heavy in ["**/target", ".git", "**/tollhouse-data"] {
        assert!(ignored.lines().any(|line| line == heavy), "{heavy}");
    }
}

/// Variables of a gateway in the compose file: each name with its value, `${NAME:?}` as it is written.
fn variables_of_compose() -> Vec<(String, String)> {
    let text = read("compose.yaml");
    let lines = text.lines().filter_map(|line| line.strip_prefix("    TOLLHOUSE_"));
    let pair = |line: &str| {
        let (name, value) = line.split_once(": ").expect("a name and a value");
        (format!("TOLLHOUSE_{name}"), value.trim_matches('"').to_owned())
    };
    lines.map(pair).collect()
}

/// The value with a secret of its own in the place of each `${NAME:?}`.
fn filled_in(value: &str) -> String {
    let Some((before, rest)) = value.split_once("${") else { return value.to_owned() };
    let (name, after) = rest.split_once(":?}").expect("a variable that must be set");
    // 32 letters, as a keyring takes.
    let secret: String = name.bytes().map(char::from).cycle().take(32).collect();
    format!("{before}{secret}{}", filled_in(after))
}

#[test]
fn the_compose_file_configures_a_gateway_whose_secrets_all_differ() {
    let variables = variables_of_compose();
    let filled: Vec<_> =
        variables.iter().map(|(name, value)| (name.clone(), filled_in(value))).collect();
    let ran = check(&path("container.yaml"), &filled);
    assert!(ran.status.success() && ran.text.contains("0 errors, 0 warnings"), "{}", ran.text);
    let secrets: Vec<&String> = variables
        .iter()
        .filter(|(name, value)| value.contains("${") && !name.contains("MYSQL"))
        .map(|(_, value)| value)
        .collect();
    let different: BTreeSet<_> = secrets.iter().collect();
    assert_eq!((secrets.len(), different.len()), (5, 5), "{secrets:?}");
}

#[test]
fn the_compose_file_publishes_the_data_plane_alone_beyond_this_machine() {
    let text = read("compose.yaml");
    let lines = text.lines().filter_map(|line| line.strip_prefix("      - \"")?.strip_suffix('"'));
    let published: Vec<&str> = lines.collect();
    assert!(published.len() > 8, "{published:?}");
    let open: BTreeSet<&str> = published
        .iter()
        .filter(|port| !port.starts_with("127.0.0.1:"))
        .filter_map(|port| Some(port.split_once(':')?.1))
        .collect();
    assert_eq!(open, BTreeSet::from(["9080", "9443"]));
    // Connections to published ports come from the bridge, which the Admin API must let in.
    let gateway = text.split(", gateway: ").nth(1).and_then(|rest| rest.split(' ').next());
    let gateway = gateway.expect("the network has a fixed gateway");
    let allow = variables_of_compose().into_iter().find(|(name, _)| name.ends_with("ADMIN_ALLOW"));
    assert!(allow.is_some_and(|(_, networks)| networks.ends_with(gateway)), "{gateway}");
}

#[test]
fn the_compose_file_has_an_etcd_that_loses_no_events() {
    let text = read("compose.yaml");
    let version = text.split("coreos/etcd:v3.5.").nth(1).and_then(|rest| rest.lines().next());
    let patch: u32 = version.and_then(|patch| patch.parse().ok()).expect("a version 3.5");
    assert!(patch >= 23, "alerts.yaml asks for 3.5.23 or newer, not 3.5.{patch}");
}

/// The chart's objects with these values, or the reason of Helm's refusal.
fn render(helm: &Path, values: &[&str]) -> Result<String, String> {
    let mut command = Command::new(helm);
    command
        .args(["template", "edge"])
        .arg(path("helm/tollhouse"))
        .args(["--kube-version", "1.30.0"]);
    values.iter().for_each(|value| {
        command.args(["--set-json", value]);
    });
    // Helm's remarks about links in the chart are on the other stream.
    let output = command.output().expect("Helm can be started");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

const IMAGE: &str = "image.repository=\"registry.example/tollhouse\"";

/// Values of three pods that share everything.
const SHARED: [&str; 5] = [
    IMAGE,
    "replicaCount=3",
    "config.store.etcd.endpoints=[\"http://etcd:2379\"]",
    "existingSecrets=[\"tollhouse\"]",
    "registryDatabaseInSecret=true",
];

#[test]
fn the_chart_refuses_values_that_would_serve_different_things() {
    let Some(helm) = find("helm") else { return };
    let table: [(&[&str], &str); 7] = [
        (&[], "no image is published"),
        (&[IMAGE, "replicaCount=2"], "needs config.store.etcd.endpoints"),
        (&[IMAGE, "autoscaling.enabled=true"], "needs config.store.etcd.endpoints"),
        (&[IMAGE, SHARED[1], SHARED[2]], "TOLLHOUSE_ADMIN_KEY"),
        (&[IMAGE, SHARED[1], SHARED[2], SHARED[3]], "needs a database"),
        (&[IMAGE, "adminService.enabled=true"], "config.admin.allow"),
        (&[IMAGE, "replicaCont=3"], "replicaCont"),
    ];
    for (values, expected) in table {
        let refusal = render(&helm, values).expect_err("values that do not fit");
        assert!(refusal.contains(expected), "{values:?}: {refusal}");
    }
    render(&helm, &SHARED).expect("three pods that share everything");
}

#[test]
fn the_charts_objects_fit_kubernetes_and_its_configuration_fits_the_gateway() {
    let Some(helm) = find("helm") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("rendered.yaml");
    let everything = [
        "networkPolicy.enabled=true",
        "autoscaling.enabled=true",
        "dashboards.enabled=true",
        "adminService.enabled=true",
        "config.listen.admin=\"0.0.0.0:9180\"",
        "config.admin.allow=[\"10.0.0.0/8\"]",
    ];
    for values in
        [vec![IMAGE], vec![IMAGE, "persistence.enabled=false"], [&SHARED[..], &everything].concat()]
    {
        let rendered = render(&helm, &values).expect("values that fit");
        fs::write(&file, &rendered).expect("the folder takes files");
        if let Some(python) = python() {
            let mut command = Command::new(python.with_file_name("kubernetes-validate"));
            run_well(command.args(["--strict", "--kubernetes-version", "1.30"]).arg(&file));
        }
        let configuration = rendered.split("tollhouse.yaml: |\n").nth(1).expect("a ConfigMap");
        let lines = configuration.lines().map_while(|line| line.strip_prefix("    "));
        let bootstrap = folder.path().join("tollhouse.yaml");
        fs::write(&bootstrap, lines.collect::<Vec<_>>().join("\n")).expect("taken");
        let keyring = ("TOLLHOUSE_ENCRYPTION_KEYRING".to_owned(), "0123456789abcdef".repeat(2));
        let ran = check(&bootstrap, &[keyring]);
        assert!(ran.status.success() && ran.text.contains("0 errors, 0 warnings"), "{}", ran.text);
    }
}
