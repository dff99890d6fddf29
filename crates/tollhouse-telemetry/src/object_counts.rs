//! Request counts per object and core. Each cell has a single writer; readers sum over the cores.
//! Objects have dense numbers, so that counting costs two lookups and an addition. Pages of cells
//! are allocated on first use.

use once_cell::race::OnceBox;

use crate::counters::Counter;

/// Number of cells in a page. A page of upstreams then takes 16 KiB, one of routes 64 KiB.
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

/// Cells of all objects of one kind on one core.
#[derive(Debug)]
pub(crate) struct PagedCells<C> {
    pages: Box<[OnceBox<[C; PAGE_CELLS]>; PAGES_MAX]>,
}

impl<C> Default for PagedCells<C> {
    fn default() -> Self {
        Self { pages: boxed(OnceBox::new) }
    }
}

impl<C: Default> PagedCells<C> {
    /// Cell of an object, for its writer; `None` for [`UNCOUNTED`]. Allocates once when a page is
    /// first used.
    #[inline]
    pub(crate) fn cell(&self, number: u32) -> Option<&C> {
        let number = number as usize;
        let page = self.pages.get(number / PAGE_CELLS)?;
        Some(&page.get_or_init(new_page)[number % PAGE_CELLS])
    }

    /// Cell of an object, for readers; `None` if its page is not in use.
    pub(crate) fn used(&self, number: u32) -> Option<&C> {
        let number = number as usize;
        let page = self.pages.get(number / PAGE_CELLS)?.get()?;
        Some(&page[number % PAGE_CELLS])
    }
}

#[cold]
fn new_page<C: Default>() -> Box<[C; PAGE_CELLS]> {
    boxed(C::default)
}

/// A boxed array of new values, which are never on the stack as a whole.
pub(crate) fn boxed<T, const N: usize>(new: impl Fn() -> T) -> Box<[T; N]> {
    let all: Box<[T]> = (0..N).map(|_| new()).collect();
    all.try_into().unwrap_or_else(|_| unreachable!("it has {N} values"))
}

/// Counts of one object on one core.
#[derive(Debug, Default)]
struct Cell {
    requests: Counter,
    failed: Counter,
}

/// Counts of all objects of one kind on one core.
#[derive(Debug, Default)]
pub struct ObjectCounts(PagedCells<Cell>);

impl ObjectCounts {
    /// Counts a request of an object.
    #[inline]
    pub fn count(&self, number: u32, outcome: RequestOutcome) {
        let Some(cell) = self.0.cell(number) else { return };
        cell.requests.increment();
        if outcome == RequestOutcome::Failed {
            cell.failed.increment();
        }
    }

    /// Requests of an object, and the failed ones among them.
    pub(crate) fn totals(&self, number: u32) -> (u64, u64) {
        let cell = self.0.used(number);
        cell.map_or((0, 0), |cell| (cell.requests.value(), cell.failed.value()))
    }
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
