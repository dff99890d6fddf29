//! `cargo x bench --gate`: user instructions per proxied request, counted by callgrind for a plain
//! request, with two plugins and an access log, and with ShenYu selectors and rules.
//!
//! Other load of the machine changes times but not the number of instructions, so that a merge can
//! be refused by it. Two runs of different length are counted. The difference, divided by the
//! difference in requests, is the cost of a request without that of start and end.

pub(crate) mod origin;

use super::budget::{
    Budget, Figure, INSTRUCTIONS_PER_REQUEST, INSTRUCTIONS_WITH_PLUGINS, LUA_OVER_PLAIN,
    SHENYU_AT_MANY_RULES, SHENYU_OVER_ROUTE, TRACED_ALL, TRACED_ONE_PERCENT,
};
use super::client::{Connection, probe};
use super::gateway::{self, key_line, routes_json};
use crate::shell;
use anyhow::{Context, Result, bail};
use origin::Origin;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tollhouse_testbed::{Bootstrap, Program, free_port};

/// Number of connections, each with one request at a time.
const CONNECTIONS: usize = 16;
/// Number of requests of the short run, so high that each connection has sent several.
const REQUESTS_SHORT: usize = 320;
/// Number of requests of the long run.
const REQUESTS_LONG: usize = 3520;

/// Maximum CPU time of an idle program under callgrind in a second; the kernel counts in hundredths
/// of a second.
const IDLE_CPU_MAX: Duration = Duration::from_millis(20);
/// Time in which a program must become idle.
const SECONDS_TO_IDLE_MAX: u32 = 120;

/// A request with nine headers, about as many as a browser sends when it calls an API.
pub(crate) const REQUEST: &str = "GET /r/0?page=2 HTTP/1.1\r\n\
    Host: api.example.com\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n\
    Accept: application/json, text/plain, */*\r\n\
    Accept-Language: en-US,en;q=0.5\r\n\
    Accept-Encoding: gzip, deflate, br\r\n\
    Referer: https://www.example.com/app/list\r\n\
    Cookie: session=0123456789abcdef0123456789abcdef\r\n\
    X-Request-Id: 5f1d7a3c-8a39-4f56-9a34-0d2f8f0b6d11\r\n\
    Cache-Control: no-cache\r\n";

/// Configuration of the gateway whose instructions are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    Plain,
    /// `key-auth` and `limit-count` on the route, one consumer, and an access log line for each
    /// request.
    PluginsAndLog,
    /// This number of ShenYu `divide` selectors, each with a rule; one of them takes all requests.
    Shenyu(usize),
    Traced(Share),
    /// Three lines of Lua in the access phase.
    Lua,
}

/// Share of the requests that is recorded as traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Share {
    OnePercent,
    /// All, and a queue so short that nothing is exported.
    AllOnCore,
    /// All, and a collector that takes everything.
    AllExported,
}

/// Function of the budget for Lua.
const THREE_LINES: &str = "return function(conf, ctx)\n\
    if ctx.var.arg_page == 'secret' then\n\
    return 403\n\
    end\n\
    end";

/// Large number of ShenYu selectors, of which the request matches one.
const SELECTORS_MANY: usize = 10_000;

