//! A shared store that is restored from a copy, so that revisions continue from that of the copy.

use std::sync::atomic::{AtomicBool, Ordering};

use tollhouse_store::{BoxFuture, Lost, Revision, Watch, WatchEvent, WatchSource};

use super::wrapper::{Wrapped, Wrapper};
use super::*;

/// Store that is replaced by a copy.
struct Restored {
    first: Arc<dyn Store>,
    copy: Arc<dyn Store>,
    is_copy: Arc<AtomicBool>,
}

impl Wrapper for Restored {
    fn inner(&self) -> &dyn Store {
        if self.is_copy.load(Ordering::Relaxed) { &*self.copy } else { &*self.first }
    }

    fn watch(&self, prefix: &str, after: Revision) -> Watch {
        let of_copy = self.is_copy.load(Ordering::Relaxed);
        let inner = self.inner().watch(prefix, after);
        let source = Following { inner, of_copy, after, is_copy: Arc::clone(&self.is_copy) };
        Watch::new(Box::new(source), after)
    }
}

/// Watch that is lost when the store is restored.
struct Following {
    inner: Watch,
    of_copy: bool,
    after: Revision,
    is_copy: Arc<AtomicBool>,
}

impl Following {
    fn lost(&self) -> Option<WatchEvent> {
        let is_lost = self.of_copy != self.is_copy.load(Ordering::Relaxed);
        let (after, newest) = (self.after, Revision(1));
        is_lost.then_some(WatchEvent::Lost(Lost::Compacted { after, oldest: newest, newest }))
    }
}

impl WatchSource for Following {
    fn next(&mut self) -> BoxFuture<'_, WatchEvent> {
        Box::pin(async {
            match self.lost() {
                Some(lost) => lost,
                None => self.inner.next().await,
            }
        })
    }

    fn try_next(&mut self) -> Option<WatchEvent> {
        self.lost().or_else(|| self.inner.try_next())
    }

    fn is_over(&self) -> bool {
        self.inner.is_over()
    }
}

#[tokio::test]
async fn a_store_that_was_put_back_takes_writes_at_once() {
    let memory = || tollhouse_store::open(&Location::Memory).expect("memory is there");
    let store = Arc::new(Restored { first: memory(), copy: memory(), is_copy: Arc::default() });
    let fixture = Fixture::over(Arc::new(Wrapped(Arc::clone(&store))), options()).await;
    // Contents of the copy.
    Fixture::over(Arc::clone(&store.copy), options()).await.given(&[("/routes/1", route())]).await;
    for id in 1..=9 {
        fixture.given(&[(&format!("/routes/{id}"), route())]).await;
    }
    store.is_copy.store(true, Ordering::Relaxed);
    assert_eq!(fixture.get("/routes").await.json()["total"], 1);
    fixture.given(&[("/routes/2", route())]).await;
    assert_eq!(fixture.get("/routes").await.json()["total"], 2, "what was written is seen");
    assert_eq!(fixture.delete("/routes/1").await.status, 200);
    assert_eq!(fixture.get("/routes").await.json()["total"], 1);
}
