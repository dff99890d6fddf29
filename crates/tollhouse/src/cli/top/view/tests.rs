//! Text and screens of a made-up frame.

use serde_json::json;

use super::super::frame::Plugin;
use super::*;

fn frame() -> Frame {
    let plugin = |name: &str, refused: u64| Plugin {
        name: name.into(),
        objects: 1,
        refused,
        refused_rate: Some(refused as f64),
        mean_us: Some(1_250.0),
        p99_us: (refused > 0).then_some(64.0),
    };
    Frame {
        overview: json!({
            "hostname": "gw", "version": "1", "revision": 7, "routes_in_service": 2, "started_at": 100, "is_ready": true,
            "nodes": {"healthy": 1, "failing": 1, "unhealthy": 0, "unresolved": 0, "total": 2},
            "findings": [{"severity": "problem", "what": "node a:1 fails"}],
        }),
        seconds: vec![
            json!({"length_ms": 1000, "requests": 30, "classes": {"2xx": 28, "5xx": 2}, "failures": {"no_nodes": 2},
                   "p50_ms": 1, "p90_ms": 2, "p99_ms": 9, "connections": 5}),
            json!({"length_ms": 1000, "requests": 0, "classes": {}, "failures": {}, "p50_ms": null, "p90_ms": null,
                   "p99_ms": null, "connections": 3}),
        ],
        now_s: 280,
        routes: vec![
            json!({"id": "orders", "rate": 12.0, "failed_rate": 3.0, "requests": 100}),
            json!({"id": "files\u{1b}[2J", "rate": 20.0, "failed_rate": 0.0, "requests": 40}),
        ],
        nodes: vec![
            json!({"host": "b", "port": 80, "status": "healthy", "place": "upstreams/1", "name": null, "share_percent": 50.0}),
            json!({"host": "a", "port": 1, "status": "failing", "place": "routes/2", "name": "shop", "share_percent": 50.0}),
        ],
        plugins: vec![plugin("cors", 0), plugin("key-auth", 4)],
    }
}

fn screen(view: &View, columns: usize, rows: usize) -> Vec<String> {
    view.lines(&frame(), Size { columns, rows }, Paint::Plain)
}

#[test]
fn the_text_has_rates_of_all_seconds_latencies_of_the_last_and_the_busiest_routes() {
    let expected = "\
gw: ready, version 1, revision 7, 2 routes, up 3 min
  requests     15.0/s  2xx 14.0  5xx 1.0
  latency      p50 1 ms  p90 2 ms  p99 9 ms
  connections  3
  nodes        1 of 2 serve, 1 failing
  failures     no_nodes 1.0/s
problem: node a:1 fails
Routes 2
ROUTE      REQ/S▼  FAIL/S  FAIL %  REQUESTS
files?[2J    20.0     0.0       0        40
orders       12.0     3.0      25       100
";
    assert_eq!(text(&frame()), expected);
}

#[test]
fn a_narrow_screen_has_one_table_and_findings_above_it() {
    let lines = screen(&View::default(), 80, 14);
    assert_eq!(lines.len(), 14);
    assert_eq!(lines[4], "problem: node a:1 fails");
    assert_eq!(lines[6].trim_end(), "Routes 2");
    assert!(lines[8].starts_with("files?[2J"), "{lines:?}");
    assert!(lines[13].starts_with("q quit   Tab nodes   s sort (REQ/S)"), "{lines:?}");
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:?}");
}

#[test]
fn keys_choose_the_table_and_its_order() {
    let mut view = View::default();
    for key in [Key::Sort, Key::Reverse, Key::Reverse] {
        view.press(key);
    }
    assert!(screen(&view, 80, 14)[8].starts_with("orders"), "by failures");
    view.press(Key::Next);
    let lines = screen(&view, 80, 14);
    assert!(lines[6].starts_with("Nodes 2") && lines[8].starts_with("a:1 "), "{lines:?}");
    assert!(lines[8].contains("failing"), "{lines:?}");
    view.press(Key::Down);
    let lines = screen(&view, 80, 14);
    assert!(lines[6].starts_with("Nodes 2–2 of 2") && lines[8].starts_with("b:80"), "{lines:?}");
}

#[test]
fn a_wide_screen_has_all_tables_beside_each_other() {
    let lines = screen(&View::default(), 140, 20);
    assert!(lines[6].starts_with("Routes 2") && lines[6].contains("Nodes 2"), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("Plugins 2")), "{lines:?}");
    let row = lines.iter().find(|line| line.contains("key-auth")).expect("a row");
    assert!(row.contains("1.2 ms") && row.contains("64 µs"), "{row}");
    assert!(lines.iter().all(|line| line.chars().count() <= 140), "{lines:?}");
}

#[test]
fn a_small_screen_does_not_overflow() {
    for (columns, rows) in [(20, 5), (1, 1), (120, 3)] {
        let lines = screen(&View::default(), columns, rows);
        assert_eq!(lines.len(), rows, "{columns} {rows}");
    }
}
