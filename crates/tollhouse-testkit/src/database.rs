//! Private databases for tests: a MariaDB or PostgreSQL in a temporary folder, on a free port, that
//! can be killed and restarted. A server runs as the user of the test; for root, as the user that
//! Debian creates for the server.

mod cramped;

use std::net::SocketAddr;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::patience::wait_for;
use crate::ports::ReservedPort;
use crate::program;

/// Debian's folder of PostgreSQL programs, which are not on the path.
const POSTGRES_FOLDER: &str = "/usr/lib/postgresql";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    MariaDb,
    Postgres,
}

/// Database server with a temporary folder.
#[derive(Debug)]
pub struct Database {
    kind: Kind,
    programs: PathBuf,
    folder: TempDir,
    port: ReservedPort,
    owner: Option<(u32, u32)>,
    child: Option<Child>,
    /// Whether a commit is flushed to disk before it is confirmed.
    is_durable: bool,
}

impl Database {
    /// Starts a MariaDB without passwords that has the database `tollhouse`. Returns `None`, with a
    /// message, if it is not installed.
    ///
    /// # Panics
    ///
    /// If it does not answer in time.
    pub fn mariadb() -> Option<Self> {
        Self::start_mariadb(false)
    }

    /// Starts a MariaDB as [`Self::mariadb`], but with every commit flushed to disk before it is
    /// confirmed, as in production.
    ///
    /// # Panics
    ///
    /// If it does not answer in time.
    pub fn durable_mariadb() -> Option<Self> {
        Self::start_mariadb(true)
    }

    fn start_mariadb(is_durable: bool) -> Option<Self> {
        let mut database = Self::prepare_mariadb()?;
        database.is_durable = is_durable;
        database.run();
        Some(database)
    }

    /// Prepares a MariaDB without starting it; [`Database::run`] does.
    ///
    /// # Panics
    ///
    /// If it cannot create its files.
    pub fn prepare_mariadb() -> Option<Self> {
        let program = program::find("mariadbd")?;
        let database = Self::in_folder(Kind::MariaDb, program.parent()?.to_owned(), "mysql");
        // Runs to a clean end, because a first start does not flush all of its files before that.
        let schema = database.schema();
        let mut bootstrap = database.mariadbd();
        bootstrap.arg("--bootstrap");
        bootstrap.stdin(std::fs::File::open(&schema).expect("it was written"));
        bootstrap.stdout(Stdio::null()).stderr(Stdio::null());
        let ended = bootstrap.status().expect("mariadbd can be started");
        assert!(ended.success(), "mariadbd could not make its files: {ended}");
        Some(database)
    }

    /// Starts a PostgreSQL without passwords that has the database `tollhouse`. Returns `None`,
    /// with a message, if it is not installed.
    ///
    /// # Panics
    ///
    /// If it does not answer in time.
    pub fn postgres() -> Option<Self> {
        let programs = postgres_programs()?;
        let mut database = Self::in_folder(Kind::Postgres, programs, "postgres");
        program::run_well(&mut database.initdb());
        database.run();
        database.create();
        Some(database)
    }

    /// Returns the command that creates PostgreSQL's files.
    fn initdb(&self) -> Command {
        let mut initdb = self.command("initdb");
        initdb
            .args(["--no-sync", "--auth=trust", "--username=tollhouse", "--encoding=UTF8"])
            .args(["--no-locale", "--pgdata"])
            .arg(self.data());
        initdb
    }

    /// Creates the database in a running PostgreSQL.
    fn create(&self) {
        let mut createdb = self.command("createdb");
        let port = self.port.number().to_string();
        createdb.args(["--host=127.0.0.1", "--username=tollhouse", "--port", &port, "tollhouse"]);
        program::run_well(&mut createdb);
    }

    /// Writes the SQL file that creates MariaDB's database.
    fn schema(&self) -> PathBuf {
        let schema = self.folder.path().join("schema.sql");
        std::fs::write(&schema, "CREATE DATABASE tollhouse;\n").expect("a file can be written");
        schema
    }

