//! Health checks: probes that take nodes out and bring them back, and answers that do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use tollhouse_testkit::origin::answer;
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::{Gateway, Origin};

use crate::support::{everything_with, gateway, upstream, with};

/// An origin that is well, or answers everything with 500.
struct Patient {
    origin: Origin,
    is_well: Arc<AtomicBool>,
}

impl Patient {
    fn new(name: &'static str) -> Self {
        let is_well = Arc::new(AtomicBool::new(true));
        let state = Arc::clone(&is_well);
        let origin = Origin::script(move |connection| {
            while connection.request().is_some() {
                let status = if state.load(Ordering::Acquire) { 200 } else { 500 };
                connection.send(answer(status, name));
            }
        });
        Self { origin, is_well }
    }

    fn set_well(&self, is_well: bool) {
        self.is_well.store(is_well, Ordering::Release);
    }
}

fn start(patients: &[Patient; 2], checks: Value) -> Gateway {
    let addresses = patients.each_ref().map(|patient| patient.origin.address());
    let resources = everything_with(upstream(addresses), json!({ "checks": checks }));
    gateway().resources(&resources).start()
}

/// The state of the patient's node, as the control API tells it.
fn status(gateway: &Gateway, patient: &Patient) -> String {
    let report = gateway.control("/v1/healthcheck/routes/all");
    let port = patient.origin.address().port();
    let nodes = report["nodes"].as_array().cloned().unwrap_or_default();
    let node = nodes.iter().find(|node| node["port"] == json!(port));
    node.and_then(|node| node["status"].as_str()).unwrap_or_default().to_owned()
}

fn wait_status(gateway: &Gateway, patient: &Patient, wanted: &str) {
    wait_for(wanted, || (status(gateway, patient) == wanted).then_some(()));
}

fn bodies(gateway: &Gateway, count: usize) -> Vec<String> {
    let mut client = gateway.client();
    (0..count).map(|_| client.get("/").text()).collect()
}

#[test]
fn probes_take_a_node_out_and_bring_it_back() {
    let patients = [Patient::new("a"), Patient::new("b")];
    let gateway = start(
        &patients,
        json!({ "active": {
            "http_path": "/health", "host": "probe.test", "req_headers": ["X-Probe: yes"],
            "healthy": { "interval": 1, "successes": 1 },
            "unhealthy": { "interval": 1, "http_failures": 1 },
        } }),
    );
    bodies(&gateway, 2);
    patients[1].set_well(false);
    wait_status(&gateway, &patients[1], "unhealthy");
    assert_eq!(bodies(&gateway, 6), ["a"; 6]);
    patients[1].set_well(true);
    wait_status(&gateway, &patients[1], "healthy");
    let bodies = bodies(&gateway, 6);
    assert!(bodies.windows(2).all(|pair| pair[0] != pair[1]), "{bodies:?}");
    let requests = patients[0].origin.requests();
    let probe = requests.iter().find(|request| request.target() == "/health").expect("a probe");
    assert_eq!((probe.field("host"), probe.field("x-probe")), (Some("probe.test"), Some("yes")));
}

/// Probes too rare to take part in a test.
fn rare_probes() -> Value {
    json!({ "healthy": { "interval": 3600 }, "unhealthy": { "interval": 3600 } })
}

#[test]
fn answers_take_a_node_out() {
    let patients = [Patient::new("a"), Patient::new("b")];
    let gateway = start(
        &patients,
        json!({
            "active": rare_probes(),
            "passive": { "unhealthy": { "http_statuses": [500], "http_failures": 2 } },
        }),
    );
    patients[1].set_well(false);
    // Two of these four reach the sick one.
    bodies(&gateway, 4);
    wait_status(&gateway, &patients[1], "unhealthy");
    patients[1].set_well(true);
    assert_eq!(bodies(&gateway, 6), ["a"; 6]);
    assert_eq!(status(&gateway, &patients[0]), "healthy");
}

#[test]
fn when_no_node_is_well_all_of_them_serve() {
    let patients = [Patient::new("a"), Patient::new("b")];
    let gateway = start(
        &patients,
        json!({
            "active": rare_probes(),
            "passive": { "unhealthy": { "http_statuses": [500], "http_failures": 1 } },
        }),
    );
    patients.iter().for_each(|patient| patient.set_well(false));
    bodies(&gateway, 2);
    patients.iter().for_each(|patient| wait_status(&gateway, patient, "unhealthy"));
    let bodies = bodies(&gateway, 6);
    assert!(bodies.windows(2).all(|pair| pair[0] != pair[1]), "{bodies:?}");
}

/// Two nodes that one failed connection makes unhealthy, and how they fare.
fn wary(patients: &[Patient; 2], members: Value) -> Gateway {
    let addresses = patients.each_ref().map(|patient| patient.origin.address());
    let checks = json!({
        "active": rare_probes(),
        "passive": { "unhealthy": { "tcp_failures": 1 } },
    });
    let members = with(members, json!({ "checks": checks }));
    gateway().resources(&everything_with(upstream(addresses), members)).start()
}

/// A checker that has nothing to tell yet is not there.
fn assert_all_healthy(gateway: &Gateway, patients: &[Patient; 2]) {
    for patient in patients {
        assert!(["", "healthy"].contains(&&*status(gateway, patient)));
    }
}

