//! A store without room: it says so, and takes what only removes.

use crate::store::Store;
use crate::transaction::Transaction;

/// Entries that are removed while there is no room: more than fit into what was left.
pub const REMOVALS: usize = 100;

/// Small entries that an engine takes while it is full, before it takes none: some files have free pages.
const LAST_PUTS_MAX: usize = 10_000;

/// Fills a store, by `fill` and by entries of its own, and removes entries from it. It has room again afterwards only
/// where the caller makes some.
///
/// # Panics
///
/// When a store without room takes no removals, or does not say that it has none.
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
