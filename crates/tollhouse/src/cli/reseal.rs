//! `tollhouse reseal`: seals the secrets of the store with the first key of the keyring, so that
//! older keys can be removed.
//!
//! An etcd that gateways share can be resealed while they run. The store of a data directory is
//! resealed whenever it is opened for writing, so that the command only opens it.

use std::process::ExitCode;

use clap::Args;
use tollhouse_config::Bootstrap;
use tollhouse_control::feed::etcd;
use tollhouse_control::plugins;
use tollhouse_control::secrets::shared_keyring;
use tollhouse_control::secrets::shared_reseal::{ApisixNodes, ResealReport, SharedSecrets};
use tollhouse_stdx::plural::{counted, counted_as};

use super::configuration::Configuration;
use super::configured_store::{self, OpenStore};
use super::{problems, stdout};

/// Arguments of `reseal`.
#[derive(Debug, Args)]
pub struct ResealArguments {
    #[command(flatten)]
    configuration: Configuration,
    /// Also seal secrets that APISIX nodes can read now and could not read afterwards, because
    /// there are no such nodes.
    #[arg(long)]
    no_apisix_nodes: bool,
}

/// Seals the secrets of the store again.
///
/// # Errors
/// If the store cannot be read or written, or a gateway may lack the key.
pub fn run(arguments: &ResealArguments) -> anyhow::Result<ExitCode> {
    let loaded = match problems::load(&arguments.configuration) {
        Ok(loaded) => loaded,
        Err(code) => return Ok(code),
    };
    let bootstrap = &loaded.bootstrap;
    let name = configured_store::name(bootstrap);
    if !configured_store::is_shared(bootstrap) {
        // Opening the store reseals it. Secrets that no key opens are reported in the log.
        let remedy = "restart it: each start seals the secrets with the newest key";
        OpenStore::open_unless_in_use(bootstrap, remedy)?;
        stdout::print(&format!("the secrets of {name} are sealed with the newest key\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let resealed = reseal(arguments, bootstrap)?;
    stdout::print(&summary(&resealed, &name))?;
    Ok(if resealed.is_complete() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn reseal(arguments: &ResealArguments, bootstrap: &Bootstrap) -> anyhow::Result<ResealReport> {
    // The check that all gateways have the key comes first, because opening the store registers
    // this command as a holder of the key.
    configured_store::runtime()?.block_on(async {
        shared_keyring::check_in_use(bootstrap, &etcd::open(bootstrap)?).await
    })?;
    let open = OpenStore::open(bootstrap)?;
    let nodes = if arguments.no_apisix_nodes { ApisixNodes::None } else { ApisixNodes::Respected };
    let catalogue = plugins::catalogue();
    let secrets = SharedSecrets {
        store: open.store(),
        bootstrap,
        keyring: &open.keyring,
        catalogue: &catalogue,
    };
    open.wait(secrets.reseal(nodes, |written, all| {
        eprintln!("sealed anew: {written} of {all} objects");
    }))
}

fn summary(resealed: &ResealReport, name: &str) -> String {
    let ResealReport { written, sealed, lost, ending, is_outrun } = resealed;
    let mut text = format!(
        "{name}: {} sealed anew, {} as they should be\n",
        counted(*written as u64, "object"),
        counted_as(*sealed as u64, "secret is", "secrets are"),
    );
    for object in lost {
        text.push_str(&format!("no key opens the secrets of {object}: write it anew\n"));
    }
    for key in ending {
        text.push_str(&format!(
            "{key} ends by itself, and was left as it is: keep the old key until then\n"
        ));
    }
    if *is_outrun {
        text.push_str(
            "some gateway goes on to write with an older key: put the new one in front on all, then repeat this\n",
        );
    }
    text.push_str(if resealed.is_complete() {
        "nothing needs the older keys any more: take them out of encryption.keyring\n"
    } else {
        "keep the older keys\n"
    });
    text
}
