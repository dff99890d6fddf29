//! Checks of the etcd that gateways share: the state of each member, the user's right to read and
//! write, free space, and whether the cluster and the keyring are this node's.

use std::collections::BTreeSet;

use tollhouse_config::Bootstrap;
use tollhouse_etcd::{EtcdStore, ExaminedMember, MemberStatus};
use tollhouse_store::{Store, StoreError, Transaction};

use super::version::numbers;
use super::{Examination, Finding};
use crate::feed::cluster_id;
use crate::feed::etcd::{self, copy};
use crate::secrets::shared_keyring;

const REACH: &str = "look whether it runs there, and at store.etcd.endpoints and store.etcd.tls";
const ROOM: &str = "compact and defragment it, then disarm the alarm (etcdctl alarm disarm); until then nothing but \
                    deletions is taken";

/// Database size in bytes that triggers a warning: 80 % of etcd's default quota of 2 GiB.
const DATABASE_BYTES_MAX: u64 = 1_600 * 1024 * 1024;

pub(super) async fn examine(
    bootstrap: &Bootstrap,
    examination: &mut Examination,
) -> anyhow::Result<()> {
    let options = etcd::options(bootstrap)?;
    let members = tollhouse_etcd::examine(&options).await?;
    check_members(&members, examination);
    if members.iter().all(|member| member.outcome.is_err()) {
        return Ok(());
    }
    let store = EtcdStore::open(&options)?;
    let prefix = bootstrap.admin.prefix.trim_end_matches('/');
    if let Err(error) = whose(bootstrap, &store, prefix, examination).await {
        examination.findings.push(refused("reading", &error));
        return Ok(());
    }
    // A write whose condition never holds: etcd checks permission and space but stores nothing.
    let probe = format!("{prefix}/tollhouse/doctor");
    let written = store.commit(Transaction::new().put(&*probe, "{}").when_exists(&*probe)).await;
    match written {
        Ok(_) | Err(StoreError::Conflict { .. }) => {}
        Err(error) if error.is_without_room() => {}
        Err(error) => examination.findings.push(refused("writing", &error)),
    }
    Ok(())
}

/// Returns a finding without a separate remedy, because the error text already contains it.
fn refused(what: &str, error: &StoreError) -> Finding {
    Finding::problem(format!("{what} fails: {error}"), "")
}

fn check_members(members: &[ExaminedMember], examination: &mut Examination) {
    let mut clusters = BTreeSet::new();
    for ExaminedMember { endpoint, outcome } in members {
        match outcome {
            Err(error) => {
                let what = format!("etcd at {endpoint} does not answer: {error}");
                // The other members may still have a quorum; `check_member` reports a member
                // without a leader.
                examination.findings.push(match members.len() {
                    1 => Finding::problem(what, REACH),
                    _ => Finding::warning(what, REACH),
                });
            }
            Ok(status) => {
                clusters.insert(status.cluster_id);
                let MemberStatus { version, database_bytes, .. } = status;
                let mebibytes = database_bytes / (1024 * 1024);
                examination
                    .looked_at
                    .push(format!("etcd at {endpoint}: version {version}, {mebibytes} MiB"));
                check_member(endpoint, status, &mut examination.findings);
            }
        }
    }
    if clusters.len() > 1 {
        let what = format!(
            "store.etcd.endpoints belong to {} clusters, which do not share their data",
            clusters.len()
        );
        let remedy = "name the members of one cluster only";
        examination.findings.push(Finding::problem(what, remedy));
    }
}

fn check_member(endpoint: &str, status: &MemberStatus, found: &mut Vec<Finding>) {
    if status.is_without_leader {
        let what =
            format!("etcd at {endpoint} has no leader: more than half of its members are away");
        found.push(Finding::problem(what, "start the others, or look at what is between them"));
    }
    for alarm in &status.alarms {
        let what = format!("etcd at {endpoint} raises an alarm: {alarm}");
        found.push(match alarm.contains("NOSPACE") {
            true => Finding::problem(what, ROOM),
            false => {
                Finding::problem(what, "look at the log of etcd, and restore it from a snapshot")
            }
        });
    }
    if status.alarms.is_empty() && status.database_bytes > DATABASE_BYTES_MAX {
        let what = format!(
            "the database of etcd at {endpoint} has {} MiB, near etcd's default quota",
            status.database_bytes / (1024 * 1024)
        );
        found.push(Finding::warning(
            what,
            "compact and defragment it, or raise --quota-backend-bytes",
        ));
    }
    let version = numbers(&status.version);
    // Earlier releases lose events after a compaction or show users keys that they may not read.
    let sound = match version {
        [3, 4, _] => Some([3, 4, 38]),
        [3, 5, _] => Some([3, 5, 23]),
        [3, 6, _] => Some([3, 6, 5]),
        _ => None,
    };
    if version < [3, 4, 0] {
        let what = format!("etcd at {endpoint} has version {}", status.version);
        found.push(Finding::problem(what, "3.4 is the oldest that works; upgrade it"));
    } else if let Some(sound) = sound.filter(|sound| version < *sound) {
        let [major, minor, patch] = sound;
        let what = format!(
            "etcd at {endpoint} has version {}, with known faults of watches",
            status.version
        );
        let remedy = format!("upgrade to {major}.{minor}.{patch} or later");
        found.push(Finding::note(what, &remedy));
    }
}

