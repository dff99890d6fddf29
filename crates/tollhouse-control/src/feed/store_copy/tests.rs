//! Copies with their journals, whole and torn.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use tollhouse_store::{Entry, Event, Listing, Location, Transaction};
use tollhouse_telemetry::Metrics;

use super::*;

/// The only number of a journal in tests that write one copy by hand.
const JOURNAL: u64 = 1;

async fn listing() -> Listing {
    let store = tollhouse_store::open(&Location::Memory).expect("memory");
    for (key, value) in [
        ("/apisix/routes/1", "{\"uri\": \"/a\\n\"}"),
        ("/apisix/tollhouse/keyring", "{}"),
        ("/apisix/upstreams/1", "broken\nin two lines"),
    ] {
        store.commit(Transaction::new().put(key, value)).await.expect("memory takes it");
    }
    store.list("/apisix/").await.expect("memory")
}

fn copied(written_at: u64) -> CopyContents {
    let entries = [
        ("/apisix/routes/1", "{\"uri\": \"/a\\n\"}"),
        ("/apisix/upstreams/1", "broken\nin two lines"),
    ];
    let entries = entries.map(|(key, value)| (key.to_owned(), value.to_owned()));
    CopyContents { entries: entries.into(), revision: 3, written_at }
}

fn put(key: &str, value: &str, revision: u64) -> Event {
    Event::Put(Entry {
        key: key.into(),
        value: value.to_owned().into(),
        create_revision: Revision(revision),
        mod_revision: Revision(revision),
        expires_at_ms: None,
    })
}

fn keeper(copy: &StoreCopy) -> CopyKeeper {
    CopyKeeper::new(copy.clone(), Arc::new(Metrics::new()))
}

/// Keys and values that a start would serve.
fn read(copy: &StoreCopy) -> Vec<(String, String)> {
    let copied = copy.read().expect("it is of use").expect("it is there");
    copied.entries.into_iter().collect()
}

fn values(copy: &StoreCopy) -> String {
    let values: Vec<_> = read(copy).into_iter().map(|(_, value)| value).collect();
    values.join(" ")
}

fn journals(folder: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder).expect("a folder").map(|it| it.expect("a file").path());
    let mut journals: Vec<_> =
        files.filter(|path| path.to_string_lossy().contains("journal-")).collect();
    journals.sort();
    journals
}

