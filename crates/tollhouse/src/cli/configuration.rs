//! Arguments that locate the bootstrap configuration, common to all commands that need it.

use std::path::PathBuf;

use clap::Args;

/// Source of the bootstrap configuration.
#[derive(Debug, Clone, Args, Default)]
pub struct Configuration {
    /// Bootstrap file (YAML). Every key is optional.
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Override one key, such as `--set listen.http=127.0.0.1:8080`; may be repeated. Flags take
    /// precedence over TOLLHOUSE_* variables, and these over the file.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    pub overrides: Vec<(String, String)>,
}

fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}
