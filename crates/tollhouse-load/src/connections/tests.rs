//! Whole runs, with threads in the place of processes.

use std::io::Read;
use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use super::*;
use crate::case::TlsOptions;
use crate::error::BenchError;
use crate::result::{CaseResult, End as Ending, Held};
use crate::run::Stop;

fn own(ports: u16, is_tls: bool) -> End {
    End::Own(Listen { address: Ipv4Addr::LOCALHOST.into(), base_port: 0, ports, is_tls })
}

fn plan(end: End, connections: u64) -> Plan {
    Plan {
        end,
        connections,
        rate: 10_000.0,
        sources: Sources::Automatic,
        ping: None,
        tls: TlsOptions::default(),
        hold: Duration::ZERO,
        timeout: Duration::from_secs(10),
        processes: None,
    }
}

fn run(plan: &Plan) -> Result<CaseResult, BenchError> {
    hold(plan, &Launcher::Threads, &Stop::default(), &mut |_| ())
}

fn held(result: &CaseResult) -> &Held {
    result.held.as_ref().expect("connections were held")
}

#[test]
fn all_connections_are_held_over_many_ports_and_processes() {
    let result = run(&Plan { processes: Some(3), ..plan(own(7, false), 100) }).expect("loopback");
    let held = held(&result);
    assert_eq!((held.wanted, held.at_end, held.max, held.processes), (100, 100, 100, 3));
    assert!(held.failed.is_empty() && held.lost.is_empty() && held.first_error.is_none());
    assert_eq!((result.connect.count, result.missed_thresholds.len()), (100, 0));
    assert!(!held.points.is_empty() && !held.costs.is_empty(), "{held:?}");
    assert_eq!(result.end, Ending::Completed);
}

#[test]
fn connections_come_from_several_addresses_when_told() {
    let result =
        run(&Plan { sources: Sources::Loopback(3), ..plan(own(1, false), 60) }).expect("loopback");
    assert_eq!(held(&result).at_end, 60);
}

#[test]
fn signs_of_life_are_answered_as_bytes_and_as_http_with_tls_and_without() {
    for (is_tls, is_http) in [(false, false), (false, true), (true, false), (true, true)] {
        let every = Duration::from_millis(20);
        let plan = Plan {
            ping: Some(Ping { every, is_http }),
            hold: Duration::from_millis(200),
            ..plan(own(2, is_tls), 10)
        };
        let result = run(&plan).expect("loopback");
        let held = held(&result);
        assert_eq!((held.at_end, held.pings_failed), (10, 0), "TLS {is_tls}, HTTP {is_http}");
        assert!(held.pings > 0 && result.response_time.count > 0, "{held:?}");
    }
}

#[test]
fn a_target_that_closes_loses_them_all_and_the_run_ends_early() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("tcp://{}", listener.local_addr().expect("bound"));
    // The first is the look at the target; it ends by itself.
    std::thread::spawn(move || listener.incoming().for_each(drop));
    let plan = Plan { hold: Duration::from_secs(3_600), ..plan(End::Given { url, ports: 1 }, 20) };
    let result = run(&plan).expect("it accepts");
    let held = held(&result);
    assert_eq!((held.at_end, held.lost.values().sum::<u64>()), (0, 20));
    assert!(held.first_error.is_some());
    assert_eq!(result.missed_thresholds, ["held == 20: 0"]);
}

#[test]
fn a_target_that_never_speaks_holds_them() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("bound"));
    let silent = std::thread::spawn(move || {
        let mut streams: Vec<_> = listener.incoming().take(31).flatten().collect();
        // The last one ends with the run.
        streams.pop().map(|mut last| last.read(&mut [0]))
    });
    let result = run(&plan(End::Given { url, ports: 1 }, 30)).expect("it accepts");
    assert_eq!(held(&result).at_end, 30);
    assert!(silent.join().is_ok());
}

#[test]
fn a_target_that_is_not_there_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    drop(listener);
    let error = run(&plan(End::Given { url: format!("tcp://{address}"), ports: 1 }, 5));
    let error = error.expect_err("nobody listens").to_string();
    assert!(error.contains(&address) && error.contains("refused"), "{error}");
}

#[test]
fn a_run_that_is_stopped_reports_what_it_held() {
    let stop = Stop::default();
    let plan = Plan { hold: Duration::from_secs(3_600), ..plan(own(1, false), 10) };
    let mut seen = 0;
    let result = hold(&plan, &Launcher::Threads, &stop, &mut |progress| {
        seen += 1;
        if progress.phase == Phase::Holding {
            stop.stop();
        }
    });
    let result = result.expect("loopback");
    assert_eq!((result.end, held(&result).at_end), (Ending::Interrupted, 10));
    assert!(seen > 0 && result.missed_thresholds.is_empty());
}

#[test]
fn a_server_alone_counts_who_comes() {
    let stop = Stop::default();
    let mut clients = Vec::new();
    let at = Listen { address: Ipv4Addr::LOCALHOST.into(), base_port: 0, ports: 3, is_tls: false };
    let served = listen(&at, 2, &Launcher::Threads, &stop, &mut |addresses, now| {
        if clients.is_empty() {
            clients.extend(addresses.iter().map(std::net::TcpStream::connect));
        }
        if now.open == 3 {
            stop.stop();
        }
    });
    served.expect("loopback");
    assert_eq!(clients.len(), 3);
}

#[test]
fn more_than_the_machine_allows_is_refused_with_the_command() {
    let plan = Plan { processes: Some(1), ..plan(own(1, false), 50_000_000) };
    let error = run(&plan).expect_err("too many").to_string();
    assert!(error.contains("descriptors") && error.contains("prlimit"), "{error}");
}

#[test]
fn a_process_told_nonsense_says_who_it_is_for() {
    let mut told = Vec::new();
    let error = serve_part(&b"hello\n"[..], &mut told).expect_err("no order");
    assert!(error.to_string().contains("leave --part out"), "{error}");
}
