//! Arguments that locate the database of a Polaris.

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use tollhouse_config::bootstrap::{RegistryStore, Secret};

/// Location of the database.
#[derive(Debug, Args)]
pub struct DatabaseArguments {
    /// Database of a Polaris 1.12 or later: `mysql://user@host:3306/polaris_server`. Its servers
    /// may run meanwhile.
    #[arg(long, value_name = "URL")]
    database: String,
    /// File with the password of the database user; a password on the command line would be visible
    /// in the list of processes.
    #[arg(long, value_name = "FILE")]
    database_password_file: Option<PathBuf>,
    /// Connect with TLS, and check the database's certificate.
    #[arg(long)]
    database_tls: bool,
    /// Additional authorities for that, PEM, beside those that browsers trust.
    #[arg(long, value_name = "FILE", requires = "database_tls")]
    database_ca: Option<PathBuf>,
}

impl DatabaseArguments {
    /// Converts the arguments to settings of a store.
    pub fn settings(&self) -> anyhow::Result<RegistryStore> {
        let mut url = self.database.clone();
        if let Some(file) = &self.database_password_file {
            // The file name is not printed, because the user may have typed the password instead.
            let text = std::fs::read_to_string(file)
                .context("--database-password-file: the file cannot be read")?;
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

/// Inserts a password into a URL, after the user.
fn with_password(url: &str, password: &str) -> anyhow::Result<String> {
    let Some((login, rest)) = url.rsplit_once('@') else {
        bail!("--database: the URL names no user");
    };
    if login.split_once("://").is_some_and(|(_, user)| user.contains(':')) {
        bail!("--database-password-file: the URL has a password already");
    }
    let password =
        percent_encoding::utf8_percent_encode(password, percent_encoding::NON_ALPHANUMERIC);
    Ok(format!("{login}:{password}@{rest}"))
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
