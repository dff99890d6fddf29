//! Packets of statements that read and write rows, and the decoding of their results.

use crate::body;
use crate::connection::{Connection, Row, unexpected};
use crate::dialect::Dialect;
use crate::failure::Failure;
use crate::group::{GroupResult, ReadRows, ReadSet};
use crate::limits::{BODY_BYTES_MAX, PACKET_BYTES_MAX};
use crate::schema::{check_format, format_query};
use std::collections::HashMap;
use tollhouse_store::{Clock, Entry, LeaseId, Revision};

/// Columns of an entry, in the order that [`to_entry`] reads.
pub(crate) const ENTRY_COLUMNS: &str = "o.k, o.v, o.created, o.modified, l.ttl_ms";

/// Returns the joined tables with these columns.
pub(crate) fn entry_tables(dialect: &Dialect) -> String {
    let (objects, leases) = (dialect.table("objects"), dialect.table("leases"));
    format!("{objects} o LEFT JOIN {leases} l ON l.id = o.lease")
}

/// Decodes an entry from a row.
pub(crate) fn to_entry(row: &Row, now_ms: u64) -> Result<Entry, Failure> {
    let ttl_ms = row.number(4)?.and_then(|ttl_ms| u64::try_from(ttl_ms).ok());
    Ok(Entry {
        key: to_key(row)?,
        value: row.bytes(1)?,
        create_revision: Revision(row.count(2)?),
        mod_revision: Revision(row.count(3)?),
        expires_at_ms: ttl_ms.map(|ttl_ms| now_ms.saturating_add(ttl_ms)),
    })
}

/// Decodes a key from the first column of a row.
pub(crate) fn to_key(row: &Row) -> Result<Box<str>, Failure> {
    let bytes = row.bytes(0)?;
    std::str::from_utf8(&bytes).map(Box::from).map_err(|_| unexpected("a key that is not UTF-8"))
}

/// Converts a lease to a signed column value; leases have 62 bits.
pub(crate) fn lease_number(lease: LeaseId) -> i64 {
    i64::try_from(lease.0).unwrap_or(-1)
}

fn lease_list(leases: impl IntoIterator<Item = LeaseId>) -> String {
    let numbers: Vec<String> =
        leases.into_iter().map(|lease| lease_number(lease).to_string()).collect();
    format!("({})", numbers.join(","))
}

/// Begins a transaction, locks the counter and reads the wanted rows, in one packet.
pub(crate) async fn lock_and_find(
    connection: &mut Connection,
    dialect: &Dialect,
    wanted: &ReadSet<'_>,
) -> Result<ReadRows, Failure> {
    let mut sql = format!(
        "START TRANSACTION; SELECT rev FROM {} WHERE id = 1 FOR UPDATE; {}",
        dialect.table("counter"),
        format_query(dialect),
    );
    let objects = dialect.table("objects");
    // Every statement is always sent, so that results can be assigned by position.
    let keys = match wanted.keys.is_empty() {
        true => "1 = 0".to_owned(),
        false => format!("o.k IN {}", dialect.keys(wanted.keys.iter().map(|key| key.as_bytes()))),
    };
    sql += &format!("; SELECT {ENTRY_COLUMNS} FROM {} WHERE {keys}", entry_tables(dialect));
    let leases = match wanted.leases.is_empty() {
        true => "1 = 0".to_owned(),
        false => format!("id IN {}", lease_list(wanted.leases.iter().copied())),
    };
    sql += &format!("; SELECT id, ttl_ms FROM {} WHERE {leases}", dialect.table("leases"));
    for prefix in &wanted.prefixes {
        let range = dialect.begins_with(prefix).unwrap_or_else(|| "1 = 1".to_owned());
        sql += &format!("; SELECT k FROM {objects} WHERE {range}");
    }
    let mut sets = connection.run(sql).await?.into_iter().skip(1);
    let now_ms = Clock::System.now_ms();
    let counter = sets.next().unwrap_or_default();
    let newest = counter.rows.first().ok_or_else(|| unexpected("no counter"))?.count(0)?;
    let format = sets.next().unwrap_or_default();
    check_format(format.rows.first().ok_or_else(|| unexpected("no format"))?)?;
    let mut found = ReadRows { newest: Revision(newest), now_ms, ..ReadRows::default() };
    for row in sets.next().unwrap_or_default().rows {
        found.entries.push(to_entry(&row, now_ms)?);
    }
    found.leases = sets
        .next()
        .unwrap_or_default()
        .rows
        .iter()
        .map(|row| Ok((LeaseId(row.count(0)?), row.count(1)?)))
        .collect::<Result<HashMap<_, _>, Failure>>()?;
    for set in sets {
        for row in &set.rows {
            found.keys.push(to_key(row)?);
        }
    }
    Ok(found)
}

