//! Spans that exporters make of recorded requests.

use super::*;
use crate::context::TraceId;
use crate::propagation::Propagators;
use crate::request::TraceStart;
use crate::span::SpanBlock;

fn context() -> SpanContext {
    let (trace_id, span_id) = (TraceId::from_random(7, 7), SpanId::from_random(1));
    SpanContext { trace_id, span_id, is_sampled: true }
}

fn trace(names: SpanNames) -> RequestTrace {
    let mut trace = RequestTrace::default();
    let (context, parent) = (context(), Some(SpanId::from_random(9)));
    let propagators = Propagators::default();
    trace.begin(TraceStart {
        context,
        parent,
        propagators,
        names,
        has_inner_spans: true,
        sink: None,
    });
    trace
}

fn attempt(span: u64, node: &str) -> AttemptSpan {
    AttemptSpan {
        span_id: SpanId::from_random(span),
        node: Endpoint::Ip(node.parse().expect("an address")),
        is_encrypted: true,
        start_ns: 5,
        end_ns: 0,
    }
}

fn facts(texts: RequestTexts<'_>) -> RequestFacts<'_> {
    RequestFacts {
        numbers: RequestNumbers {
            end_ns: u64::MAX,
            status: 200,
            code: "",
            has_failed: false,
            source: ResponseSource::Node,
            is_encrypted: false,
            protocol: "1.1",
            local_port: 80,
            peer_port: 4000,
        },
        texts,
    }
}

const ANSWERED: AttemptOutcome = AttemptOutcome { status: 200, code: "" };

/// Spans of a block as text: name, then attributes.
fn spans(block: &SpanBlock) -> Vec<String> {
    let mut seen = Vec::new();
    block.each(|span| {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut line = text(span.name);
        for Attribute { name, value } in &span.attributes {
            line += &match value {
                AttributeValue::Text(value) => format!(" {name}={}", text(value)),
                AttributeValue::Number(value) => format!(" {name}={value}"),
                other => format!(" {name}={other:?}"),
            };
        }
        seen.push(line);
    });
    seen
}

#[test]
fn texts_keep_their_places() {
    let numbered: Vec<[u8; 1]> = (0..TEXTS as u8).map(|number| [b'a' + number]).collect();
    let list = std::array::from_fn(|index| &numbered[index][..]);
    assert_eq!(RequestTexts::from_list(list).list(), list);
}

#[test]
fn a_request_becomes_a_server_span_with_the_attempts_and_phases_below_it() {
    let mut trace = trace(SpanNames::Stable);
    trace.begin_attempt(attempt(3, "[::ffff:10.0.0.1]:8080"));
    trace.begin_attempt(attempt(5, "[2001:db8::1]:443"));
    let span_id = SpanId::from_random(11);
    trace.add_inner(InnerSpan { span_id, name: "rewrite", plugin: "cors", start_ns: 1, end_ns: 2 });
    trace.add_attributes(|span| {
        span.named("tenant", AttributeValue::Text(b"t1"));
    });
    let texts = RequestTexts {
        method: b"GET",
        path: b"/a",
        route: b"/*",
        client_address: b"10.0.0.9",
        node_method: b"POST",
        node_path: b"/b",
        ..RequestTexts::default()
    };
    let mut block = SpanBlock::default();
    let refused = AttemptOutcome { status: 0, code: "upstream_reset" };
    let outcome = |index| if index == 0 { refused } else { ANSWERED };
    block.add_request(&trace, &facts(texts), outcome);
    // Another request does not mix with it.
    block.add_request(&self::trace(SpanNames::Stable), &facts(RequestTexts::default()), outcome);
    assert_eq!(block.spans(), 5);
    let seen = spans(&block);
    assert_eq!(
        &seen[..4],
        [
            "GET /* http.request.method=GET url.scheme=http url.path=/a http.route=/* \
             http.response.status_code=200 server.port=80 client.address=10.0.0.9 \
             network.peer.address=10.0.0.9 network.peer.port=4000 network.protocol.version=1.1 \
             tenant=t1",
            "POST http.request.method=POST server.address=10.0.0.1 server.port=8080 \
             url.full=https://[::ffff:10.0.0.1]:8080/b error.type=upstream_reset",
            "POST http.request.method=POST server.address=2001:db8::1 server.port=443 \
             url.full=https://[2001:db8::1]:443/b http.response.status_code=200 \
             http.request.resend_count=1",
            "rewrite cors tollhouse.plugin=cors",
        ]
    );
    assert!(seen[4].starts_with("HTTP http.request.method=_OTHER url.scheme=http"), "{}", seen[4]);
    let mut parents = Vec::new();
    block.each(|span| parents.push((span.kind, span.parent.map(SpanId::bytes))));
    let own = Some(context().span_id.bytes());
    assert_eq!(parents[0], (SpanKind::Server, Some(SpanId::from_random(9).bytes())));
    assert_eq!(&parents[1..3], [(SpanKind::Client, own); 2]);
    assert_eq!(parents[3], (SpanKind::Internal, own));
}

#[test]
fn failures_are_described_in_the_words_of_their_names() {
    for (names, source, code, message) in [
        (SpanNames::Stable, ResponseSource::Node, "", ""),
        (SpanNames::Stable, ResponseSource::Gateway, "no_nodes", "no_nodes"),
        (SpanNames::Apisix, ResponseSource::Node, "", "upstream error: 503"),
        (SpanNames::Apisix, ResponseSource::Gateway, "no_nodes", "apisix error: 503"),
        (SpanNames::Apisix, ResponseSource::FailedNodes, "no_nodes", "nginx error: 503"),
    ] {
        let mut facts = facts(RequestTexts::default());
        let numbers = &mut facts.numbers;
        (numbers.status, numbers.has_failed) = (503, true);
        (numbers.source, numbers.code) = (source, code);
        let mut block = SpanBlock::default();
        block.add_request(&trace(names), &facts, |_| ANSWERED);
        block.each(|span| assert_eq!(span.status, SpanStatus::Error(message)));
        let expected = match (names, code) {
            (SpanNames::Apisix, _) => "http.status_code=503",
            (SpanNames::Stable, "") => "error.type=503",
            (SpanNames::Stable, _) => "tollhouse.error_code=no_nodes error.type=no_nodes",
        };
        assert!(spans(&block)[0].contains(expected), "{:?}", spans(&block));
    }
}

#[test]
fn a_request_is_bounded_whatever_clients_send() {
    let long = vec![b'x'; 1 << 20];
    let list = [&long[..]; TEXTS];
    let trace = trace(SpanNames::Stable);
    for _ in 0..3 {
        trace.add_attributes(|span| {
            for _ in 0..100 {
                span.named("name", AttributeValue::Text(&long));
            }
        });
    }
    let mut block = SpanBlock::default();
    block.add_request(&trace, &facts(RequestTexts::from_list(list)), |_| ANSWERED);
    let texts = TEXTS + usize::from(ATTRIBUTES_MAX);
    assert!(block.bytes() < (texts + 1) * (TEXT_BYTES_MAX + 16), "{}", block.bytes());
    block.each(|span| {
        assert_eq!(span.attributes.len(), usize::from(ATTRIBUTES_MAX));
        assert!(span.name.len() <= 2 * TEXT_BYTES_MAX);
    });
}
