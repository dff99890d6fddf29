//! Databases on a private file system that tests can fill. Only the database's own processes see
//! the file system, and it ends with them, so that such a database cannot be restarted.

use std::path::PathBuf;
use std::process::Command;

use super::{Database, Kind, postgres_programs};
use crate::{program, small_disk};

/// Size that a MariaDB needs, with some room.
const MARIADB_ROOM: &str = "96m";

/// Size that a PostgreSQL needs. Its write-ahead log is elsewhere, because the server ends when the
/// log cannot grow.
const POSTGRES_ROOM: &str = "72m";

impl Database {
    /// Starts a MariaDB whose file system can be [filled](Self::fill). Returns `None`, with a
    /// message, if it is not installed, or if file systems may not be mounted.
    ///
    /// # Panics
    ///
    /// If it does not answer in time.
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

    /// Starts a PostgreSQL whose file system can be [filled](Self::fill).
    ///
    /// # Panics
    ///
    /// If it does not answer in time.
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

    /// Fills the database's file system.
    ///
    /// # Panics
    ///
    /// If the database does not run, or has no private file system.
    pub fn fill(&self) {
        small_disk::fill(&self.filling());
    }

    /// Frees the space that [`Self::fill`] used.
    ///
    /// # Panics
    ///
    /// If the file system was not filled.
    pub fn make_room(&self) {
        std::fs::remove_file(self.filling()).expect("it was filled");
    }

    /// Returns the path of the file that fills the file system, as seen by the database.
    fn filling(&self) -> PathBuf {
        let process = self.child.as_ref().expect("it runs").id();
        let data = self.data();
        let below_root = data.strip_prefix("/").expect("temporary folders have whole paths");
        PathBuf::from(format!("/proc/{process}/root")).join(below_root).join("filling")
    }
}

/// Formats a command for a shell. Names of programs and temporary folders need no quoting.
fn words(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}