impl Load {
    /// Returns the name of the figure.
    fn title(self) -> &'static str {
        match self {
            Self::Plain => "user instructions per plain proxied request",
            Self::PluginsAndLog => "user instructions with two plugins and an access log",
            Self::Shenyu(1) => "user instructions by a selector and a rule of divide",
            Self::Shenyu(_) => "user instructions by one of 10,000 selectors and rules of divide",
            Self::Traced(Share::OnePercent) => "user instructions with 1 % of traces",
            Self::Traced(Share::AllOnCore) => "user instructions with all traces, export excluded",
            Self::Traced(Share::AllExported) => {
                "user instructions with all traces and their export"
            }
            Self::Lua => "user instructions with three lines of Lua",
        }
    }

    /// Returns the suffix of the profile's file name; empty for the plain load, whose file name is
    /// older than the others.
    fn profile_suffix(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::PluginsAndLog => ".plugins",
            Self::Shenyu(1) => ".shenyu",
            Self::Shenyu(_) => ".shenyu-many",
            Self::Traced(Share::OnePercent) => ".traced-1",
            Self::Traced(Share::AllOnCore) => ".traced-core",
            Self::Traced(Share::AllExported) => ".traced-all",
            Self::Lua => ".lua",
        }
    }

    fn access_log(self) -> &'static str {
        match self {
            Self::Plain | Self::Shenyu(_) | Self::Traced(_) | Self::Lua => "off",
            Self::PluginsAndLog => "combined",
        }
    }

    /// Returns further lines of the bootstrap file. The origin takes the place of a collector.
    fn settings(self, origin_port: u16) -> String {
        if self == Self::Lua {
            return "scripting:\n  lua: trusted\n".to_owned();
        }
        let Self::Traced(share) = self else { return String::new() };
        let (sampler, ratio, queue) = match share {
            Share::OnePercent => ("traceidratio", "0.01", 2048),
            Share::AllOnCore => ("always_on", "1", 1),
            Share::AllExported => ("always_on", "1", 20_000),
        };
        format!(
            "tracing:\n  enabled: true\n  endpoint: http://127.0.0.1:{origin_port}/v1/traces\n  \
             sampler: {sampler}\n  ratio: {ratio}\n  queue_spans: {queue}\n  batch_spans: {}\n",
            queue.min(512)
        )
    }

    fn resources(self, origin_port: u16) -> String {
        let plugins = gateway::key_auth_and_limit();
        match self {
            Self::Plain | Self::Traced(_) => routes_json(origin_port, 1),
            Self::PluginsAndLog => json!({
                "routes": [gateway::route_with_plugins(origin_port, 0, &plugins)],
                "consumers": [gateway::consumer(0)],
            })
            .to_string(),
            Self::Lua => {
                let text = json!({ "serverless-pre-function": { "functions": [THREE_LINES] } });
                let route = gateway::route_with_plugins(origin_port, 0, &text);
                json!({ "routes": [route] }).to_string()
            }
            Self::Shenyu(selectors) => shenyu_objects(origin_port, selectors).to_string(),
        }
    }

    /// Returns the header lines in addition to the nine of every request.
    fn lines(self) -> String {
        match self {
            Self::Plain | Self::Shenyu(_) | Self::Traced(_) | Self::Lua => String::new(),
            Self::PluginsAndLog => key_line(0),
        }
    }

    /// Sends this number of requests to a gateway, and checks their status.
    fn send(self, port: u16, requests: usize) -> Result<()> {
        let request = format!("{REQUEST}{}\r\n", self.lines());
        send(port, &request, Repeats { requests, status: 200 })
    }
}

/// Checks whether instructions can be counted on this machine.
pub(crate) fn is_possible() -> bool {
    shell::find_program("valgrind").is_some()
}

/// Counts the instructions and prints the figures.
///
/// # Errors
/// If a budget is exceeded.
pub(crate) fn run(binary: &Path) -> Result<()> {
    let origin = Origin::start()?;
    let mut missed: Vec<String> = Vec::new();
    let measure = |load: Load| -> Result<f64> {
        // The start of the program costs millions of instructions. The difference between two runs
        // excludes them.
        let short = count(binary, origin.port(), load, REQUESTS_SHORT)?;
        let long = count(binary, origin.port(), load, REQUESTS_LONG)?;
        Ok(slope(short, long))
    };
    let mut check = |what: &str, value: f64, budget: Budget, digits: usize| {
        let figure = Figure::with_budget(what, value, budget);
        let (limit, stretch, verdict) = (budget.limit, budget.stretch, figure.verdict());
        println!("{what}: {value:.digits$} (budget {limit} / {stretch}, {verdict})");
        if value > limit {
            missed.push(what.to_owned());
        }
    };
    let plain = measure(Load::Plain)?;
    check(Load::Plain.title(), plain, INSTRUCTIONS_PER_REQUEST, 0);
    let with_plugins = measure(Load::PluginsAndLog)?;
    check(Load::PluginsAndLog.title(), with_plugins, INSTRUCTIONS_WITH_PLUGINS, 0);
    let [one, many] = [Load::Shenyu(1), Load::Shenyu(SELECTORS_MANY)];
    let (by_one, by_many) = (measure(one)?, measure(many)?);
    println!("{}: {by_one:.0}", one.title());
    println!("{}: {by_many:.0}", many.title());
    check("a selector and a rule over a plain route", by_one / plain, SHENYU_OVER_ROUTE, 3);
    check("10,000 of them over one", by_many / by_one, SHENYU_AT_MANY_RULES, 3);
    let traced = [Share::OnePercent, Share::AllOnCore, Share::AllExported];
    let [one, all, exported] = traced.map(Load::Traced);
    let (by_one, by_all, by_export) = (measure(one)?, measure(all)?, measure(exported)?);
    for (load, value) in [(one, by_one), (all, by_all), (exported, by_export)] {
        println!("{}: {value:.0}", load.title());
    }
    check("1 % of traces over a plain request", by_one / plain, TRACED_ONE_PERCENT, 3);
    check("all traces over a plain request, export excluded", by_all / plain, TRACED_ALL, 3);
    let with_lua = measure(Load::Lua)?;
    println!("{}: {with_lua:.0}", Load::Lua.title());
    check("three lines of Lua over a plain request", with_lua / plain, LUA_OVER_PLAIN, 3);
    if !missed.is_empty() {
        bail!("past the budget, see where they go with callgrind_annotate: {}", missed.join("; "));
    }
    Ok(())
}

