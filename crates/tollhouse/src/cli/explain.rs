//! `tollhouse explain`: prints the route, plugins and upstream that a request would get, and why.
//!
//! The running gateway answers, about the configuration that it serves. Without one, or offline, the
//! data plane's own code answers here: the codec parses the head, the router normalises the path and
//! finds the route, and the compiler makes the snapshot. The command opens no listener, sends the
//! request to no node and resolves no name.

mod offline;
mod past;
mod served;

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use tokio::runtime::Handle;
use tollhouse_config::declarative::ShenyuItem;
use tollhouse_config::{Bootstrap, Document, declarative};
use tollhouse_model::problem::Severity;
use tollhouse_model::{Problem, Problems};
use tollhouse_proxy::Settings;
use tollhouse_store::Entry;

pub use self::offline::problems_of_shenyu;
use self::offline::{Offline, View};
use super::gateway::Gateway;
use super::problems::{self, UNUSABLE};
use super::{configured_store, objects, stdout};
use tollhouse_control::explain::{Decision, ExplainRequest, HeaderLine, Question, Url, text};
use tollhouse_control::settings;

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub struct ExplainArguments {
    #[command(flatten)]
    gateway: Gateway,
    /// Id of a past request of the running gateway, as `tollhouse requests` prints it, in place of a
    /// URL.
    #[arg(long, value_name = "ID", conflicts_with_all = ["url", "resources"])]
    request: Option<String>,
    /// Declarative file of resources to explain in place of what the running gateway serves.
    #[arg(short, long, value_name = "FILE")]
    resources: Option<PathBuf>,
    /// Explain the file or the store that the configuration names, and not what the running gateway
    /// serves. It tells of routes that are switched off too. Without a gateway, this is the default.
    #[arg(long, conflicts_with = "request")]
    offline: bool,
    /// URL of the request, such as `http://api.example.com:9080/v1/users?id=7`; or of a connection,
    /// such as `tcp://10.0.0.1:9100` or, with the server name of its TLS hello,
    /// `tls://db.example.com:9444`.
    #[arg(short, long, required_unless_present = "request")]
    url: Option<Url>,
    /// Method; GET, or POST with a body by default.
    #[arg(short = 'X', long, value_name = "METHOD")]
    method: Option<String>,
    /// Header line, such as `Authorization: Bearer x`; may be repeated. `Host` replaces the URL's.
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    headers: Vec<HeaderLine>,
    /// Client address, as it is after the headers of trusted proxies were applied.
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    remote_addr: IpAddr,
    /// Body, for routes that inspect it. Its type is that of a form unless a `Content-Type` header
    /// is given.
    #[arg(short = 'd', long, value_name = "TEXT")]
    body: Option<String>,
}

impl ExplainArguments {
    fn url(&self) -> &Url {
        self.url.as_ref().expect("the command line requires a URL unless a past request is named")
    }

    fn asked(&self) -> ExplainRequest {
        ExplainRequest {
            url: self.url().clone(),
            method: self.method.clone(),
            headers: self.headers.clone(),
            remote_addr: self.remote_addr,
            body: self.body.clone(),
        }
    }
}

