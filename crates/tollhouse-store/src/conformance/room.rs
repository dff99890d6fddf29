//! Check of a store without space: it reports so, and accepts transactions that only remove.

use crate::store::Store;
use crate::transaction::Transaction;

/// Entries removed while the store is full; more than fit into the remaining space.
pub const REMOVALS: usize = 100;

/// Maximum number of small entries that a full engine may still accept, because some files have
/// free pages.
const LAST_PUTS_MAX: usize = 10_000;

/// Fills a store, by `fill` and by further entries, and then removes entries. The store only has
/// space again if the caller provides some.
///
/// # Panics
///
/// If the full store refuses removals or does not report the lack of space.
pub async fn removals_are_taken(store: &dyn Store, fill: impl FnOnce()) {
    for number in 0..REMOVALS {
        let put = Transaction::new().put(format!("/kept/{number}"), "v".repeat(900));
        store.commit(put).await.expect("there is room");
    }
    fill();
    let mut refused = None;
    for number in 0..LAST_PUTS_MAX {
        let put = Transaction::new().put(format!("/more/{number}"), "v".repeat(8_000));
        if let Err(error) = store.commit(put).await {
            refused = Some(error);
            break;
        }
    }
    let refused = refused.expect("it is full");
    assert!(refused.is_without_room(), "{refused}");
    assert!(refused.to_string().contains("room"), "it names a remedy: {refused}");
    for number in 0..REMOVALS {
        let delete = Transaction::new().delete(format!("/kept/{number}"));
        store.commit(delete).await.unwrap_or_else(|error| panic!("removal {number}: {error}"));
    }
    assert!(store.list("/kept/").await.expect("it reads").entries.is_empty());
}
