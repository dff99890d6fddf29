//! Checks before the load whether the machine's limits suffice: descriptors, local ports, listen
//! queues, connection tracking, memory. For a limit that is too low, the advice contains the
//! command that raises it.
//!
//! [`check`] itself raises the soft limit of descriptors as far as the hard limit allows.

mod limits;
mod table;

use crate::error::BenchError;

pub use limits::{Limits, raise_descriptors};
pub(crate) use table::DESCRIPTORS_ASIDE;
pub use table::{Advice, Need, Verdict, advise};

/// Checks the limits for this number of connections from this process to this number of
/// destinations (address and port). Returns advice for the report.
///
/// # Errors
/// If the load cannot be carried at all; the message holds the need, the limit and the command that
/// raises it.
pub fn check(connections: u64, destinations: u64) -> Result<Vec<Advice>, BenchError> {
    let need = Need { connections, destinations, ..Need::default() };
    let advice = advise(&need, &Limits::after_raising(need.descriptors_each()));
    if let Some(refused) = advice.iter().find(|advice| advice.verdict == Verdict::TooSmall) {
        return Err(BenchError::Machine(refused.sentence()));
    }
    Ok(advice.into_iter().filter(|advice| advice.verdict != Verdict::Enough).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_connections_are_no_question() {
        assert_eq!(check(10, 1).expect("ten"), []);
    }

    #[test]
    fn more_connections_than_any_machine_has_are_refused_in_one_line() {
        let error = check(u64::MAX / 2, u64::MAX / 2).expect_err("too many");
        let BenchError::Machine(line) = error else { panic!("{error:?}") };
        assert!(line.contains("descriptors") && !line.contains('\n'), "{line}");
    }
}
