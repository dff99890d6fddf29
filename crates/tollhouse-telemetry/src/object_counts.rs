//! How many requests each object has taken, core by core: one writer a cell, added up by who asks. Objects have dense
//! numbers, so that counting is two look-ups and an addition; pages of cells are made when the first of them counts.

use std::sync::OnceLock;

use crate::counters::Counter;

/// Cells of a page: 16 KiB.
const PAGE_CELLS: usize = 1024;

/// Pages at most: a million objects; those beyond are not counted.
const PAGES_MAX: usize = 1024;

/// The number of what is not counted.
pub const UNCOUNTED: u32 = u32::MAX;

/// Numbers that are given out, from 0.
pub const NUMBERS_MAX: u32 = 1024 * 1024;

/// What one core has counted of one object.
#[derive(Debug, Default)]
struct Cell {
    requests: Counter,
    failed: Counter,
}

/// What one core has counted of all objects of a kind.
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
    /// Counts a request of an object; one allocation the first time that a page is needed.
    #[inline]
    pub fn count(&self, number: u32, has_failed: bool) {
        let number = number as usize;
        let Some(page) = self.pages.get(number / PAGE_CELLS) else { return };
        let page = page.get_or_init(new_page);
        let Some(cell) = page.get(number % PAGE_CELLS) else { return };
        cell.requests.increment();
        if has_failed {
            cell.failed.increment();
        }
    }

    /// Requests of an object, and those of them that failed.
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
            counts.count(number, number == 5);
        }
        counts.count(UNCOUNTED, true);
        counts.count(NUMBERS_MAX, true);
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
