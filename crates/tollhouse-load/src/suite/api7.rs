//! API7's benchmark: one worker, eight combinations of plugins, routes and consumers. The published
//! figures were measured with wrk2. Here each combination is measured twice: saturated in a closed
//! loop for the throughput, and at a constant rate of [`RATE_SHARE`] of that for the latency.

use serde_json::{Value, json};

use super::resources::Resources;
use super::stage::{Server, Stage, Subject, request};
use super::{Beat, Length, MOMENT, Options, measure, peer::Upstream, seconds};
use crate::case::UrlEntry;
use crate::error::BenchError;
use crate::pace::Pace;
use crate::plan::{DIRECT, Plan, PlannedCase};
use crate::result::CaseResult;
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

/// Returns the plugins of a case by its name; `None` for a case without plugins, or of another
/// suite.
pub(crate) fn plugins_of(case: &str) -> Option<&str> {
    let scenario = Scenario::find(case).filter(|it| it.has_key_auth || it.has_limit_count);
    scenario.and_then(|_| case.split(',').next())
}

/// Returns the name of the case without plugins that has as many routes.
pub(crate) fn plain_case_of(case: &str) -> Option<String> {
    let Scenario { routes, .. } = Scenario::find(case)?;
    Some(Scenario { has_limit_count: false, has_key_auth: false, routes }.name())
}

pub(super) fn run(
    options: &Options,
    observe: &mut dyn FnMut(Event<'_>),
) -> Result<Session, BenchError> {
    let mut stage = Stage::new(options, 1)?;
    let upstream = stage.mock(&["--body-bytes", &BODY_BYTES.to_string()], "/")?;
    let (saturated, paced) = beats(options.length);
    let plain = Scenario { has_limit_count: false, has_key_auth: false, routes: 1 };
    let direct = Subject::new(DIRECT, upstream.clone());
    let mut cases = vec![plain.planned(&direct, &upstream, saturated)];
    let mut scenarios = Scenario::all();
    if options.length == Length::Glance {
        scenarios.drain(1..scenarios.len() - 1);
    }
    for scenario in scenarios {
        let resources = scenario.resources(upstream.port);
        let server = stage.gateway(&scenario.name(), &resources, &scenario.probe())?;
        cases.push(scenario.planned(&Subject::new(SUBJECT, server), &upstream, saturated));
    }
    let before = Upstream { port: upstream.port, path: "/r/1" };
    let peers = stage.peers(&options.peers, &before)?;
    cases.extend(peers.iter().map(|peer| plain.planned(peer, &upstream, saturated)));
    let about = format!(
        "One worker. Each combination is first saturated by {CONNECTIONS} connections for its throughput, \
         then asked at {:.0} % of that rate for its latency, corrected for coordinated omission. {}",
        RATE_SHARE * 100.0,
        stage.sentence()
    );
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
    session.report.results.iter_mut().for_each(add_objects);
    Ok(session)
}

/// Adds the numbers of configured objects to a result of a gateway.
fn add_objects(result: &mut CaseResult) {
    let Some(scenario) = Scenario::find(&result.name).filter(|_| result.subject != DIRECT) else {
        return;
    };
    let counts = [("routes", scenario.routes), ("consumers", scenario.consumers())];
    result.extra.extend(counts.map(|(name, count)| (name.to_owned(), count as f64)));
}

/// Returns the cases at a constant rate, each at [`RATE_SHARE`] of its measured throughput.
fn at_rate(session: &Session, plan: &Plan, beat: Beat) -> Vec<PlannedCase> {
    let mean_rate = |planned: &PlannedCase| {
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
        paced.case.load.pace = Pace::Rate((mean_rate(planned)? * RATE_SHARE).floor().max(1.0));
        paced.case.load.duration = Some(beat.duration);
        paced.case.load.warm_up = beat.warm_up;
        paced.subject = format!("{}, {:.0} % of its rate", planned.subject, RATE_SHARE * 100.0);
        Some(paced)
    };
    plan.cases.iter().filter(|planned| planned.subject != DIRECT).filter_map(paced).collect()
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

    fn find(case: &str) -> Option<Self> {
        Self::all().into_iter().find(|scenario| scenario.name() == case)
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

    fn planned(self, subject: &Subject, upstream: &Server, beat: Beat) -> PlannedCase {
        let mut planned = subject.case(upstream, &Self::path(1), BODY_BYTES);
        let case = &mut planned.case;
        case.name = self.name();
        case.load = beat.load(CONNECTIONS);
        if self.routes > 1 {
            let entry = |number| UrlEntry { method: None, url: Self::path(number), weight: 1 };
            case.http.urls = (1..=self.routes).map(entry).collect();
        }
        if self.has_key_auth {
            case.http.headers = vec![("apikey".into(), Self::key(self.consumers()))];
        }
        planned
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

    #[test]
    fn a_case_with_plugins_belongs_to_the_one_without_that_has_as_many_routes() {
        let case = "key-auth, 100 routes, 100 consumers";
        assert_eq!(plugins_of(case), Some("key-auth"));
        let plain = plain_case_of(case).expect("the suite has the case");
        assert_eq!(plain, "no plugin, 100 routes, 0 consumers");
        assert_eq!((plugins_of(&plain), plugins_of("600 connections")), (None, None));
    }

    #[test]
    fn results_of_a_gateway_name_their_objects() {
        let name = "key-auth, 1 route, 1 consumer".to_owned();
        let mut result = CaseResult { name, subject: SUBJECT.into(), ..CaseResult::default() };
        add_objects(&mut result);
        assert_eq!(result.extra.get("consumers"), Some(&1.0));
    }
}
