//! Tests of the time of answers: a call is answered once the data plane serves its writes, however
//! many calls wait for that together.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::sync::watch;
use tollhouse_store::{InService, Revision, WatchEvent};

use super::*;

/// Number of services that start at the same time.
const SERVICES: usize = 64;

/// Creates an admin whose data plane serves up to the revision in `told`.
async fn behind(told: watch::Receiver<Revision>) -> Fixture {
    let fixture = Fixture::new().await;
    let options = Options { in_service: Some(InService::new(told)), ..options() };
    let admin = ShenyuAdmin::open(Arc::clone(&fixture.store), options).await.expect("it opens");
    Fixture { admin, ..fixture }
}

fn address(service: usize) -> Value {
    json!({
        "appName": format!("service{service}"), "contextPath": format!("/service{service}"), "rpcType": "http",
        "host": "10.0.0.1", "port": 8080, "protocol": "http://", "eventType": "REGISTER",
    })
}

async fn register(fixture: &Fixture, service: usize) -> Value {
    fixture.call("POST", "/shenyu-client/register-uri", &address(service)).await
}

#[tokio::test(start_paused = true)]
async fn registrations_that_wait_to_serve_hold_up_no_others_and_are_answered_together() {
    let (tell, told) = watch::channel(Revision::ZERO);
    let fixture = behind(told).await;
    let mut watched = fixture.store.watch("/shenyu/", fixture.store.revision().await.expect("it"));
    let began = tokio::time::Instant::now();
    let all = join_all((0..SERVICES).map(|service| register(&fixture, service)));
    let (answers, commits) = tokio::join!(all, async {
        let mut addresses = 0;
        let mut commits = 0;
        // All addresses are in the store before any call is answered.
        while addresses < SERVICES {
            let WatchEvent::Commit(changes) = watched.next().await else { continue };
            commits += 1;
            let keys = changes.events.iter().filter(|it| it.key().starts_with("/shenyu/selector/"));
            addresses += keys.count();
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        tell.send_replace(watched.revision());
        commits
    });
    assert!(answers.iter().all(|answer| answer == "success"), "{answers:?}");
    assert_eq!(began.elapsed(), Duration::from_secs(1), "for as long as nothing served");
    assert!(commits < SERVICES / 4, "{commits}: those that come together are written together");
    let again = register(&fixture, 0).now_or_never();
    assert_eq!(again, Some(json!("success")), "a heartbeat writes nothing and waits for nothing");
}

#[tokio::test(start_paused = true)]
async fn operators_and_the_local_interface_are_answered_once_their_change_serves() {
    let (tell, told) = watch::channel(Revision::ZERO);
    let fixture = behind(told).await;
    let selector = json!({"pluginId": "5", "name": "s", "type": 1, "selectorConditions": []});
    let plugin =
        json!({"name": "divide", "enabled": true, "role": "Proxy", "sort": 200}).to_string();
    let local = || {
        fixture.admin.call_local(crate::LocalRequest {
            method: "POST",
            path: "/shenyu/plugin/saveOrUpdate",
            query: "",
            body: plugin.as_bytes(),
            namespace: None,
        })
    };
    let served = async |write: &mut (dyn Future<Output = Value> + Unpin)| {
        let early = tokio::time::timeout(Duration::from_secs(1), &mut *write).await;
        assert!(early.is_err(), "it does not serve yet: {early:?}");
        tell.send_replace(fixture.store.revision().await.expect("memory"));
        let began = tokio::time::Instant::now();
        let answer = write.await;
        assert_eq!(began.elapsed(), Duration::ZERO);
        answer
    };
    let mut write = Box::pin(fixture.call("POST", "/selector", &selector));
    let answer = served(&mut write).await;
    assert_eq!(answer["message"], "create success", "{answer}");
    let mut write = Box::pin(local().map(|answer| json!(answer.status)));
    assert_eq!(served(&mut write).await, 200);
}
