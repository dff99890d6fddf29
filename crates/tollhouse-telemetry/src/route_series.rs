//! Requests of each route on one core: counts by class of status, and durations.
//!
//! The counts of a million routes are exact. Durations, and with them an own series on the metrics
//! page, are bounded in bytes; further routes are counted as one.

use once_cell::race::OnceBox;

use crate::counters::{Counter, Family, Label};
use crate::exemplars::{Exemplar, Exemplars};
use crate::histogram::{CLASSIC_BUCKETS, Histogram, Observation, Totals};
use crate::labels::StatusClass;
use crate::object_counts::{PagedCells, RequestOutcome};

/// Memory of the durations of all routes of a core. The first routes that get requests have series
/// of their own; the page for as many takes some 100 MB.
const DURATIONS_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Routes with durations of their own.
const DURATIONS_MAX: usize = DURATIONS_BYTES_MAX / size_of::<Durations>();

/// Counts by class of status.
pub(crate) type Classes = Family<StatusClass, { StatusClass::COUNT }>;

/// A finished request of a route.
#[derive(Debug, Clone, Copy)]
pub struct RouteRequest {
    pub class: StatusClass,
    pub outcome: RequestOutcome,
    pub duration: Observation,
}

/// Durations of the requests of a route.
#[derive(Debug, Default)]
struct Durations {
    histogram: Histogram,
    exemplars: OnceBox<Exemplars>,
}

/// Counts of one route, in one cache line.
#[derive(Debug, Default)]
#[repr(C, align(64))]
struct RouteCell {
    classes: Classes,
    failed: Counter,
    durations: OnceBox<Durations>,
}

const _: () = assert!(size_of::<RouteCell>() == 64);

impl RouteCell {
    #[inline]
    fn count(&self, request: RouteRequest) {
        self.classes.increment(request.class);
        if request.outcome == RequestOutcome::Failed {
            self.failed.increment();
        }
    }
}

/// Counts of all routes on one core, which is their only writer.
#[derive(Debug, Default)]
pub struct RouteSeries {
    cells: PagedCells<RouteCell>,
    /// Number of routes that have durations.
    durations: Counter,
    /// Requests of routes without.
    other: RouteCell,
    folded: Counter,
}

impl RouteSeries {
    /// Counts a request of the route with this number. Allocates for the first request of a route.
    #[inline]
    pub fn count(&self, number: u32, request: RouteRequest) {
        let Some(cell) = self.cells.cell(number) else { return };
        cell.count(request);
        match cell.durations.get() {
            Some(durations) => durations.histogram.observe(request.duration),
            None => self.count_first(cell, request),
        }
    }

    /// Counts a request of a route that has no durations yet, or gets none.
    #[cold]
    fn count_first(&self, cell: &RouteCell, request: RouteRequest) {
        if self.durations.value() < DURATIONS_MAX as u64 {
            self.durations.increment();
            cell.durations.get_or_init(Box::default).histogram.observe(request.duration);
            return;
        }
        self.folded.increment();
        self.other.count(request);
        self.other.durations.get_or_init(Box::default).histogram.observe(request.duration);
    }

    /// Keeps a request of the route as an exemplar of its duration.
    #[cold]
    pub fn exemplar(&self, number: u32, exemplar: Exemplar) {
        let cell = self.cells.used(number);
        let durations = cell.and_then(|cell| cell.durations.get());
        if let Some(durations) = durations {
            durations.exemplars.get_or_init(Box::default).keep(exemplar);
        }
    }

    /// Requests of a route, and the failed ones among them.
    pub(crate) fn totals(&self, number: u32) -> (u64, u64) {
        let Some(cell) = self.cells.used(number) else { return (0, 0) };
        let requests = StatusClass::ALL.iter().map(|class| cell.classes.get(*class).value());
        (requests.sum(), cell.failed.value())
    }

    /// Number of requests counted as those of another route.
    pub(crate) fn folded(&self) -> u64 {
        self.folded.value()
    }
}

/// Requests of a route or of a node over all cores.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestTotals {
    /// Requests in the order of [`StatusClass::ALL`].
    pub(crate) classes: [u64; StatusClass::COUNT],
    pub(crate) durations: Totals,
    pub(crate) exemplars: [Option<Exemplar>; CLASSIC_BUCKETS],
}

