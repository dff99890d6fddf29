//! Files that must be refused, and left byte for byte as they were.

use super::*;
use rusqlite::Connection;
use std::collections::BTreeMap;

/// The bytes of all files of a directory, but of the lock and the shared memory, which say nothing. An
/// empty log says nothing either; SQLite makes one when it looks.
fn contents(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let named = files.map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        (name, fs::read(entry.path()).unwrap())
    });
    let speaks = |(name, content): &(String, Vec<u8>)| {
        !content.is_empty() && !name.ends_with("-shm") && name != "store.lock"
    };
    named.filter(speaks).collect()
}

/// A directory with a closed store of some pages.
async fn filled() -> TempDir {
    let directory = temporary();
    let store = open_in(directory.path()).unwrap();
    let puts = (0..300).fold(Transaction::new(), |transaction, number| {
        transaction.put(format!("/apisix/routes/{number:03}"), vec![b'x'; 500])
    });
    store.commit(puts).await.unwrap();
    drop(store);
    directory
}

fn overwrite(file: &Path, at: usize, bytes: &[u8]) {
    let mut content = fs::read(file).unwrap();
    content[at..at + bytes.len()].copy_from_slice(bytes);
    fs::write(file, content).unwrap();
}

#[tokio::test]
async fn a_damaged_file_is_refused_and_left_alone() {
    const PAGE: usize = 4096;
    type Damage = fn(&Path);
    let cases: [(&str, Damage); 8] = [
        ("text instead of a store", |file| fs::write(file, "not a store\n".repeat(1000)).unwrap()),
        ("no magic at its beginning", |file| overwrite(file, 0, b"garbage!")),
        ("no sense in its header", |file| overwrite(file, 16, &[0xFF; 8])),
        ("an overwritten first table", |file| overwrite(file, 100, &[0x5A; 300])),
        ("an overwritten page in its middle", |file| overwrite(file, 6 * PAGE, &[0xA5; PAGE])),
        ("its second half missing", |file| {
            let content = fs::read(file).unwrap();
            fs::write(file, &content[..content.len() / 2 / PAGE * PAGE]).unwrap();
        }),
        ("a few bytes left", |file| fs::write(file, "SQLite").unwrap()),
        ("nothing left but its log", |file| {
            fs::write(file, "").unwrap();
            fs::write(file.with_extension("db-wal"), [1; 5000]).unwrap();
        }),
    ];
    for (what, damage) in cases {
        let directory = filled().await;
        let file = directory.path().join("store.db");
        damage(&file);
        let before = contents(directory.path());
        let error = error_in(directory.path());
        assert!(matches!(error, StoreError::Corrupt { .. }), "{what}: {error:?}");
        let text = error.to_string();
        assert!(text.contains("store.db is damaged"), "{what}: {text}");
        assert!(text.contains("put a backup in its place"), "{what}: {text}");
        assert!(contents(directory.path()) == before, "{what}: changed by looking at it");
    }
}

#[tokio::test]
async fn a_newer_format_is_refused_and_left_alone() {
    let directory = filled().await;
    let file = directory.path().join("store.db");
    Connection::open(&file).unwrap().pragma_update(None, "user_version", 7).unwrap();
    let before = contents(directory.path());
    let expected = StoreError::NewerVersion { path: file, found: 7, supported: 2 };
    assert_eq!(error_in(directory.path()), expected);
    assert!(contents(directory.path()) == before);
    assert!(expected.to_string().contains("written by a newer version"));
}

#[tokio::test]
async fn a_file_of_the_first_format_is_read_and_marked_with_the_first_change() {
    let directory = filled().await;
    let file = directory.path().join("store.db");
    Connection::open(&file).unwrap().pragma_update(None, "user_version", 1).unwrap();
    let format = || -> u32 {
        let connection = Connection::open(&file).unwrap();
        connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
    };
    let store = open_in(directory.path()).unwrap();
    let listing = store.list("").await.unwrap();
    assert_eq!(listing.entries.len(), 300);
    store.commit(Transaction::new().delete("none")).await.unwrap();
    drop(store);
    assert_eq!(format(), 1, "the version that wrote it can go on with it");
    let store = open_in(directory.path()).unwrap();
    store.commit(Transaction::new().put("k", "v")).await.unwrap();
    assert_eq!(format(), 2, "a version that reads format 1 only refuses it");
    drop(store);
    let store = open_in(directory.path()).unwrap();
    assert_eq!(store.list("").await.unwrap().entries.len(), 301);
}

#[tokio::test]
async fn a_head_of_random_bytes_is_damage_and_no_newer_version() {
    for (what, range) in [("all but our mark", 0..68), ("the version alone", 60..64)] {
        let directory = filled().await;
        let file = directory.path().join("store.db");
        let mut bytes = fs::read(&file).unwrap();
        bytes[range].fill(0x2E);
        fs::write(&file, &bytes).unwrap();
        let error = error_in(directory.path());
        assert!(matches!(error, StoreError::Corrupt { .. }), "{what}: {error}");
        assert!(fs::read(&file).unwrap() == bytes, "{what}: changed by looking at it");
    }
}

#[tokio::test]
async fn a_newer_format_that_is_still_in_the_log_is_left_there() {
    let (directory, crashed) = (filled().await, temporary());
    let connection = Connection::open(directory.path().join("store.db")).unwrap();
    connection.pragma_update(None, "user_version", 7).unwrap();
    for name in ["store.db", "store.db-wal"] {
        fs::copy(directory.path().join(name), crashed.path().join(name)).unwrap();
    }
    let before = contents(crashed.path());
    assert!(before["store.db-wal"].len() > 4096, "the new format is in the log");
    let error = error_in(crashed.path());
    assert!(matches!(error, StoreError::NewerVersion { found: 7, .. }), "{error}");
    assert!(contents(crashed.path()) == before);
}

#[tokio::test]
async fn the_file_of_another_program_is_refused_and_left_alone() {
    let directory = temporary();
    let file = directory.path().join("store.db");
    let connection = Connection::open(&file).unwrap();
    connection.execute_batch("CREATE TABLE notes (text TEXT); PRAGMA user_version = 9;").unwrap();
    connection.close().unwrap();
    let before = contents(directory.path());
    assert_eq!(error_in(directory.path()), StoreError::Foreign { path: file });
    assert!(contents(directory.path()) == before);
}

#[tokio::test]
async fn damage_that_is_met_later_is_reported_by_the_read() {
    let directory = filled().await;
    let store = open_in(directory.path()).unwrap();
    // Another program of the same machine takes a table away.
    let connection = Connection::open(directory.path().join("store.db")).unwrap();
    connection.execute_batch("DROP TABLE entries").unwrap();
    let error = store.list("").await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    let error = store.commit(Transaction::new().put("k", "v")).await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
}
