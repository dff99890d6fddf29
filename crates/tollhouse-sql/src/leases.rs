//! Leases as rows, without comparing clocks. A holder counts its renewals in the row. Every node
//! measures with its own monotonic clock how long the count has not changed
//! ([`LeaseObservations`]). A node that sees it unchanged for the duration of the lease ends the
//! lease, in a transaction that requires this very count.

use crate::connection::{Connection, unexpected};
use crate::dialect::Dialect;
use crate::failure::Failure;
use crate::group::ReadRows;
use crate::packets::{lease_number, to_key};
use crate::schema::{check_format, format_condition, format_query};
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;
use tollhouse_store::{LeaseId, Revision};

/// Maximum number of concurrent leases: one per entry that can expire, which are few.
const LEASES_MAX: u64 = 64 * 1024;

/// Maximum time between two reads that counts in full. Reads occur twice a second.
const UNREAD_COUNTED_MAX: Duration = Duration::from_secs(2);

/// Adds a lease; returns false if there are too many.
pub(crate) async fn grant(
    connection: &mut Connection,
    dialect: &Dialect,
    lease: LeaseId,
    ttl: Duration,
) -> Result<bool, Failure> {
    let table = dialect.table("leases");
    let ttl_ms = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX);
    let sql = format!(
        "{}; INSERT INTO {table} (id, ttl_ms, renewals) SELECT {}, {ttl_ms}, 0 FROM {} WHERE id = 1 \
         AND (SELECT COUNT(*) FROM {table} l) < {LEASES_MAX} AND {}",
        format_query(dialect),
        lease_number(lease),
        dialect.table("counter"),
        format_condition(dialect),
    );
    run_in_known_format(connection, sql).await
}

/// Renews a lease; returns false if it has ended.
pub(crate) async fn renew(
    connection: &mut Connection,
    dialect: &Dialect,
    lease: LeaseId,
) -> Result<bool, Failure> {
    let sql = format!(
        "{}; UPDATE {} SET renewals = renewals + 1 WHERE id = {} AND {}",
        format_query(dialect),
        dialect.table("leases"),
        lease_number(lease),
        format_condition(dialect),
    );
    run_in_known_format(connection, sql).await
}

/// Runs a query for the format and a write that depends on it; returns whether the write changed a
/// row.
async fn run_in_known_format(connection: &mut Connection, sql: String) -> Result<bool, Failure> {
    let mut sets = connection.run(sql).await?.into_iter();
    let format = sets.next().unwrap_or_default();
    check_format(format.rows.first().ok_or_else(|| unexpected("no format"))?)?;
    Ok(sets.next().unwrap_or_default().affected == 1)
}

/// Begins a transaction with the counter locked, and ends a lease in it. Returns the keys under the
/// lease; `None` if it has already ended or was renewed.
pub(crate) async fn lock_and_end(
    connection: &mut Connection,
    dialect: &Dialect,
    lease: LeaseId,
    renewals: Option<u64>,
) -> Result<Option<ReadRows>, Failure> {
    let number = lease_number(lease);
    let unrenewed = renewals.map(|count| format!(" AND renewals = {count}")).unwrap_or_default();
    let sql = format!(
        "START TRANSACTION; SELECT rev FROM {} WHERE id = 1 FOR UPDATE; {}; DELETE FROM {} WHERE id = \
         {number}{unrenewed}; SELECT k FROM {} WHERE lease = {number}",
        dialect.table("counter"),
        format_query(dialect),
        dialect.table("leases"),
        dialect.table("objects"),
    );
    let mut sets = connection.run(sql).await?.into_iter().skip(1);
    let counter = sets.next().unwrap_or_default();
    let newest = counter.rows.first().ok_or_else(|| unexpected("no counter"))?.count(0)?;
    // The caller closes the connection after a failure, which rolls the transaction back.
    let format = sets.next().unwrap_or_default();
    check_format(format.rows.first().ok_or_else(|| unexpected("no format"))?)?;
    if sets.next().unwrap_or_default().affected == 0 {
        return Ok(None);
    }
    let rows = sets.next().unwrap_or_default().rows;
    let keys = rows.iter().map(to_key).collect::<Result<Vec<_>, Failure>>()?;
    Ok(Some(ReadRows { newest: Revision(newest), keys, ..ReadRows::default() }))
}

/// Observations of leases over several reads.
#[derive(Default)]
pub(crate) struct LeaseObservations {
    held: HashMap<LeaseId, LeaseObservation>,
}

struct LeaseObservation {
    renewals: u64,
    /// Duration without a renewal, as measured by this node.
    still_for: Duration,
    read_at: Instant,
}

impl LeaseObservations {
    /// Records what was read (lease, duration in milliseconds, renewals) after `now`. Returns the
    /// leases that have ended, with their final number of renewals.
    ///
    /// A long time between two reads counts only up to `UNREAD_COUNTED_MAX`: while the engine was
    /// down no holder could renew, and while this process was stopped it could not observe
    /// renewals.
    pub(crate) fn note(
        &mut self,
        read: &[(LeaseId, u64, u64)],
        now: Instant,
    ) -> Vec<(LeaseId, u64)> {
        let mut ended = Vec::new();
        let mut held = HashMap::with_capacity(read.len());
        for (lease, ttl_ms, renewals) in read {
            let before = self.held.get(lease).filter(|seen| seen.renewals == *renewals);
            let still_for = before.map_or(Duration::ZERO, |seen| {
                let since_read = now.saturating_duration_since(seen.read_at);
                seen.still_for + since_read.min(UNREAD_COUNTED_MAX)
            });
            if before.is_some() && still_for.as_millis() >= u128::from(*ttl_ms) {
                ended.push((*lease, *renewals));
            }
            held.insert(*lease, LeaseObservation { renewals: *renewals, still_for, read_at: now });
        }
        self.held = held;
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_once_its_renewals_stood_still_for_its_time() {
        let mut observed = LeaseObservations::default();
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let lease = LeaseId(1);
        let cases = [
            (0, 0, false),
            (900, 0, false),
            (950, 1, false),
            (1_900, 1, false),
            (1_950, 1, true),
            // Nobody has ended it yet.
            (2_000, 1, true),
            (9_000, 2, false),
        ];
        for (ms, renewals, is_over) in cases {
            let ended = observed.note(&[(lease, 1_000, renewals)], at(ms));
            assert_eq!(!ended.is_empty(), is_over, "after {ms} ms");
        }
        assert!(observed.note(&[], at(9_500)).is_empty());
        assert!(observed.note(&[(lease, 1_000, 2)], at(20_000)).is_empty(), "it is a new one");
    }

    #[test]
    fn time_without_the_engine_ends_no_lease() {
        let mut observed = LeaseObservations::default();
        let start = Instant::now();
        let mut note =
            |ms| observed.note(&[(LeaseId(1), 10_000, 0)], start + Duration::from_millis(ms)).len();
        assert_eq!([note(0), note(500), note(60_000)], [0; 3]);
        // Nobody renews it with the engine back.
        let ended: usize = (1..=14).map(|read| note(60_000 + 500 * read)).sum();
        assert_eq!((ended, note(67_500)), (0, 1));
    }
}