/// Prints the decision; the exit code is 0 if a route matches, else 1.
///
/// # Errors
/// If the answer cannot be written, no runtime can be created, or the gateway does not answer.
pub fn run(arguments: &ExplainArguments) -> anyhow::Result<ExitCode> {
    if let Some(id) = &arguments.request {
        return past::run(arguments, id);
    }
    let bootstrap = match arguments.gateway.load() {
        Ok(bootstrap) => bootstrap,
        Err(code) => return Ok(code),
    };
    if !arguments.offline
        && arguments.resources.is_none()
        && let Some(code) = served::run(arguments, &bootstrap)?
    {
        return Ok(code);
    }
    let loaded = match load(arguments, bootstrap) {
        Ok(loaded) => loaded,
        Err(code) => return Ok(code),
    };
    // Compiling upstreams needs a runtime for name resolution, but no task of this runtime is ever
    // run.
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let (text, matched) = answer(arguments, &loaded, runtime.handle());
    stdout::print(&text)?;
    Ok(if matched { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Settings and document to evaluate.
struct ExplainInput {
    settings: Settings,
    /// Names of plugins that are accepted although this build does not contain them.
    skipped_plugins: Vec<String>,
    /// Name of the resource file or store.
    name: String,
    document: Document,
}

/// Returns the decision as text, and whether a route matches.
fn answer(arguments: &ExplainArguments, loaded: &ExplainInput, runtime: &Handle) -> (String, bool) {
    let ExplainInput { settings, name, document, .. } = loaded;
    let offline = Offline::compile(loaded, runtime, View::AsServed);
    problems::print(name, &errors_of(document, &offline));
    if let Some(asked) = arguments.url().below_http() {
        let (snapshot, listened) = (&offline.snapshot, &offline.listened);
        return text::connection(&asked, arguments.remote_addr, snapshot, listened);
    }
    let question = match Question::ask(&arguments.asked(), settings) {
        Ok(question) => question,
        Err(refused) => return (text::refusal(&refused), false),
    };
    let decision = Decision::make(&offline.snapshot, &question);
    let mut written = text::decision(&question, &decision);
    let matched = decision.is_taken();
    if !matched {
        let everything = Offline::compile(loaded, runtime, View::Revealing);
        written.push_str(&text::nearest(&everything.nearby(), &question));
    }
    (written, matched)
}

/// Loads the settings, and the document from the file or the store; prints their problems.
fn load(arguments: &ExplainArguments, bootstrap: Bootstrap) -> Result<ExplainInput, ExitCode> {
    let settings = settings::data_plane(&bootstrap);
    let Some(path) = arguments.resources.clone().or(bootstrap.resources.clone()) else {
        return load_store(settings, &bootstrap);
    };
    let name = path.display().to_string();
    let environment = |name: &str| std::env::var(name).ok();
    let document = declarative::read(&path, &environment).map_err(|found| {
        problems::print(&name, &found);
        ExitCode::from(UNUSABLE)
    })?;
    let skipped_plugins = bootstrap.skip_plugins;
    Ok(ExplainInput { settings, skipped_plugins, name, document })
}

/// Loads the document from the store, if no file is named.
fn load_store(settings: Settings, bootstrap: &Bootstrap) -> Result<ExplainInput, ExitCode> {
    let name = format!("the store in {}", configured_store::name(bootstrap));
    let read = objects::document_of_store(bootstrap).and_then(|(mut document, wrong)| {
        let listing = configured_store::read_shenyu(bootstrap)?;
        document.shenyu = Some(listing.entries.iter().filter_map(shenyu_item).collect());
        Ok((document, wrong))
    });
    match read {
        Ok((document, wrong)) => {
            problems::print(&name, &wrong);
            let skipped_plugins = bootstrap.skip_plugins.clone();
            Ok(ExplainInput { settings, skipped_plugins, name, document })
        }
        Err(error) => {
            let problem = Problem::error("resources", format!("{error:#}"));
            let hint = "name a file with --resources, or the data_dir of a gateway";
            problems::print(&name, &Problems::from_iter([problem.with_hint(hint)]));
            Err(ExitCode::from(UNUSABLE))
        }
    }
}

/// Converts a store entry to an object of ShenYu; `None` for entries that only ShenYu's admin uses.
fn shenyu_item(entry: &Entry) -> Option<ShenyuItem> {
    let (kind, id) = tollhouse_shenyu::parse_key(&entry.key)?;
    let text = String::from_utf8_lossy(&entry.value).into();
    Some(ShenyuItem { kind, id: id.to_owned(), path: entry.key.to_string(), text })
}

/// Returns the errors of invalid objects. Such objects take no part in the decision.
fn errors_of(document: &Document, offline: &Offline) -> Problems {
    let of_objects = offline.compiler.problems().flat_map(|(_, problems)| problems.iter());
    let of_shenyu = offline.compiler.shenyu_problems().iter();
    let all = document.problems.iter().chain(of_objects).chain(of_shenyu);
    all.filter(|problem| problem.severity == Severity::Error).cloned().collect()
}

#[cfg(test)]
mod tests;