/// Returns the packets that write a computed group. The last one also commits, so that a process
/// that is suspended after sending it does not block other writers longer than the packet takes.
pub(crate) fn writes(dialect: &Dialect, computed: &GroupResult, id: &CommitId) -> Vec<String> {
    let mut packets = Packets::default();
    let objects = dialect.table("objects");
    let (head, tail) = (format!("DELETE FROM {objects} WHERE k IN ("), ")".to_owned());
    packets.rows(&head, &tail, computed.removals.iter(), |sql, key| {
        dialect.push_key(sql, key.as_bytes());
    });
    let head = format!("INSERT INTO {objects} (k, v, created, modified, lease) VALUES ");
    packets.rows(
        &head,
        dialect.or_replace_object(),
        computed.puts.iter(),
        |sql, (entry, lease)| {
            sql.push('(');
            dialect.push_key(sql, entry.key.as_bytes());
            sql.push(',');
            dialect.push_value(sql, &entry.value);
            let (created, modified) = (entry.create_revision, entry.mod_revision);
            let lease = lease.map_or_else(|| "NULL".to_owned(), |it| lease_number(it).to_string());
            *sql += &format!(",{created},{modified},{lease})");
        },
    );
    let (Some(first), Some(last)) = (computed.commits.first(), computed.commits.last()) else {
        return packets.done;
    };
    // The body is omitted if it does not fit into a row; followers then list the objects again.
    let mut body = body::encode(&computed.commits);
    if body.len() > BODY_BYTES_MAX {
        body.clear();
    }
    let mut log = log_row(dialect, last.revision.0.cast_signed(), first.revision, id, &body);
    log += &format!(
        "; UPDATE {} SET rev = {} WHERE id = 1; COMMIT",
        dialect.table("counter"),
        last.revision
    );
    packets.statement(log);
    packets.done
}

/// Random number of a commit, by which its outcome is determined if the confirmation was lost.
pub(crate) type CommitId = [u8; 16];

/// Formats the statement that appends a row to the log. The row of a claim has a negative number
/// and an empty body.
pub(crate) fn log_row(
    dialect: &Dialect,
    last: i64,
    first: Revision,
    id: &CommitId,
    body: &[u8],
) -> String {
    let mut sql = format!(
        "INSERT INTO {} (last_rev, first_rev, id, body) VALUES ({last},{first},",
        dialect.table("commits")
    );
    dialect.push_key(&mut sql, id);
    sql.push(',');
    dialect.push_value(&mut sql, body);
    sql.push(')');
    sql
}

/// Builder of packets of bounded size.
#[derive(Default)]
struct Packets {
    done: Vec<String>,
}

impl Packets {
    fn statement(&mut self, sql: String) {
        match self.done.last_mut().filter(|last| last.len() + sql.len() < PACKET_BYTES_MAX) {
            Some(last) => {
                last.push_str("; ");
                last.push_str(&sql);
            }
            None => self.done.push(sql),
        }
    }

    /// Appends a statement with many rows, split into several statements if necessary.
    fn rows<T>(
        &mut self,
        head: &str,
        tail: &str,
        rows: impl Iterator<Item = T>,
        mut push: impl FnMut(&mut String, T),
    ) {
        let mut sql = String::new();
        for row in rows {
            sql.push_str(if sql.is_empty() { head } else { "," });
            push(&mut sql, row);
            if sql.len() >= PACKET_BYTES_MAX / 2 {
                sql.push_str(tail);
                self.statement(std::mem::take(&mut sql));
            }
        }
        if !sql.is_empty() {
            sql.push_str(tail);
            self.statement(sql);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Engine;
    use tollhouse_store::{Changes, Event};

    #[test]
    fn the_last_packet_numbers_the_commit_and_ends_it() {
        let dialect = Dialect { engine: Engine::MySql, tables: "t_".into() };
        let delete = Event::Delete { key: "k".into(), revision: Revision(8) };
        let computed = GroupResult {
            commits: vec![Changes { revision: Revision(8), events: vec![delete] }],
            removals: (0..400_000).map(|number| format!("key/{number:07}").into()).collect(),
            ..GroupResult::default()
        };
        let packets = writes(&dialect, &computed, &[7; 16]);
        assert!(packets.len() > 1);
        for (index, packet) in packets.iter().enumerate() {
            let is_last = index + 1 == packets.len();
            assert_eq!(
                packet.ends_with("; UPDATE t_counter SET rev = 8 WHERE id = 1; COMMIT"),
                is_last
            );
            assert!(packet.len() < PACKET_BYTES_MAX);
        }
    }
}
