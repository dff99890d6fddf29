//! A configuration compiled as for serving, without anything that serves: nothing is asked of the
//! network, no file is opened, and secrets stay references.

use std::sync::Arc;

use serde_json::Value;
use tokio::runtime::Handle;
use tollhouse_config::bootstrap::Bootstrap;
use tollhouse_config::{Document, Fingerprints, diff};
use tollhouse_model::Problem;
use tollhouse_net::resolve::{Lookup, Question, ResolveError, Resolver, ResolverSettings, Source};
use tollhouse_plugin::Services;
use tollhouse_proxy::{Compiler, Settings};

use crate::resources::{expand, problems_to_json, replace_shenyu};
use crate::{plugins, settings};

/// Returns a compiler that asks nothing of the network; names of nodes stay unresolved.
pub fn compiler(settings: &Settings, services: Arc<Services>, runtime: &Handle) -> Compiler {
    let resolver =
        Resolver::with_source(Arc::new(NoNames), ResolverSettings::default(), runtime.clone());
    Compiler::new(settings, resolver, plugins::catalogue(), services)
}

/// Returns the problems that a gateway of this bootstrap file would have with a document, as its
/// control API would list them.
///
/// Blocks for as long as the document takes to compile.
pub(crate) fn problems_of(document: &Document, bootstrap: &Bootstrap) -> Vec<Value> {
    // Nodes want a runtime to refresh names on; this one never runs.
    let runtime = match tokio::runtime::Builder::new_current_thread().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let problem = Problem::warning("", format!("the document was not compiled: {error}"));
            return problems_to_json([problem].iter()).to_vec();
        }
    };
    let settings = settings::data_plane(bootstrap);
    let services = Arc::new(plugins::trial_services(bootstrap));
    let mut compiler = compiler(&settings, services, runtime.handle());
    let changes = diff(&Fingerprints::new(), document);
    let shenyu = document.shenyu.iter().flat_map(|items| replace_shenyu(items));
    compiler.apply(expand(&changes, document).chain(shenyu));
    let of_objects = compiler.problems().flat_map(|(_, problems)| problems.iter());
    let all = document.problems.iter().chain(of_objects).chain(compiler.shenyu_problems().iter());
    problems_to_json(all).to_vec()
}

/// Resolver without any names.
struct NoNames;

impl Source for NoNames {
    fn lookup<'a>(&'a self, _: &'a Question) -> Lookup<'a> {
        Box::pin(std::future::ready(Err(ResolveError::Denied)))
    }
}
