//! Counters of global rate limits, over their stream.

use prost::Message;
use tollhouse_polaris::Gate;
use tollhouse_polaris::limiter::messages::{
    LimitTarget, QuotaSum, QuotaTotal, RateLimitCmd, RateLimitInitRequest, RateLimitReportRequest,
    RateLimitRequest, RateLimitResponse, TimeAdjustRequest, TimeAdjustResponse,
};

use super::{Caller, Polaris, START_MS};
use crate::client::{Open, request, run};

const SERVICE: &str = "/polaris.metric.v2.RateLimitGRPCV2/Service";

fn init(client: &str) -> RateLimitRequest {
    let target = LimitTarget {
        namespace: "ns".to_owned(),
        service: "svc".to_owned(),
        ..LimitTarget::default()
    };
    let request = RateLimitInitRequest {
        target: Some(target),
        client_id: client.to_owned(),
        totals: vec![QuotaTotal { mode: 0, duration: 10, max_amount: 100 }],
        ..RateLimitInitRequest::default()
    };
    RateLimitRequest { rate_limit_init_request: Some(request), ..RateLimitRequest::default() }
}

async fn ask(stream: &mut Open, request: &RateLimitRequest) -> RateLimitResponse {
    stream.say(&request.encode_to_vec());
    let answer = stream.next().await.expect("an answer");
    RateLimitResponse::decode(&*answer).expect("a message")
}

/// Opens the counter; returns the report of a use of it.
async fn report_of(stream: &mut Open, client: &str, used: u32) -> RateLimitRequest {
    let opened = ask(stream, &init(client)).await.rate_limit_init_response;
    let opened = opened.expect("an answer to INIT");
    assert_eq!((opened.code, opened.timestamp), (200_000, START_MS.cast_signed()));
    let quota = QuotaSum { counter_key: opened.counters[0].counter_key, used, limited: 0 };
    let report = RateLimitReportRequest {
        client_key: opened.client_key,
        quota_uses: vec![quota],
        timestamp: opened.timestamp,
    };
    RateLimitRequest {
        cmd: RateLimitCmd::Acquire.into(),
        rate_limit_report_request: Some(report),
        ..RateLimitRequest::default()
    }
}

/// A client that uses a part of the quota, and what it is told is left.
async fn used(caller: &Caller, client: &str, used: u32) -> i64 {
    let mut stream = caller.0.open(request(SERVICE)).await;
    let acquire = report_of(&mut stream, client, used).await;
    let reported = ask(&mut stream, &acquire).await.rate_limit_report_response;
    reported.expect("an answer to ACQUIRE").quota_lefts[0].left
}

#[test]
fn clients_on_several_connections_share_a_quota() {
    let polaris = Polaris::start();
    run(async {
        let (first, second) = (polaris.connect().await, polaris.connect().await);
        assert_eq!(used(&first, "a", 30).await, 70);
        assert_eq!(used(&second, "b", 50).await, 20);
        let path = "/polaris.metric.v2.RateLimitGRPCV2/TimeAdjust";
        let time: TimeAdjustResponse = first.call(path, &TimeAdjustRequest {}).await;
        assert_eq!(time.server_timestamp, START_MS.cast_signed());
    });
}

#[test]
fn a_client_key_holds_on_other_streams_but_not_with_another_token() {
    let polaris = Polaris::start();
    run(async {
        let (first, second) = (polaris.connect().await, polaris.connect().await);
        let mut opener = first.0.open(request(SERVICE)).await;
        let report = report_of(&mut opener, "a", 30).await;
        let mut with_token = request(SERVICE);
        with_token.headers_mut().insert("x-polaris-token", "other".parse().expect("a value"));
        let mut codes = Vec::new();
        for call in [with_token, request(SERVICE)] {
            let mut stream = second.0.open(call).await;
            let reported = ask(&mut stream, &report).await.rate_limit_report_response;
            codes.push(reported.expect("an answer to ACQUIRE").code);
        }
        assert_eq!(codes, [404_002, 200_000]);
    });
}

#[test]
fn a_locked_gate_counts_for_clients_with_a_token_only() {
    let polaris = Polaris::start_with(Gate::Locked);
    run(async {
        let caller = polaris.connect().await;
        let refused = caller.0.unary(SERVICE, &init("a").encode_to_vec()).await;
        assert_eq!(refused.code, Some(16), "{}", refused.text);
        let mut with_token = request(SERVICE);
        with_token.headers_mut().insert("x-polaris-token", "client".parse().expect("a value"));
        let mut stream = caller.0.open(with_token).await;
        let opened = ask(&mut stream, &init("a")).await;
        assert_eq!(opened.rate_limit_init_response.map(|it| it.code), Some(200_000));
    });
}
