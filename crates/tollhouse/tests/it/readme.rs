//! The commands of README.md and of the first guide, run in order as a reader would run them: on ports of the kernel's
//! choice, with shorter measurements, in a folder of their own. `documents.rs` checks what all documents contain.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tollhouse_testkit::ReservedPort;
use tollhouse_testkit::program::{Running, find, run_within};

use crate::documents::Document;

/// Time for all commands between two starts of the gateway.
const SEGMENT_TIME: Duration = Duration::from_secs(120);

/// Ports in the documents, each with the variable that moves its listener.
const PORTS: [(&str, &str); 9] = [
    ("9080", "TOLLHOUSE_LISTEN_HTTP"),
    ("9443", "TOLLHOUSE_LISTEN_HTTPS"),
    ("9180", "TOLLHOUSE_LISTEN_ADMIN"),
    ("9090", "TOLLHOUSE_LISTEN_CONTROL"),
    ("9091", "TOLLHOUSE_LISTEN_METRICS"),
    ("8090", "TOLLHOUSE_LISTEN_REGISTRY_HTTP"),
    ("8091", "TOLLHOUSE_LISTEN_REGISTRY_GRPC"),
    ("1980", ""),
    ("1981", ""),
];

/// Loads that a test can afford on a busy machine.
const SHORTER: [(&str, &str); 4] =
    [("-d 10s", "-d 4s"), ("-c 100", "-c 4"), ("--rate 2000", "--rate 20"), ("< 50ms", "< 50s")];

/// Commands with tests of their own: the build itself, and the suites of `bench_suites`.
const ELSEWHERE: [&str; 3] = ["cargo run", "cargo install", "tollhouse bench suite"];

/// Failed requests fail the script. A server in the background may need a moment, which curl waits for.
const PREAMBLE: &str = "set -e\njobs=\ntrap 'kill $jobs 2> /dev/null || :' EXIT\n\
    curl() { command curl --silent --show-error --fail-with-body --retry 8 --retry-all-errors \"$@\"; }\n";

/// Waits for the registration that README.md starts in the background.
const REGISTERED: &str =
    "until tollhouse registry list production/files 2> /dev/null | grep -q 127.0.0.1; do :; done\n";

/// Waits for the nodes of `apisix.yaml`, because a retry at a start would break their turns.
const BOTH_SERVE: &str = "for node in $(grep -o '127.0.0.1:[0-9]*' apisix.yaml); do\n\
    curl http://$node/name > /dev/null; done\n";

/// Reads the Admin key by way of every route.
const ATTACK: &str = "for host in localhost files.example; do for path in admin.key tollhouse-data/admin.key; do\n\
    command curl --silent -H \"Host: $host\" http://127.0.0.1:9080/$path; done; done\n";

/// A folder with the files of a document, and its commands on other ports.
struct Reader {
    folder: tempfile::TempDir,
    document: Document,
    variables: Vec<(&'static str, String)>,
    /// Keeps the ports from other tests.
    _ports: Vec<ReservedPort>,
}

impl Reader {
    /// Reads a document, and writes its first YAML blocks into files with these names.
    fn new(name: &str, files: &[&str]) -> Self {
        let mut text = Document::read(name);
        let mut variables = Vec::new();
        let mut ports = Vec::new();
        for (port, variable) in PORTS {
            let reserved = ReservedPort::new();
            let free = reserved.address();
            ports.push(reserved);
            for (before, after) in [(":", ""), (" ", " ")] {
                let own = format!("{before}{}{after}", free.port());
                text = text.replace(&format!("{before}{port}{after}"), &own);
            }
            if !variable.is_empty() {
                variables.push((variable, free.to_string()));
            }
        }
        for (long, short) in SHORTER {
            text = text.replace(long, short);
        }
        let document = Document::parse(name, &text);
        let folder = tempfile::tempdir().expect("a folder");
        let reader = Self { folder, document, variables, _ports: ports };
        for (name, block) in files.iter().zip(reader.document.blocks("yaml")) {
            reader.write(name, block);
        }
        reader
    }

    fn write(&self, name: &str, content: &str) {
        fs::write(self.folder.path().join(name), content).expect("the folder takes files");
    }

