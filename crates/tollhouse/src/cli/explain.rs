//! `tollhouse explain`: which route, plugins and upstream a request would get, and why.
//!
//! The question is put to the data plane's own parts: the head is parsed by the codec, the path
//! normalised and the route found by the router, over a snapshot made by the compiler. Nothing
//! listens, nothing is sent, no name is resolved.

mod near;
mod offline;
mod render;
mod render_shenyu;
mod stream;

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
use super::configuration::Configuration;
use super::problems::{self, UNUSABLE};
use super::{configured_store, objects, stdout};
use tollhouse_control::explain::{Asked, Decision, HeaderLine, Question, Url};
use tollhouse_control::settings;

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub struct ExplainArguments {
    #[command(flatten)]
    configuration: Configuration,
    /// Declarative file of resources; short for `--set resources=FILE`.
    #[arg(short, long, value_name = "FILE")]
    resources: Option<PathBuf>,
    /// The request's address, such as `http://api.example.com:9080/v1/users?id=7`; or a connection's,
    /// such as `tcp://10.0.0.1:9100` or, for the name in its hello, `tls://db.example.com:9444`.
    #[arg(short, long)]
    url: Url,
    /// Method; GET, or POST where there is a body.
    #[arg(short = 'X', long, value_name = "METHOD")]
    method: Option<String>,
    /// A header line, such as `Authorization: Bearer x`; may be repeated. `Host` replaces the
    /// address's.
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    headers: Vec<HeaderLine>,
    /// The client's address, as it is once the headers of trusted proxies have been looked at.
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    remote_addr: IpAddr,
    /// Body, for routes that look into it. Its type is that of a form unless a `Content-Type`
    /// header says otherwise.
    #[arg(short = 'd', long, value_name = "TEXT")]
    body: Option<String>,
}

impl ExplainArguments {
    fn asked(&self) -> Asked {
        Asked {
            url: self.url.clone(),
            method: self.method.clone(),
            headers: self.headers.clone(),
            remote_addr: self.remote_addr,
            body: self.body.clone(),
        }
    }
}

/// Prints the decision; the exit code is 0 when a route matches and 1 when none does.
///
/// # Errors
/// When the answer cannot be written or no runtime started.
pub fn run(arguments: &ExplainArguments) -> anyhow::Result<ExitCode> {
    let loaded = match load(arguments) {
        Ok(loaded) => loaded,
        Err(code) => return Ok(code),
    };
    // Upstreams want a runtime to refresh names on; this one never runs.
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let (text, matched) = answer(arguments, &loaded, runtime.handle());
    stdout::print(&text)?;
    Ok(if matched { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What a question is put to.
struct Loaded {
    settings: Settings,
    /// Plugins that may be passed over.
    skipped_plugins: Vec<String>,
    /// The name of the file of resources.
    name: String,
    document: Document,
}

/// The decision as text, and whether a route matches.
fn answer(arguments: &ExplainArguments, loaded: &Loaded, runtime: &Handle) -> (String, bool) {
    let Loaded { settings, name, document, .. } = loaded;
    let offline = Offline::compile(loaded, runtime, View::AsServed);
    problems::print(name, &errors_of(document, &offline));
    if let Some(asked) = arguments.url.below_http() {
        return stream::answer(&asked, arguments.remote_addr, document, &offline);
    }
    let question = match Question::ask(&arguments.asked(), settings) {
        Ok(question) => question,
        Err(refused) => return (render::refusal(&refused), false),
    };
    let decision = Decision::make(&offline.snapshot, &question);
    let mut text = render::decision(&question, &decision);
    let matched = decision.is_taken();
    if !matched {
        let everything = Offline::compile(loaded, runtime, View::Revealing);
        text.push_str(&near::text(&everything, &question));
    }
    (text, matched)
}

/// The settings and the document; what is wrong with either is printed.
fn load(arguments: &ExplainArguments) -> Result<Loaded, ExitCode> {
    let loaded = problems::load(&arguments.configuration)?;
    let settings = settings::data_plane(&loaded.bootstrap);
    let Some(path) = arguments.resources.clone().or(loaded.bootstrap.resources.clone()) else {
        return load_store(settings, &loaded.bootstrap);
    };
    let name = path.display().to_string();
    let environment = |name: &str| std::env::var(name).ok();
    let document = declarative::read(&path, &environment).map_err(|found| {
        problems::print(&name, &found);
        ExitCode::from(UNUSABLE)
    })?;
    let skipped_plugins = loaded.bootstrap.skip_plugins;
    Ok(Loaded { settings, skipped_plugins, name, document })
}

/// Without a file, the store says what is served.
fn load_store(settings: Settings, bootstrap: &Bootstrap) -> Result<Loaded, ExitCode> {
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
            Ok(Loaded { settings, skipped_plugins, name, document })
        }
        Err(error) => {
            let problem = Problem::error("resources", format!("{error:#}"));
            let hint = "name a file with --resources, or the data_dir of a gateway";
            problems::print(&name, &Problems::from_iter([problem.with_hint(hint)]));
            Err(ExitCode::from(UNUSABLE))
        }
    }
}

/// An object of ShenYu's from a store; `None` for what its admin keeps there beside them.
fn shenyu_item(entry: &Entry) -> Option<ShenyuItem> {
    let (kind, id) = tollhouse_shenyu::parse_key(&entry.key)?;
    let text = String::from_utf8_lossy(&entry.value).into();
    Some(ShenyuItem { kind, id: id.to_owned(), path: entry.key.to_string(), text })
}

/// Objects with errors take no part in the decision, which a reader must know.
fn errors_of(document: &Document, offline: &Offline) -> Problems {
    let of_objects = offline.compiler.problems().flat_map(|(_, problems)| problems.iter());
    let of_shenyu = offline.compiler.shenyu_problems().iter();
    let all = document.problems.iter().chain(of_objects).chain(of_shenyu);
    all.filter(|problem| problem.severity == Severity::Error).cloned().collect()
}

#[cfg(test)]
mod tests;