    /// Returns the address for clients, who connect as the user `tollhouse`.
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Kills the server, as in a crash.
    ///
    /// # Panics
    ///
    /// If it does not run.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        self.end(&mut child);
    }

    /// Restarts the server with its port and data, and waits until it answers.
    ///
    /// # Panics
    ///
    /// If it does not answer in time.
    pub fn run(&mut self) {
        let command = self.server();
        self.spawn(command);
    }

    /// Returns the command that runs the server.
    fn server(&self) -> Command {
        let port = self.port.number().to_string();
        match self.kind {
            Kind::MariaDb => {
                let mut command = self.mariadbd();
                command.args(["--skip-networking=0", "--bind-address=127.0.0.1", "--port", &port]);
                command
            }
            Kind::Postgres => {
                let mut command = self.command("postgres");
                command
                    .arg("-D")
                    .arg(self.data())
                    .args(["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="])
                    .args(["-c", "shared_buffers=16MB", "-c", "fsync=off", "-p", &port]);
                command
            }
        }
    }

    fn spawn(&mut self, mut command: Command) {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().expect("the database can be started"));
        wait_for("the database to answer", || self.is_answering().then_some(()));
    }

    /// Runs SQL statements in the database `tollhouse`, with the engine's own client.
    ///
    /// # Panics
    ///
    /// If the client is missing, or a statement fails.
    pub fn run_sql(&self, sql: &str) {
        let port = self.port.number().to_string();
        let file = self.folder.path().join("statements.sql");
        std::fs::write(&file, sql).expect("a file can be written");
        let mut command = match self.kind {
            Kind::MariaDb => {
                let mut command = Command::new(program::find("mariadb").expect("it comes along"));
                command.args(["--no-defaults", "--protocol=tcp", "--host=127.0.0.1"]);
                command.args(["--user=tollhouse", "--default-character-set=utf8mb4"]);
                command.args(["--port", &port, "--database=tollhouse"]);
                command.arg(format!("--execute=source {}", file.display()));
                command
            }
            Kind::Postgres => {
                let mut command = self.command("psql");
                command.args(["--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1"]);
                command.args(["--host=127.0.0.1", "--username=tollhouse", "--port", &port]);
                command.args(["--dbname=tollhouse", "--file"]).arg(&file);
                command
            }
        };
        program::run_well(&mut command);
    }

    /// Stops the processes until [`Database::wake`]: connections are accepted, but not answered.
    ///
    /// # Panics
    ///
    /// If the server does not run.
    pub fn pause(&self) {
        // Stops the main process first, because it starts the others, then those that serve
        // connections.
        let first = self.child.as_ref().expect("it runs").id();
        program::pause(first);
        program::children(first).into_iter().for_each(program::pause);
    }

    /// Resumes the stopped processes.
    ///
    /// # Panics
    ///
    /// If the server does not run.
    pub fn wake(&self) {
        wake(self.child.as_ref().expect("it runs"));
    }

    fn in_folder(kind: Kind, programs: PathBuf, user: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        // Reserved here, because neither server reports a port that the kernel chose.
        let port = ReservedPort::new();
        let owner = if rustix::process::geteuid().is_root() { user_ids(user) } else { None };
        let data = folder.path().join("data");
        std::fs::create_dir(&data).expect("a folder of our own can be made");
        if let Some((user, group)) = owner {
            for path in [folder.path(), &data] {
                chown(path, Some(user), Some(group)).expect("root may give folders away");
            }
        }
        Self { kind, programs, folder, port, owner, child: None, is_durable: false }
    }

    fn mariadbd(&self) -> Command {
        let mut command = self.command("mariadbd");
        command
            // Must come first; the machine's own configuration is then ignored.
            .arg("--no-defaults")
            .arg("--skip-grant-tables")
            .args(["--innodb-buffer-pool-size=32M", "--innodb-log-file-size=16M"])
            // Tests kill only the process, so data handed to the kernel survives without a flush.
            .arg(format!(
                "--innodb-flush-log-at-trx-commit={}",
                if self.is_durable { 1 } else { 2 }
            ))
            .arg(format!("--datadir={}", self.data().display()))
            .arg(format!("--socket={}", self.folder.path().join("socket").display()));
        if self.owner.is_none() && rustix::process::geteuid().is_root() {
            command.arg("--user=root");
        }
        command
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        command.current_dir(self.folder.path());
        if let Some((user, group)) = self.owner {
            command.uid(user).gid(group);
        }
        command
    }

    /// Whether the server answers, rather than only listens.
    fn is_answering(&self) -> bool {
        use std::io::{Read as _, Write as _};
        let Ok(mut stream) = std::net::TcpStream::connect(self.port.address()) else {
            return false;
        };
        let mut first = [0; 1];
        match self.kind {
            // MariaDB greets every connection.
            Kind::MariaDb => stream.read_exact(&mut first).is_ok(),
            // A startup message of version 3.0; `R` is an authentication request, `E` an error.
            Kind::Postgres => {
                let body = b"\0\x03\0\0user\0tollhouse\0database\0postgres\0\0";
                let length = u32::try_from(body.len() + 4).unwrap_or_default().to_be_bytes();
                stream.write_all(&[&length[..], body].concat()).is_ok()
                    && stream.read_exact(&mut first).is_ok()
                    && first == *b"R"
            }
        }
    }

    /// Ends the server. PostgreSQL's child processes end when they notice that their parent is
    /// gone.
    fn end(&self, child: &mut Child) {
        match self.kind {
            Kind::MariaDb => child.kill().expect("a child can be killed"),
            // An immediate shutdown: no checkpoint and no flush, like SIGKILL, but without orphans.
            Kind::Postgres => {
                let id = Pid::from_raw(child.id().cast_signed()).expect("a process has a number");
                wake(child);
                kill_process(id, Signal::QUIT).expect("a child can be signalled");
            }
        }
        child.wait().expect("a child can be waited for");
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            self.end(&mut child);
        }
    }
}

fn wake(child: &Child) {
    program::children(child.id()).into_iter().chain([child.id()]).for_each(program::wake);
}

/// Returns the folder of the newest installed version.
fn postgres_programs() -> Option<PathBuf> {
    // Debian's wrapper, which is on the path instead of the programs.
    program::find("pg_ctlcluster")?;
    let versions = std::fs::read_dir(POSTGRES_FOLDER).into_iter().flatten().flatten();
    let folders = versions.map(|version| version.path().join("bin"));
    folders.filter(|folder| folder.join("initdb").is_file()).max()
}

/// Returns the ids of a user and the user's group, from `/etc/passwd`.
fn user_ids(name: &str) -> Option<(u32, u32)> {
    let users = std::fs::read_to_string(Path::new("/etc/passwd")).ok()?;
    let user = users.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut fields = user.split(':').skip(2);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}
