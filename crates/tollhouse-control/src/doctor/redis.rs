//! Checks of the Redis that carries heartbeats between registry nodes: reachable, writable, and not
//! evicting or losing data. The Redis servers of rate limits are not checked, because each plugin
//! configures its own.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::{Client, RedisError, RedisResult};
use tollhouse_config::bootstrap::RegistryStore;

use super::version::numbers;
use super::{Examination, Finding};

/// Timeout of all commands to one server together.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Parsed reply of the INFO command: field name to value.
type Info = BTreeMap<String, String>;

const REACH: &str = "look whether it runs there, and at registry.store.redis; until then heartbeats go over the \
                     database";

/// Deployment kind that the configuration implies: one URL is a single server, several URLs are a
/// cluster, and `redis_master` makes the URLs sentinels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Setup {
    Single,
    Sentinels,
    Cluster,
}

pub(super) async fn examine(settings: &RegistryStore, examination: &mut Examination) {
    let Some(urls) = &settings.redis else { return };
    let urls: Vec<&str> = urls.expose().split(',').map(str::trim).collect();
    let setup = match (urls.len(), &settings.redis_master) {
        (_, Some(_)) => Setup::Sentinels,
        (1, None) => Setup::Single,
        (_, None) => Setup::Cluster,
    };
    for url in urls {
        let place = place(url);
        match ask(url, setup, &settings.tables).await {
            Ok((info, written)) => {
                let version = info.get("redis_version").cloned().unwrap_or_default();
                examination.looked_at.push(format!("Redis at {place}: version {version}"));
                check(&place, setup, &info, &mut examination.findings);
                if let Err(error) = written {
                    let reason = error.to_string();
                    let what = format!("Redis at {place} does not take what is written: {reason}");
                    examination.findings.push(Finding::problem(what, remedy(&reason)));
                }
            }
            // Sentinels and cluster members replace each other; a single server has no replacement.
            Err(unanswered) => {
                let reason = unanswered.to_string();
                let what = format!("Redis at {place} does not answer: {reason}");
                examination.findings.push(match setup {
                    Setup::Single => Finding::problem(what, remedy(&reason)),
                    Setup::Sentinels | Setup::Cluster => Finding::warning(what, remedy(&reason)),
                });
            }
        }
    }
}

/// Returns the host and port of a URL, without the credentials.
fn place(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
    rest.split(['/', '?']).next().unwrap_or_default().to_owned()
}

/// Returns the remedy for a Redis error, chosen by the error code in its text.
fn remedy(reason: &str) -> &'static str {
    let table = [
        ("WRONGPASS", "look at the user and the password in registry.store.redis"),
        ("NOAUTH", "give the password: registry.store.redis = redis://user:password@host:6379/0"),
        ("AuthenticationFailed", "look at the user and the password in registry.store.redis"),
        (
            "NOPERM",
            "let its user read and write the keys that begin with registry.store.tables (ACL SETUSER)",
        ),
        ("READONLY", "name its master, or the sentinels with registry.store.redis_master"),
        ("OOM", "raise maxmemory, or give heartbeats their own Redis"),
        (
            "MISCONF",
            "look why it cannot save (its log says so), or set stop-writes-on-bgsave-error no",
        ),
        (
            "MOVED",
            "name all nodes of the cluster in registry.store.redis, with commas between them",
        ),
        ("CLUSTERDOWN", "bring the nodes back that hold the missing slots"),
    ];
    let entry = table.iter().find(|(word, _)| reason.contains(word));
    entry.map_or(REACH, |(_, remedy)| *remedy)
}

/// Reads the server's INFO, and tests a write with a key that expires after one second.
async fn ask(url: &str, setup: Setup, tables: &str) -> Result<(Info, RedisResult<()>), InfoError> {
    let query = async {
        let client = Client::open(url)?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        let text: String =
            redis::cmd("INFO").arg("everything").query_async(&mut connection).await?;
        let mut put = redis::cmd("SET");
        put.arg(format!("{tables}beats:doctor")).arg("1").arg("PX").arg(1_000);
        let written = match setup {
            // A cluster node accepts only keys of its slots, and a sentinel accepts no keys.
            Setup::Cluster | Setup::Sentinels => Ok(()),
            Setup::Single => put.query_async::<()>(&mut connection).await,
        };
        RedisResult::Ok((parse(&text), written))
    };
    let query = tokio::time::timeout(TIMEOUT, query).await;
    query.map_err(|_| InfoError::Late)?.map_err(InfoError::Refused)
}

/// Why a server's INFO could not be read.
#[derive(Debug, thiserror::Error)]
enum InfoError {
    #[error("{0}")]
    Refused(RedisError),
    #[error("no answer within {} s", TIMEOUT.as_secs())]
    Late,
}

