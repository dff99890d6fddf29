//! Against real databases: the suite of all stores, and what only engines outside of this process can do.

use crate::connection::Connection;
use crate::dialect::{Dialect, Purpose};
use crate::failure::Failure;
use crate::follower::FollowerState;
use crate::limits::BODY_BYTES_MAX;
use crate::options::{Engine, SqlOptions, SqlServer};
use crate::packets::log_row;
use crate::store::SqlStore;
use crate::writer::Writer;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tollhouse_stdx::Random;
use tollhouse_store::conformance::{self, Subject};
use tollhouse_store::engine::History;
use tollhouse_store::{
    BoxFuture, ErrorKind, HistoryExtent, Lost, Revision, Store, StoreError, Transaction, Watch,
    WatchEvent,
};
use tollhouse_testkit::{ClosedPort, Database};

/// A database, and how it is reached.
struct Server {
    database: Database,
    engine: Engine,
}

impl Server {
    /// Those that are installed here.
    fn all() -> Vec<Self> {
        let mariadb = Database::mariadb().map(|it| Self { database: it, engine: Engine::MySql });
        let postgres =
            Database::postgres().map(|it| Self { database: it, engine: Engine::PostgreSql });
        mariadb.into_iter().chain(postgres).collect()
    }

    fn options(&self, tables: &str) -> SqlOptions {
        let address = self.database.address();
        SqlOptions {
            engine: self.engine,
            servers: vec![SqlServer { host: address.ip().to_string(), port: address.port() }],
            database: "tollhouse".to_owned(),
            user: "tollhouse".to_owned(),
            password: String::new(),
            tls: None,
            tables: tables.to_owned(),
            timeout: Duration::from_secs(3),
        }
    }

    async fn open(&self, tables: &str) -> Arc<SqlStore> {
        let store = SqlStore::open(&self.options(tables)).await;
        Arc::new(store.unwrap_or_else(|error| panic!("{error}")))
    }

    /// Runs statements beside the store.
    async fn run(&self, tables: &str, sql: &str) {
        self.try_run(tables, sql).await.unwrap_or_else(|failure| panic!("{failure:?}"));
    }

    async fn try_run(&self, tables: &str, sql: &str) -> Result<(), Failure> {
        let (options, dialect) = (self.options(tables), self.dialect(tables));
        let mut connection = Connection::open(&options, &dialect, Purpose::Writing).await?;
        connection.run(sql.to_owned()).await.map(|_| ())
    }

    fn dialect(&self, tables: &str) -> Dialect {
        Dialect { engine: self.engine, tables: tables.into() }
    }

    /// A writer that nobody asks for anything.
    fn writer(&self, tables: &str) -> Writer {
        let history = History::new(Revision::ZERO, HistoryExtent::Nothing);
        Writer {
            options: self.options(tables),
            dialect: self.dialect(tables),
            connection: None,
            following: FollowerState::new(Arc::new(history)),
            random: Random::seeded(1),
        }
    }
}

/// A part of a database that has the appearance of a whole one.
struct Shared {
    store: Arc<dyn Store>,
    inner: Arc<SqlStore>,
}

impl Subject for Shared {
    fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    fn pass(&self, _: Duration) -> BoxFuture<'_, ()> {
        unreachable!("nobody moves the time of a database")
    }

    fn compact(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let history = &self.inner.following().history;
            history.restart(history.newest());
        })
    }
}

/// More than the suite has cases.
const STORES: usize = 32;

async fn conforms(server: &Server) {
    // Each in tables of its own.
    let mut stores = Vec::new();
    for number in 0..STORES {
        stores.push(server.open(&format!("t{number}_")).await);
    }
    let stores = Mutex::new(stores);
    let open = || -> Box<dyn Subject> {
        let inner = stores.lock().expect("nobody has panicked").pop().expect("there are enough");
        Box::new(Shared { store: Arc::<SqlStore>::clone(&inner), inner })
    };
    conformance::run_shared(&open).await;
}

