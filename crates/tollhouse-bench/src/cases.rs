//! Dispatch to the cases of the bench. Most cases have their own files. This file contains the
//! simple ones: they start an origin and the proxies, measure in rounds, and compare Tollhouse with
//! the others.

use super::budget::{self, Budget, Figure};
use super::case::{BODY_BYTES, CONNECTIONS, Case};
use super::measure::{self, Concurrent, Contender, Row};
use super::peer::{Peer, Proxy};
use super::plan::Plan;
use super::report::CaseResult;
use super::{
    abuse, admin, body_bomb, churn, cluster, edge, generator, idle, origin, registry, shenyu_admin,
    start,
};
use anyhow::Result;
use std::path::Path;

/// Number of connections per peer if all peers are under load together.
const CONCURRENT_CONNECTIONS: usize = 32;
const ROUTE_COUNTS: [usize; 4] = [1, 100, 10_000, 100_000];

impl Case {
    pub(crate) fn run(self, plan: &Plan) -> Result<CaseResult> {
        if self.measures_only_tollhouse() && !plan.peers.contains(&Peer::Tollhouse) {
            println!("nothing to measure without tollhouse");
            return Ok(CaseResult::new(self, Vec::new(), Vec::new()));
        }
        match self {
            Self::Plain => plain(plan),
            Self::Routes => routes(plan),
            Self::Churn => churn::run(plan),
            Self::Idle => idle::run(plan),
            Self::Start => start::run(plan),
            Self::Admin => admin::run(plan),
            Self::ShenyuAdmin => shenyu_admin::run(plan),
            Self::Load => generator::run(plan),
            Self::BodyBomb => body_bomb::run(plan),
            Self::Abuse => abuse::run(plan),
            Self::Edge => edge::run(plan),
            Self::Registry => registry::run(plan),
            Self::Cluster => cluster::run(plan),
            Self::ClusterLosses => cluster::run_losses(plan),
        }
    }
}

fn plain(plan: &Plan) -> Result<CaseResult> {
    let origin = origin::start(plan, BODY_BYTES)?;
    let proxies = start_all(plan, origin.port, 1)?;
    let measured = measure::concurrently(plan, &contenders(&proxies))?;
    let figures = ratios(&measured);
    Ok(CaseResult::new(Case::Plain, measured.rows, figures))
}

/// Measures each peer with different numbers of routes. The measurements of one peer are made in
/// the same rounds, because they are compared with each other.
fn routes(plan: &Plan) -> Result<CaseResult> {
    let origin = origin::start(plan, BODY_BYTES)?;
    let scripts = tempfile::tempdir()?;
    let (mut rows, mut figures) = (Vec::new(), Vec::new());
    for peer in plan.peers.iter().copied().filter(|peer| *peer != Peer::HaproxyTcp) {
        // With too many routes, HAProxy and nginx fail or take minutes to start, so that each peer
        // is measured up to its own maximum.
        let counts: Vec<usize> = ROUTE_COUNTS.into_iter().filter(|n| peer.can_hold(*n)).collect();
        let mut started = Vec::new();
        for count in &counts {
            let script = scripts.path().join(format!("{count}.lua"));
            std::fs::write(&script, random_route_script(*count))?;
            let proxy = peer.start(plan, origin.port, *count)?;
            started.push((*count, proxy, script));
        }
        let contenders: Vec<Contender<'_>> = started
            .iter()
            .map(|(count, proxy, script)| Contender {
                label: format!("{}, {count} routes", peer.name()),
                proxy,
                path: "",
                script: Some(script),
                connections: CONNECTIONS,
            })
            .collect();
        let measured = measure::in_rounds(plan, &contenders)?;
        figures.extend(growth(peer, &counts, &measured));
        rows.extend(measured);
    }
    Ok(CaseResult::new(Case::Routes, rows, figures))
}

/// Returns the CPU time per request with each number of routes, relative to that with one route.
fn growth(peer: Peer, counts: &[usize], rows: &[Row]) -> Vec<Figure> {
    let Some(first) = rows.first() else { return Vec::new() };
    let later = counts.iter().zip(rows).skip(1);
    let figures = later.map(|(count, row)| {
        let what = format!("{}: CPU at {count} routes over 1", peer.name());
        let value = row.cpu_us_per_request / first.cpu_us_per_request;
        match (peer, *count) {
            (Peer::Tollhouse, 10_000 | 100_000) => {
                Figure::with_budget(what, value, budget::CPU_AT_MANY_ROUTES)
            }
            _ => Figure::free(what, value),
        }
    });
    figures.collect()
}

/// Returns a wrk script that sends requests to random routes. All requests are rendered in advance,
/// so that choosing one costs wrk hardly any CPU time.
fn random_route_script(routes: usize) -> String {
    format!(
        "local requests = {{}}\n\
         function init(args)\n  \
           for n = 0, {routes} - 1 do requests[n + 1] = wrk.format(\"GET\", \"/r/\" .. n) end\n  \
           math.randomseed(1)\n\
         end\n\
         function request() return requests[math.random({routes})] end\n"
    )
}

/// Starts every peer of the plan that supports this number of routes.
fn start_all(plan: &Plan, origin_port: u16, routes: usize) -> Result<Vec<Proxy>> {
    let able = plan.peers.iter().filter(|peer| peer.can_hold(routes));
    able.map(|peer| peer.start(plan, origin_port, routes)).collect()
}

fn contenders(proxies: &[Proxy]) -> Vec<Contender<'_>> {
    let contender = |proxy| Contender {
        label: Proxy::name(proxy).to_owned(),
        proxy,
        path: FIRST_ROUTE,
        script: None::<&Path>,
        connections: CONCURRENT_CONNECTIONS,
    };
    proxies.iter().map(contender).collect()
}

/// Path of the first route, equal to `route_path(0)`.
const FIRST_ROUTE: &str = "/r/0";

/// Returns the CPU time per request of Tollhouse relative to each other peer, as the median over
/// the rounds.
fn ratios(measured: &Concurrent) -> Vec<Figure> {
    let figure = |(peer, budget): (Peer, Budget)| {
        let ratio = measured.ratio(Peer::Tollhouse.name(), peer.name())?;
        Some(Figure::with_budget(format!("CPU against {}", peer.name()), ratio, budget))
    };
    OTHERS.into_iter().filter_map(figure).collect()
}

/// Peers that Tollhouse is compared with, and the budget of each comparison.
const OTHERS: [(Peer, Budget); 3] = [
    (Peer::Nginx, budget::CPU_AGAINST_NGINX),
    (Peer::Haproxy, budget::CPU_AGAINST_HAPROXY),
    (Peer::HaproxyTcp, budget::CPU_AGAINST_HAPROXY_TCP),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::route_path;

    fn row(label: &str, cpu_us_per_request: f64) -> Row {
        Row {
            label: label.to_owned(),
            requests_per_second: 1.0,
            p50_us: 1.0,
            p99_us: 1.0,
            cpu_us_per_request,
            errors: 0,
        }
    }

    #[test]
    fn growth_is_judged_for_ours_at_many_routes() {
        let rows = [row("a", 10.0), row("b", 10.1), row("c", 10.2)];
        let figures = growth(Peer::Tollhouse, &[1, 100, 10_000], &rows);
        assert_eq!(figures.len(), 2);
        assert_eq!((figures[0].verdict(), figures[1].verdict()), ("", "met"));
    }

    #[test]
    fn the_first_route_is_where_the_constant_says() {
        assert_eq!(FIRST_ROUTE, route_path(0));
    }
}