/// Returns this number of `divide` selectors with a rule each; the first one takes the request.
fn shenyu_objects(origin_port: u16, selectors: usize) -> Value {
    let node = json!([{
        "upstreamHost": "localhost", "protocol": "http://", "weight": 50, "status": true,
        "upstreamUrl": format!("127.0.0.1:{origin_port}"), "timestamp": 0, "warmup": 0,
    }]);
    let condition = |operator: &str, path: String| json!([{"paramType": "uri", "operator": operator, "paramName": "/", "paramValue": path}]);
    let folder =
        |number: usize| if number == 0 { "/r/".to_owned() } else { format!("/s{number}/") };
    let selector = |number: usize| {
        json!({
            "id": format!("s{number}"), "name": number.to_string(), "pluginName": "divide", "type": 1,
            "matchMode": 0, "enabled": true, "continued": true, "handle": node.to_string(),
            "conditionList": condition("startsWith", folder(number)),
        })
    };
    let rule = |number: usize| {
        json!({
            "id": format!("r{number}"), "name": number.to_string(), "pluginName": "divide",
            "selectorId": format!("s{number}"), "matchMode": 0, "enabled": true, "handle": "{}",
            "conditionDataList": condition("=", format!("{}0", folder(number))),
        })
    };
    json!({"shenyu": {
        "plugins": [{"name": "divide", "enabled": true}],
        "selectors": (0..selectors).map(selector).collect::<Vec<_>>(),
        "rules": (0..selectors).map(rule).collect::<Vec<_>>(),
    }})
}

fn slope(short: u64, long: u64) -> f64 {
    (long as f64 - short as f64) / (REQUESTS_LONG - REQUESTS_SHORT) as f64
}

/// Starts the program under callgrind, sends the requests, and reads the total that callgrind has
/// written before the program ends, because an end may or may not free the snapshot, which costs
/// as much as thousands of requests.
fn count(binary: &Path, origin_port: u16, load: Load, requests: usize) -> Result<u64> {
    let name = format!("callgrind.out.{requests}{}", load.profile_suffix());
    let profile = shell::target_directory().join(name);
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--quiet"])
        .arg(format!("--callgrind-out-file={}", profile.display()))
        .arg(binary);
    let (program, port) = start(command, origin_port, load).context("under valgrind")?;
    wait_until_idle(&program)?;
    load.send(port, requests)?;
    wait_until_idle(&program)?;
    // callgrind numbers the files that it writes on demand.
    let written = PathBuf::from(format!("{}.1", profile.display()));
    shell::output_of(shell::command("vgdb").arg(format!("--pid={}", program.pid())).arg("dump"))?;
    program.stop();
    std::fs::rename(&written, &profile)
        .with_context(|| format!("callgrind wrote no {}", written.display()))?;
    let text = std::fs::read_to_string(&profile)?;
    total(&text).with_context(|| format!("no total in {}", profile.display()))
}

