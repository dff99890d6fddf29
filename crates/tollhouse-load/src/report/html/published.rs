//! Published figures beside measured ones: the sentence of the verdict, and the sizes of machines
//! in Polaris' report.

use super::comparison::published_baseline;
use super::figure;
use super::row::{BASELINE, Row};
use super::tally::{Pair, Tally, range, range_percent};
use super::verdict::{Sentence, called, is_invalid, repeated};
use crate::report::Report;

/// Returns what was published, in a sentence; `None` without published figures, and for API7, of
/// which the verdict itself has them.
pub(super) fn sentence(
    report: &Report,
    rows: &[Row<'_>],
    published: &[Row<'_>],
) -> Option<Sentence> {
    match report.suite.as_deref() {
        _ if published.is_empty() => None,
        Some("api7") => None,
        Some("polaris") => beside_size(report, rows, published),
        _ => rates(published),
    }
}

/// Says which rates were published, and which share of its direct throughput the source reached.
fn rates(published: &[Row<'_>]) -> Option<Sentence> {
    let is_direct = |row: &&Row<'_>| row.subject.split([' ', ',']).any(|word| word == BASELINE);
    let gateways = published.iter().filter(|row| !is_direct(row));
    let known: Vec<f64> = gateways.clone().filter_map(|row| Some(row.rate()?.median)).collect();
    let shares = gateways.clone().filter_map(|row| {
        let direct = published_baseline(published, row)?;
        Some(row.rate()?.median / direct.rate()?.median)
    });
    let shares = range_percent(shares);
    let share = match shares.is_empty() {
        true => String::new(),
        false => format!(", {shares} of its direct throughput"),
    };
    let source = gateways.clone().next()?.subject.split(", published").next()?;
    let source = source.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    (!known.is_empty()).then(|| Sentence {
        text: format!(
            "Published for {source}: {} requests/s{share}.",
            range(&known, figure::number)
        ),
        may_be_quoted: Err("Other hardware and tools: compare shapes, not heights.".to_owned()),
    })
}

/// Operation and machine size of a published case such as `register 2C4G`.
pub(super) fn sized<'a>(row: &Row<'a>) -> Option<(&'a str, &'a str)> {
    row.name.rsplit_once(' ').filter(|(_, size)| cores(size).is_some())
}

/// Returns the number of cores of a size such as `2C4G`.
fn cores(size: &str) -> Option<u32> {
    size.split_once('C').and_then(|(cores, memory)| {
        memory.strip_suffix('G')?.parse::<u32>().ok()?;
        cores.parse().ok()
    })
}

/// Returns the sizes of the published table, in its order.
pub(super) fn sizes<'a>(published: &[Row<'a>]) -> Vec<&'a str> {
    let mut sizes: Vec<&str> = Vec::new();
    for (_, size) in published.iter().filter_map(sized) {
        if !sizes.contains(&size) {
            sizes.push(size);
        }
    }
    sizes
}

/// Returns the published case of an operation and a size.
pub(super) fn find_size<'r, 'a>(
    published: &'r [Row<'a>],
    operation: &str,
    size: &str,
) -> Option<&'r Row<'a>> {
    published.iter().find(|row| sized(row) == Some((operation, size)))
}

/// Compares with the published machine that has as many cores, or the next smaller one.
fn beside_size(report: &Report, rows: &[Row<'_>], published: &[Row<'_>]) -> Option<Sentence> {
    let here = u32::try_from(report.environment.cores).unwrap_or(u32::MAX);
    let sizes = sizes(published);
    let fits = sizes.iter().filter(|size| cores(size).is_some_and(|cores| cores <= here));
    let most = fits.clone().filter_map(|size| cores(size)).max();
    let size = fits.clone().find(|size| cores(size) == most).or(sizes.first())?;
    let (ours, _) = super::comparison::gateways(rows);
    let own = rows.iter().filter(|row| Some(row.subject) == ours);
    let own = own.filter(|row| !is_invalid(row, &report.warnings));
    let pairs = own.filter_map(|row| {
        let theirs = find_size(published, row.name, size)?.rate()?;
        Some(Pair { ours: row.throughput()?, theirs })
    });
    let pairs: Vec<Pair> = pairs.collect();
    let tally = Tally::from_rates(&pairs);
    let runs = pairs.iter().map(|pair| pair.ours.runs).min()?;
    let machine = match here {
        0 => String::new(),
        1 => " on 1 core".to_owned(),
        here => format!(" on {here} cores"),
    };
    let reservation = match repeated(runs) {
        Err(reservation) => format!("Other hardware and tools. {reservation}"),
        Ok(()) => "Other hardware and tools: an order of magnitude, not a race.".to_owned(),
    };
    Some(Sentence {
        text: format!(
            "{}{machine} is {} Polaris’ published {size} figures {}.",
            called(ours?),
            tally.than(),
            tally.cases(),
        ),
        may_be_quoted: Err(reservation),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_names_cores_and_memory() {
        assert_eq!(["2C4G", "16C64G"].map(cores), [Some(2), Some(16)]);
        assert_eq!(["connections", "C4G", "2C", "2C4M"].map(cores), [None; 4]);
    }
}
