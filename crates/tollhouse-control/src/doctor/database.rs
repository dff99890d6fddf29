//! Checks of the database that registry nodes share: each server on its own, and whether the
//! database holds this node's registry. `tollhouse_sql` queries the servers; this module turns the
//! results into findings with a remedy.

use tollhouse_config::Bootstrap;
use tollhouse_sql::{Engine, ServerReport, Snapshot, SqlOptions, Tables};
use tollhouse_store::StoreError;

use super::version::numbers;
use super::{CLOCK_DIFFERENCE_MS_MAX, Examination, Finding};
use crate::feed::cluster_id::{self, ClusterId};
use crate::registry::database;

/// Lowest acceptable `max_allowed_packet`, in bytes: a commit of the largest allowed size needs as
/// much.
const PACKET_BYTES_MIN: u64 = 16 * 1024 * 1024;

pub(super) async fn examine(
    bootstrap: &Bootstrap,
    examination: &mut Examination,
) -> anyhow::Result<()> {
    let Some(options) = database::options(bootstrap)? else { return Ok(()) };
    let mut outcomes = Vec::new();
    for server in &options.servers {
        let one = SqlOptions { servers: vec![server.clone()], ..options.clone() };
        outcomes.push((server.to_string(), tollhouse_sql::examine(&one).await));
    }
    check(options.engine, &outcomes, examination);
    let has_tables =
        outcomes.iter().any(|(_, it)| it.as_ref().is_ok_and(|it| it.tables == Tables::Ours));
    if has_tables {
        whose(bootstrap, &options, examination).await?;
    }
    Ok(())
}

fn check(
    engine: Engine,
    outcomes: &[(String, Result<ServerReport, StoreError>)],
    examination: &mut Examination,
) {
    for (server, outcome) in outcomes {
        match outcome {
            Ok(examined) => {
                let state = if examined.is_read_only { ", a standby" } else { "" };
                examination
                    .looked_at
                    .push(format!("{engine} at {server}: version {}{state}", examined.version));
                check_server(engine, server, examined, &mut examination.findings);
            }
            Err(error) => {
                let what = format!("{engine} at {server} cannot be used: {error}");
                // Nodes fail over to the remaining servers; if the only server is down,
                // registration stops.
                examination.findings.push(match outcomes.len() {
                    1 => Finding::problem(what, ""),
                    _ => Finding::warning(what, ""),
                });
            }
        }
    }
    let answer = || outcomes.iter().filter_map(|(_, outcome)| outcome.as_ref().ok());
    if answer().next().is_some() && answer().all(|examined| examined.is_read_only) {
        let what = format!("no server of {engine} takes changes: nothing can be registered");
        let remedy = match engine {
            Engine::MySql => "set read_only off on the primary, or name the primary too",
            Engine::PostgreSql => "promote the standby, or name the primary too",
        };
        examination.findings.push(Finding::problem(what, remedy));
    }
}

fn check_server(engine: Engine, server: &str, examined: &ServerReport, found: &mut Vec<Finding>) {
    let at = format!("{engine} at {server}");
    let is_mariadb = examined.version.contains("MariaDB");
    let oldest = match (engine, is_mariadb) {
        (Engine::MySql, true) => ([10, 6, 0], "MariaDB 10.6"),
        (Engine::MySql, false) => ([8, 0, 0], "MySQL 8.0"),
        (Engine::PostgreSql, _) => ([13, 0, 0], "PostgreSQL 13"),
    };
    if numbers(&examined.version) < oldest.0 {
        let what = format!("{at} has version {}", examined.version);
        found.push(Finding::problem(
            what,
            &format!("upgrade it: {} is the oldest that works", oldest.1),
        ));
    }
    match &examined.tables {
        Tables::Ours => {}
        Tables::Absent => {
            let what = format!("{at} has no tables of a registry yet: the first node makes them");
            found.push(Finding::note(what, ""));
        }
        Tables::Unusable(reason, remedy) => {
            found.push(Finding::problem(format!("{at}: {reason}"), remedy));
        }
    }
    if let Some(lacks) = examined.lacks {
        let what = format!("the user of {at} lacks {lacks}");
        found.push(Finding::problem(what, "grant it what is missing"));
    }
    if examined.has_several_writers {
        let what = format!(
            "{at} is one of several servers that take changes (wsrep_on): such a cluster loses commits \
                            that it has confirmed"
        );
        found.push(Finding::warning(
            what,
            "let only one server take changes, and the others replicate it",
        ));
    }
    if !examined.is_durable {
        let what = format!(
            "{at} confirms commits before they are on its disk: a crash of its machine takes some back"
        );
        let remedy = match engine {
            Engine::MySql => "set innodb_flush_log_at_trx_commit to 1",
            Engine::PostgreSql => "set fsync and synchronous_commit on",
        };
        found.push(Finding::note(what, remedy));
    }
    if examined.packet_bytes_max.is_some_and(|bytes| bytes < PACKET_BYTES_MIN) {
        let what = format!(
            "{at} takes packets of {} bytes only",
            examined.packet_bytes_max.unwrap_or_default()
        );
        found.push(Finding::warning(what, "set max_allowed_packet to 16 MiB or more"));
    }
    if examined.clock_ahead_ms.abs() > CLOCK_DIFFERENCE_MS_MAX {
        let ahead = examined.clock_ahead_ms as f64 / 1e3;
        let what = format!("the clock of {at} differs by {ahead:+.1} s from this machine's");
        found
            .push(Finding::note(what, "synchronise both by NTP; only times in lists depend on it"));
    }
}

