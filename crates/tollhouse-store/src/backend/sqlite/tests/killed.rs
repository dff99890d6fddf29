//! The end of the process, and of its log, at any instant.
//!
//! The test starts itself as a child that writes and says what was acknowledged, and kills it.

use super::*;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use tollhouse_stdx::Random;

/// Tells the child where to write, and what its keys begin with.
const CHILD_VARIABLE: &str = "TOLLHOUSE_STORE_TEST_CHILD";
const CHILD_TEST: &str = "backend::sqlite::tests::killed::child_that_writes_until_it_is_killed";
const ROUNDS: u64 = 100;
const WRITERS: u64 = 8;
/// Acknowledged writes after which the child is killed, at most.
const WRITES_MAX: u32 = 80;

fn value_of(key: &str) -> Vec<u8> {
    key.bytes().cycle().take(300 + key.len() * 17).collect()
}

/// Does nothing unless it is started by the other test.
#[tokio::test]
async fn child_that_writes_until_it_is_killed() {
    let Ok(task) = std::env::var(CHILD_VARIABLE) else {
        return;
    };
    let (prefix, directory) = task.split_once(':').expect("a prefix and a directory");
    // Such a small log is folded into the file all the time, so that some are killed doing so.
    let options = Options { checkpoint_pages: Some(24), ..Options::default() };
    let location = Location::Directory(PathBuf::from(directory));
    let store = open_with(&location, &options).expect("the store opens");
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let (store, prefix) = (Arc::clone(&store), prefix.to_owned());
        writers.spawn(async move {
            for number in 0.. {
                let key = format!("{prefix}/{writer}/{number:06}");
                let put = Transaction::new().put(key.as_str(), value_of(&key));
                let committed = store.commit(put).await.expect("the write is done");
                println!("\nack {} {key}", committed.revision);
            }
        });
    }
    writers.join_next().await;
}

/// Starts the child, kills it after some writes, and returns what it said was acknowledged.
fn acknowledged_until_killed(directory: &Path, prefix: &str, writes: u64) -> BTreeMap<String, u64> {
    let task = format!("{prefix}:{}", directory.display());
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", CHILD_TEST, "--nocapture", "--test-threads=1"])
        .env(CHILD_VARIABLE, task)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut acknowledged = BTreeMap::new();
    let mut note = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        if let ["ack", revision, key] = words[..] {
            // The last line may be cut short; one with all of its key is a promise.
            if let (Ok(revision), true) = (revision.parse(), key.len() == prefix.len() + 9) {
                acknowledged.insert(key.to_owned(), revision);
            }
        }
        u64::try_from(acknowledged.len()).unwrap()
    };
    // Any line will do for the first: some are killed before or while they open the store.
    for line in lines.by_ref() {
        if note(&line) >= writes {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // What was said before the end and not read yet counts as well.
    lines.for_each(|line| {
        note(&line);
    });
    acknowledged
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_when_the_process_is_killed() {
    let directory = temporary();
    let mut random = Random::seeded(0x7011);
    let mut total = 0;
    for round in 0..ROUNDS {
        let prefix = format!("/{round:03}");
        let writes = u64::from(random.below(WRITES_MAX));
        let acknowledged = acknowledged_until_killed(directory.path(), &prefix, writes);
        assert!(u64::try_from(acknowledged.len()).unwrap() >= writes, "the child failed");
        let store = open_in(directory.path()).unwrap();
        let listing = store.list(&prefix).await.unwrap();
        let found: BTreeMap<_, _> =
            listing.entries.iter().map(|entry| (&*entry.key, entry)).collect();
        for (key, revision) in &acknowledged {
            let entry = found.get(key.as_str()).unwrap_or_else(|| panic!("{key} is lost"));
            assert_eq!(entry.mod_revision, Revision(*revision), "{key}");
        }
        // Each writer wrote one after the other: what is there has no gaps.
        let mut next = BTreeMap::new();
        for entry in &listing.entries {
            assert_eq!(entry.value, value_of(&entry.key), "{} is torn", entry.key);
            let (writer, number) = entry.key.rsplit_once('/').unwrap();
            let expected = next.entry(writer.to_owned()).or_insert(0);
            assert_eq!(number.parse(), Ok(*expected), "{writer} has a gap");
            *expected += 1;
        }
        total += found.len();
        assert_eq!(listing.revision, Revision(u64::try_from(total).unwrap()), "a revision each");
    }
    let store = open_in(directory.path()).unwrap();
    assert_eq!(store.list("").await.unwrap().entries.len(), total, "earlier rounds are all there");
}

#[tokio::test]
async fn a_log_cut_anywhere_leaves_a_store_of_whole_commits() {
    let (directory, crashed) = (temporary(), temporary());
    let store = open_in(directory.path()).unwrap();
    for number in 1..=40_u64 {
        let pair = Transaction::new()
            .put(format!("a{number:02}"), vec![1; 700])
            .put(format!("b{number:02}"), vec![2; 700]);
        store.commit(pair).await.unwrap();
    }
    let read = |name: &str| fs::read(directory.path().join(name)).unwrap();
    let (file, log) = (read("store.db"), read("store.db-wal"));
    let mut random = Random::seeded(0x7012);
    for round in 0..60 {
        let length = usize::try_from(random.below(u32::try_from(log.len()).unwrap())).unwrap();
        let place = crashed.path().join(round.to_string());
        fs::create_dir(&place).unwrap();
        fs::write(place.join("store.db"), &file).unwrap();
        fs::write(place.join("store.db-wal"), &log[..length]).unwrap();
        let store = match open_in(&place) {
            Ok(store) => store,
            Err(error) => panic!("cut at {length} of {}: {error}", log.len()),
        };
        let listing = store.list("").await.unwrap();
        let mut expected: Vec<String> = Vec::new();
        for letter in ["a", "b"] {
            expected.extend((1..=listing.revision.0).map(|n| format!("{letter}{n:02}")));
        }
        let keys: Vec<&str> = listing.entries.iter().map(|entry| &*entry.key).collect();
        assert_eq!(keys, expected, "cut at {length}");
        store.commit(Transaction::new().put("again", "v")).await.unwrap();
    }
}
