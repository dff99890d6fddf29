//! Coordinates a run: starts the processes, starts and monitors opening, waits out the hold time,
//! ends the processes, and forms the result. It carries no connection itself.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant, SystemTime};

use crate::case::{Case, TlsOptions};
use crate::connections::message::{HoldOrder, LocalPorts, Order, ServeOrder, Tally};
use crate::connections::parts::{Launcher, Parts, Role};
use crate::connections::plan::{End, Listen, Plan, port_run, share};
use crate::connections::requirements;
use crate::connections::summary::{self, Observations};
use crate::error::BenchError;
use crate::preflight::Limits;
use crate::resource::{SAMPLE_EVERY, Sampler, Selector, Watched, halve};
use crate::result::{CaseResult, End as Ending, HeldPoint};
use crate::run::Stop;
use crate::target::{Endpoint, Target};

/// Interval at which the state is checked.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Interval between points of the series and progress reports.
const POINT_EVERY: Duration = Duration::from_millis(500);
/// Maximum number of points, an hour at two a second; beyond it, the series is thinned out.
const POINTS_MAX: usize = 7_200;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Opening,
    /// All connections that could be opened are held.
    Holding,
}

/// Progress of a run, reported twice a second.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    pub phase: Phase,
    /// Duration since the first connection was opened.
    pub elapsed: Duration,
    /// Configured hold time, and the time held so far.
    pub held: (Duration, Duration),
    /// Number of connections that were requested.
    pub wanted: u64,
    /// Number of connections by state, now.
    pub now: HeldPoint,
    /// Connections opened per second since the last report.
    pub rate: f64,
}

/// Opens connections and holds them as planned.
///
/// # Errors
/// If the plan is invalid, the target is unusable, or the machine's limits are too low.
pub fn hold(
    plan: &Plan,
    launcher: &Launcher,
    stop: &Stop,
    observe: &mut dyn FnMut(&Progress),
) -> Result<CaseResult, BenchError> {
    plan.check()?;
    let limits = requirements::enough(plan)?;
    let mut parts = Parts::new();
    let (url, destinations) = match &plan.end {
        End::Own(listen) => own_end(listen, plan.servers(&limits), &mut parts, launcher)?,
        End::Given { url, ports } => given_end(url, *ports, plan.timeout)?,
    };
    launch_holders(plan, &limits, &url, &destinations, &mut parts, launcher)?;
    let sampler = Sampler::start(&watched(plan, &parts, &destinations), SAMPLE_EVERY)?;
    let started_at = SystemTime::now();
    sampler.mark_start();
    let mut run = Run { plan, began: Instant::now(), holding: None, points: Vec::new(), max: 0 };
    parts.go()?;
    let ending = run.follow(&mut parts, stop, observe)?;
    let elapsed = run.began.elapsed();
    // Sampled while all connections are open, so that closing them is not measured.
    let (processes, kernel) = sampler.finish();
    let tally = parts.tally(Role::Holder);
    let (holders, servers) = (parts.count(Role::Holder), parts.tally(Role::Server));
    let done = parts.end(Role::Holder);
    parts.end(Role::Server);
    Ok(summary::result(Observations {
        plan,
        url,
        destinations,
        started_at,
        elapsed,
        ramp: run.holding.map_or(elapsed, |at| at - run.began),
        ending,
        tally,
        server_error: servers.first_error,
        max: run.max,
        points: run.points,
        holders,
        done,
        processes,
        kernel,
    }))
}