impl RequestTotals {
    pub(crate) fn add_classes(&mut self, classes: &Classes) {
        for (sum, class) in self.classes.iter_mut().zip(StatusClass::ALL) {
            *sum += classes.get(*class).value();
        }
    }
}

/// A row of the metrics page: a route with series of its own, or all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RouteRow {
    Numbered(u32),
    Other,
}

impl RouteSeries {
    /// Whether the row has had requests on this core.
    pub(crate) fn is_used(&self, row: RouteRow) -> bool {
        self.cell_of(row).is_some_and(|cell| cell.durations.get().is_some())
    }

    /// Adds the counts of a row to `totals`.
    pub(crate) fn add_to(&self, row: RouteRow, totals: &mut RequestTotals) {
        let Some(cell) = self.cell_of(row) else { return };
        // Requests without durations of their own are in the other row.
        let Some(durations) = cell.durations.get() else { return };
        totals.add_classes(&cell.classes);
        durations.histogram.add_to(&mut totals.durations);
        if let Some(exemplars) = durations.exemplars.get() {
            exemplars.add_to(&mut totals.exemplars);
        }
    }

    fn cell_of(&self, row: RouteRow) -> Option<&RouteCell> {
        match row {
            RouteRow::Numbered(number) => self.cells.used(number),
            RouteRow::Other => Some(&self.other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exemplars::TraceId;
    use crate::object_counts::UNCOUNTED;

    fn request(status: u16) -> RouteRequest {
        let outcome = match status {
            500.. => RequestOutcome::Failed,
            _ => RequestOutcome::Succeeded,
        };
        let class = StatusClass::from_status(status);
        RouteRequest { class, outcome, duration: Observation::from_ms(3) }
    }

    fn totals(series: &RouteSeries, row: RouteRow) -> RequestTotals {
        let mut totals = RequestTotals::default();
        series.add_to(row, &mut totals);
        totals
    }

    #[test]
    fn each_route_has_its_own_counts() {
        let series = RouteSeries::default();
        for (number, status) in [(0, 200), (7, 200), (7, 503), (1024, 404), (UNCOUNTED, 200)] {
            series.count(number, request(status));
        }
        assert_eq!((series.totals(7), series.totals(1024)), ((2, 1), (1, 0)));
        let seven = totals(&series, RouteRow::Numbered(7));
        assert_eq!((seven.classes, seven.durations.count()), ([0, 1, 0, 0, 1, 0], 2));
        assert!(!series.is_used(RouteRow::Numbered(8)) && !series.is_used(RouteRow::Other));
    }

    #[test]
    fn routes_beyond_the_bound_are_counted_as_one_and_still_exactly() {
        let series = RouteSeries::default();
        series.durations.add(DURATIONS_MAX as u64 - 1);
        for number in [1, 2, 3, 3, 1] {
            series.count(number, request(200));
        }
        assert_eq!(series.folded(), 3);
        let counted = [1, 2, 3].map(|number| series.totals(number).0);
        assert_eq!(counted, [2, 1, 2]);
        let shown = |row| totals(&series, row).durations.count();
        assert_eq!(shown(RouteRow::Numbered(1)) + shown(RouteRow::Other), 5);
        assert_eq!((shown(RouteRow::Numbered(3)), shown(RouteRow::Other)), (0, 3));
    }

    #[test]
    fn the_durations_of_all_routes_are_bounded() {
        assert!(DURATIONS_MAX > 20_000, "{DURATIONS_MAX} routes");
    }

    #[test]
    fn an_exemplar_needs_a_request_that_was_counted() {
        let series = RouteSeries::default();
        let trace = TraceId::new([1; 16]).expect("a trace");
        let exemplar = Exemplar { trace, duration_ms: 3, unix_ms: 1 };
        series.exemplar(3, exemplar);
        series.count(3, request(200));
        series.exemplar(3, exemplar);
        let row = totals(&series, RouteRow::Numbered(3));
        assert_eq!(row.exemplars.iter().flatten().count(), 1);
    }
}
