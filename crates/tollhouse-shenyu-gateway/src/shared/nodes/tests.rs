//! Handles of both versions, their invalid values, limits, rising weights, disabled nodes and gray
//! nodes.

use super::*;
use tollhouse_shenyu::model::DiscoveryUpstream;

fn urls(handle: &str) -> Result<Vec<String>, HandleError> {
    let nodes = divide_nodes(Some(handle), None)?;
    Ok(nodes.into_iter().map(|node| node.url).collect())
}

fn upstream(url: &str, status: i64, props: &str) -> DiscoveryUpstream {
    DiscoveryUpstream {
        url: url.into(),
        status,
        props: Some(props.into()),
        protocol: Some("https://".into()),
        weight: Some(7),
        ..DiscoveryUpstream::default()
    }
}

#[test]
fn nodes_of_a_handle_are_read() {
    let handle = r#"[{"upstreamHost":"localhost","protocol":"http://","upstreamUrl":"10.0.0.5:8080",
        "weight":"20","status":true,"timestamp":0,"warmup":0},
        {"upstreamUrl":"10.0.0.6:8080","status":false}]"#;
    let node = DivideNode {
        url: "10.0.0.5:8080".into(),
        tls: false,
        weight: 20,
        warm_up_ms: 0,
        started_ms: 0,
        gray: false,
    };
    assert_eq!(divide_nodes(Some(handle), None), Ok(vec![node]));
    for empty in [None, Some(""), Some("[]")] {
        assert_eq!(divide_nodes(empty, None), Ok(vec![]));
    }
}

