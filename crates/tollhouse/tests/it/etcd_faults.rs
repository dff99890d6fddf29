//! What may become of an etcd that gateways share: it is emptied, replaced by another, full, or written by
//! others who do not look what they name. None of it costs a request, and nothing is half applied.

use serde_json::{Value, json};
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::{Etcd, Gateway, Origin, RawClient};

use crate::etcd::{command, on, put, route, sharing};

/// Bytes of the values that an etcd is filled with.
const FILLING: usize = 100_000;

/// Routes of an import that takes etcd several commits.
const ROUTES: usize = 300;

fn doubts(gateway: &Gateway) -> bool {
    gateway.metric("tollhouse_store_doubtful") > 0.0
}

/// A gateway whose copy has the route from the start: it is renewed seldom.
fn with_copied_route(etcd: &Etcd, origin: &Origin) -> Option<Gateway> {
    etcd.control(&["put", "/apisix/routes/1", &route(origin).to_string()])?;
    let gateway = sharing(etcd).start();
    let copy = gateway.folder().join("store-copy");
    wait_for("the copy", || {
        std::fs::read_to_string(&copy).ok()?.contains("/apisix/routes/1").then_some(())
    });
    Some(gateway)
}

#[test]
fn an_etcd_that_lost_everything_takes_nothing_out_of_service_and_is_not_written() {
    let Some(mut etcd) = Etcd::start() else { return };
    let origin = Origin::named("a");
    let Some(gateway) = with_copied_route(&etcd, &origin) else { return };
    etcd.kill();
    etcd.copy();
    etcd.run();
    etcd.lose_everything();
    wait_for("the doubt", || doubts(&gateway).then_some(()));
    assert_eq!(gateway.client().get("/").text(), "a");
    let answer = gateway.admin("PUT", "/routes/2", &route(&origin));
    assert_eq!(answer.status(), 503, "{}", answer.text());
    assert!(answer.text().contains("emptied or replaced"), "{}", answer.text());
    // Nor does it serve nothing after a start.
    let again = on(&etcd, gateway.kill()).start();
    assert_eq!(again.client().get("/").text(), "a");
    assert!(again.metric("tollhouse_store_copy_in_service") > 0.0);
    let findings = again.control("/v1/findings").to_string();
    assert!(findings.contains("store_behind"), "{findings}");
    etcd.kill();
    etcd.put_back();
    etcd.run();
    wait_for("etcd to serve", || {
        (again.metric("tollhouse_store_copy_in_service") < 1.0).then_some(())
    });
    assert_eq!(again.client().get("/").text(), "a");
}

#[test]
fn a_gateway_that_is_led_to_another_cluster_serves_its_copy_and_says_what_helps() {
    let (Some(etcd), Some(other)) = (Etcd::start(), Etcd::start()) else { return };
    let origin = Origin::named("a");
    let stranger = sharing(&other).start();
    put(
        &stranger,
        "/routes/1",
        &json!({"uri": "/", "plugins": {"mocking": {"response_example": "strange"}}}),
    );
    let Some(gateway) = with_copied_route(&etcd, &origin) else { return };
    let astray = on(&other, gateway.kill()).start();
    assert_eq!(astray.client().get("/").text(), "a");
    let answer = astray.admin("PUT", "/routes/1", &route(&origin));
    assert_eq!(answer.status(), 503, "{}", answer.text());
    assert!(answer.text().contains("store-copy and start it again"), "{}", answer.text());
    let folder = astray.folder();
    let line = format!(
        "import --yes --set data_dir={} --set encryption.keyring=0123456789abcdef --set store.etcd.endpoints={} all.yaml",
        folder.display(),
        other.url()
    );
    std::fs::write(folder.join("all.yaml"), "routes: []\n#END\n").expect("it can be written");
    let ran = command(folder, &line);
    assert!(!ran.status.success() && ran.text.contains("it is of cluster"), "{}", ran.text);
    assert_eq!(stranger.client().get("/").text(), "strange");
}

#[test]
fn an_etcd_that_is_full_refuses_writes_with_the_remedy_and_serving_goes_on() {
    let Some(etcd) = Etcd::start_with_quota(1_000_000) else { return };
    let origin = Origin::named("a");
    let gateway = sharing(&etcd).start();
    put(&gateway, "/routes/1", &route(&origin));
    put(
        &gateway,
        "/routes/2",
        &json!({"uri": "/2", "plugins": {"mocking": {"response_example": "2"}}}),
    );
    put(
        &gateway,
        "/routes/4",
        &json!({"uri": "/4", "plugins": {"mocking": {"response_example": "4"}}}),
    );
    let filling = "x".repeat(FILLING);
    for number in 0..20 {
        let Some(ran) = etcd.try_control(&["put", &format!("/filling/{number}"), &filling]) else {
            return;
        };
        if !ran.status.success() {
            break;
        }
    }
    let answer = gateway.admin("PUT", "/routes/3", &route(&origin));
    assert_eq!(answer.status(), 503, "{}", answer.text());
    assert!(answer.text().contains("compact and defragment it"), "{}", answer.text());
    assert_eq!(gateway.client().get("/").text(), "a");
    // What makes room is taken, by whatever way, and heard of.
    let answer = gateway.admin("DELETE", "/routes/4", &Value::Null);
    assert_eq!(answer.status(), 200, "{}", answer.text());
    wait_for("its end", || (gateway.client().get("/4").text() == "a").then_some(()));
    assert!(gateway.output().text().contains("deleted without a row among the changes"));
    let Some(()) = etcd.control(&["del", "/apisix/routes/2"]) else { return };
    wait_for("the deletion", || (gateway.client().get("/2").text() == "a").then_some(()));
    // Nobody tells the gateway of what is not below its prefix: etcd is asked for its own revision.
    let deletion = ["del", "--prefix", "/filling/", "--write-out", "json"];
    let Some(deletion) = etcd.try_control(&deletion) else { return };
    let answer: Value = serde_json::from_str(deletion.text.trim()).expect("it answers in JSON");
    let revision = answer["header"]["revision"].to_string();
    for arguments in [vec!["compact", &revision], vec!["defrag"], vec!["alarm", "disarm"]] {
        let Some(()) = etcd.control(&arguments) else { return };
    }
    wait_for("a write", || {
        (gateway.admin("PUT", "/routes/3", &route(&origin)).status() < 300).then_some(())
    });
}