/// Checks that etcd is this node's cluster, is not older than what this node has read, and uses the
/// same keyring.
async fn whose(
    bootstrap: &Bootstrap,
    store: &EtcdStore,
    prefix: &str,
    examination: &mut Examination,
) -> Result<(), StoreError> {
    let there = cluster_id::find(store, prefix).await?;
    let own = copy(bootstrap);
    if let Some(remembered) = own.cluster()
        && there.as_ref() != Some(&remembered)
    {
        let error = cluster_id::OtherCluster {
            there,
            own: remembered,
            copy: own.path().display().to_string(),
        };
        let remedy = "look at store.etcd.endpoints and admin.prefix: they may be another cluster's";
        examination.findings.push(Finding::problem(error.to_string(), remedy));
    }
    let now = store.revision().await?;
    if let Some(newest) = own.newest().filter(|newest| now < *newest) {
        let what = format!(
            "etcd is at revision {now}, and this node has read it up to {newest}: it was put back to an older \
             snapshot, or has lost commits that it had confirmed"
        );
        let remedy = "look at etcd, and repeat what was written since";
        examination.findings.push(Finding::problem(what, remedy));
    }
    if let Err(error) = shared_keyring::look(bootstrap, store).await? {
        let remedy = "set encryption.keyring to that of the other gateways";
        examination.findings.push(Finding::problem(format!("{error:#}"), remedy));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{Severity, assert_found};
    use super::*;

    fn status() -> MemberStatus {
        MemberStatus {
            version: "3.5.30".to_owned(),
            cluster_id: 1,
            is_without_leader: false,
            database_bytes: 1024,
            alarms: Vec::new(),
        }
    }

    fn member(endpoint: &str, status: MemberStatus) -> ExaminedMember {
        ExaminedMember { endpoint: endpoint.to_owned(), outcome: Ok(status) }
    }

    fn away(endpoint: &str) -> ExaminedMember {
        let outcome =
            Err(StoreError::Unreachable { place: "etcd".into(), reason: "refused".into() });
        ExaminedMember { endpoint: endpoint.to_owned(), outcome }
    }

    #[test]
    fn each_fault_of_members_is_found_with_what_helps() {
        let full = MemberStatus { alarms: vec!["alarm:NOSPACE".into()], ..status() };
        let large = MemberStatus { database_bytes: 1 << 31, ..status() };
        let alone = MemberStatus { is_without_leader: true, ..status() };
        let table = [
            (vec![member("a", status())], None),
            (
                vec![away("a")],
                Some((Severity::Problem, "a does not answer", "store.etcd.endpoints")),
            ),
            (
                vec![member("a", status()), away("b")],
                Some((Severity::Warning, "b does not answer", "store.etcd.endpoints")),
            ),
            (
                vec![
                    member("a", status()),
                    member("b", MemberStatus { cluster_id: 2, ..status() }),
                ],
                Some((Severity::Problem, "belong to 2 clusters", "one cluster only")),
            ),
            (vec![member("a", full)], Some((Severity::Problem, "NOSPACE", "alarm disarm"))),
            (
                vec![member("a", large)],
                Some((Severity::Warning, "2048 MiB", "quota-backend-bytes")),
            ),
            (vec![member("a", alone)], Some((Severity::Problem, "no leader", "start the others"))),
            (
                vec![member("a", MemberStatus { version: "3.4.23".into(), ..status() })],
                Some((Severity::Note, "version 3.4.23", "3.4.38 or later")),
            ),
            (
                vec![member("a", MemberStatus { version: "3.3.1".into(), ..status() })],
                Some((Severity::Problem, "version 3.3.1", "3.4 is the oldest")),
            ),
        ];
        for (members, expected) in table {
            let mut examination = Examination::default();
            check_members(&members, &mut examination);
            let found = examination.findings;
            assert_found(&found, expected);
        }
    }
}
