//! Calls for operators of the server.

use super::*;
use std::sync::{Mutex, PoisonError};

/// Log that accepts every level but `nonsense`.
#[derive(Debug, Default)]
pub(super) struct TestLog(Mutex<String>);

impl ServerLog for TestLog {
    fn level(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_level(&self, level: &str) -> Result<(), String> {
        if level == "nonsense" {
            return Err("invalid level".to_owned());
        }
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = level.to_owned();
        Ok(())
    }
}

#[tokio::test]
async fn the_last_heartbeat_of_an_instance_can_be_asked_for() {
    let server = Server::start().await;
    let mut beating = instance("s", "h");
    beating["healthCheck"] = json!({"type": 1, "heartbeat": {"ttl": 5}});
    beating["id"] = json!("i");
    server.client("RegisterInstance", &beating).await;
    let path = "/maintain/v1/instance/heartbeat?id=i";
    assert_eq!(server.get(path).await.code(), 400_202);
    server.client("Heartbeat", &json!({"id": "i"})).await;
    let beat = server.get(path).await.json();
    assert_eq!((&beat["code"], &beat["instance"]["host"]), (&json!(200_000), &json!("h")));
    let metadata = &beat["instance"]["metadata"];
    assert_eq!(metadata["last-heartbeat-count"], "1");
    assert!(metadata["last-heartbeat-timestamp"].is_string(), "{beat}");
    let refused = server.send("GET", path, "", "").await;
    assert_eq!(refused.status, 401);
    let path = "/naming/v1/instances?id=i&show_last_heartbeat=true";
    let shown = server.get(path).await.json();
    assert!(shown["instances"][0]["metadata"]["last-heartbeat-timestamp"].is_string());

    let mut by_address = instance("s", "h2");
    by_address["healthCheck"] = json!({"type": 1, "heartbeat": {"ttl": 5}});
    server.client("RegisterInstance", &by_address).await;
    server.client("Heartbeat", &by_address).await;
    let path = "/maintain/v1/instance/heartbeat?namespace=ns&service=s&host=h2&port=8080";
    assert_eq!(server.get(path).await.json()["instance"]["host"], "h2");
    let without_port = "/maintain/v1/instance/heartbeat?namespace=ns&service=s&host=h2";
    assert_eq!(server.get(without_port).await.code(), 400_132);
}

#[tokio::test]
async fn the_level_of_the_log_can_be_read_and_set() {
    let server = Server::start().await;
    let path = "/maintain/v1/log/outputlevel";
    let set = server.write("PUT", path, &json!({"scope": "default", "level": "debug"})).await;
    assert_eq!((set.status, &*set.text), (200, "\"ok\""));
    let shown = server.get(path).await.json();
    assert_eq!(shown, json!([{"Name": "default", "Level": "debug"}]));
    for (body, text) in [
        (json!({"scope": "other", "level": "debug"}), "unknown scope"),
        (json!({"level": "nonsense"}), "invalid level"),
    ] {
        let refused = server.write("PUT", path, &body).await;
        assert_eq!(refused.status, 400);
        assert!(refused.text.contains(text), "{}", refused.text);
    }
}

/// Opens a connection of gRPC, and waits until the server has sent its first frame.
async fn connect_grpc(address: std::net::SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.expect("listening");
    let settings = b"\0\0\0\x04\0\0\0\0\0";
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.expect("taken");
    stream.write_all(settings).await.expect("taken");
    stream.read_exact(&mut [0; 9]).await.expect("the server's settings");
    stream
}

/// Whether the server has closed a connection; waits for its end.
async fn until_closed(mut stream: TcpStream) -> bool {
    stream.read_to_end(&mut Vec::new()).await.is_ok()
}

#[tokio::test]
async fn connections_are_counted_by_address_and_closed() {
    tokio::task::LocalSet::new().run_until(check_connections()).await;
}

async fn check_connections() {
    let server = Server::start().await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let services = crate::grpc::polaris::services(server.dialect.clone());
    let connections = server.connections.clone();
    let options = crate::grpc::Options { connections, ..Default::default() };
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let serving =
        tokio::task::spawn_local(crate::grpc::serve(vec![listener], services, options, stopped));
    let [first, second, third] =
        [connect_grpc(address).await, connect_grpc(address).await, connect_grpc(address).await];
    let count = async || {
        let counted = server.get("/maintain/v1/apiserver/conn?protocol=service-grpc").await;
        counted.json()
    };
    let host = json!({"127.0.0.1": 3});
    assert_eq!(count().await, json!({"Protocol": "service-grpc", "Total": 3, "Host": host}));
    let listed = server.get("/maintain/v1/apiserver/conn/stats?protocol=config-grpc").await.json();
    assert_eq!((&listed["ActiveConnTotal"], &listed["StatsSize"]), (&json!(3), &json!(1)));
    let ports = listed["Stats"][0]["Actives"].as_array().map(Vec::len);
    assert_eq!((&listed["Stats"][0]["Amount"], ports), (&json!(3), Some(3)), "{listed}");
    let path = "/maintain/v1/apiserver/conn/close";
    let port = second.local_addr().expect("connected").port();
    let one = json!([{"protocol": "service-grpc", "host": "127.0.0.1", "port": port}]);
    assert_eq!(server.post(path, &one).await.status, 200);
    assert!(until_closed(second).await);
    // An entry ends with its connection, shortly after the client sees the end.
    while count().await["Total"] != 2 {
        tokio::task::yield_now().await;
    }
    let others = json!([{"protocol": "service-grpc", "host": "10.0.0.1"}]);
    assert_eq!(server.post(path, &others).await.status, 200);
    assert_eq!(count().await["Total"], 2, "no client has this address");
    let all = json!([{"protocol": "service-grpc", "host": "127.0.0.1"}]);
    assert_eq!(server.post(path, &all).await.status, 200);
    assert!(until_closed(first).await && until_closed(third).await);
    while count().await["Total"] != 0 {
        tokio::task::yield_now().await;
    }
    stop.send_replace(true);
    serving.await.expect("no panic").expect("it listened");
}

#[tokio::test]
async fn invalid_questions_about_connections_are_refused() {
    let server = Server::start().await;
    for query in ["", "?protocol=eureka", "?protocol=service-grpc&host=x"] {
        let refused = server.get(&format!("/maintain/v1/apiserver/conn{query}")).await;
        assert_eq!(refused.status, 400, "{query}");
    }
    let path = "/maintain/v1/apiserver/conn/close";
    for body in [json!([{"protocol": "x", "host": "10.0.0.1"}]), json!([{"host": "10.0.0.1"}])] {
        assert_eq!(server.post(path, &body).await.status, 400, "{body}");
    }
}

#[tokio::test]
async fn each_call_for_operators_needs_a_token() {
    let server = Server::start().await;
    let json = "content-type: application/json\r\n";
    let open = ["/maintain/v1/server/functions", "/prometheus/v1/clients"];
    let calls = crate::http::calls()
        .into_iter()
        .filter(|(_, path)| path.starts_with("/maintain") && !open.contains(&&**path));
    for (method, path) in calls {
        let refused = server.send(method, &path, json, "{}").await;
        assert_eq!(refused.status, 401, "{method} {path}");
    }
}

#[tokio::test]
async fn calls_without_an_object_here_say_so() {
    let server = Server::start().await;
    for (path, body, status, text) in [
        ("/maintain/v1/memory/free", json!({}), 400, "without a call"),
        ("/maintain/v1/pprof/enable", json!({"enable": true}), 400, "no pprof"),
        ("/maintain/v1/leaders/release", json!({"electKey": "k"}), 400, "no leader"),
        ("/maintain/v1/instance/clean", json!({"id": "gone"}), 200, "gone"),
        ("/maintain/v1/instance/clean", json!({}), 400, "400120"),
        ("/maintain/v1/instance/batchclean", json!({"batch_size": 10}), 200, "rows_affected"),
        ("/naming/v1/circuitbreakers", json!([]), 400, "API is Deprecated"),
    ] {
        let answer = server.post(path, &body).await;
        assert_eq!(answer.status, status, "{path}: {}", answer.text);
        assert!(answer.text.contains(text), "{path}: {}", answer.text);
    }
    let read = server.get("/naming/v1/circuitbreakers/master").await;
    assert_eq!((read.status, read.code()), (400, 400_000));
}

#[tokio::test]
async fn owners_are_returned_for_a_list_of_services() {
    let server = Server::start().await;
    let service = json!([{"name": "a", "namespace": "ns", "owners": "ann,bob"}]);
    server.post("/naming/v1/services", &service).await;
    let names = json!([{"name": "a", "namespace": "ns"}, {"name": "b", "namespace": "ns"}]);
    let found = server.post("/naming/v1/service/owner", &names).await.json();
    assert_eq!((&found["amount"], &found["services"][0]["owners"]), (&json!(1), &json!("ann,bob")));
    let headers = "content-type: application/json\r\n";
    let refused = server.send("POST", "/naming/v1/service/owner", headers, "[]").await;
    assert_eq!(refused.status, 401);
}

#[tokio::test]
async fn a_host_without_a_location_gets_that_of_its_network() {
    let network = crate::NetworkLocation {
        network: "10.1.0.0/16".parse().expect("a network"),
        location: tollhouse_registry::Location {
            region: "north".into(),
            zone: "n1".into(),
            campus: "".into(),
        },
    };
    let server = Server::start_at(vec![network]).await;
    server.client("RegisterInstance", &instance("s", "10.1.0.9")).await;
    let mut placed = instance("s", "10.1.0.8");
    placed["location"] = json!({"region": "own"});
    server.client("RegisterInstance", &placed).await;
    server.client("RegisterInstance", &instance("s", "10.2.0.1")).await;
    let shown = server.get("/naming/v1/instances?namespace=ns&service=s").await.json();
    let region = |host: &str| {
        let instances = shown["instances"].as_array().expect("a list");
        let found = instances.iter().find(|it| it["host"] == host).expect("registered");
        found["location"]["region"].clone()
    };
    assert_eq!(region("10.1.0.9"), "north");
    assert_eq!(region("10.1.0.8"), "own");
    assert_eq!(region("10.2.0.1"), Value::Null);
    let report = json!({"host": "10.1.7.7", "type": "SDK", "id": "c1"});
    let client = server.client("ReportClient", &report).await.json();
    assert_eq!(client["client"]["location"]["zone"], "n1");
    let listed = server.get("/maintain/v1/cmdb/info").await.json();
    assert_eq!((&listed[0]["IP"], &listed[0]["Region"]), (&json!("10.1.0.0/16"), &json!("north")));
}