#[tokio::test]
async fn a_copy_holds_the_configuration_for_this_user_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let copy = StoreCopy::new(folder.path(), "/apisix");
    assert_eq!(copy.read().expect("the folder is readable"), None);
    let mut keeper = keeper(&copy);
    keeper.replace(&listing().await).await;
    keeper.note(&[put("/apisix/tollhouse/tick", "{}", 4)], Revision(4)).await;
    assert_eq!(
        copy.read().expect("it is whole").expect("it is there").entries,
        copied(0).entries,
        "the gateways' own keys are not configuration"
    );
    keeper.note(&[put("/apisix/routes/2", "2", 5)], Revision(5)).await;
    for file in [copy.path().to_owned(), journals(folder.path()).remove(0)] {
        let mode = std::fs::metadata(file).expect("the file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[test]
fn what_is_not_whole_or_of_another_prefix_is_not_used() {
    let folder = tempfile::tempdir().expect("a folder");
    let copy = StoreCopy::new(folder.path(), "/apisix");
    copy.write(&copied(17), JOURNAL).expect("the folder takes it");
    assert_eq!(copy.read().expect("it is whole"), Some(copied(17)));
    let other = StoreCopy::new(folder.path(), "/other");
    assert!(matches!(other.read(), Err(UnusableCopy::Foreign(prefix)) if prefix == "/apisix"));
    let whole = std::fs::read(copy.path()).expect("the file");
    for cut in 0..whole.len() - 1 {
        std::fs::write(copy.path(), &whole[..cut]).expect("the folder takes it");
        assert!(copy.read().is_err(), "{cut} bytes of it");
    }
    for at in 0..whole.len() - 1 {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        std::fs::write(copy.path(), &bytes).expect("the folder takes it");
        assert!(copy.read().is_err(), "byte {at} of it changed");
    }
    let newer = String::from_utf8(whole).expect("text").replace("\"format\":2", "\"format\":3");
    std::fs::write(copy.path(), newer).expect("the folder takes it");
    assert!(matches!(copy.read(), Err(UnusableCopy::Newer(3))));
}

#[test]
fn a_copy_of_the_first_format_is_read_without_a_journal() {
    let folder = tempfile::tempdir().expect("a folder");
    let copy = StoreCopy::new(folder.path(), "/apisix");
    let lines = [
        "{\"format\":1,\"prefix\":\"/apisix\",\"cluster\":null,\"revision\":3,\"written_at\":17,\"entries\":1}",
        "[\"/apisix/routes/1\",\"{}\"]",
    ];
    let mut checksum = Context::new(&SHA256);
    lines.iter().for_each(|line| note_line(&mut checksum, line));
    let text = format!("{}\n{{\"sha256\":\"{}\"}}\n", lines.join("\n"), hex(checksum));
    std::fs::write(copy.path(), text).expect("the folder takes it");
    assert_eq!(read(&copy), [("/apisix/routes/1".to_owned(), "{}".to_owned())]);
    assert_eq!(copy.newest(), Some(Revision(3)));
}

#[test]
fn a_folder_that_cannot_be_written_keeps_the_last_copy() {
    let folder = tempfile::tempdir().expect("a folder");
    let copy = StoreCopy::new(folder.path(), "/apisix");
    copy.write(&copied(17), JOURNAL).expect("the folder takes it");
    std::fs::create_dir(folder.path().join("store-copy.new")).expect("a folder");
    copy.write(&copied(18), JOURNAL).expect_err("something is in the way");
    assert_eq!(copy.read().expect("it is whole").expect("it is there").written_at, 17);
}

#[tokio::test]
async fn a_change_is_in_the_copy_before_it_serves_and_costs_its_own_size() {
    let folder = tempfile::tempdir().expect("a folder");
    let copy = StoreCopy::new(folder.path(), "/apisix");
    let entry = |number: u64| put(&format!("/apisix/routes/{number:04}"), "\"before\"", 1);
    let entries = (0..1_000).map(entry).map(|event| match event {
        Event::Put(entry) => entry,
        Event::Delete { .. } => unreachable!("all are put"),
    });
    let mut keeper = keeper(&copy);
    keeper.replace(&Listing { revision: Revision(1), entries: entries.collect() }).await;
    keeper.note(&[put("/apisix/routes/0000", "\"0\"", 2)], Revision(2)).await;
    let length = |path: &Path| std::fs::metadata(path).expect("it is there").len();
    let whole = length(copy.path());
    let journal = journals(folder.path()).remove(0);
    for revision in 3..103 {
        let before = length(&journal);
        let change = put("/apisix/routes/0001", &revision.to_string(), revision);
        keeper.note(&[change], Revision(revision)).await;
        let grown = length(&journal) - before;
        assert!((1..200).contains(&grown), "{grown} bytes for one change");
        assert_eq!(read(&copy)[1].1, revision.to_string());
    }
    let gone = Event::Delete { key: "/apisix/routes/0002".into(), revision: Revision(103) };
    keeper.note(&[gone], Revision(103)).await;
    assert_eq!((read(&copy).len(), copy.newest()), (999, Some(Revision(103))));
    assert_eq!(length(copy.path()), whole, "the copy itself is not written for a change");
}

#[tokio::test]
async fn a_journal_is_folded_into_the_copy_and_its_bytes_are_bounded() {
    let folder = tempfile::tempdir().expect("a folder");
    let copy = StoreCopy::new(folder.path(), "/apisix");
    let mut keeper = keeper(&copy);
    keeper.replace(&listing().await).await;
    let large = "x".repeat(100_000);
    for revision in 4..104 {
        let key = format!("/apisix/routes/{}", revision % 3);
        let change = put(&key, &format!("{large}{revision}"), revision);
        keeper.note(&[change], Revision(revision)).await;
        // A reader beside a process that folds may meet the old copy without its journal; a start has none beside it.
        keeper.finish_writing().await;
        let read = read(&copy);
        let found = read.iter().find(|entry| entry.0 == key).expect("it is there");
        assert!(found.1.ends_with(&format!("x{revision}")), "{revision}");
        let bytes: u64 = journals(folder.path())
            .iter()
            .filter_map(|path| std::fs::metadata(path).ok())
            .map(|file| file.len())
            .sum();
        assert!(bytes < 3 * 1024 * 1024, "{bytes} bytes after {revision}");
    }
}

#[tokio::test]
async fn a_torn_record_ends_a_journal_and_what_is_of_another_copy_is_not_used() {
    let folder = tempfile::tempdir().expect("a folder");
    let copy = StoreCopy::new(folder.path(), "/apisix");
    let mut first = keeper(&copy);
    first.replace(&Listing { revision: Revision(1), entries: Vec::new() }).await;
    for revision in 2..5 {
        let key = format!("/apisix/routes/{revision}");
        first.note(&[put(&key, &revision.to_string(), revision)], Revision(revision)).await;
    }
    let journal = journals(folder.path()).remove(0);
    let whole = std::fs::read(&journal).expect("the journal");
    let lines: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] == b'\n').collect();
    for cut in 0..whole.len() {
        std::fs::write(&journal, &whole[..cut]).expect("the folder takes it");
        let records = lines.iter().filter(|end| **end < cut).count().saturating_sub(1);
        let expected = ["", "2", "2 3", "2 3 4"][records];
        assert_eq!(values(&copy), expected, "{cut} bytes of it");
    }
    std::fs::write(&journal, &whole).expect("the folder takes it");
    // A process that dies before its copy is written leaves a journal that goes on from nothing there is.
    let number = JOURNAL + 1;
    let record = journal::Record {
        revision: 9,
        at: 9,
        changes: vec![("/apisix/routes/9".to_owned(), Some("9".to_owned()))],
    };
    for (base, expected) in [(journal::Base::Copy, "2 3 4"), (journal::Base::Journal, "2 3 4 9")] {
        let mut next = journal::Journal::begin(&copy, number, base).expect("it is made");
        next.append(&record).expect("the folder takes it");
        assert_eq!(values(&copy), expected, "{base:?}");
    }
    // The next process begins with numbers of its own.
    let mut second = keeper(&copy);
    second.replace(&Listing { revision: Revision(5), entries: Vec::new() }).await;
    second.note(&[put("/apisix/routes/6", "6", 6)], Revision(6)).await;
    assert_eq!((values(&copy), journals(folder.path()).len()), ("6".to_owned(), 1));
}

#[tokio::test]
async fn a_journal_that_cannot_be_written_leaves_the_copy_as_old_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let copy = StoreCopy::new(folder.path(), "/apisix");
    let mut keeper = keeper(&copy);
    keeper.replace(&listing().await).await;
    keeper.note(&[put("/apisix/routes/2", "2", 4)], Revision(4)).await;
    let before = read(&copy);
    std::fs::create_dir(folder.path().join("store-copy.new")).expect("a folder");
    keeper.replace(&Listing { revision: Revision(5), entries: Vec::new() }).await;
    keeper.note(&[put("/apisix/routes/3", "3", 6)], Revision(6)).await;
    keeper.note(&[put("/apisix/routes/4", "4", 7)], Revision(7)).await;
    assert_eq!(read(&copy), before, "no change is kept without those before it");
    std::fs::remove_dir(folder.path().join("store-copy.new")).expect("it is there");
    keeper.replace(&Listing { revision: Revision(8), entries: Vec::new() }).await;
    keeper.note(&[put("/apisix/routes/9", "9", 9)], Revision(9)).await;
    assert_eq!(values(&copy), "9");
}
