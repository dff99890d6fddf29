//! A gateway whose disk is full, on a file system of its own: it restarts, serves, and takes deletions.

use serde_json::{Value, json};
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::{Gateway, GatewayBuilder, SmallDisk};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tollhouse");

/// Room for both stores with their reserves.
const ROOM: &str = "24m";

/// A gateway on a disk, to be started; its key lies where the test looks for it.
fn on(disk: &SmallDisk, gateway: GatewayBuilder) -> GatewayBuilder {
    let data_dir = disk.path().join("data").display().to_string();
    gateway.without_resources().set("data_dir", &data_dir).registry()
}

fn started(disk: &SmallDisk) -> Gateway {
    let gateway = Gateway::builder(disk.program(PROGRAM.as_ref()));
    let gateway = on(disk, gateway).start();
    let key = std::fs::read(disk.file("data/admin.key")).expect("the first run keeps it");
    std::fs::write(gateway.folder().join("admin.key"), key).expect("the folder takes files");
    gateway
}

fn route(id: u32) -> Value {
    let text = format!("{id} {}", "x".repeat(2_000));
    json!({
        "uri": format!("/{id}"),
        "plugins": {"mocking": {"response_example": text}},
    })
}

fn put_some(gateway: &Gateway) {
    for id in 0..20 {
        let answer = gateway.admin("PUT", &format!("/routes/{id}"), &route(id));
        assert_eq!(answer.status(), 201, "{}", answer.text());
    }
}

/// Fills the disk to the last page, and puts what the store has free pages for.
fn fill(disk: &SmallDisk, gateway: &Gateway) {
    disk.fill();
    let mut answers =
        (1_000..2_000).map(|id| gateway.admin("PUT", &format!("/routes/{id}"), &route(id)));
    let refused = answers.find(|answer| answer.status() >= 300).expect("it is full");
    assert_eq!(refused.status(), 503, "{}", refused.text());
    assert!(refused.text().contains("make room"), "{}", refused.text());
}

fn stop(mut gateway: Gateway) -> GatewayBuilder {
    gateway.terminate();
    gateway.wait_exit();
    gateway.successor()
}

fn has_reserves(disk: &SmallDisk) -> Option<()> {
    let length = |name: &str| std::fs::metadata(disk.file(name)).map_or(0, |file| file.len());
    let names = ["data/store.reserve", "data/registry/store.reserve"];
    names.iter().all(|name| length(name) == 4 * 1024 * 1024).then_some(())
}

#[test]
fn a_full_disk_takes_deletions_and_a_restart() {
    let Some(disk) = SmallDisk::mount(ROOM) else { return };
    let gateway = started(&disk);
    wait_for("the reserves", || has_reserves(&disk));
    put_some(&gateway);
    fill(&disk, &gateway);
    for id in 0..10 {
        let answer = gateway.admin("DELETE", &format!("/routes/{id}"), &Value::Null);
        assert_eq!(answer.status(), 200, "{}", answer.text());
    }
    let text = gateway.output().text();
    assert!(text.contains("deleted without a row among the changes"), "{text}");
    assert!(text.contains("admin"), "it names the key: {text}");
    let next = stop(gateway);
    disk.fill();
    let gateway = on(&disk, next).start();
    assert!(gateway.client().get("/15").text().starts_with("15 x"));
    assert_eq!(gateway.client().get("/5").status(), 404);
    assert_eq!(gateway.configuration()["down"], json!([]), "{}", gateway.output().text());
    let answer = gateway.admin("DELETE", "/routes/15", &Value::Null);
    assert_eq!(answer.status(), 200, "{}", answer.text());
}

#[test]
fn a_full_disk_without_reserves_serves_what_is_stored_and_goes_on_once_it_has_room() {
    let Some(disk) = SmallDisk::mount(ROOM) else { return };
    let gateway = started(&disk);
    wait_for("the reserves", || has_reserves(&disk));
    put_some(&gateway);
    let next = stop(gateway);
    for name in ["data/store.reserve", "data/registry/store.reserve"] {
        std::fs::remove_file(disk.file(name)).expect("it is there");
    }
    disk.fill();
    let gateway = on(&disk, next).start();
    assert!(gateway.client().get("/15").text().starts_with("15 x"));
    let down = gateway.configuration()["down"].clone();
    let parts: Vec<_> = down.as_array().expect("a list").iter().map(|it| &it["part"]).collect();
    assert_eq!(parts, ["store", "registry"], "{down}");
    assert!(down.to_string().contains("make room"), "{down}");
    let answer = gateway.admin("PUT", "/routes/1", &route(1));
    assert_eq!(answer.status(), 503, "{}", answer.text());
    disk.make_room();
    wait_for("the parts", || (gateway.configuration()["down"] == json!([])).then_some(()));
    wait_for("a write", || {
        let address = gateway.admin_address();
        std::net::TcpStream::connect(address).is_ok().then_some(())
    });
    assert_eq!(gateway.admin("PUT", "/routes/1", &route(1)).status(), 200);
}
