//! Arguments that locate the gateway and its Admin API, common to all commands that talk to a
//! running gateway.

use std::net::SocketAddr;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use tollhouse_config::Bootstrap;

use super::admin_client::AdminClient;
use super::configuration::Configuration;
use super::problems;

/// Options that locate the Admin API of a running gateway.
#[derive(Debug, Args)]
pub struct Gateway {
    #[command(flatten)]
    configuration: Configuration,
    /// URL of the Admin API, such as `http://127.0.0.1:9180`; by default `listen.admin` of the
    /// configuration.
    #[arg(long, value_name = "URL")]
    admin: Option<String>,
    /// Key for the Admin API; by default the configured one (TOLLHOUSE_ADMIN_KEY), or the one in
    /// the data directory.
    #[arg(long, value_name = "KEY", visible_alias = "key")]
    admin_key: Option<String>,
}

impl Gateway {
    /// Loads the configuration; the error is the exit code for an invalid one.
    pub fn load(&self) -> Result<Bootstrap, ExitCode> {
        problems::load(&self.configuration).map(|loaded| loaded.bootstrap)
    }

    /// Whether a gateway is named on the command line.
    pub fn is_named(&self) -> bool {
        self.admin.is_some()
    }

    /// Returns a client of the Admin API.
    ///
    /// # Errors
    /// If the Admin API is off, or uses TLS.
    pub fn client(&self, bootstrap: &Bootstrap) -> anyhow::Result<AdminClient> {
        let url = match &self.admin {
            Some(url) => url.clone(),
            None => default_url(bootstrap)?,
        };
        AdminClient::open(&url, self.admin_key.as_deref(), bootstrap)
    }
}

fn default_url(bootstrap: &Bootstrap) -> anyhow::Result<String> {
    let Some(address) = bootstrap.listen.admin.first() else {
        bail!("listen.admin is off; {}", other_ways(bootstrap));
    };
    if bootstrap.admin.tls.cert.is_some() {
        bail!("the Admin API speaks TLS, which this command does not; {}", other_ways(bootstrap));
    }
    Ok(format!("http://{}", tollhouse_control::banner::reachable(*address)))
}

/// Returns the hint for an error caused by a running gateway that holds the store: write through
/// its Admin API.
pub fn way_through(bootstrap: &Bootstrap) -> String {
    default_url(bootstrap).map_or_else(
        |_| "stop it first".to_owned(),
        |url| format!("write through it with --admin {url} (its Admin API), or stop it first"),
    )
}

/// Returns the hint for an error that leaves the registry unreachable: how else to reach it.
pub fn other_ways(bootstrap: &Bootstrap) -> String {
    let listen = &bootstrap.listen;
    let address = |addresses: &[SocketAddr]| {
        let address = addresses.first().copied().map(tollhouse_control::banner::reachable);
        address.map_or_else(|| "off".to_owned(), |address| address.to_string())
    };
    format!(
        "the registry itself speaks Polaris' protocol: gRPC {}, HTTP {} (POST /v1/Discover, \
         GET /naming/v1/instances)",
        address(&listen.registry_grpc),
        address(&listen.registry_http)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_an_admin_api_the_other_ways_are_told() {
        let mut off = Bootstrap::default();
        off.listen.admin.clear();
        let error = default_url(&off).expect_err("there is none").to_string();
        assert!(error.contains("listen.admin is off"), "{error}");
        assert!(error.contains("gRPC 127.0.0.1:8091, HTTP 127.0.0.1:8090"), "{error}");
        let file = Bootstrap { resources: Some("gateway.yaml".into()), ..Bootstrap::default() };
        for bootstrap in [file, Bootstrap::default()] {
            let url = default_url(&bootstrap).ok();
            assert_eq!(url.as_deref(), Some("http://127.0.0.1:9180"));
        }
    }
}
