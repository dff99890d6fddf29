//! Published figures beside measured ones: the sentence of the verdict, and the sizes of machines
//! in Polaris' report.

use super::comparison::{gateways, published_baseline};
use super::figure;
use super::row::{BASELINE, Row, Spread, subjects};
use super::tally::{Pair, Tally, range, range_percent};
use super::verdict::{Sentence, called, is_invalid, p99, quotable, repeated};
use crate::report::Report;

/// Returns what was published, in sentences; none without published figures, and for API7, of which
/// the verdict itself has them.
pub(super) fn sentences(report: &Report, rows: &[Row<'_>], published: &[Row<'_>]) -> Vec<Sentence> {
    match report.suite.as_deref() {
        _ if published.is_empty() => Vec::new(),
        Some("api7") => Vec::new(),
        Some("polaris") => beside_size(report, rows, published).into_iter().collect(),
        Some("ngxway") => beside_cases(report, rows, published),
        _ => rates(published).into_iter().collect(),
    }
}

/// Compares each of our subjects with the published cases of the same names. Variants come first:
/// the published figures are those of a cache, as ours of `tollhouse, cached`.
fn beside_cases(report: &Report, rows: &[Row<'_>], published: &[Row<'_>]) -> Vec<Sentence> {
    let (ours, peers) = gateways(rows);
    let mut own = subjects(rows);
    own.retain(|subject| *subject != BASELINE && !peers.contains(subject));
    own.sort_by_key(|subject| Some(*subject) == ours);
    own.into_iter().filter_map(|subject| beside_case(report, rows, published, subject)).collect()
}

fn beside_case(
    report: &Report,
    rows: &[Row<'_>],
    published: &[Row<'_>],
    subject: &str,
) -> Option<Sentence> {
    let own = rows.iter().filter(|row| row.subject == subject);
    let same = |row: &&Row<'_>| published.iter().find(|theirs| theirs.name == row.name);
    let (valid, invalid): (Vec<_>, Vec<_>) = own
        .filter_map(|row| Some((row, same(&row)?)))
        .partition(|(row, _)| !is_invalid(row, &report.warnings));
    let pairs = |figure: fn(&Row<'_>) -> Option<Spread>| -> Vec<Pair> {
        let pair = |(ours, theirs): &(&Row<'_>, &Row<'_>)| {
            Some(Pair { ours: figure(ours)?, theirs: figure(theirs)? })
        };
        valid.iter().filter_map(pair).collect()
    };
    // Published rows have a rate and no throughput over intervals.
    let rates: Vec<Pair> = valid
        .iter()
        .filter_map(|(ours, theirs)| {
            Some(Pair { ours: ours.throughput()?, theirs: theirs.rate()? })
        })
        .collect();
    let rate = Tally::from_rates(&rates);
    let tail = match Tally::from_times(&pairs(p99)) {
        Tally { total: 0, .. } => String::new(),
        Tally { ahead, total, .. } => format!("; p99 lower in {ahead} of {total}"),
    };
    let known: Vec<f64> = rates.iter().map(|pair| pair.theirs.median).collect();
    let reservation = match quotable(&rates, invalid.len()) {
        Err(reservation) => format!("Other hardware and tools. {reservation}"),
        Ok(()) => "Other hardware and tools: compare shapes, not heights.".to_owned(),
    };
    (!rates.is_empty()).then(|| Sentence {
        text: format!(
            "{} is {} {}’s published figures {}{tail}; published: {} requests/s.",
            variant(subject),
            rate.than(),
            source(published),
            rate.cases(),
            range(&known, figure::number),
        ),
        may_be_quoted: Err(reservation),
    })
}

/// Returns the name of a subject in a sentence, such as `Tollhouse (cached)`.
fn variant(subject: &str) -> String {
    match subject.split_once(", ") {
        Some((subject, variant)) => format!("{} ({variant})", called(subject)),
        None => called(subject).to_owned(),
    }
}

/// Returns the name of the source of published rows.
fn source<'a>(published: &[Row<'a>]) -> &'a str {
    let subject = published.first().map_or("", |row| row.subject);
    subject.split(", published").next().unwrap_or(subject)
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
    let (ours, _) = gateways(rows);
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
