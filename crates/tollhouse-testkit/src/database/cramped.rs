//! Databases on a file system of their own, which can be filled. It is seen by the database's own processes alone, and
//! goes with them: such a database is not started again.

use std::path::PathBuf;
use std::process::Command;

use super::{Database, Kind, postgres_programs};
use crate::{program, small_disk};

/// What a MariaDB needs, with some room.
const MARIADB_ROOM: &str = "96m";

/// The same of a PostgreSQL, whose write-ahead log lies elsewhere: without room for that it ends.
const POSTGRES_ROOM: &str = "72m";

impl Database {
    /// Starts a MariaDB that can be [filled](Self::fill); `None`, with a message, where it is not installed, or file
    /// systems may not be mounted.
    ///
    /// # Panics
    /// When it does not answer in time.
    pub fn cramped_mariadb() -> Option<Self> {
        let program = program::find("mariadbd")?;
        let folder = program.parent()?.to_owned();
        let mut database = Self::in_folder(Kind::MariaDb, folder, "mysql");
        let mut bootstrap = database.mariadbd();
        bootstrap.arg("--bootstrap");
        let init = format!("{} <{}", words(&bootstrap), database.schema().display());
        database.start_cramped(MARIADB_ROOM, &init)?;
        Some(database)
    }

    /// The same of a PostgreSQL.
    ///
    /// # Panics
    /// When it does not answer in time.
    pub fn cramped_postgres() -> Option<Self> {
        let mut database = Self::in_folder(Kind::Postgres, postgres_programs()?, "postgres");
        let mut initdb = database.initdb();
        initdb.arg("--waldir").arg(database.folder.path().join("wal"));
        database.start_cramped(POSTGRES_ROOM, &words(&initdb))?;
        database.create();
        Some(database)
    }

    fn start_cramped(&mut self, room: &str, init: &str) -> Option<()> {
        let (user, group) = self.owner.or_else(|| {
            println!("skipped: only root mounts file systems");
            None
        })?;
        let mount = format!(
            "mount -t tmpfs -o size={room},mode=0700,uid={user},gid={group} none {}",
            self.data().display()
        );
        let apart = |script: &str| {
            let mut command = Command::new("unshare");
            command.args(["--mount", "--propagation", "private", "sh", "-ec", script]);
            command.current_dir(self.folder.path());
            command
        };
        if !apart(&mount).status().is_ok_and(|status| status.success()) {
            println!("skipped: no file system can be mounted here");
            return None;
        }
        let owned = format!("setpriv --reuid={user} --regid={group} --clear-groups");
        let server = words(&self.server());
        let script = format!("{mount}; {owned} {init}; exec {owned} {server}");
        let command = apart(&script);
        self.spawn(command);
        Some(())
    }

    /// Takes all the room that there is on its file system.
    ///
    /// # Panics
    /// When it does not run, or has no file system of its own.
    pub fn fill(&self) {
        small_disk::fill(&self.filling());
    }

    /// Gives it back.
    ///
    /// # Panics
    /// As above.
    pub fn make_room(&self) {
        std::fs::remove_file(self.filling()).expect("it was filled");
    }

    /// The file that takes it, as the database sees it.
    fn filling(&self) -> PathBuf {
        let process = self.child.as_ref().expect("it runs").id();
        let data = self.data();
        let below_root = data.strip_prefix("/").expect("temporary folders have whole paths");
        PathBuf::from(format!("/proc/{process}/root")).join(below_root).join("filling")
    }
}

/// A command for a shell: neither programs nor temporary folders have names that it would take apart.
fn words(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}
