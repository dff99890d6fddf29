//! `tollhouse registry deregister`.

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;

use super::name::{Address, ServiceName, segment};
use super::remote::Remote;
use super::view::Instance;
use crate::cli::gateway::Gateway;
use crate::cli::stdout;

/// Arguments of `deregister`.
#[derive(Debug, Args)]
pub struct DeregisterArguments {
    #[command(flatten)]
    gateway: Gateway,
    /// Id of the instance; or, with HOST:PORT, its service.
    #[arg(value_name = "ID|NAMESPACE/SERVICE")]
    what: String,
    /// Address of the instance.
    #[arg(value_name = "HOST:PORT")]
    address: Option<Address>,
}

/// Removes the instance, or all instances at the address.
pub fn run(arguments: &DeregisterArguments) -> anyhow::Result<ExitCode> {
    let bootstrap = match arguments.gateway.load() {
        Ok(bootstrap) => bootstrap,
        Err(code) => return Ok(code),
    };
    let mut remote = Remote::open(&arguments.gateway, &bootstrap)?;
    let ids = match &arguments.address {
        None => vec![arguments.what.clone()],
        Some(address) => find(&mut remote, &arguments.what, address)?,
    };
    for id in ids {
        remote.get("DELETE", &format!("instances/{}", segment(&id)), None)?;
        stdout::print(&format!("deregistered {id}\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the ids of the instances at an address. Several instances have the same address only if
/// they were registered with explicit ids.
fn find(remote: &mut Remote, service: &str, address: &Address) -> anyhow::Result<Vec<String>> {
    let service: ServiceName = service.parse().map_err(anyhow::Error::msg)?;
    let query = format!("host={}&port={}", segment(&address.host), address.port);
    let found = remote.list(&format!("{}/instances", service.path()), &query)?;
    if found.is_empty() {
        bail!("no instance of {service} listens on {}:{}", address.host, address.port);
    }
    let read: Result<Vec<Instance>, _> = found.into_iter().map(serde_json::from_value).collect();
    Ok(read?.into_iter().map(|instance| instance.id).collect())
}