/// Runs only the server end, for holders on other machines, until it is stopped. Reports progress
/// to `observe`.
///
/// # Errors
/// If it cannot listen.
pub fn listen(
    listen: &Listen,
    processes: u64,
    launcher: &Launcher,
    stop: &Stop,
    observe: &mut dyn FnMut(&[SocketAddr], &HeldPoint),
) -> Result<(), BenchError> {
    let mut parts = Parts::new();
    let (_, addresses) = own_end(listen, processes, &mut parts, launcher)?;
    let began = Instant::now();
    let mut due = began;
    while !stop.is_stopped() {
        parts.hear(LOOK_EVERY)?;
        if parts.any_ended(Role::Server) {
            return Err(BenchError::Machine("a server process ended; its message is above".into()));
        }
        if Instant::now() >= due {
            observe(&addresses, &point(began.elapsed(), &parts.tally(Role::Server)));
            due += POINT_EVERY;
        }
    }
    parts.end(Role::Server);
    Ok(())
}

struct Run<'a> {
    plan: &'a Plan,
    began: Instant,
    holding: Option<Instant>,
    points: Vec<HeldPoint>,
    max: u64,
}

impl Run<'_> {
    /// Monitors the holders until the hold time is over, no connection is left, or the run is
    /// stopped.
    fn follow(
        &mut self,
        parts: &mut Parts,
        stop: &Stop,
        observe: &mut dyn FnMut(&Progress),
    ) -> Result<Ending, BenchError> {
        let mut due = self.began + POINT_EVERY;
        let mut every = POINT_EVERY;
        loop {
            // Waits once, then drains all pending events: with hundreds of holders, one event per
            // turn would fall behind.
            let mut wait = LOOK_EVERY;
            while parts.hear(wait)? {
                wait = Duration::ZERO;
            }
            let now = Instant::now();
            let tally = parts.tally(Role::Holder);
            self.max = self.max.max(tally.open);
            if self.holding.is_none() && tally.opened == parts.count(Role::Holder) {
                self.holding = Some(now);
            }
            let is_over = self.holding.is_some_and(|since| {
                tally.open == 0 || now.duration_since(since) >= self.plan.hold
            });
            if now >= due || is_over || stop.is_stopped() {
                observe(&self.step(now, &tally));
                due = now + every;
            }
            // Bounds the series for long runs: keeps every second point and doubles the interval.
            if self.points.len() >= POINTS_MAX {
                halve(&mut self.points, |_, second| second);
                every *= 2;
            }
            if parts.any_ended(Role::Holder) || parts.any_ended(Role::Server) {
                let why = "a process that carried connections ended; its message is above";
                return Err(BenchError::Machine(why.into()));
            }
            if stop.is_stopped() {
                return Ok(Ending::Interrupted);
            }
            if is_over {
                return Ok(Ending::Completed);
            }
        }
    }

    /// Adds a point to the series and returns the progress.
    fn step(&mut self, now: Instant, tally: &Tally) -> Progress {
        let elapsed = now - self.began;
        let last = self.points.last().copied().unwrap_or_default();
        let point = point(elapsed, tally);
        let span_ns = point.at_ns.saturating_sub(last.at_ns);
        let opened = point.established.saturating_sub(last.established) as f64;
        if span_ns > 0 {
            self.points.push(point);
        }
        let held = self.holding.map_or(Duration::ZERO, |since| now - since);
        Progress {
            phase: if self.holding.is_some() { Phase::Holding } else { Phase::Opening },
            elapsed,
            held: (self.plan.hold, held),
            wanted: self.plan.connections,
            now: point,
            rate: if span_ns == 0 { 0.0 } else { opened * 1e9 / span_ns as f64 },
        }
    }
}

fn point(elapsed: Duration, tally: &Tally) -> HeldPoint {
    use crate::connections::message::Loss;
    let failed = |loss| tally.failed.get(&loss).copied().unwrap_or(0);
    HeldPoint {
        at_ns: u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX),
        open: tally.open,
        established: tally.established,
        failed: tally.failures(),
        refused: failed(Loss::Refused),
        reset: failed(Loss::Reset),
        timed_out: failed(Loss::TimedOut),
        lost: tally.losses(),
    }
}