    /// The scripts between starts of the gateway; the starts are told apart by their first words.
    fn segments(&self) -> Vec<String> {
        let mut segments = vec![String::new()];
        for block in self.document.blocks("sh") {
            if ELSEWHERE.iter().any(|start| block.starts_with(start)) {
                continue;
            }
            for line in block.split_inclusive('\n') {
                if line.starts_with("tollhouse run") {
                    segments.push(line.to_owned());
                    segments.push(String::new());
                    continue;
                }
                let segment = segments.last_mut().expect("a segment has begun");
                segment.push_str(line);
                if line.ends_with(" &\n") {
                    segment.push_str("jobs=\"$jobs $!\"\n");
                }
                if line.contains("registry register") {
                    segment.push_str(REGISTERED);
                }
            }
        }
        segments
    }

    fn command(&self, script: &str) -> Command {
        let program = Path::new(env!("CARGO_BIN_EXE_tollhouse"));
        let folder = program.parent().expect("a program is in a folder");
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new("sh");
        command.arg("-c").arg(script).current_dir(self.folder.path()).env("PATH", path);
        command.env("NO_COLOR", "1").env_remove("TOLLHOUSE_ADMIN_KEY");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs a script that must succeed; its output.
    fn run(&self, script: &str) -> String {
        let ran = run_within(&mut self.command(&format!("{PREAMBLE}{script}")), SEGMENT_TIME);
        assert!(ran.status.success(), "{script}\n{}: {}", ran.status, ran.text);
        ran.text
    }

    fn start(&self, line: &str) -> Running {
        // The shell gives way to the gateway, so that its end is the gateway's.
        let gateway = Running::start(&mut self.command(&format!("exec {line}")));
        gateway.output().wait_line("the end of the start-up text", |line| {
            line.starts_with("Only this machine reaches the data plane").then_some(())
        });
        gateway
    }
}

#[test]
fn every_command_of_the_readme_works_and_none_gives_the_admin_key_away() {
    if find("curl").is_none() {
        return;
    }
    let reader = Reader::new("README.md", &["tollhouse.yaml", "apisix.yaml"]);
    let segments = reader.segments();
    let [before, first, between, second, after] = segments.as_slice() else {
        panic!("README.md starts the gateway twice: {segments:#?}");
    };
    assert_eq!((before.as_str(), after.as_str()), ("", ""), "nothing runs without a gateway");

    let gateway = reader.start(first);
    let port = |name: &str| {
        let found = reader.variables.iter().find(|(variable, _)| *variable == name);
        found.expect("it is in the table").1.clone()
    };
    let attack = ATTACK.replace("127.0.0.1:9080", &port("TOLLHOUSE_LISTEN_HTTP"));
    let said = reader.run(&format!("{between}{attack}"));
    assert_eq!(said.matches("HTTP/1.1 200").count(), 3, "the demonstration and two routes: {said}");
    let key = fs::read_to_string(reader.folder.path().join("tollhouse-data/admin.key"));
    let key = key.expect("the first start makes a key");
    assert!(key.trim().len() == 32 && !said.contains(key.trim()), "{said}");
    let start = gateway.output().text();
    assert!(!start.contains(key.trim()), "service managers keep what is printed: {start}");
    assert!(start.contains("key in ./tollhouse-data/admin.key"), "{start}");
    assert!(said.contains("route       files, pattern /*"), "{said}");
    drop(gateway);
    let again = reader.start(second);
    assert!(again.output().text().contains("apisix.yaml"), "{}", again.output().text());
}

#[test]
fn the_first_route_alternates_and_is_explained_after_its_change() {
    if find("curl").is_none() || find("python3").is_none() {
        return;
    }
    let reader = Reader::new("docs/start/first-route.md", &["apisix.yaml"]);
    let segments = reader.segments();
    let [servers, start, requests] = segments.as_slice() else {
        panic!("the guide starts the gateway once: {segments:#?}");
    };
    let (asked, explained) = requests.split_once('\n').expect("a call and an explanation");
    let gateway = reader.start(start);
    let said = reader.run(&format!("{servers}{BOTH_SERVE}{asked}\n{asked}\n"));
    assert!(said.contains("1 route, 1 upstream, 0 errors, 0 warnings"), "{said}");
    let has = |answer: &str| said.lines().any(|line| line == answer);
    assert!(has("one") && has("two"), "{said}");
    drop(gateway);
    let changed = reader.document.blocks("yaml").nth(1).expect("a second version");
    reader.write("apisix.yaml", changed);
    // No route is found, which `explain` says with its exit code.
    let said = reader.run(&format!("{} || :\n", explained.trim()));
    let expected = reader.document.blocks("text").next().expect("the explanation");
    assert_eq!(said.trim(), expected.trim());
}
