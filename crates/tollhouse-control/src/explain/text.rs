//! Explanations as text, for the command line.

mod connection;
mod near;
mod shenyu;

use std::fmt::Write;

use tollhouse_model::Upstream;
use tollhouse_model::upstream::{Discovery, HashOn, Node, PassHost, Scheme, WarmUp};
use tollhouse_proxy::plugins::PluginStep;
use tollhouse_proxy::snapshot::{RouteEntry, UpstreamEntry};
use tollhouse_stdx::plural::counted;
use tollhouse_telemetry::ErrorCode;

pub use self::connection::connection;
pub use self::near::{Nearby, nearest};

use super::{
    Candidate, Decision, Destination, Question, Rejection, Winner, loss, lossy, plugin_owner,
};

/// Maximum number of candidates listed; thousands may share one path.
const CANDIDATES_SHOWN_MAX: usize = 20;

/// Maximum number of nodes listed per upstream.
const NODES_SHOWN_MAX: usize = 50;

/// Width of the label column in characters.
const LABEL_CHARS: usize = 12;

/// Text under construction: lines, each with a label and a text.
#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    /// Adds a line; an empty label continues the line above.
    fn line(&mut self, label: &str, text: &str) {
        writeln!(self.text, "{label:LABEL_CHARS$}{text}").expect("writing to a string cannot fail");
    }

    /// Adds a line without a label, without trailing blanks.
    fn plain(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }
}

/// Formats a request that is refused before a route is looked up.
pub fn refusal(refused: &Rejection) -> String {
    let mut page = Page::default();
    match refused {
        Rejection::Head(error) => page.line("answer", &format!("an error at once: {error}")),
        Rejection::Code(code) => page.line("answer", &answer(*code, code.meaning())),
    }
    page.line("", "no route is looked for");
    page.text
}

/// Formats the decision on a request.
pub fn decision(question: &Question, decision: &Decision) -> String {
    let mut page = Page::default();
    request(&mut page, question);
    if let Some(handled) = &decision.shenyu {
        shenyu::way(&mut page, handled, &global_plugins(decision));
        if let Some(winner) = &decision.winner {
            destination(&mut page, question, winner);
        }
        shenyu::choices(&mut page, &handled.course);
        candidates(&mut page, &decision.candidates);
        return page.text;
    }
    match &decision.winner {
        Some(winner) => route(&mut page, question, decision, winner),
        None => {
            page.line("route", "none");
            let code = ErrorCode::RouteNotFound;
            page.line("answer", &answer(code, code.meaning()));
        }
    }
    candidates(&mut page, &decision.candidates);
    page.text
}

fn answer(code: ErrorCode, why: &str) -> String {
    format!("{} {code}: {why}", code.status())
}

fn request(page: &mut Page, question: &Question) {
    let (method, host) = (lossy(question.method()), lossy(question.authority()));
    let path = lossy(&question.path);
    page.line("request", &format!("{method} {path} of {host}, from {}", question.remote_addr()));
    if question.path != question.sent_path() {
        page.line("", &format!("path normalised, sent as {}", lossy(question.sent_path())));
    }
}

fn route(page: &mut Page, question: &Question, decision: &Decision, winner: &Winner) {
    let route = &winner.entry.route;
    let name = route.name.as_ref().map(|name| format!(" ({})", lossy(name.as_bytes())));
    let name = name.unwrap_or_default();
    page.line("route", &format!("{}{name}, pattern {}", route.id, lossy(winner.uri.as_bytes())));
    for (name, value) in &winner.captured {
        page.line("", &format!("{name} = {}", lossy(value)));
    }
    plugins(page, decision, &winner.entry);
    destination(page, question, winner);
}

fn destination(page: &mut Page, question: &Question, winner: &Winner) {
    match &winner.destination {
        Destination::Upstream { place, entry } => upstream(page, question, winner, place, entry),
        Destination::Refused { code, missing } => page.line("answer", &answer(*code, missing)),
    }
}

fn plugins(page: &mut Page, decision: &Decision, entry: &RouteEntry) {
    let own = entry.chain.steps().iter().map(|step| line(step, &plugin_owner(entry, step)));
    let lines: Vec<String> = global_plugins(decision).into_iter().chain(own).collect();
    if lines.is_empty() {
        return page.line("plugins", "none");
    }
    for (index, line) in lines.iter().enumerate() {
        page.line(if index == 0 { "plugins" } else { "" }, line);
    }
}

/// Returns one line for each plugin of global rules.
fn global_plugins(decision: &Decision) -> Vec<String> {
    decision.globals.steps().iter().map(|step| line(step, "global rules")).collect()
}

/// Formats a plugin with its priority, its phases, and its owner.
fn line(step: &PluginStep, owner: &str) -> String {
    if let Some(code) = step.refuses_with {
        let name = step.name();
        return match code {
            ErrorCode::RouteInvalid => format!("requests end here: {code} from {owner}"),
            _ => format!("{name} cannot run: {code} from {owner}"),
        };
    }
    let phases = step.handler.phases().names().join(", ");
    format!("{} (priority {}; {phases}) from {owner}", step.name(), step.priority)
}

