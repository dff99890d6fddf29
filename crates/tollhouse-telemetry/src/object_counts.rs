//! Request counts per object and core. Each cell has a single writer; readers sum over the cores.
//! Objects have dense numbers, so that counting costs two lookups and an addition. Pages of cells
//! are allocated on first use.

use std::sync::OnceLock;

use crate::counters::Counter;

/// Number of cells in a page, which then takes 16 KiB.
const PAGE_CELLS: usize = 1024;

/// Maximum number of pages, for a million objects. Requests of further objects are not counted.
const PAGES_MAX: usize = 1024;

/// Number of an object that is not counted.
pub const UNCOUNTED: u32 = u32::MAX;

/// Number of object numbers, which start at 0.
pub const NUMBERS_MAX: u32 = 1024 * 1024;

/// Outcome of a request, for the counts of failed ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestOutcome {
    Succeeded,
    /// The gateway refused the request, or the status was 500 or higher.
    Failed,
}

/// Counts of one object on one core.
#[derive(Debug, Default)]
struct Cell {
    requests: Counter,
    failed: Counter,
}

/// Counts of all objects of one kind on one core.
#[derive(Debug)]
pub struct ObjectCounts {
    pages: Box<[OnceLock<Box<[Cell]>>]>,
}

impl Default for ObjectCounts {
    fn default() -> Self {
        Self { pages: (0..PAGES_MAX).map(|_| OnceLock::new()).collect() }
    }
}

impl ObjectCounts {
    /// Counts a request of an object. Allocates once when a page is first used.
    #[inline]
    pub fn count(&self, number: u32, outcome: RequestOutcome) {
        let number = number as usize;
        let Some(page) = self.pages.get(number / PAGE_CELLS) else { return };
        let page = page.get_or_init(new_page);
        let Some(cell) = page.get(number % PAGE_CELLS) else { return };
        cell.requests.increment();
        if outcome == RequestOutcome::Failed {
            cell.failed.increment();
        }
    }

    /// Requests of an object, and the failed ones among them.
    pub(crate) fn totals(&self, number: u32) -> (u64, u64) {
        let number = number as usize;
        let page = self.pages.get(number / PAGE_CELLS).and_then(OnceLock::get);
        let cell = page.and_then(|page| page.get(number % PAGE_CELLS));
        cell.map_or((0, 0), |cell| (cell.requests.value(), cell.failed.value()))
    }
}

#[cold]
fn new_page() -> Box<[Cell]> {
    (0..PAGE_CELLS).map(|_| Cell::default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_object_has_its_own_count_and_what_is_not_counted_has_none() {
        let counts = ObjectCounts::default();
        for number in [0, 5, 5, 1023, 1024, NUMBERS_MAX - 1] {
            let has_failed = number == 5;
            let outcome =
                if has_failed { RequestOutcome::Failed } else { RequestOutcome::Succeeded };
            counts.count(number, outcome);
        }
        counts.count(UNCOUNTED, RequestOutcome::Failed);
        counts.count(NUMBERS_MAX, RequestOutcome::Failed);
        assert_eq!(counts.totals(5), (2, 2));
        assert_eq!(
            (counts.totals(0), counts.totals(1024), counts.totals(NUMBERS_MAX - 1)),
            ((1, 0), (1, 0), (1, 0))
        );
        assert_eq!(
            (counts.totals(6), counts.totals(UNCOUNTED), counts.totals(500_000)),
            ((0, 0), (0, 0), (0, 0))
        );
    }
}
