//! `tollhouse import registry` and `tollhouse import polaris`: objects of a file or of a Polaris become objects of the
//! registry. What would change is counted and agreed to first; what is there already is passed over.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use tollhouse_config::Bootstrap;
use tollhouse_config::bootstrap::{RegistryStore, Secret};
use tollhouse_control::registry::offline;
use tollhouse_registry::Rehearsal;

use super::polaris::PolarisSource;
use super::source::{FileSource, Source};
use super::tally::Tally;
use super::target::{self, Opened};
use crate::cli::admin_client::AdminClient;
use crate::cli::import::agreed;
use crate::cli::{Configuration, problems, reference};

/// What both have in common.
#[derive(Debug, Args)]
struct Common {
    #[command(flatten)]
    configuration: Configuration,
    /// Print what would change, and change nothing.
    #[arg(long, conflicts_with = "admin")]
    dry_run: bool,
    /// Do not ask before writing.
    #[arg(short, long)]
    yes: bool,
    /// Write through the Admin API of a running gateway, such as `http://127.0.0.1:9180`, instead of into the
    /// registry's store.
    #[arg(long, value_name = "URL")]
    admin: Option<String>,
    /// Key for the Admin API; the configured one, or the one in the data directory, when not given.
    #[arg(long, value_name = "KEY", requires = "admin", hide_env_values = true)]
    admin_key: Option<String>,
}

const EXIT: &str = "Exit code: 0 when everything is there afterwards; 1 when something was left out that should not \
                    be, each with its reason, or when writing failed.";

/// Arguments of `import registry`.
#[derive(Debug, Args)]
#[command(after_help = EXIT)]
pub struct FileArguments {
    #[command(flatten)]
    common: Common,
    /// What `tollhouse export registry` wrote.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Arguments of `import polaris`.
#[derive(Debug, Args)]
#[command(after_help = EXIT)]
pub struct PolarisArguments {
    #[command(flatten)]
    common: Common,
    /// The database of a Polaris 1.12 or later: `mysql://user@host:3306/polaris_server`. It is only read, as of one
    /// instant; its servers may run meanwhile.
    #[arg(long, value_name = "URL")]
    database: String,
    /// A file with the password of its user, so that it stands in no list of processes.
    #[arg(long, value_name = "FILE")]
    database_password: Option<PathBuf>,
    /// Connect with TLS, and check the database's certificate.
    #[arg(long)]
    database_tls: bool,
    /// Authorities for that, PEM, beside those that browsers know.
    #[arg(long, value_name = "FILE", requires = "database_tls")]
    database_ca: Option<PathBuf>,
}

impl PolarisArguments {
    fn settings(&self) -> anyhow::Result<RegistryStore> {
        let mut url = self.database.clone();
        if let Some(file) = &self.database_password {
            let text = std::fs::read_to_string(file).with_context(|| {
                format!("--database-password: {} cannot be read", file.display())
            })?;
            url = with_password(&url, text.trim_end_matches(['\r', '\n']))?;
        }
        Ok(RegistryStore {
            mysql: Some(Secret::new(url)),
            tls: self.database_tls,
            ca: self.database_ca.clone(),
            ..RegistryStore::default()
        })
    }
}

/// The URL with a password behind its user.
fn with_password(url: &str, password: &str) -> anyhow::Result<String> {
    let Some((login, rest)) = url.rsplit_once('@') else {
        bail!("--database: the URL names no user");
    };
    if login.split_once("://").is_some_and(|(_, user)| user.contains(':')) {
        bail!("--database-password: the URL has a password already");
    }
    let password =
        percent_encoding::utf8_percent_encode(password, percent_encoding::NON_ALPHANUMERIC);
    Ok(format!("{login}:{password}@{rest}"))
}

/// Takes over a file.
///
/// # Errors
/// It cannot be read, or the registry not be written.
pub fn import_file(arguments: &FileArguments) -> anyhow::Result<ExitCode> {
    let loaded = match problems::load(&arguments.common.configuration) {
        Ok(loaded) => loaded,
        Err(code) => return Ok(code),
    };
    let mut source = FileSource::open(&arguments.file)?;
    carry_out(&arguments.common, &loaded.bootstrap, &mut source)
}

/// Takes over a Polaris.
///
/// # Errors
/// Its database cannot be read, or the registry not be written.
pub fn import_polaris(arguments: &PolarisArguments) -> anyhow::Result<ExitCode> {
    let loaded = match problems::load(&arguments.common.configuration) {
        Ok(loaded) => loaded,
        Err(code) => return Ok(code),
    };
    let mut source = PolarisSource::open(&arguments.settings()?)?;
    carry_out(&arguments.common, &loaded.bootstrap, &mut source)
}

fn carry_out(
    common: &Common,
    bootstrap: &Bootstrap,
    source: &mut dyn Source,
) -> anyhow::Result<ExitCode> {
    if let Some(url) = &common.admin {
        return through(common, url, bootstrap, source);
    }
    if common.dry_run {
        let tally = target::rehearse(source, target::look(bootstrap)?)?;
        reference::print(&format!("{}nothing was written: --dry-run\n", tally.text()))?;
        return Ok(exit_code(&tally));
    }
    let opened = Opened::open(bootstrap)?;
    let written = write(common, bootstrap, source, &opened);
    opened.registry.close();
    written
}

fn write(
    common: &Common,
    bootstrap: &Bootstrap,
    source: &mut dyn Source,
    opened: &Opened,
) -> anyhow::Result<ExitCode> {
    let state = opened.registry.handle.state_full();
    let planned = target::rehearse(source, Rehearsal::from_state(&state))?;
    drop(state);
    reference::print(&planned.text())?;
    if planned.writes() == 0 {
        return Ok(exit_code(&planned));
    }
    if !common.yes && !agreed()? {
        reference::print("nothing was written\n")?;
        return Ok(ExitCode::FAILURE);
    }
    let written = opened.write(source)?;
    let (count, place) = (written.writes(), offline::name(bootstrap));
    // Where other nodes write at the same time, something else may have come of it.
    let differs = if written == planned { "" } else { "; of what was said above, this changed:\n" };
    reference::print(&format!("{count} objects written to {place}{differs}\n"))?;
    if written != planned {
        reference::print(&written.text())?;
    }
    Ok(exit_code(&written))
}

fn through(
    common: &Common,
    url: &str,
    bootstrap: &Bootstrap,
    source: &mut dyn Source,
) -> anyhow::Result<ExitCode> {
    let mut client = AdminClient::open(url, common.admin_key.as_deref(), bootstrap)?;
    client.set_way("import");
    let place = format!("http://{}", client.authority());
    if !common.yes {
        reference::print(&format!(
            "{} is to be written to the registry of {place}\n",
            source.name()
        ))?;
        if !agreed()? {
            reference::print("nothing was written\n")?;
            return Ok(ExitCode::FAILURE);
        }
    }
    let tally = target::write_through(&mut client, source)?;
    let text = format!("{}{} objects written to {place}\n", tally.text(), tally.writes());
    reference::print(&text)?;
    Ok(exit_code(&tally))
}

fn exit_code(tally: &Tally) -> ExitCode {
    if tally.has_faults() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_from_a_file_goes_into_the_url_and_no_second_one_does() {
        let url = with_password("mysql://me@host/db", "p@ss:w/rd").expect("it has a user");
        assert_eq!(url, "mysql://me:p%40ss%3Aw%2Frd@host/db");
        for wrong in ["mysql://host/db", "mysql://me:already@host/db"] {
            assert!(with_password(wrong, "x").is_err(), "{wrong}");
        }
    }
}
