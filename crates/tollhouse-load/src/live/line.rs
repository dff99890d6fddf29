//! Progress as a single line, for logs.

use crate::report::figure;
use crate::run::Progress;

pub(super) fn text(progress: &Progress<'_>) -> String {
    let last = progress.last;
    let is_timed = last.max_ns > 0;
    let time = |nanoseconds: u64| match is_timed {
        true => figure::time(nanoseconds as f64),
        false => figure::NONE.to_owned(),
    };
    let failed = match progress.counts.failed {
        0 => String::new(),
        count => format!("  {} failed", figure::count(count)),
    };
    let failure = match (progress.counts.failed, progress.last_failure) {
        (1.., Some(failure)) => format!(" ({failure})"),
        _ => String::new(),
    };
    format!(
        "  {:>7}  {}/s  p50 {}  p99 {}  max {}  {} in flight{failed}{failure}",
        figure::seconds(progress.elapsed),
        figure::rate(last.rate()),
        time(last.p50_ns),
        time(last.p99_ns),
        time(last.max_ns),
        figure::count(last.in_flight),
    )
}