#[test]
fn what_others_write_that_leads_nowhere_is_named() {
    let Some(etcd) = Etcd::start() else { return };
    let gateway = sharing(&etcd).start();
    let dangling = "{\"uri\": \"/9\", \"upstream_id\": \"nowhere\"}";
    let Some(()) = etcd.control(&["put", "/apisix/routes/9", dangling]) else { return };
    let found = wait_for("the report", || {
        let text = RawClient::connect(gateway.control_address()).get("/v1/configuration").text();
        text.contains("nowhere").then_some(text)
    });
    assert!(found.contains("routes/9"), "{found}");
    wait_for("the log", || gateway.output().text().contains("nowhere").then_some(()));
    let answer = gateway.client().get("/9");
    assert!(
        answer.status() >= 500,
        "it is refused, and nothing else serves it: {}",
        answer.status()
    );
    let upstream = "{\"nodes\": {\"127.0.0.1:1\": 1}}";
    let Some(()) = etcd.control(&["put", "/apisix/upstreams/nowhere", upstream]) else { return };
    wait_for("the end of it", || (gateway.metric("tollhouse_config_problems") < 1.0).then_some(()));
}

#[test]
fn marks_of_folders_that_were_removed_are_put_back() {
    let Some(etcd) = Etcd::start() else { return };
    let gateway = sharing(&etcd).start();
    let origin = Origin::named("a");
    put(&gateway, "/routes/1", &route(&origin));
    // Whoever empties a folder takes its mark along, and APISIX's nodes would not see the first object put there next.
    let Some(()) = etcd.control(&["del", "--prefix", "/apisix/routes/"]) else { return };
    let Some(()) = etcd.control(&["put", "/apisix/routes/2", &route(&origin).to_string()]) else {
        return;
    };
    let keys = || {
        let ran = etcd.try_control(&["get", "--prefix", "--keys-only", "/apisix/routes/"]);
        ran.map_or(String::new(), |ran| ran.text)
    };
    wait_for("the mark", || keys().lines().any(|key| key == "/apisix/routes/").then_some(()));
    let there = keys();
    let there: Vec<&str> = there.lines().filter(|key| !key.is_empty()).collect();
    assert_eq!(there, ["/apisix/routes/", "/apisix/routes/2"], "the mark, and all objects");
    wait_for("the route", || (gateway.client().get("/").text() == "a").then_some(()));
    let text = "had been removed, and were put back";
    wait_for(text, || gateway.output().text().contains(text).then_some(()));
}

/// Routes that all give the same answer.
fn document(answer: &str) -> String {
    let routes: Vec<Value> = (1..=ROUTES)
        .map(|number| {
            json!({
                "id": number, "uri": format!("/{number}"),
                "plugins": {"mocking": {"response_example": answer}},
            })
        })
        .collect();
    json!({"routes": routes}).to_string()
}

#[test]
fn an_import_of_many_commits_is_served_whole_by_every_gateway() {
    let Some(etcd) = Etcd::start() else { return };
    let gateway = sharing(&etcd).start();
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let import = |answer: &str| {
        std::fs::write(folder.join("all.json"), document(answer)).expect("it can be written");
        let line = format!(
            "import --yes --set encryption.keyring=0123456789abcdef --set store.etcd.endpoints={} all.json",
            etcd.url()
        );
        let ran = command(folder, &line);
        assert!(ran.status.success(), "{}", ran.text);
    };
    import("old");
    wait_for("the first import", || (gateway.client().get("/1").text() == "old").then_some(()));
    let ended = std::sync::atomic::AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let mut client = gateway.client();
            let mut seen = Vec::new();
            let mut last_turn = false;
            while !last_turn {
                last_turn = ended.load(std::sync::atomic::Ordering::Relaxed)
                    && seen.last().is_some_and(|last| last == "new");
                // The last is written long after the first.
                for target in ["/1", "/300", "/150"] {
                    seen.push(client.get(target).text());
                }
            }
            seen
        });
        import("new");
        ended.store(true, std::sync::atomic::Ordering::Relaxed);
        looking.join().expect("it looks")
    });
    let first_new = seen.iter().position(|answer| answer == "new").expect("it came");
    assert!(seen[..first_new].iter().all(|answer| answer == "old"));
    assert!(seen[first_new..].iter().all(|answer| answer == "new"), "a part was served");
}