#[tokio::test]
async fn mariadb_conforms() {
    let Some(database) = Database::mariadb() else { return };
    conforms(&Server { database, engine: Engine::MySql }).await;
}

#[tokio::test]
async fn postgres_conforms() {
    let Some(database) = Database::postgres() else { return };
    conforms(&Server { database, engine: Engine::PostgreSql }).await;
}

async fn put(store: &SqlStore, key: &str, value: &str) -> Revision {
    let put = Transaction::new().put(key, value.to_owned());
    store.commit(put).await.unwrap_or_else(|error| panic!("{error}")).revision
}

async fn next_key(watch: &mut Watch) -> String {
    loop {
        match watch.next().await {
            WatchEvent::Commit(changes) => return changes.events[0].key().to_owned(),
            WatchEvent::Progress(_) => {}
            WatchEvent::Lost(lost) => panic!("{lost}"),
        }
    }
}

async fn end(watch: &mut Watch) -> Lost {
    loop {
        if let WatchEvent::Lost(lost) = watch.next().await {
            return lost;
        }
    }
}

#[tokio::test]
async fn nodes_that_start_at_once_make_one_database() {
    for server in Server::all() {
        let (one, two, three) =
            tokio::join!(server.open("t_"), server.open("t_"), server.open("t_"));
        let revision = put(&one, "k", "v").await;
        for store in [&two, &three] {
            let entry = store.get("k").await.expect("it reads").expect("it is there");
            assert_eq!(entry.mod_revision, revision);
        }
    }
}

#[tokio::test]
async fn a_watch_goes_on_over_a_crash_and_misses_nothing() {
    for mut server in Server::all() {
        let (store, other) = (server.open("t_").await, server.open("t_").await);
        let first = put(&store, "/a/1", "v").await;
        let mut watch = store.watch("/a/", first);
        put(&other, "/a/2", "v").await;
        assert_eq!(next_key(&mut watch).await, "/a/2");
        let mut outages = store.outages();
        server.database.kill();
        outages.wait_for(Option::is_some).await.expect("it is noticed");
        let refused = store.list("/a/").await.expect_err("nobody answers");
        assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
        let refused = store.commit(Transaction::new().put("/a/x", "v")).await.expect_err("nobody");
        assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
        server.database.run();
        put(&other, "/a/3", "v").await;
        assert_eq!(next_key(&mut watch).await, "/a/3");
        outages.wait_for(Option::is_none).await.expect("it is noticed");
        let keys: Vec<_> = store.list("/a/").await.expect("it reads").entries;
        assert_eq!(keys.len(), 3, "what was acknowledged is there, and nothing else");
    }
}

