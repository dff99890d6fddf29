//! Queue of change rows about writes at the registry's own doors. The Admin API stores them, so that
//! all changes are in one list.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Mutex, mpsc};
use tollhouse_model::change_row::ChangeRow;

/// Maximum memory of waiting rows with contents. Further rows wait without contents.
const CONTENT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Maximum memory of all waiting rows: room for more than 20,000 rows without contents.
const BYTES_MAX: usize = CONTENT_BYTES_MAX + 8 * 1024 * 1024;

/// Queue of rows that wait for the store.
#[derive(Debug, Clone)]
pub struct ChangeQueue {
    sender: mpsc::UnboundedSender<ChangeRow>,
    receiver: Arc<Mutex<mpsc::UnboundedReceiver<ChangeRow>>>,
    /// Memory of the waiting rows.
    bytes: Arc<AtomicUsize>,
}

impl Default for ChangeQueue {
    fn default() -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        Self { sender, receiver: Arc::new(Mutex::new(receiver)), bytes: Arc::default() }
    }
}

impl ChangeQueue {
    /// Adds a row. While much waits, the row loses its contents; without any room it is dropped with
    /// a warning, because the change has already been made.
    pub fn put(&self, row: ChangeRow) {
        let waiting = self.bytes.load(Ordering::Relaxed);
        let row = row.within(CONTENT_BYTES_MAX.saturating_sub(waiting));
        if waiting + row.bytes() > BYTES_MAX {
            tracing::warn!(
                path = row.path,
                "a change of the registry is not in the list of changes"
            );
            return;
        }
        self.bytes.fetch_add(row.bytes(), Ordering::Relaxed);
        // The queue holds the receiver itself, which is therefore open.
        let _ = self.sender.send(row);
    }

    /// Waits for the next row. Several callers take turns.
    pub(crate) async fn next(&self) -> Option<ChangeRow> {
        let row = self.receiver.lock().await.recv().await?;
        self.bytes.fetch_sub(row.bytes(), Ordering::Relaxed);
        Some(row)
    }
}

#[cfg(test)]
mod tests {
    use tollhouse_model::change_row::{ChangeKind, Way};

    use super::*;

    fn row(content_bytes: usize) -> ChangeRow {
        ChangeRow {
            at_ms: 0,
            actor: None,
            way: Way::Api,
            deed: ChangeKind::Create,
            path: "registry/files/1".to_owned(),
            before: None,
            after: Some("x".repeat(content_bytes)),
            below: Vec::new(),
            was_to_end: false,
            is_cut: false,
            undoes: None,
        }
    }

    #[tokio::test]
    async fn a_flood_of_changes_stays_in_the_list_without_contents() {
        const ROW_BYTES: usize = 200 * 1024;
        let queue = ChangeQueue::default();
        let rows = 2 * CONTENT_BYTES_MAX / ROW_BYTES;
        (0..rows).for_each(|_| queue.put(row(ROW_BYTES)));
        assert!(queue.bytes.load(Ordering::Relaxed) <= BYTES_MAX);
        let mut cut = 0;
        for _ in 0..rows {
            cut += usize::from(queue.next().await.expect("a row").is_cut);
        }
        assert!((rows / 3..rows).contains(&cut), "{cut} of {rows}");
        assert_eq!(queue.bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn memory_of_waiting_rows_has_a_bound() {
        let queue = ChangeQueue::default();
        (0..2 * BYTES_MAX / row(0).bytes()).for_each(|_| queue.put(row(0)));
        assert!(queue.bytes.load(Ordering::Relaxed) <= BYTES_MAX);
    }
}