fn upstream(
    page: &mut Page,
    question: &Question,
    winner: &Winner,
    place: &str,
    entry: &UpstreamEntry,
) {
    let conf = &entry.conf;
    let scheme = scheme(conf.scheme);
    page.line("upstream", &format!("{place}: {} over {scheme}, {}", balance(conf), retries(conf)));
    if let Some(discovery) = &conf.discovery {
        page.line("", &format!("{}; {}", discovered(discovery), host_rule(conf)));
    }
    // The nodes that a discovery source returns are known only to a running gateway.
    let source = conf.discovery.as_ref().map(|discovery| discovery.source);
    if let Some(source) = source.filter(|source| source.is_reported()) {
        let path = format!("/v1/discovery/{}", source.name());
        page.line("", &format!("how many these are now, and why: GET {path} of its control API"));
    }
    if let Some(warm_up) = &conf.warm_up {
        page.line("", &slow_start(warm_up));
    }
    for node in conf.nodes.iter().take(NODES_SHOWN_MAX) {
        page.line("", &node_line(question, conf, node));
    }
    if let Some(more @ 1..) = conf.nodes.len().checked_sub(NODES_SHOWN_MAX) {
        page.line("", &format!("and {more} more nodes"));
    }
    let timeouts = winner.entry.route.timeout.unwrap_or(entry.terms.timeouts);
    let (connect, send, read) = (timeouts.connect, timeouts.send, timeouts.read);
    page.line("timeouts", &format!("connect {connect:?}, send {send:?}, read {read:?}"));
    if winner.entry.websocket {
        page.line("upgrades", "pass (enable_websocket)");
    }
}

/// Formats the service discovery of an upstream: its source, and the filter on instances.
fn discovered(discovery: &Discovery) -> String {
    let version = discovery.version.iter().map(|version| format!("version {version}"));
    let pairs = discovery.metadata.iter().map(|(key, value)| format!("{key}={value}"));
    let filters: Vec<String> = version.chain(pairs).collect();
    let asked_for = match filters.is_empty() {
        true => String::new(),
        false => format!(" with {}", lossy(filters.join(", ").as_bytes())),
    };
    let (members, origin) = (discovery.source.members(), discovery.source.origin());
    let service = discovery.to_string();
    format!("{members} of {}{asked_for}, from {origin}", lossy(service.as_bytes()))
}

fn slow_start(warm_up: &WarmUp) -> String {
    let (window, percent) = (warm_up.window, warm_up.minimum_weight_percent);
    format!("a fresh node begins with {percent} % of its weight and has all of it after {window:?}")
}

fn scheme(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::Http => "http",
        Scheme::Https => "https",
        Scheme::Tcp => "tcp",
        Scheme::Tls => "tls",
        Scheme::Udp => "udp",
        Scheme::Grpc => "grpc",
        Scheme::Grpcs => "grpcs",
    }
}

fn balance(conf: &Upstream) -> String {
    let name = conf.balance.policy.name();
    let key = match &conf.balance.hash_on {
        None => return name.to_owned(),
        Some(HashOn::Variable(name)) => format!("variable {name}"),
        Some(HashOn::Header(name)) => format!("header {name}"),
        Some(HashOn::Cookie(name)) => format!("cookie {name}"),
        Some(HashOn::Consumer) => "the consumer".to_owned(),
        Some(HashOn::Combination(template)) => lossy(template.as_bytes()),
    };
    format!("{name} on {key}")
}

fn retries(conf: &Upstream) -> String {
    match (conf.retries, &conf.discovery) {
        (Some(retries), _) => retry_count(retries as usize),
        (None, Some(_)) => "a retry for each other node".to_owned(),
        (None, None) => retry_count(conf.nodes.len().saturating_sub(1)),
    }
}

fn retry_count(retries: usize) -> String {
    match retries {
        0 => "no retries".to_owned(),
        some => counted(some, "retry"),
    }
}

fn host_rule(conf: &Upstream) -> String {
    match &conf.pass_host {
        PassHost::Pass => "Host as the client sent it".to_owned(),
        PassHost::Node => "Host of the node".to_owned(),
        PassHost::Rewrite(host) => format!("Host: {host}"),
    }
}

fn node_line(question: &Question, conf: &Upstream, node: &Node) -> String {
    let host = match &conf.pass_host {
        PassHost::Pass => lossy(question.authority()),
        PassHost::Rewrite(host) => host.clone(),
        PassHost::Node if node.port == conf.scheme.default_port() => bracketed(&node.host),
        PassHost::Node => format!("{}:{}", bracketed(&node.host), node.port),
    };
    let priority = match node.priority {
        0 => String::new(),
        priority => format!("  priority {priority}"),
    };
    let weight = match node.weight {
        0 => "weight 0, never picked".to_owned(),
        weight => format!("weight {weight}"),
    };
    format!("{}:{}  {weight}{priority}  Host: {host}", bracketed(&node.host), node.port)
}

fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

fn candidates(page: &mut Page, candidates: &[Candidate]) {
    if candidates.is_empty() {
        return;
    }
    page.text.push_str("\ncandidates, in the order tried\n");
    let listed = &candidates[..candidates.len().min(CANDIDATES_SHOWN_MAX)];
    let width = |text: &dyn Fn(&Candidate) -> usize| listed.iter().map(text).max().unwrap_or(0);
    // Only listed candidates count for the width, because a long id that is not listed would
    // stretch the table.
    let id_chars = width(&|candidate| candidate.verdict.id.as_str().chars().count());
    let uri_chars = width(&|candidate| candidate.verdict.uri.chars().count());
    for (index, candidate) in listed.iter().enumerate() {
        let verdict = &candidate.verdict;
        let outcome = if verdict.loss.is_none() { "won " } else { "lost" };
        let priority = match verdict.priority {
            0 => String::new(),
            priority => format!("priority {priority}  "),
        };
        let line = format!(
            "{:>3}  {outcome}  {:id_chars$}  {:uri_chars$}  {priority}{}",
            index + 1,
            verdict.id.as_str(),
            lossy(verdict.uri.as_bytes()),
            loss(candidate),
        );
        page.plain(&line);
    }
    if let Some(more @ 1..) = candidates.len().checked_sub(CANDIDATES_SHOWN_MAX) {
        page.plain(&format!("     and {more} more"));
    }
}
