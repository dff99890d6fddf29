//! One rule for the exit codes of all commands: 2 where nothing was tried, because the command line, a
//! configuration or a document cannot be used; 1 where it was tried and failed.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use tollhouse_testkit::ClosedPort;
use tollhouse_testkit::program::run;

/// A command in a folder of its own, for which the usual ports and folders do not exist.
fn tollhouse(folder: &Path, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollhouse"));
    command.args(line.split_whitespace()).current_dir(folder).env("NO_COLOR", "1");
    command
}

#[test]
fn what_cannot_be_used_is_told_before_anything_is_tried() {
    for (line, part) in [
        ("run --config nothere.yaml", "nothere.yaml: cannot be read"),
        ("run --resources nothere.yaml", "nothere.yaml: cannot be read"),
        ("run --set log=%%%=x", "configuration: log: "),
        ("run --set plugins=key-auht", "did you mean \"key-auth\"?"),
        ("run --set access_log.format=$requets", "access_log.format: unknown variable"),
        ("run --set access_log.format=json --set access_log.fields=statsu", "\"statsu\""),
        (
            "run --set admin.tls.cert=none --set admin.tls.key=none",
            "admin.tls: none cannot be read",
        ),
        ("run --set workers=many", "workers"),
        ("check nothere.yaml", "error: nothere.yaml: cannot be opened"),
        ("check --set plugins=key-auht", "did you mean \"key-auth\"?"),
        ("check --set log=%%%=x", "configuration: log: "),
        ("explain --url http://a/ --resources nothere.yaml", "nothere.yaml: cannot be read"),
        ("import nothere.yaml", "nothere.yaml: cannot be opened"),
        ("plugins key-auht", "did you mean \"key-auth\"?"),
        ("mock --body-file nothere", "nothere"),
        ("mock --status 99", "--status"),
        ("registry register a/b nowhere", "HOST:PORT"),
        ("bench http http://127.0.0.1/ --nonsense", "--nonsense"),
    ] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let ran = run(&mut tollhouse(folder.path(), line));
        assert_eq!(ran.status.code(), Some(2), "{line}: {}", ran.text);
        let error = ran.text.lines().find(|line| line.starts_with("error: "));
        assert!(error.is_some() && ran.text.contains(part), "{line}: {}", ran.text);
        assert!(!ran.text.contains("nothere.yaml: nothere.yaml"), "{line}: {}", ran.text);
        let made: Vec<_> = std::fs::read_dir(folder.path()).expect("a folder").collect();
        // Resources are read once everything else is there.
        assert!(made.is_empty() || line.contains("run --resources"), "{line}: {made:?}");
    }
}

#[test]
fn what_was_tried_and_failed_is_told_apart() {
    let taken = TcpListener::bind(("127.0.0.1", 0)).expect("loopback can be bound");
    let taken = taken.local_addr().expect("a bound address");
    let closed = ClosedPort::new();
    let nobody = closed.address();
    for (line, part) in [
        (
            format!(
                "run --set listen.http={taken} --set listen.admin= --set listen.control= --set \
                  listen.metrics= --set listen.registry_grpc= --set listen.registry_http="
            ),
            "in use",
        ),
        ("run --set data_dir=/proc/nowhere".to_owned(), "data_dir /proc/nowhere cannot be made"),
        ("run --upgrade".to_owned(), "start without --upgrade"),
        (format!("mock --listen {taken}"), "in use"),
        ("export".to_owned(), "no gateway has kept objects there"),
        ("backup copy.db".to_owned(), "failed to back the store up"),
        (format!("registry list --admin http://{nobody}"), "is the gateway running?"),
    ] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let ran = run(&mut tollhouse(folder.path(), &line));
        assert_eq!(ran.status.code(), Some(1), "{line}: {}", ran.text);
        let error = ran.text.lines().find(|line| line.starts_with("error: "));
        assert!(error.is_some() && ran.text.contains(part), "{line}: {}", ran.text);
    }
}
