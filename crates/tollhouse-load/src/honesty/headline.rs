//! Checks whether the largest figure, usually the headline, is an outlier.

use super::view::{Group, Session};
use super::{Findings, Severity};
use crate::report::Spread;
use crate::report::figure;

/// Excess of a maximum over both of its neighbours above which it is suspect.
const ALONE_MIN: f64 = 0.25;

/// Reports a maximum rate far above both of its neighbours. A rate that rises and falls with the
/// number of connections has neighbours near its maximum.
pub(super) fn outlier(session: &Session<'_>, findings: &mut Findings) {
    for rising in rising_loads(session) {
        let rates: Vec<Spread> = rising.iter().filter_map(|group| rate(group)).collect();
        if rates.len() < rising.len() {
            continue;
        }
        let by_median = |(_, left): &(usize, &Spread), (_, right): &(usize, &Spread)| {
            left.median.total_cmp(&right.median)
        };
        let Some((top, highest)) = rates.iter().enumerate().max_by(by_median) else { continue };
        // The ends have one neighbour only, and a rate that still rises is not an outlier.
        let (Some(before), Some(after)) = (top.checked_sub(1), rates.get(top + 1)) else {
            continue;
        };
        let before = rates[before];
        let next = if before.median > after.median { &before } else { after };
        let alone = highest.median / next.median - 1.0;
        // Repeated runs whose range is apart from the neighbour's confirm the maximum as capacity.
        if alone <= ALONE_MIN || (highest.is_repeated() && !highest.overlaps(next)) {
            continue;
        }
        findings.about(
            rising[top].first(),
            "headline",
            Severity::Caution,
            format!(
                "The highest rate, {} requests/s at {} connections, stands {} above both of its neighbours \
                 ({} and {}): an outlier, not a capacity. Repeat the case before quoting it; until then \
                 the maximum is about {}.",
                figure::rate(highest.median),
                rising[top].first().concurrency,
                figure::percent(alone),
                figure::rate(before.median),
                figure::rate(after.median),
                figure::rate(next.median),
            ),
        );
    }
}

fn rate(group: &Group<'_>) -> Option<Spread> {
    Spread::from_values(group.runs.iter().map(|run| run.goodput).filter(|rate| *rate > 0.0))
}

/// Splits the cases, in the order measured, into series of one subject with a rising number of
/// connections. A new series starts where the subject changes or the number does not rise. Open
/// loops are skipped, because their rate is given and not a measured maximum.
fn rising_loads<'s, 'a>(session: &'s Session<'a>) -> Vec<Vec<&'s Group<'a>>> {
    let mut rows: Vec<Vec<&Group<'_>>> = Vec::new();
    for group in &session.groups {
        let first = group.first();
        if first.open_loop || first.concurrency == 0 {
            continue;
        }
        let continues = rows.last().and_then(|row| row.last()).is_some_and(|last| {
            last.subject == group.subject && last.first().concurrency < first.concurrency
        });
        match rows.last_mut().filter(|_| continues) {
            Some(row) => row.push(group),
            None => rows.push(vec![group]),
        }
    }
    rows
}