/// Sends an instrumented program the loads of the gate that differ from a plain request by a part
/// of the gateway.
pub(crate) fn train(binary: &Path, requests: usize) -> Result<()> {
    let origin = Origin::start()?;
    let traced = [Share::OnePercent, Share::AllOnCore].map(Load::Traced);
    for load in [Load::Shenyu(1), traced[0], traced[1], Load::Lua] {
        let (program, port) = start(Command::new(binary), origin.port(), load)?;
        load.send(port, requests)?;
        program.stop();
    }
    Ok(())
}

/// Starts a gateway by this command, and waits until it answers. Returns it with its port.
fn start(mut command: Command, origin_port: u16, load: Load) -> Result<(Program, u16)> {
    let folder = shell::fresh_folder()?;
    let port = free_port()?;
    let settings = load.settings(origin_port);
    let bootstrap = Bootstrap {
        listen: gateway::listen(port)?,
        access_log: load.access_log(),
        settings: &settings,
        ..Bootstrap::default()
    };
    let configuration = gateway::write(folder.path(), &bootstrap, &load.resources(origin_port))?;
    command.args(["run", "--config"]).arg(configuration);
    let program = Program::start_in("tollhouse", folder, command)?;
    program.wait_until_it_answers(port, &probe("/r/0", &load.lines()))?;
    Ok((program, port))
}

/// Waits until the program has used next to no CPU time for a second: the work of its start, and that
/// after its last request, are then in every run or in none.
fn wait_until_idle(program: &Program) -> Result<()> {
    let mut before = program.cpu_time()?;
    for _ in 0..SECONDS_TO_IDLE_MAX {
        shell::pause(Duration::from_secs(1));
        let now = program.cpu_time()?;
        if now.saturating_sub(before) <= IDLE_CPU_MAX {
            return Ok(());
        }
        before = now;
    }
    bail!("the program has not become idle within {SECONDS_TO_IDLE_MAX} seconds")
}

/// Total number of requests to send, and the expected status of each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Repeats {
    pub(crate) requests: usize,
    pub(crate) status: u16,
}

/// Sends one request on every connection, then reads one answer from every connection, and repeats
/// this.
pub(crate) fn send(port: u16, request: &str, repeats: Repeats) -> Result<()> {
    let mut connections: Vec<Connection> =
        (0..CONNECTIONS).map(|_| Connection::open(port)).collect::<Result<_>>()?;
    for _ in 0..repeats.requests / CONNECTIONS {
        for connection in &mut connections {
            connection.send(request.as_bytes())?;
        }
        for connection in &mut connections {
            let status = connection.receive()?;
            if status != repeats.status {
                bail!("status {status} instead of {} for {request:.60?}", repeats.status);
            }
        }
    }
    Ok(())
}

/// Parses the total number of instructions of all threads, at the end of callgrind's output file.
fn total(text: &str) -> Option<u64> {
    let value_of = |name: &str| {
        let lines = text.lines().filter_map(|line| line.strip_prefix(name));
        lines.filter_map(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).max()
    };
    value_of("totals:").or_else(|| value_of("summary:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_has_nine_headers() {
        assert_eq!(REQUEST.trim_end().lines().count(), 1 + 9);
    }

    #[test]
    fn start_and_end_fall_out_of_the_slope() {
        let start_and_end = 5_000_000;
        let cost = |requests: usize| start_and_end + 9_000 * requests as u64;
        assert!((slope(cost(REQUESTS_SHORT), cost(REQUESTS_LONG)) - 9_000.0).abs() < 1e-9);
    }

    #[test]
    fn the_total_is_read() {
        assert_eq!(total("events: Ir\nfn=(1)\n1 2\nsummary: 41\n\ntotals: 42\n"), Some(42));
        assert_eq!(total("summary: 41\n"), Some(41));
        assert_eq!(total(""), None);
    }

    #[test]
    fn client_and_origin_of_the_gate_understand_each_other() {
        let origin = Origin::start().unwrap();
        let repeats = Repeats { requests: 3 * CONNECTIONS, status: 200 };
        send(origin.port(), &format!("{REQUEST}\r\n"), repeats).unwrap();
    }

    #[test]
    fn only_the_load_with_plugins_has_them() {
        assert!(!Load::Plain.resources(81).contains("plugins"));
        let text = Load::PluginsAndLog.resources(81);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["consumers"].as_array().unwrap().len(), 1);
        assert!(value["routes"][0]["plugins"]["limit-count"].is_object(), "{text}");
    }
}