#[tokio::test]
async fn no_increment_of_two_nodes_is_lost() {
    const EACH: u64 = 25;
    for server in Server::all() {
        let (one, two) = (server.open("t_").await, server.open("t_").await);
        put(&one, "count", "0").await;
        let increments = |store: Arc<SqlStore>| async move {
            let mut done = 0;
            while done < EACH {
                let entry = store.get("count").await.expect("it reads").expect("it is there");
                let count: u64 = String::from_utf8_lossy(&entry.value).parse().expect("a number");
                let write = Transaction::new()
                    .put("count", (count + 1).to_string())
                    .when_modified_at("count", entry.mod_revision);
                match store.commit(write).await {
                    Ok(_) => done += 1,
                    Err(StoreError::Conflict { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        };
        tokio::join!(increments(Arc::clone(&one)), increments(Arc::clone(&two)));
        let entry = two.get("count").await.expect("it reads").expect("it is there");
        assert_eq!(entry.value, (2 * EACH).to_string());
    }
}

/// Errors with which an engine gives a transaction up in favour of another: deadlock, a lock that was waited for too
/// long, serialization.
fn given_up(engine: Engine) -> &'static [&'static str] {
    match engine {
        Engine::MySql => &["1213", "1205"],
        Engine::PostgreSql => &["40P01", "55P03", "40001"],
    }
}

/// Has the engine refuse the next two commits with an error. What is left is counted where no transaction takes it
/// back.
fn refuse_twice(engine: Engine, error: &str) -> String {
    match engine {
        Engine::MySql => format!(
            "CREATE OR REPLACE TABLE refusals ENGINE = MyISAM AS SELECT 2 AS n; CREATE OR REPLACE TRIGGER refuses \
             BEFORE INSERT ON t_commits FOR EACH ROW BEGIN IF (SELECT n FROM refusals) > 0 THEN UPDATE refusals \
             SET n = n - 1; SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = {error}, MESSAGE_TEXT = 'injected'; END IF; \
             END"
        ),
        Engine::PostgreSql => format!(
            "DROP SEQUENCE IF EXISTS refusals; CREATE SEQUENCE refusals; CREATE OR REPLACE FUNCTION refuse() RETURNS \
             trigger LANGUAGE plpgsql AS $$ BEGIN IF nextval('refusals') <= 2 THEN RAISE EXCEPTION 'injected' \
             USING ERRCODE = '{error}'; END IF; RETURN NEW; END $$; CREATE OR REPLACE TRIGGER refuses BEFORE INSERT \
             ON t_commits FOR EACH ROW EXECUTE FUNCTION refuse()"
        ),
    }
}

#[tokio::test]
async fn what_an_engine_gives_up_is_done_again_and_once() {
    for server in Server::all() {
        let store = server.open("t_").await;
        put(&store, "count", "0").await;
        let mut count = 0;
        for error in given_up(server.engine) {
            server.run("t_", &refuse_twice(server.engine, error)).await;
            let entry = store.get("count").await.expect("it reads").expect("it is there");
            count += 1;
            let write = Transaction::new()
                .put("count", count.to_string())
                .when_modified_at("count", entry.mod_revision);
            let written = store.commit(write).await.unwrap_or_else(|it| panic!("{error}: {it}"));
            assert_eq!(written.revision.0, entry.mod_revision.0 + 1, "{error}: none is left out");
            let is_refused = match server.engine {
                Engine::MySql => "SELECT 1 / (n = 0) FROM refusals",
                Engine::PostgreSql => "SELECT 1 / (last_value = 3)::int FROM refusals",
            };
            let mode = match server.engine {
                Engine::MySql => "SET sql_mode = 'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO'; ",
                Engine::PostgreSql => "",
            };
            server.run("t_", &format!("{mode}{is_refused}")).await;
        }
        let entry = store.get("count").await.expect("it reads").expect("it is there");
        assert_eq!(entry.value, count.to_string());
    }
}

#[tokio::test]
async fn a_commit_that_nobody_confirmed_was_made_or_never_will_be() {
    for server in Server::all() {
        let _store = server.open("t_").await;
        let mut writer = server.writer("t_");
        let dialect = server.dialect("t_");
        let (made, late) = ([1; 16], [2; 16]);
        let log = |revision, id| log_row(&dialect, revision, Revision(1), id, b"\x01");
        server.run("t_", &log(1, &made)).await;
        assert_eq!(writer.try_claim(&made).await, Ok(true));
        assert_eq!(writer.try_claim(&late).await, Ok(false));
        assert_eq!(writer.try_claim(&late).await, Ok(false), "a claim is no commit");
        let refused = server.try_run("t_", &log(2, &late)).await;
        assert!(matches!(refused, Err(Failure::Duplicate(_))), "{refused:?}");
    }
}

#[tokio::test]
async fn commits_that_the_engine_has_lost_are_noticed() {
    for server in Server::all() {
        let store = server.open("t_").await;
        let first = put(&store, "k", "1").await;
        let second = put(&store, "k", "2").await;
        let mut watch = store.watch("", second);
        // As a standby has it that was promoted too early.
        let undo = format!(
            "DELETE FROM t_commits WHERE last_rev = {second}; UPDATE t_counter SET rev = {first} WHERE \
             id = 1"
        );
        server.run("t_", &undo).await;
        assert!(matches!(end(&mut watch).await, Lost::Compacted { .. }));
        assert_eq!(store.revision().await, Ok(first));
        let mut watch = store.watch("", first);
        assert_eq!(put(&store, "other", "v").await, second, "the number comes again");
        assert_eq!(next_key(&mut watch).await, "other");
    }
}

#[tokio::test]
async fn who_is_behind_the_log_lists_again() {
    for server in Server::all() {
        let store = server.open("t_").await;
        let first = put(&store, "k", "1").await;
        let mut watch = store.watch("", first);
        // All at once, so that it is not read in between.
        let jump = format!(
            "START TRANSACTION; DELETE FROM t_commits; INSERT INTO t_commits (last_rev, first_rev, id, \
             body) VALUES ({0}, {0}, 'x', ''); UPDATE t_counter SET rev = {0} WHERE id = 1; COMMIT",
            first.0 + 9
        );
        server.run("t_", &jump).await;
        assert!(matches!(end(&mut watch).await, Lost::Compacted { .. }));
        let revision = store.list("").await.expect("it reads").revision;
        assert_eq!(revision.0, first.0 + 9);
        let mut watch = store.watch("", revision);
        put(&store, "l", "1").await;
        assert_eq!(next_key(&mut watch).await, "l");
    }
}

#[tokio::test]
async fn what_is_left_unrenewed_ends_for_all_nodes() {
    for server in Server::all() {
        let (holder, other) = (server.open("t_").await, server.open("t_").await);
        let lease = holder.grant(Duration::from_millis(1)).await.expect("there is room");
        let mut watch = other.watch("", Revision::ZERO);
        let put = Transaction::new().put_under(lease, "member", "v").while_held(lease);
        holder.commit(put).await.expect("it is held");
        for _ in ["it is put", "it ends"] {
            assert_eq!(next_key(&mut watch).await, "member");
        }
        assert_eq!(holder.keep_alive(lease).await, Err(StoreError::Fenced { lease }));
        assert_eq!(other.get("member").await, Ok(None));
    }
}

#[tokio::test]
async fn tables_of_others_are_refused_and_left_alone() {
    for server in Server::all() {
        server.open("here_").await;
        let cases = [
            ("CREATE TABLE f1_objects (name INT)", "f1_", "is not of this program"),
            ("CREATE TABLE f2_meta (name INT)", "f2_", "is not of this program"),
            (
                "CREATE TABLE f3_meta (id SMALLINT, format BIGINT); INSERT INTO f3_meta VALUES (1, 99)",
                "f3_",
                "of a newer version",
            ),
        ];
        for (sql, tables, expected) in cases {
            server.run("here_", sql).await;
            let error = SqlStore::open(&server.options(tables)).await.err();
            let text = error.expect("it is refused").to_string();
            assert!(text.contains(expected) && text.contains("nothing was written"), "{text}");
            let made = server.try_run("here_", &format!("SELECT 1 FROM {tables}counter")).await;
            assert!(made.is_err(), "a table was made");
        }
        let error = SqlStore::open(&server.options("x'; DROP")).await.err();
        assert!(error.is_some_and(|it| it.to_string().contains("cannot begin the name")));
    }
}

#[tokio::test]
async fn a_node_that_meets_a_newer_format_writes_nothing_more_and_says_what_helps() {
    for server in Server::all() {
        let store = server.open("newer_").await;
        let lease = store.grant(Duration::from_secs(60)).await.expect("it is known");
        store.commit(Transaction::new().put("k", "before")).await.expect("it is known");
        server.run("newer_", "UPDATE newer_meta SET format = format + 1").await;
        let refused = [
            store.commit(Transaction::new().put("k", "after")).await.err(),
            store.keep_alive(lease).await.err(),
            store.revoke(lease).await.err(),
            store.grant(Duration::from_secs(60)).await.err(),
        ];
        for error in refused {
            let text = error.expect("a newer version writes here").to_string();
            assert!(text.contains("of a newer version") && text.contains("run that"), "{text}");
        }
        let read = store.get("k").await.expect("it can be read").expect("it is there");
        assert_eq!(read.value, "before");
        server.run("newer_", "UPDATE newer_meta SET format = format - 1").await;
        store.commit(Transaction::new().put("k", "again")).await.expect("it is known again");
        store.keep_alive(lease).await.expect("nobody ended it");
    }
}

#[tokio::test]
async fn a_standby_is_passed_over() {
    for server in Server::all() {
        let mut options = server.options("t_");
        let closed = ClosedPort::new();
        let address = closed.address();
        options
            .servers
            .insert(0, SqlServer { host: address.ip().to_string(), port: address.port() });
        let store = SqlStore::open(&options).await.unwrap_or_else(|error| panic!("{error}"));
        put(&store, "k", "v").await;
        if server.engine == Engine::MySql {
            server.run("t_", "SET GLOBAL read_only = 1").await;
            let error = SqlStore::open(&options).await.err().expect("it takes no changes");
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        }
    }
}

#[tokio::test]
async fn a_database_without_room_takes_deletions_and_goes_on_once_it_has_some() {
    let mariadb = Database::cramped_mariadb().map(|it| (it, Engine::MySql));
    let postgres = Database::cramped_postgres().map(|it| (it, Engine::PostgreSql));
    for (database, engine) in mariadb.into_iter().chain(postgres) {
        let server = Server { database, engine };
        let store = server.open("t_").await;
        // A log as it is after hours.
        for _ in 0..200 {
            put(&store, "/large", &"v".repeat(64 * 1024)).await;
        }
        if engine == Engine::PostgreSql {
            // As it does by itself once a minute.
            server.run("t_", "VACUUM t_commits").await;
        }
        let lease = store.grant(Duration::from_secs(60)).await.expect("there is room");
        let mut watch = store.watch("/kept/", store.revision().await.expect("it reads"));
        conformance::removals_are_taken(&*store, || server.database.fill()).await;
        for number in (0..conformance::REMOVALS).chain(0..conformance::REMOVALS) {
            assert_eq!(next_key(&mut watch).await, format!("/kept/{number}"), "{engine:?}");
        }
        store.keep_alive(lease).await.unwrap_or_else(|it| panic!("{engine:?}: {it}"));
        server.database.make_room();
        put(&store, "/later", "v").await;
    }
}

#[tokio::test]
async fn a_primary_that_takes_no_changes_any_more_refuses_them_and_goes_on_once_it_does() {
    for server in Server::all() {
        let store = server.open("t_").await;
        let first = put(&store, "k", "1").await;
        let (refuse, error) = match server.engine {
            Engine::MySql => (
                "CREATE TRIGGER refuses BEFORE INSERT ON t_commits FOR EACH ROW SIGNAL SQLSTATE 'HY000' SET \
                 MYSQL_ERRNO = 1290, MESSAGE_TEXT = 'injected'",
                "1290",
            ),
            Engine::PostgreSql => (
                "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION \
                 'injected' USING ERRCODE = '25006'; END $$; CREATE TRIGGER refuses BEFORE INSERT ON \
                 t_commits FOR EACH ROW EXECUTE FUNCTION refuse()",
                "25006",
            ),
        };
        server.run("t_", refuse).await;
        let refused = store.commit(Transaction::new().put("k", "2")).await.expect_err("read-only");
        assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
        assert!(refused.to_string().contains(error), "{refused}");
        let entry = store.get("k").await.expect("it reads").expect("it is there");
        assert_eq!((entry.value, entry.mod_revision), ("1".into(), first));
        let end = match server.engine {
            Engine::MySql => "DROP TRIGGER refuses",
            Engine::PostgreSql => "DROP TRIGGER refuses ON t_commits",
        };
        server.run("t_", end).await;
        assert_eq!(put(&store, "k", "3").await, first.next(), "nothing was done meanwhile");
    }
}

/// How long a process that stands still with the lock may hold others up: what the engine lets its transaction rest,
/// and as much again on a busy machine.
const HELD_UP_MAX: Duration = Duration::from_secs(2 * crate::limits::RESTING_TRANSACTION_SECONDS);

#[tokio::test]
async fn a_writer_that_stands_still_holds_the_others_up_for_seconds_at_most() {
    for server in Server::all() {
        let store = server.open("t_").await;
        put(&store, "k", "1").await;
        let (options, dialect) = (server.options("t_"), server.dialect("t_"));
        let open = || Connection::open(&options, &dialect, Purpose::Writing);
        // With nothing begun it holds nobody up.
        let idle = open().await.expect("it connects");
        put(&store, "k", "2").await;
        let mut standing = open().await.expect("it connects");
        let lock = "START TRANSACTION; SELECT rev FROM t_counter WHERE id = 1 FOR UPDATE";
        standing.run(lock.to_owned()).await.expect("it is locked");
        let began = std::time::Instant::now();
        // Refused while the lock is held, or done once the engine has ended it: in time either way.
        let mut tries = 0;
        while let Err(error) = store.commit(Transaction::new().put("k", "3")).await {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            tries += 1;
            assert!(tries < 5, "{error}");
        }
        let held_up = began.elapsed();
        assert!(held_up < HELD_UP_MAX, "{:?}: {held_up:?}", server.engine);
        let late = standing.run("UPDATE t_counter SET rev = rev + 1; COMMIT".to_owned()).await;
        assert!(late.is_err(), "{:?} has ended it", server.engine);
        drop(idle);
    }
}

#[tokio::test]
async fn a_prefix_too_large_for_the_log_has_watchers_list_again() {
    let Some(database) = Database::mariadb() else { return };
    let server = Server { database, engine: Engine::MySql };
    let store = server.open("t_").await;
    // Keys of the longest kind; more of them than a row of the log takes.
    let long = "k".repeat(store.limits().key_bytes_max - 10);
    let count = BODY_BYTES_MAX / long.len() + 2;
    for keys in (0..count).collect::<Vec<_>>().chunks(1_500) {
        let all = keys
            .iter()
            .fold(Transaction::new(), |all, number| all.put(format!("/{number:08}{long}"), "v"));
        store.commit(all).await.unwrap_or_else(|error| panic!("{error}"));
    }
    let mut watch = store.watch("", store.revision().await.expect("it reads"));
    let removed = store.commit(Transaction::new().delete_prefix("/")).await.expect("it is done");
    assert_eq!(removed.removed, count);
    assert!(matches!(end(&mut watch).await, Lost::Compacted { .. }));
    assert!(store.list("").await.expect("it reads").entries.is_empty());
}

#[tokio::test]
async fn a_database_that_answers_nothing_is_given_up_in_time() {
    let Some(database) = Database::mariadb() else { return };
    let server = Server { database, engine: Engine::MySql };
    let options = SqlOptions { timeout: Duration::from_millis(200), ..server.options("t_") };
    let store = SqlStore::open(&options).await.unwrap_or_else(|error| panic!("{error}"));
    put(&store, "k", "v").await;
    server.database.pause();
    let error = store.commit(Transaction::new().put("k", "w")).await.expect_err("it is asleep");
    // Which of the two depends on the step at which it fell asleep.
    assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Unknown), "{error}");
    assert_eq!(store.get("k").await.expect_err("it is asleep").kind(), ErrorKind::Unavailable);
    server.database.wake();
    let mut outages = store.outages();
    outages.wait_for(Option::is_none).await.expect("it is noticed");
    put(&store, "k", "w").await;
}
