//! How the generator does TLS.

use std::path::PathBuf;

use clap::Args;
use tollhouse_load::case::TlsOptions;

/// Arguments about TLS.
#[derive(Debug, Args)]
#[command(next_help_heading = "TLS")]
pub struct TlsArguments {
    /// Take any certificate.
    #[arg(short = 'k', long)]
    insecure: bool,
    /// Trust these authorities (PEM) instead of the system's.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Show this certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// The key of --cert (PEM).
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Ask for and verify this name instead of the target's host.
    #[arg(long, value_name = "NAME")]
    server_name: Option<String>,
}

impl TlsArguments {
    /// The options as the generator knows them.
    pub fn options(&self) -> TlsOptions {
        TlsOptions {
            insecure: self.insecure,
            ca: self.ca.clone(),
            cert: self.cert.clone(),
            key: self.key.clone(),
            server_name: self.server_name.clone(),
        }
    }
}