/// Checks that the database holds the registry that this node belonged to before.
async fn whose(
    bootstrap: &Bootstrap,
    options: &SqlOptions,
    examination: &mut Examination,
) -> anyhow::Result<()> {
    let Some(own) = database::remembered(&bootstrap.data_dir)? else { return Ok(()) };
    let there = match find(options).await {
        Ok(there) => there,
        Err(error) => {
            examination.findings.push(Finding::problem(format!("reading fails: {error}"), ""));
            return Ok(());
        }
    };
    if there.as_ref() != Some(&own) {
        let copy = database::id_file(&bootstrap.data_dir).display().to_string();
        let error = cluster_id::OtherCluster { there, own, copy };
        let remedy = "look at the URL and at registry.store.tables: they may be another registry's";
        examination.findings.push(Finding::problem(error.to_string(), remedy));
    }
    Ok(())
}

async fn find(options: &SqlOptions) -> Result<Option<ClusterId>, StoreError> {
    let key = cluster_id::key("");
    let mut snapshot = Snapshot::open(options).await?;
    // A page starts after the given key, and this shorter key sorts directly before `key`.
    let before = key.get(..key.len() - 1).unwrap_or_default();
    let page = snapshot.page(before, 1).await?;
    let entry = page.first().filter(|entry| *entry.key == *key);
    Ok(entry.and_then(|entry| ClusterId::parse(&entry.value)))
}

#[cfg(test)]
mod tests {
    use super::super::{Severity, assert_found};
    use super::*;

    fn sound() -> ServerReport {
        ServerReport {
            version: "10.11.6-MariaDB".to_owned(),
            is_read_only: false,
            has_several_writers: false,
            is_durable: true,
            clock_ahead_ms: 0,
            packet_bytes_max: Some(PACKET_BYTES_MIN),
            lacks: None,
            tables: Tables::Ours,
        }
    }

    #[test]
    fn each_fault_of_servers_is_found_with_what_helps() {
        let away = || Err(StoreError::Unreachable { place: "x".into(), reason: "refused".into() });
        let unusable = Tables::Unusable("its tables have format 2".into(), "run that version");
        let table = [
            (vec![Ok(sound())], None),
            (vec![away()], Some((Severity::Problem, "cannot be used", ""))),
            (vec![Ok(sound()), away()], Some((Severity::Warning, "cannot be used", ""))),
            (
                vec![Ok(ServerReport { version: "10.5.1-MariaDB".into(), ..sound() })],
                Some((Severity::Problem, "version 10.5.1", "MariaDB 10.6")),
            ),
            (
                vec![Ok(ServerReport { version: "5.7.44".into(), ..sound() })],
                Some((Severity::Problem, "version 5.7.44", "MySQL 8.0")),
            ),
            (
                vec![Ok(ServerReport { is_read_only: true, ..sound() })],
                Some((Severity::Problem, "takes changes", "read_only off")),
            ),
            (vec![Ok(sound()), Ok(ServerReport { is_read_only: true, ..sound() })], None),
            (
                vec![Ok(ServerReport { has_several_writers: true, ..sound() })],
                Some((Severity::Warning, "wsrep_on", "only one server")),
            ),
            (
                vec![Ok(ServerReport { is_durable: false, ..sound() })],
                Some((Severity::Note, "before they are on its disk", "innodb_flush_log")),
            ),
            (
                vec![Ok(ServerReport { packet_bytes_max: Some(1 << 20), ..sound() })],
                Some((Severity::Warning, "1048576 bytes only", "max_allowed_packet")),
            ),
            (
                vec![Ok(ServerReport { lacks: Some("CREATE"), ..sound() })],
                Some((Severity::Problem, "lacks CREATE", "grant it")),
            ),
            (
                vec![Ok(ServerReport { clock_ahead_ms: -600_000, ..sound() })],
                Some((Severity::Note, "-600.0 s", "NTP")),
            ),
            (
                vec![Ok(ServerReport { tables: unusable, ..sound() })],
                Some((Severity::Problem, "format 2", "run that version")),
            ),
        ];
        for (outcomes, expected) in table {
            let outcomes: Vec<_> =
                outcomes.into_iter().map(|outcome| ("a:1".to_owned(), outcome)).collect();
            let mut examination = Examination::default();
            check(Engine::MySql, &outcomes, &mut examination);
            let found = examination.findings;
            assert_found(&found, expected);
        }
    }
}