#[test]
fn discovery_wins_over_the_handle_even_when_empty() {
    let handle = Some(r#"[{"upstreamUrl":"10.0.0.5:8080"}]"#);
    let discovery = DiscoveryUpstreams {
        upstream_data_list: vec![
            upstream("10.0.0.7:443", 0, r#"{"warmup":"2000"}"#),
            upstream("10.0.0.8:443", 1, "not JSON, and off"),
            upstream("[::1]:443", 0, ""),
        ],
        ..DiscoveryUpstreams::default()
    };
    let nodes = divide_nodes(handle, Some(&discovery)).unwrap();
    let read: Vec<_> =
        nodes.iter().map(|node| (&*node.url, node.tls, node.weight, node.warm_up_ms)).collect();
    assert_eq!(
        read,
        [("10.0.0.7:443", true, 7, 2000), ("[::1]:443", true, 7, DISCOVERY_WARM_UP_MS)]
    );
    assert_eq!(divide_nodes(handle, Some(&DiscoveryUpstreams::default())), Ok(vec![]));
}

#[test]
fn odd_optional_members_of_a_node_never_cost_the_others() {
    let odd = DiscoveryUpstreams {
        upstream_data_list: [
            r#"{"warmup":10,"gray":"undefined"}"#,
            r#"{"warmup":"soon","gray":7,"healthCheckEnabled":[]}"#,
            r#"{"warmup":{}}"#,
            "no JSON",
            "[]",
        ]
        .map(|props| upstream("a:1", 0, props))
        .into(),
        ..DiscoveryUpstreams::default()
    };
    let nodes = divide_nodes(None, Some(&odd)).unwrap();
    assert_eq!(nodes.len(), 5);
    assert!(nodes.iter().all(|node| !node.gray && node.warm_up_ms == DISCOVERY_WARM_UP_MS));
    let handle =
        r#"[{"upstreamUrl":"a:1","weight":"much","timestamp":{},"warmup":1.5,"gray":"maybe"}]"#;
    let nodes = divide_nodes(Some(handle), None).unwrap();
    assert_eq!((nodes[0].weight, nodes[0].gray, nodes[0].started_ms), (DEFAULT_WEIGHT, false, 0));
}

#[test]
fn a_host_without_a_port_has_that_of_its_protocol() {
    for (protocol, url, expected) in [
        ("http://", "httpbin.org", "httpbin.org:80"),
        ("", "localhost", "localhost:80"),
        ("https://", "httpbin.org", "httpbin.org:443"),
        ("wss://", "[::1]", "[::1]:443"),
        ("ws", "a:9", "a:9"),
    ] {
        let handle = format!(r#"[{{"upstreamUrl":"{url}","protocol":"{protocol}"}}]"#);
        assert_eq!(urls(&handle), Ok(vec![expected.to_owned()]));
    }
    for protocol in ["grpc://", "dubbo://", "tcp://"] {
        let handle = format!(r#"[{{"upstreamUrl":"a","protocol":"{protocol}"}}]"#);
        assert_eq!(urls(&handle), Err(HandleError::Address(1)), "it has no port of its own");
    }
}

#[test]
fn only_gray_nodes_are_asked_where_there_are_any() {
    let handle = r#"[{"upstreamUrl":"a:1"},{"upstreamUrl":"b:1","gray":true},
        {"upstreamUrl":"c:1","gray":true,"status":false}]"#;
    assert_eq!(urls(handle), Ok(vec!["b:1".to_owned()]));
}

#[test]
fn handles_that_cannot_be_read_are_refused() {
    assert!(matches!(urls("{"), Err(HandleError::Malformed(_))));
    assert!(matches!(urls(r#"{"upstreamUrl":"a:1"}"#), Err(HandleError::Malformed(_))));
    for url in ["", "a:", "a:0", "a:70000", ":80", "http://a:80", "u@a:80", "a:+8", "::1", "a b"] {
        let handle = format!(r#"[{{"upstreamUrl":"b:1"}},{{"upstreamUrl":"{url}"}}]"#);
        assert_eq!(urls(&handle), Err(HandleError::Address(2)), "{url}");
    }
    let foreign = urls(r#"[{"upstreamUrl":"a:1","protocol":"motan://"}]"#);
    assert!(matches!(foreign, Err(HandleError::Protocol { index: 1, .. })));
}

#[test]
fn rules_are_read_with_their_defaults() {
    for blank in [None, Some(""), Some("{}"), Some(r#"{"loadBalance":"","retry":null}"#)] {
        assert_eq!(DivideRule::read(blank), Ok(DivideRule::default()));
    }
    let handle = r#"{"loadBalance":"p2c","retryStrategy":"failover","retry":1,"timeout":"500",
        "headerMaxSize":10240,"requestMaxSize":102400}"#;
    let rule = DivideRule {
        load_balance: LoadBalance::P2c,
        retry_strategy: RetryStrategy::Failover,
        retries: 1,
        timeout_ms: 500,
        header_bytes_max: 10240,
        request_bytes_max: 102_400,
    };
    assert_eq!(DivideRule::read(Some(handle)), Ok(rule));
}

#[test]
fn rules_that_ask_for_what_does_not_exist_are_refused() {
    for handle in [
        "[]",
        "1",
        r#"{"loadBalance":"fastest"}"#,
        r#"{"retryStrategy":"custom"}"#,
        r#"{"retry":-1}"#,
        r#"{"retry":1000000}"#,
        r#"{"timeout":0}"#,
        r#"{"timeout":99999999999}"#,
        r#"{"headerMaxSize":-1}"#,
    ] {
        assert!(DivideRule::read(Some(handle)).is_err(), "{handle}");
    }
}

#[test]
fn headers_and_bodies_have_limits() {
    let limited =
        DivideRule { header_bytes_max: 10, request_bytes_max: 20, ..DivideRule::default() };
    let cases = [
        (10, Some(20), None),
        (11, Some(99), Some(Answer::HeadersTooLarge)),
        (1, Some(21), Some(Answer::RequestTooLarge)),
        (1, None, None),
    ];
    for (headers, length, answer) in cases {
        assert_eq!(limited.refuse(headers, length), answer);
        assert_eq!(DivideRule::default().refuse(headers, length), None);
    }
}

#[test]
fn a_discovered_node_warms_up_from_when_it_began_to_serve() {
    let began = |node: DiscoveryUpstream| {
        let upstream_data_list = vec![node];
        let discovery = DiscoveryUpstreams { upstream_data_list, ..DiscoveryUpstreams::default() };
        divide_nodes(None, Some(&discovery)).unwrap()[0].started_ms
    };
    let node = upstream("a:80", 0, r#"{"warmup":60000}"#);
    let dated = |date: &str| DiscoveryUpstream { date_created: Some(date.into()), ..node.clone() };
    assert_eq!(began(dated("1700000000000")), 1_700_000_000_000);
    // The date has no time zone.
    assert_eq!(began(dated("2026-01-02 03:04:05")), 0);
    let returned = DiscoveryUpstream { started_ms: Some(7), ..dated("2026-01-02 03:04:05") };
    assert_eq!(began(returned), 7);
}
