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

#[test]
fn requests_of_routes_upstreams_and_consumers_are_counted_each() {
    let origin = Origin::named("a");
    let gateway = gateway().without_resources().start();
    assert_eq!(gateway.admin("PUT", "/upstreams/u", &upstream([origin.address()])).status(), 201);
    let jack = json!({"username": "jack", "plugins": {"key-auth": {"key": "k"}}});
    assert_eq!(gateway.admin("PUT", "/consumers", &jack).status(), 201);
    let route = json!({"uri": "/a", "upstream_id": "u", "plugins": {"key-auth": {}}});
    assert_eq!(gateway.admin("PUT", "/routes/1", &route).status(), 201);
    let own = json!({"uri": "/own", "upstream": upstream([origin.address()])});
    assert_eq!(gateway.admin("PUT", "/routes/2", &own).status(), 201);
    let get = |path: &str| {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: a\r\napikey: k\r\nConnection: close\r\n\r\n");
        RawClient::connect(gateway.address()).ask(request).status()
    };
    for path in ["/a", "/own"] {
        wait_for("the route", || (get(path) == 200).then_some(()));
    }
    // The first of each may have come before its route did.
    assert_eq!((get("/a"), ask(&gateway, "/a")), (200, 401));
    let counted = |kind: &str| {
        let request = format!(
            "GET /console/v1/live/{kind} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-KEY: {}\r\n\r\n",
            gateway.admin_key()
        );
        let text = RawClient::connect(gateway.admin_address()).ask(request).text();
        let answer: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let rows = answer["rows"].as_array().expect("rows").clone();
        let count = |row: &serde_json::Value| {
            (row["id"].as_str().unwrap_or_default().to_owned(), row["requests"].as_u64())
        };
        let mut rows: Vec<_> = rows.iter().map(count).collect();
        rows.sort();
        rows
    };
    let of = |id: &str, requests| (id.to_owned(), Some(requests));
    // What no node was asked for is no request of an upstream, and what stands in a route is counted as that.
    wait_for("the counts", || {
        let is_counted = counted("routes") == [of("1", 3), of("2", 1)]
            && counted("upstreams") == [of("u", 2)]
            && counted("consumers") == [of("jack", 2)];
        is_counted.then_some(())
    });
}
