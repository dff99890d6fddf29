//! TLS options of the load generator.

use std::path::PathBuf;

use clap::Args;
use tollhouse_load::case::TlsOptions;

/// Arguments about TLS.
#[derive(Debug, Args)]
#[command(next_help_heading = "TLS")]
pub struct TlsArguments {
    /// Accept any certificate.
    #[arg(short = 'k', long)]
    insecure: bool,
    /// Trust these authorities (PEM) instead of the system's.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Client certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// The key of --cert (PEM).
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Request and verify this name instead of the target's host.
    #[arg(long, value_name = "NAME")]
    server_name: Option<String>,
}

impl TlsArguments {
    /// Converts the arguments to the TLS options of the load generator.
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