#[test]
fn a_host_that_a_client_chooses_makes_no_node_unhealthy() {
    /// What a server answers that does not serve the name: a fatal alert, unrecognized_name.
    const ALERT: [u8; 7] = [0x15, 3, 3, 0, 2, 2, 112];
    let patient = |script: fn(&mut tollhouse_testkit::Connection)| Patient {
        origin: Origin::script(script),
        is_well: Arc::default(),
    };
    let alerting = || {
        patient(|connection| {
            let _ = connection.wire.fill();
            connection.send(ALERT);
        })
    };
    let patients = [alerting(), alerting()];
    let gateway = wary(&patients, json!({ "scheme": "https" }));
    let long = format!("{}.test", "a".repeat(64));
    for host in ["a!b", "-a", "1.2.3", &long, "unknown.test"] {
        let answer = gateway.client().ask(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(answer.status(), 502, "{host}");
        assert_all_healthy(&gateway, &patients);
    }
    // A node that does not speak TLS is another matter.
    let patients = [patient(|_| {}), patient(|_| {})];
    let gateway = wary(&patients, json!({ "scheme": "https" }));
    assert_eq!(gateway.client().get("/").status(), 502);
    patients.iter().for_each(|patient| wait_status(&gateway, patient, "unhealthy"));
}

#[test]
fn a_kept_connection_that_a_node_closes_is_no_failure_of_it() {
    let closing = || Patient {
        origin: Origin::script(|connection| {
            connection.request();
            connection.send(answer(200, "fine"));
            // The next request arrives, and the connection ends.
            connection.request();
        }),
        is_well: Arc::default(),
    };
    let patients = [closing(), closing()];
    let gateway = wary(&patients, json!({}));
    assert_eq!(bodies(&gateway, 2), ["fine", "fine"]);
    for _ in 0..2 {
        let request = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";
        assert_eq!(gateway.client().ask(request).status(), 502, "not sent a second time");
        assert_all_healthy(&gateway, &patients);
    }
}

#[test]
fn health_survives_an_unrelated_change() {
    let patients = [Patient::new("a"), Patient::new("b")];
    let addresses = patients.each_ref().map(|patient| patient.origin.address());
    let checks = json!({ "checks": {
        "active": rare_probes(),
        "passive": { "unhealthy": { "http_statuses": [500], "http_failures": 1 } },
    } });
    let mut resources = everything_with(upstream(addresses), checks);
    let gateway = gateway().resources(&resources).start();
    patients[1].set_well(false);
    bodies(&gateway, 2);
    wait_status(&gateway, &patients[1], "unhealthy");
    resources["routes"][0]["desc"] = json!("changed");
    gateway.reload(&resources);
    assert_eq!(status(&gateway, &patients[1]), "unhealthy");
    assert_eq!(bodies(&gateway, 6), ["a"; 6]);
}

#[test]
fn a_change_of_the_list_of_nodes_leaves_an_unhealthy_one_out_and_ends_the_probes_of_one_that_goes()
{
    let [well, ill, new] = ["a", "b", "c"].map(Patient::new);
    ill.set_well(false);
    let checks = json!({ "checks": { "active": {
        "http_path": "/health",
        "healthy": { "interval": 1, "successes": 1 },
        "unhealthy": { "interval": 1, "http_failures": 1 },
    } } });
    let resources = |patients: &[&Patient]| {
        let nodes = patients.iter().map(|it| (it.origin.address().to_string(), json!(1)));
        let nodes = Value::from(nodes.collect::<serde_json::Map<_, _>>());
        everything_with(json!({ "type": "roundrobin", "nodes": nodes }), checks.clone())
    };
    let gateway = gateway().resources(&resources(&[&well, &ill])).start();
    // Probes begin with the first request.
    bodies(&gateway, 1);
    wait_status(&gateway, &ill, "unhealthy");
    assert_eq!(bodies(&gateway, 4), ["a"; 4]);
    gateway.reload(&resources(&[&well, &ill, &new]));
    wait_status(&gateway, &new, "healthy");
    assert_eq!(status(&gateway, &ill), "unhealthy", "a change of the list says nothing about it");
    let served = bodies(&gateway, 6);
    assert!(served.iter().all(|body| body != "b"), "{served:?}");
    ill.set_well(true);
    wait_status(&gateway, &ill, "healthy");
    gateway.reload(&resources(&[&ill, &new]));
    // One that has begun may still come; a round of the others later, none does.
    let probes = |patient: &Patient| patient.origin.requests().len();
    let round = |patient: &Patient| {
        let before = probes(patient);
        wait_for("a probe", || (probes(patient) > before).then_some(()));
    };
    round(&new);
    let (before, of_others) = (probes(&well), probes(&new));
    wait_for("three probes", || (probes(&new) >= of_others + 3).then_some(()));
    assert_eq!(probes(&well), before, "a node that has gone is not probed");
}

#[test]
fn the_control_api_speaks_of_checkers_as_apisix_does() {
    let gateway = gateway().resources(&json!({})).start();
    assert_eq!(gateway.control("/v1/healthcheck"), json!([]));
    let cases = [
        ("/v1/healthcheck/routes/9", "routes[9] not found"),
        ("/v1/healthcheck/planets/9", "invalid src type planets"),
    ];
    for (path, message) in cases {
        assert_eq!(gateway.control(path), json!({ "error_msg": message }));
    }
}
