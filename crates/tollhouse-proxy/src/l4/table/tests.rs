//! Which stream route takes a connection.

use serde_json::{Value, json};

use super::*;

fn entry(id: &str, value: &Value) -> Arc<StreamEntry> {
    let (route, problems) = StreamRoute::parse(Id::new(id), value, id);
    let route = route.unwrap_or_else(|| panic!("{problems}"));
    let target = Target::None;
    Arc::new(StreamEntry { route, service: Reference::Unnamed, target, chain: Chain::default() })
}

fn table(routes: &[(&str, Value)]) -> StreamTable {
    let mut table = StreamTable::default();
    for (place, (id, value)) in routes.iter().enumerate() {
        table.insert(place as u64, entry(id, value));
    }
    table
}

fn find(table: &StreamTable, client: &str, local: &str, server_name: Option<&str>) -> String {
    let arrival = Arrival {
        client: client.parse().expect("an address"),
        local: local.parse().expect("an address with a port"),
        server_name,
    };
    table.find(&arrival).map_or_else(|| "none".to_owned(), |found| found.route.id.to_string())
}

#[test]
fn the_first_whose_addresses_and_port_fit_takes_a_connection() {
    let table = table(&[
        ("inside", json!({"remote_addr": "10.0.0.0/8", "server_port": 9100})),
        ("loopback", json!({"server_addr": "127.0.0.1"})),
        ("port", json!({"server_port": 9100})),
        ("late", json!({"remote_addr": "10.1.0.0/16", "server_port": 9100})),
    ]);
    for (client, local, expected) in [
        ("10.1.2.3", "127.0.0.1:9100", "inside"),
        ("10.1.2.3", "127.0.0.1:9101", "loopback"),
        ("192.0.2.1", "127.0.0.1:9100", "loopback"),
        ("192.0.2.1", "127.0.0.2:9100", "port"),
        ("192.0.2.1", "[::1]:9101", "none"),
        ("10.1.2.3", "[::ffff:127.0.0.1]:9102", "loopback"),
    ] {
        assert_eq!(find(&table, client, local, None), expected, "{client} {local}");
    }
}

#[test]
fn a_name_goes_before_and_the_longer_ending_before_the_shorter() {
    let table = table(&[
        ("default", json!({})),
        ("any-name", json!({"sni": "*"})),
        ("com", json!({"sni": "*.com"})),
        ("a-com", json!({"sni": "*.a.com"})),
        ("exact", json!({"sni": "x.a.com"})),
        ("exact-elsewhere", json!({"sni": "y.a.com", "server_port": 1})),
    ]);
    for (name, expected) in [
        (Some("x.a.com"), "exact"),
        (Some("y.a.com"), "a-com"),
        (Some("z.y.a.com"), "a-com"),
        (Some("a.com"), "com"),
        (Some("com"), "any-name"),
        (None, "default"),
    ] {
        assert_eq!(find(&table, "::1", "[::1]:9100", name), expected, "{name:?}");
    }
}

#[test]
fn without_a_route_for_its_name_a_connection_takes_one_without_a_name() {
    let table = table(&[("a", json!({"sni": "a.b"})), ("rest", json!({"server_port": 9100}))]);
    assert_eq!(find(&table, "::1", "[::1]:9100", Some("c.d")), "rest");
    assert_eq!(find(&table, "::1", "[::1]:9101", Some("c.d")), "none");
}

#[test]
fn a_changed_route_keeps_its_place_and_a_clone_keeps_what_it_had() {
    let mut table = table(&[("a", json!({})), ("b", json!({}))]);
    let before = table.clone();
    table.insert(0, entry("a", &json!({"server_port": 1})));
    assert_eq!(find(&table, "::1", "[::1]:2", None), "b");
    assert_eq!(find(&table, "::1", "[::1]:1", None), "a");
    table.remove(&Id::new("a"));
    table.remove(&Id::new("b"));
    assert!(table.is_empty());
    assert_eq!(find(&before, "::1", "[::1]:2", None), "a");
}
