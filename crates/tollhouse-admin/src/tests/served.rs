//! Revisions as consistency tokens: a write through one gateway is visible through another.

use tokio::sync::watch;
use tollhouse_store::{InService, Revision, Store};

use super::*;

fn revision(answer: &Answer) -> u64 {
    let header = answer.headers.get("x-tollhouse-revision").expect("it is told");
    header.to_str().expect("text").parse().expect("a number")
}

async fn read(gateway: &Fixture, revision: &str) -> Answer {
    let mut request = request("GET", "/routes/1", "");
    request.headers_mut().insert("x-tollhouse-revision", revision.parse().expect("a value"));
    gateway.send(request).await
}

/// Gateway that serves the store up to the revision in `applied`.
async fn behind(store: &Arc<dyn Store>, applied: watch::Receiver<Revision>) -> Fixture {
    let parts = Parts {
        in_service: Some(InService::new(applied)),
        ..parts(Arc::clone(store), options(), None)
    };
    let api = AdminApi::new(parts);
    Fixture { api, store: Arc::clone(store) }
}

#[tokio::test(start_paused = true)]
async fn a_read_waits_for_a_revision_or_is_told_how_far_the_gateway_is() {
    let one = Fixture::new().await;
    let (applied, receiver) = watch::channel(Revision(0));
    let other = behind(&one.store, receiver).await;
    let written = revision(&one.put("/routes/1", &route()).await);
    assert_eq!(written, one.store.revision().await.expect("memory").0);
    let answer = read(&other, &written.to_string()).await;
    assert_eq!((answer.status, revision(&answer)), (200, 0), "it is behind, and says so");
    let asked = written.to_string();
    let (answer, ()) = tokio::join!(read(&other, &asked), async {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        applied.send_replace(Revision(written));
    });
    assert_eq!((answer.status, revision(&answer)), (200, written));
    let deleted = revision(&one.delete("/routes/1").await);
    assert!(deleted > written);
    let answer = read(&other, "newest").await;
    assert_eq!(answer.status, 400, "{answer:?}");
    let answer = read(&one, &deleted.to_string()).await;
    assert!(
        !answer.headers.contains_key("x-tollhouse-revision"),
        "nothing follows this store: {answer:?}"
    );
}
