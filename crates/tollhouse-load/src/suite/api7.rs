//! API7's benchmark: one worker, eight combinations of plugins, routes and consumers. The published
//! figures were measured with wrk2. Here each combination is measured twice: saturated in a closed
//! loop for the throughput, and at a constant rate of [`RATE_SHARE`] of that for the latency.

use serde_json::{Value, json};

use super::gateway::Resources;
use super::stage::{Server, Stage, request};
use super::{Beat, Length, MOMENT, Options, measure, peer::Upstream, seconds};
use crate::case::{Case, Threshold, UrlEntry};
use crate::error::BenchError;
use crate::pace::Pace;
use crate::plan::{DIRECT, Plan, PlannedCase};
use crate::session::{Event, Session};

/// Number of connections; low, as the published latencies of 0.1 ms at 24,000 requests per second
/// suggest.
const CONNECTIONS: usize = 16;
/// Share of the maximum rate at which a gateway is busy but not overloaded.
const RATE_SHARE: f64 = 0.6;
const SUBJECT: &str = "tollhouse";
/// Size of small API responses in bytes.
const BODY_BYTES: u64 = 200;

/// A combination of plugins, routes and consumers.
#[derive(Debug, Clone, Copy)]
struct Scenario {
    has_limit_count: bool,
    has_key_auth: bool,
    routes: usize,
}

/// Returns the durations of both measurements of a scenario.
fn beats(length: Length) -> (Beat, Beat) {
    let beat = |warm_up, duration, repeat| Beat {
        warm_up: seconds(warm_up),
        duration: seconds(duration),
        repeat,
    };
    match length {
        Length::Glance => {
            let glance = Beat { warm_up: seconds(0), duration: MOMENT, repeat: 1 };
            (glance, glance)
        }
        Length::Quick => (beat(1, 3, 1), beat(1, 5, 1)),
        Length::Standard => (beat(1, 5, 3), beat(1, 10, 1)),
        // Ten seconds yield the hundred thousand samples the percentiles require.
        Length::Full => (beat(2, 10, 3), beat(2, 10, 3)),
    }
}

