//! What the console shows, from a shell: routes, requests and the gateway at a glance.

use std::process::Command;

use serde_json::json;
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::program::{Running, run, run_well};
use tollhouse_testkit::{Gateway, Origin, RawClient};

use crate::support::{gateway, upstream};

fn command(gateway: &Gateway, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollhouse"));
    command.args(words).env_remove("TOLLHOUSE_ADMIN_KEY");
    command.arg("--set").arg(format!("data_dir={}", gateway.folder().display()));
    command.args(["--admin", &format!("http://{}", gateway.admin_address())]);
    command
}

fn ask(gateway: &Gateway, path: &str) -> u16 {
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    RawClient::connect(gateway.address()).ask(request).status()
}

#[test]
fn routes_requests_and_rates_are_printed_as_the_console_shows_them() {
    let origin = Origin::named("a");
    let gateway = gateway().without_resources().start();
    let route =
        json!({"name": "Orders", "uri": "/orders", "upstream": upstream([origin.address()])});
    assert_eq!(gateway.admin("PUT", "/routes/1", &route).status(), 201);
    wait_for("the route", || (ask(&gateway, "/orders") == 200).then_some(()));

    let table = run_well(&mut command(&gateway, &["routes", "ders"]));
    assert!(table.contains("Orders") && table.contains("/orders"), "{table}");
    let none = run_well(&mut command(&gateway, &["routes", "nothing"]));
    assert!(none.starts_with("no route has"), "{none}");

    let follow =
        Running::start(&mut command(&gateway, &["requests", "--follow", "--status", "404"]));
    ask(&gateway, "/nowhere?secret=1");
    follow.output().wait_line("the failure", |line| {
        let is_it = line.contains("404 GET a/nowhere ") && line.ends_with("code=route_not_found");
        is_it.then_some(())
    });

    let follow_all = Running::start(&mut command(&gateway, &["requests", "--follow", "--json"]));
    // They come after the first look.
    for path in ["/first", "/second"] {
        ask(&gateway, path);
        follow_all.output().wait_line("a request that came later", |line| {
            line.contains(&format!("\"path\":\"{path}\"")).then_some(())
        });
    }
    let looks = Running::start(&mut command(&gateway, &["top", "--json"]));
    wait_for("a second look", || {
        let text = looks.output().text();
        assert!(!text.contains("panicked"), "{text}");
        (text.lines().filter(|line| line.starts_with('{')).count() > 1).then_some(())
    });

    let top = run_well(&mut command(&gateway, &["top", "--once"]));
    assert!(top.contains("ready") && top.contains("1 of 1 serve"), "{top}");
    let refused = run(command(&gateway, &["top", "--once"]).args(["--admin-key", "wrong"]));
    assert!(!refused.status.success() && refused.text.contains("--admin-key"), "{}", refused.text);
}