/// Starts our server processes; returns the URL and the addresses they listen on.
fn own_end(
    listen: &Listen,
    processes: u64,
    parts: &mut Parts,
    launcher: &Launcher,
) -> Result<(String, Vec<SocketAddr>), BenchError> {
    let mut left = listen.addresses()?.into_iter();
    let ports = left.len() as u64;
    let processes = processes.clamp(1, ports);
    for index in 0..processes {
        let count = usize::try_from(share(ports, index, processes)).unwrap_or(usize::MAX);
        let addresses = left.by_ref().take(count).collect();
        let order = ServeOrder { addresses, is_tls: listen.is_tls };
        parts.launch(launcher, &Order::Serve(order))?;
    }
    let addresses = parts.wait_ready(Role::Server)?;
    let scheme = if listen.is_tls { "https" } else { "http" };
    let first = addresses.first().copied().unwrap_or(SocketAddr::new(listen.address, 0));
    Ok((format!("{scheme}://{first}/"), addresses))
}

/// Resolves the addresses of a given target and checks that it accepts a connection.
fn given_end(
    url: &str,
    ports: u16,
    timeout: Duration,
) -> Result<(String, Vec<SocketAddr>), BenchError> {
    let target = Target::try_from_case(&Case::new(url))?;
    let wrong = |why: &str| BenchError::Target { target: url.to_owned(), why: why.to_owned() };
    let Endpoint::Tcp(addresses) = &target.endpoint else {
        return Err(wrong("is not a TCP address; write host:port"));
    };
    let mut destinations = Vec::new();
    for address in addresses {
        destinations.extend(port_run(address.ip(), address.port(), ports)?);
    }
    let first = destinations.first().ok_or_else(|| wrong("has no address"))?;
    TcpStream::connect_timeout(first, timeout).map_err(|error| BenchError::Probe {
        target: first.to_string(),
        why: format!("{error}; start it, or use --serve to have both ends here"),
    })?;
    let shown = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
    Ok((shown, destinations))
}

fn launch_holders(
    plan: &Plan,
    limits: &Limits,
    url: &str,
    destinations: &[SocketAddr],
    parts: &mut Parts,
    launcher: &Launcher,
) -> Result<(), BenchError> {
    let of = plan.holders(limits);
    let tls = match &plan.end {
        // The certificate of our own server is generated when it starts, so that it cannot be
        // verified.
        End::Own(_) => TlsOptions { insecure: true, ..TlsOptions::default() },
        End::Given { .. } => plan.tls.clone(),
    };
    let sources = plan.source_addresses(destinations, limits);
    for index in 0..of {
        let order = HoldOrder {
            destinations: destinations.to_vec(),
            sources: sources.clone(),
            ports: LocalPorts { first: limits.port_first, count: limits.ports },
            connections: share(plan.connections, index, of),
            index,
            of,
            rate: plan.rate / of as f64,
            target: url.to_owned(),
            tls: tls.clone(),
            ping: plan.ping,
            timeout: plan.timeout,
        };
        parts.launch(launcher, &Order::Hold(Box::new(order)))?;
    }
    parts.wait_ready(Role::Holder).map(|_| ())
}

/// Returns the processes to sample: both ends, as far as they run on this machine.
fn watched(plan: &Plan, parts: &Parts, destinations: &[SocketAddr]) -> Vec<Watched> {
    let of = |role: Role| Watched::new(role.as_str(), Selector::Pids(parts.pids(role)));
    // An address belongs to this machine if it can be bound.
    let is_own = |address: &SocketAddr| TcpListener::bind((address.ip(), 0)).is_ok();
    let is_here = destinations.first().is_some_and(is_own);
    match &plan.end {
        End::Own(_) => vec![of(Role::Holder), of(Role::Server)],
        // A local port with the same number is unrelated to a remote target.
        End::Given { .. } if !is_here => vec![of(Role::Holder)],
        End::Given { .. } => {
            let ports = destinations.iter().map(SocketAddr::port).collect();
            vec![of(Role::Holder), Watched::new("target", Selector::Ports(ports))]
        }
    }
}
