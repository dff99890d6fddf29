//! Instances beat, fall silent, and beat again.

use std::time::Duration;

use prost::Message;
use tollhouse_polaris::v1;

use super::registration::wrong_addresses;
use super::{Caller, Polaris, code, instance, some, travelling, ttl};
use crate::client::{request, run};

/// Waits until the only instance has this health; each question takes its time.
async fn until_healthy(client: &Caller, healthy: bool) -> v1::Instance {
    loop {
        let instance = client.instances().await.remove(0);
        if instance.healthy == Some(healthy) {
            return instance;
        }
        tokio::task::yield_now().await;
    }
}

/// Waits until the only instance is unhealthy, while time passes: a keeper that a busy machine held up
/// takes it for a pause, which nobody is to expire for, so that any moment named here could be too early.
async fn until_unhealthy(polaris: &Polaris, client: &Caller) -> v1::Instance {
    loop {
        let instance = client.instances().await.remove(0);
        if instance.healthy == Some(false) {
            return instance;
        }
        polaris.clock.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_beat_is_echoed_whoever_is_meant() {
    // 14, 17.
    let polaris = Polaris::start();
    run(async {
        let client = polaris.connect().await;
        let checked = v1::Instance { health_check: ttl(3), ..instance("h", 1) };
        let id = client.register(&checked).await.instance.and_then(|it| it.id);
        client.register(&instance("unchecked", 1)).await;
        for beat in [
            instance("h", 1),
            v1::Instance { id, ..v1::Instance::default() },
            instance("unchecked", 1),
        ] {
            let response = client.heartbeat(&beat).await;
            assert_eq!((code(&response), response.instance), (200_000, Some(beat)));
        }
    });
}

#[test]
fn a_beat_that_names_nobody_has_its_code() {
    // 15.
    let polaris = Polaris::start();
    run(async {
        let client = polaris.connect().await;
        let empty = v1::Instance { id: some(""), ..v1::Instance::default() };
        for (beat, expected) in [vec![(empty, 400_130)], wrong_addresses()].concat() {
            let response = client.heartbeat(&beat).await;
            assert_eq!((code(&response), response.instance), (expected, Some(beat)));
        }
    });
}

#[test]
fn a_stranger_is_told_so_at_the_fifth_beat() {
    // 16.
    let polaris = Polaris::start();
    run(async {
        let client = polaris.connect().await;
        let mut codes = Vec::new();
        for _ in 0..6 {
            codes.push(code(&client.heartbeat(&instance("h", 1)).await));
        }
        assert_eq!(codes, [200_000, 200_000, 200_000, 200_000, 400_202, 400_202]);
        client.register(&instance("h", 1)).await;
        assert_eq!(code(&client.heartbeat(&instance("h", 1)).await), 200_000);
    });
}

#[test]
fn silence_is_seen_after_three_intervals_and_ends_with_a_beat() {
    // 18, 19.
    let polaris = Polaris::start();
    run(async {
        let client = polaris.connect().await;
        let checked = v1::Instance { health_check: ttl(3), ..instance("h", 1) };
        client.register(&checked).await;
        polaris.clock.advance(Duration::from_secs(5));
        client.heartbeat(&checked).await;
        polaris.clock.advance(Duration::from_millis(8_999));
        let before = until_healthy(&client, true).await;
        polaris.clock.advance(Duration::from_secs(2));
        let silent = until_unhealthy(&polaris, &client).await;
        let beat = silent.metadata.get("internal-lastheartbeat").map(String::as_str);
        assert_eq!(beat, Some("1700000005"));
        assert_ne!(silent.revision, before.revision);
        client.heartbeat(&checked).await;
        let back = until_healthy(&client, true).await;
        assert!(!back.metadata.contains_key("internal-lastheartbeat"));
    });
}

#[test]
fn who_says_that_it_is_not_well_is_believed_until_it_beats() {
    // 20.
    let polaris = Polaris::start();
    run(async {
        let client = polaris.connect().await;
        let ill = v1::Instance { healthy: Some(false), health_check: ttl(3), ..instance("h", 1) };
        client.register(&ill).await;
        assert_eq!(client.instances().await[0].healthy, Some(false));
        client.heartbeat(&ill).await;
        until_healthy(&client, true).await;
    });
}

#[test]
fn beats_of_many_are_taken_read_and_forgotten() {
    // 21.
    let polaris = Polaris::start();
    run(async {
        let client = polaris.connect().await;
        let id = client.register(&instance("h", 1)).await.instance.and_then(|it| it.id);
        let id = id.expect("an id");
        let by_id =
            v1::InstanceHeartbeat { instance_id: "stranger".to_owned(), ..Default::default() };
        let by_address = v1::InstanceHeartbeat {
            service: "svc".to_owned(),
            namespace: "ns".to_owned(),
            host: "h".to_owned(),
            port: 1,
            ..Default::default()
        };
        let batch = v1::HeartbeatsRequest {
            heartbeats: vec![by_id, by_address, v1::InstanceHeartbeat::default()],
        };
        let path = "/v1.PolarisHeartbeatGRPC/BatchHeartbeat";
        let batches = vec![travelling(&batch); 3];
        let ended = client.0.send(request(path), &batches).await;
        assert_eq!((ended.code, ended.messages), (Some(0), vec![Vec::new(); 3]));

        let ids = vec![id.clone(), "stranger".to_owned(), "nobody".to_owned()];
        let asked = v1::GetHeartbeatsRequest { instance_ids: ids.clone() };
        let path = "/v1.PolarisHeartbeatGRPC/BatchGetHeartbeat";
        let said: v1::GetHeartbeatsResponse = client.call(path, &asked).await;
        let said: Vec<_> = said
            .records
            .iter()
            .map(|record| (&*record.instance_id, record.last_heartbeat_sec, record.count))
            .collect();
        let now = 1_700_000_000;
        assert_eq!(said, [(&*id, now, 3), ("stranger", now, 3), ("nobody", 0, 0)]);

        let gone = v1::DelHeartbeatsRequest { instance_ids: ids };
        let path = "/v1.PolarisHeartbeatGRPC/BatchDelHeartbeat";
        let ended = client.0.unary(path, &gone.encode_to_vec()).await;
        assert_eq!((ended.code, ended.messages), (Some(0), vec![Vec::new()]));
        for id in ["stranger", &*id] {
            assert_eq!(polaris.registry.last_heartbeat(id), None, "{id}");
        }
        let known = polaris.registry.state_full();
        let instance = known.instance(&id).expect("it is registered");
        assert!(instance.healthy, "its health is not what was to be forgotten");
    });
}

#[test]
fn a_message_of_too_many_beats_is_refused_and_the_server_goes_on() {
    let polaris = Polaris::start();
    run(async {
        let client = polaris.connect().await;
        for (count, expected) in [(32 * 1024, 0), (32 * 1024 + 1, 8)] {
            let batch = v1::GetHeartbeatsRequest { instance_ids: vec![String::new(); count] };
            let path = "/v1.PolarisHeartbeatGRPC/BatchDelHeartbeat";
            let ended = client.0.unary(path, &batch.encode_to_vec()).await;
            assert_eq!(ended.code, Some(expected), "{count}: {}", ended.text);
        }
        client.register(&instance("h", 1)).await;
        assert_eq!(code(&client.heartbeat(&instance("h", 1)).await), 200_000);
    });
}

#[test]
fn ids_that_no_instance_can_have_are_refused_and_take_no_memory() {
    let polaris = Polaris::start();
    run(async {
        let client = polaris.connect().await;
        for length in [129, 1_000_000, 4_000_000] {
            let id = "x".repeat(length);
            let named = v1::Instance { id: some(&id), ..v1::Instance::default() };
            assert_eq!(code(&client.heartbeat(&named).await), 400_130, "{length}");
            assert_eq!(code(&client.deregister(&named).await), 400_130, "{length}");
            let beat = v1::InstanceHeartbeat { instance_id: id.clone(), ..Default::default() };
            let batch = v1::HeartbeatsRequest { heartbeats: vec![beat] };
            let path = "/v1.PolarisHeartbeatGRPC/BatchHeartbeat";
            let ended = client.0.send(request(path), &[travelling(&batch)]).await;
            assert_eq!((ended.code, ended.messages), (Some(0), vec![Vec::new()]));
            assert_eq!(polaris.registry.last_heartbeat(&id), None);
        }
        let longest = v1::Instance { id: some(&"x".repeat(128)), ..v1::Instance::default() };
        assert_eq!(code(&client.heartbeat(&longest).await), 200_000);
    });
}