pub(super) fn run(
    options: &Options,
    observe: &mut dyn FnMut(Event<'_>),
) -> Result<Session, BenchError> {
    let mut stage = Stage::new(options, 1)?;
    let upstream = stage.mock(&["--body-bytes", &BODY_BYTES.to_string()], "/")?;
    let mut servers = Vec::new();
    let mut scenarios = Scenario::all();
    if options.length == Length::Glance {
        scenarios.drain(1..scenarios.len() - 1);
    }
    for scenario in scenarios {
        let resources = scenario.resources(upstream.port);
        let server = stage.gateway(&scenario.name(), &resources, &scenario.probe())?;
        servers.push((scenario, server));
    }
    let before = Upstream { port: upstream.port, path: "/r/1" };
    let peers = stage.peers(&options.peers, &before)?;
    let (saturated, paced) = beats(options.length);
    let about = format!(
        "One worker. Each combination is first saturated by {CONNECTIONS} connections for its throughput, \
         then asked at {:.0} % of that rate for its latency, corrected for coordinated omission. {}",
        RATE_SHARE * 100.0,
        stage.sentence()
    );
    let mut cases = vec![direct(&upstream, saturated)];
    let planned = |(scenario, server): &(Scenario, Server)| {
        scenario.planned(SUBJECT, server, &upstream, saturated)
    };
    cases.extend(servers.iter().map(planned));
    for (subject, server) in &peers {
        let plain = Scenario { has_limit_count: false, has_key_auth: false, routes: 1 };
        cases.push(plain.planned(subject, server, &upstream, saturated));
    }
    let plan = Plan {
        name: "API7's benchmark, measured again".into(),
        about,
        repeat: saturated.repeat,
        baseline: Some(DIRECT.into()),
        cases,
        ..Plan::default()
    };
    let mut session = measure(&stage, &plan, options, observe)?;
    let paced_cases = at_rate(&session, &plan, paced);
    if session.failed.is_none() && !options.session.stop.is_stopped() {
        let plan = Plan { cases: paced_cases, repeat: paced.repeat, baseline: None, ..plan };
        // The first half is in the last saved report.
        let keeps_nothing = super::session::Options { save: None, ..options.session.clone() };
        let options = Options { session: keeps_nothing, ..options.clone() };
        let second = measure(&stage, &plan, &options, observe)?;
        session.report.results.extend(second.report.results);
        session.failed = second.failed;
    }
    Ok(session)
}

/// Returns the cases at a constant rate, each at [`RATE_SHARE`] of its measured throughput.
fn at_rate(session: &Session, plan: &Plan, beat: Beat) -> Vec<PlannedCase> {
    let seen = |planned: &PlannedCase| {
        let rates: Vec<f64> = session
            .report
            .results
            .iter()
            .filter(|r| r.subject == planned.subject && r.name == planned.case.name)
            .map(|result| result.goodput)
            .collect();
        (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
    };
    let paced = |planned: &PlannedCase| {
        let mut paced = planned.clone();
        paced.case.load.pace = Pace::Rate((seen(planned)? * RATE_SHARE).floor().max(1.0));
        paced.case.load.duration = Some(beat.duration);
        paced.case.load.warm_up = beat.warm_up;
        paced.subject = format!("{}, {:.0} % of its rate", planned.subject, RATE_SHARE * 100.0);
        Some(paced)
    };
    plan.cases.iter().filter(|planned| planned.subject != DIRECT).filter_map(paced).collect()
}

fn direct(upstream: &Server, beat: Beat) -> PlannedCase {
    let plain = Scenario { has_limit_count: false, has_key_auth: false, routes: 1 };
    let mut planned = plain.planned(DIRECT, upstream, upstream, beat);
    planned.watch = vec![upstream.watched.clone()];
    planned
}

impl Scenario {
    fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for (has_limit_count, has_key_auth) in
            [(false, false), (true, false), (false, true), (true, true)]
        {
            all.extend([1, 100].map(|routes| Self { has_limit_count, has_key_auth, routes }));
        }
        all
    }

    fn consumers(self) -> usize {
        if self.has_key_auth { self.routes } else { 0 }
    }

    /// Returns the name used in the published table.
    fn name(self) -> String {
        let plugins = match (self.has_key_auth, self.has_limit_count) {
            (false, false) => "no plugin",
            (false, true) => "limit-count",
            (true, false) => "key-auth",
            (true, true) => "key-auth and limit-count",
        };
        let plural = |count: usize, noun: &str| {
            if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
        };
        let (routes, consumers) =
            (plural(self.routes, "route"), plural(self.consumers(), "consumer"));
        format!("{plugins}, {routes}, {consumers}")
    }

    fn plugins(self) -> Value {
        let mut plugins = json!({});
        if self.has_key_auth {
            plugins["key-auth"] = json!({});
        }
        if self.has_limit_count {
            // The limit is never reached, so that counting is measured and not rejecting.
            plugins["limit-count"] = json!({
                "count": 2_000_000_000, "time_window": 60, "rejected_code": 503, "key": "remote_addr",
            });
        }
        plugins
    }

    fn path(number: usize) -> String {
        format!("/r/{number}")
    }

    fn key(number: usize) -> String {
        format!("key-{number:08}-of-a-consumer")
    }

    fn resources(self, upstream_port: u16) -> Resources {
        let plugins = self.plugins();
        let routes = (1..=self.routes).map(Self::path);
        let resources = routes.fold(Resources::default(), |resources, path| {
            resources.route(&path, upstream_port, &plugins)
        });
        (1..=self.consumers()).map(Self::key).fold(resources, |r, key| r.consumer(&key))
    }

    /// Returns a request that is answered with 200 only once the last route and the last consumer
    /// exist.
    fn probe(self) -> String {
        let line = match self.consumers() {
            0 => String::new(),
            last => format!("apikey: {}\r\n", Self::key(last)),
        };
        request(&Self::path(self.routes), &line)
    }

    fn planned(self, subject: &str, server: &Server, upstream: &Server, beat: Beat) -> PlannedCase {
        let mut case = Case::new(server.url(&Self::path(1)));
        case.name = self.name();
        case.load.connections = CONNECTIONS;
        case.load.duration = Some(beat.duration);
        case.load.warm_up = beat.warm_up;
        if self.routes > 1 {
            let entry = |number| UrlEntry { method: None, url: Self::path(number), weight: 1 };
            case.http.urls = (1..=self.routes).map(entry).collect();
        }
        if self.has_key_auth {
            case.http.headers = vec![("apikey".into(), Self::key(self.consumers()))];
        }
        case.checks.status = vec![200];
        case.checks.body_bytes = Some(BODY_BYTES);
        case.thresholds = Vec::from_iter("failure_rate < 0.1%".parse::<Threshold>());
        let watch = vec![upstream.watched.clone(), server.watched.clone()];
        PlannedCase { subject: subject.to_owned(), case, watch }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published;

    #[test]
    fn scenarios_are_called_as_the_published_table_calls_them() {
        let ours: Vec<String> = Scenario::all().into_iter().map(Scenario::name).collect();
        let theirs: Vec<String> =
            published::api7().results.into_iter().map(|result| result.name).collect();
        assert_eq!(ours, theirs);
    }
}