fn parse(text: &str) -> Info {
    let lines = text.lines().filter_map(|line| line.trim().split_once(':'));
    lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn check(place: &str, setup: Setup, info: &Info, found: &mut Vec<Finding>) {
    let at = format!("Redis at {place}");
    let text = |name: &str| info.get(name).map(String::as_str).unwrap_or_default();
    let number = |name: &str| text(name).parse::<u64>().unwrap_or_default();
    let version = text("redis_version");
    if !version.is_empty() && numbers(version) < [5, 0, 0] {
        let what = format!("{at} has version {version}, which has no streams");
        found.push(Finding::problem(what, "upgrade it: 5.0 is the oldest that works"));
    }
    let mode = text("redis_mode");
    let expected = match setup {
        Setup::Single => "standalone",
        Setup::Sentinels => "sentinel",
        Setup::Cluster => "cluster",
    };
    if !mode.is_empty() && mode != expected {
        let what = format!("{at} is of kind {mode}, and is configured as {expected}");
        let remedy = "one URL is a server by itself, several are a cluster, and with registry.store.redis_master they \
                      are sentinels";
        found.push(Finding::problem(what, remedy));
    }
    // A sentinel holds no data, so that the following checks do not apply.
    if setup == Setup::Sentinels {
        return;
    }
    if text("loading") == "1" {
        found.push(Finding::warning(format!("{at} is loading its data"), "wait until it has"));
    }
    if setup == Setup::Single && text("role") == "slave" {
        let what = format!("{at} is a replica: it takes no heartbeats");
        found.push(Finding::problem(what, remedy("READONLY")));
    }
    let (policy, max) = (text("maxmemory_policy"), number("maxmemory"));
    if max > 0 && policy != "noeviction" {
        let what = format!(
            "{at} may throw heartbeats away when its memory is full (maxmemory-policy {policy})"
        );
        found.push(Finding::warning(
            what,
            "set maxmemory-policy noeviction: heartbeats expire by themselves",
        ));
    }
    if max > 0 && number("used_memory") > max / 10 * 9 {
        found.push(Finding::warning(format!("the memory of {at} is nearly full"), remedy("OOM")));
    }
    if text("rdb_last_bgsave_status") == "err" {
        let what = format!("{at} could not save its data, and may refuse what is written");
        found.push(Finding::warning(what, remedy("MISCONF")));
    }
    if text("aof_enabled") == "0" && number("rdb_last_save_time") > 0 {
        let what = format!("{at} keeps heartbeats only in memory: a restart loses them");
        let remedy = "harmless: nodes go on over the database, and no instance expires";
        found.push(Finding::note(what, remedy));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Severity, assert_found};
    use super::*;

    #[test]
    fn each_fault_is_found_with_what_helps() {
        let sound = "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nrole:master\r\n";
        let table = [
            (Setup::Single, sound.to_owned(), None),
            (
                Setup::Single,
                sound.replace("7.0.15", "4.0.1"),
                Some((Severity::Problem, "version 4.0.1", "5.0 is the oldest")),
            ),
            (
                Setup::Single,
                sound.replace("standalone", "cluster"),
                Some((Severity::Problem, "is of kind cluster", "several are a cluster")),
            ),
            (
                Setup::Sentinels,
                sound.to_owned(),
                Some((Severity::Problem, "configured as sentinel", "redis_master")),
            ),
            (
                Setup::Single,
                sound.replace("master", "slave"),
                Some((Severity::Problem, "is a replica", "name its master")),
            ),
            (
                Setup::Single,
                format!("{sound}maxmemory:1000\nmaxmemory_policy:allkeys-lru\nused_memory:10"),
                Some((Severity::Warning, "allkeys-lru", "noeviction")),
            ),
            (
                Setup::Single,
                format!("{sound}maxmemory:1000\nmaxmemory_policy:noeviction\nused_memory:950"),
                Some((Severity::Warning, "nearly full", "raise maxmemory")),
            ),
            (
                Setup::Single,
                format!("{sound}rdb_last_bgsave_status:err"),
                Some((Severity::Warning, "could not save", "stop-writes-on-bgsave-error")),
            ),
            (
                Setup::Single,
                format!("{sound}aof_enabled:0\nrdb_last_save_time:1700000000"),
                Some((Severity::Note, "in memory", "no instance expires")),
            ),
        ];
        for (setup, text, expected) in table {
            let mut findings = Vec::new();
            check("a:1", setup, &parse(&text), &mut findings);
            assert_found(&findings, expected);
        }
    }

    #[test]
    fn places_have_no_password_and_refusals_have_a_remedy() {
        assert_eq!(place("redis://me:secret@host:6379/0"), "host:6379");
        assert_eq!(place("host:6379"), "host:6379");
        assert!(remedy("WRONGPASS invalid username-password pair").contains("password"));
        assert_eq!(remedy("connection refused"), REACH);
    }
}
