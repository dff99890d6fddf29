//! Counters of global rate limits, which clients share: a client opens the counters of a rule, then
//! reports what it has used and is answered what is left.
//!
//! Counters live in memory of one node, and clients choose the node of a counter by its name. A
//! counter is removed when no report arrives for two of its windows, or for 10 minutes while memory is scarce.
//! Each client, and each address, has a share of the memory. A client reports under its own key and only to
//! counters that it has opened.

mod counter;
mod owner;
mod shares;
mod table;
mod window;

use std::sync::{Arc, Mutex, PoisonError};

use messages::{
    BatchInitResult, RateLimitBatchInitRequest, RateLimitBatchInitResponse, RateLimitCmd,
    RateLimitInitRequest, RateLimitInitResponse, RateLimitReportRequest, RateLimitReportResponse,
    RateLimitRequest, RateLimitResponse,
};
pub use owner::Owner;
use table::{ClientKey, Opening, Table};

/// Messages of the protocol, generated from `proto/` by `tests/it/generated.rs`.
pub mod messages {
    include!("../generated/polaris.metric.v2.rs");
}

/// Maximum parts of a window, as in Polaris.
const SLIDES_MAX: u32 = 60;

/// Maximum length of a window: one day, because a counter may stay for two windows without a report.
const DURATION_MAX_S: u32 = 24 * 60 * 60;

/// Maximum number of counters that one message opens: many times those of a usual rule.
const OPENINGS_MAX: usize = 1_000;

/// Codes of the protocol, which differ from those of the registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum LimiterCode {
    Success = 200_000,
    InvalidRequest = 400_001,
    InvalidServiceName = 400_201,
    InvalidNamespace = 400_202,
    InvalidClientId = 400_203,
    InvalidTotalLimit = 400_204,
    InvalidDuration = 400_205,
    InvalidSlideCount = 400_206,
    InvalidMode = 400_207,
    InvalidLabels = 400_208,
    InvalidBatch = 400_209,
    InvalidUsedLimit = 400_211,
    InvalidTimestamp = 400_212,
    InvalidClientKey = 400_213,
    InvalidCounterKey = 400_214,
    TooManyCounters = 401_101,
    TooManyClients = 401_102,
    NotFoundCounter = 404_001,
    NotFoundClient = 404_002,
}

/// Counters of a node; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Limiter(Arc<Mutex<Table>>);

impl Limiter {
    /// Answers a message of `owner`; `now_ms` is the time in milliseconds of Unix time.
    pub fn answer(
        &self,
        owner: &Owner,
        request: RateLimitRequest,
        now_ms: u64,
    ) -> RateLimitResponse {
        let cmd = request.cmd();
        let mut response = RateLimitResponse { cmd: cmd.into(), ..Default::default() };
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.sweep(now_ms);
        match cmd {
            RateLimitCmd::Init => {
                let request = request.rate_limit_init_request.unwrap_or_default();
                response.rate_limit_init_response = Some(open(&mut table, owner, request, now_ms));
            }
            RateLimitCmd::BatchInit => {
                let request = request.rate_limit_batch_init_request.unwrap_or_default();
                let answer = open_batch(&mut table, owner, request, now_ms);
                response.rate_limit_batch_init_response = Some(answer);
            }
            RateLimitCmd::Acquire | RateLimitCmd::BatchAcquire => {
                let request = request.rate_limit_report_request.unwrap_or_default();
                let answer = report(&mut table, owner, &request, now_ms);
                response.rate_limit_report_response = Some(answer);
            }
        }
        response
    }

    /// Returns the number of counters.
    pub fn counters(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).counters()
    }
}

fn open(
    table: &mut Table,
    owner: &Owner,
    request: RateLimitInitRequest,
    now_ms: u64,
) -> RateLimitInitResponse {
    let target = request.target.clone().unwrap_or_default();
    let opened = check_client(&request.client_id)
        .and_then(|()| check(&request))
        .and_then(|()| table.client(owner, &request.client_id, now_ms))
        .and_then(|client| {
            let opening = Opening { client, request: &request, labels: &target.labels };
            Ok((client, table.open(&opening, now_ms)?))
        });
    let mut response = RateLimitInitResponse {
        target: Some(target),
        timestamp: now_ms.cast_signed(),
        ..Default::default()
    };
    match opened {
        Ok((ClientKey(key), counters)) => {
            response.code = LimiterCode::Success as u32;
            response.client_key = key;
            response.slide_count = request.slide_count.max(1);
            response.counters = counters;
        }
        Err(code) => response.code = code as u32,
    }
    response
}

fn open_batch(
    table: &mut Table,
    owner: &Owner,
    request: RateLimitBatchInitRequest,
    now_ms: u64,
) -> RateLimitBatchInitResponse {
    let openings = |it: &RateLimitInitRequest| {
        it.totals.len().saturating_mul(it.target.as_ref().map_or(0, |it| it.labels_list.len()))
    };
    let openings = request.request.iter().map(openings).fold(0, usize::saturating_add);
    let client = match () {
        () if request.request.is_empty() => Err(LimiterCode::InvalidBatch),
        () if openings > OPENINGS_MAX => Err(LimiterCode::TooManyCounters),
        () => check_client(&request.client_id)
            .and_then(|()| table.client(owner, &request.client_id, now_ms)),
    };
    let mut response =
        RateLimitBatchInitResponse { timestamp: now_ms.cast_signed(), ..Default::default() };
    match client {
        Ok(client) => {
            response.code = LimiterCode::Success as u32;
            response.client_key = client.0;
            let opened = request.request.iter().map(|it| open_labels(table, client, it, now_ms));
            response.result = opened.collect();
        }
        Err(code) => response.code = code as u32,
    }
    response
}

/// Opens the counters of one rule for each text of labels.
fn open_labels(
    table: &mut Table,
    client: ClientKey,
    request: &RateLimitInitRequest,
    now_ms: u64,
) -> BatchInitResult {
    let target = request.target.clone().unwrap_or_default();
    let mut result = BatchInitResult {
        code: LimiterCode::Success as u32,
        slide_count: request.slide_count.max(1),
        ..Default::default()
    };
    let checked = check(request).and_then(|()| match target.labels_list.is_empty() {
        true => Err(LimiterCode::InvalidLabels),
        false => Ok(()),
    });
    let opened: Result<Vec<_>, _> = checked.and_then(|()| {
        let each = target.labels_list.iter().map(|labels| {
            let counters = table.open(&Opening { client, request, labels }, now_ms)?;
            Ok(messages::LabeledQuotaCounter { labels: labels.clone(), counters })
        });
        each.collect()
    });
    match opened {
        Ok(counters) => result.counters = counters,
        Err(code) => result.code = code as u32,
    }
    result.target = Some(messages::LimitTarget { labels_list: Vec::new(), ..target });
    result
}

fn check_client(id: &str) -> Result<(), LimiterCode> {
    if id.is_empty() { Err(LimiterCode::InvalidClientId) } else { Ok(()) }
}

fn check(request: &RateLimitInitRequest) -> Result<(), LimiterCode> {
    let target = request.target.as_ref();
    let is_empty = |text: Option<&String>| text.is_none_or(String::is_empty);
    let is_share = request.mode == messages::Mode::BatchShare as i32;
    let checks = [
        (is_empty(target.map(|it| &it.service)), LimiterCode::InvalidServiceName),
        (is_empty(target.map(|it| &it.namespace)), LimiterCode::InvalidNamespace),
        (request.totals.is_empty(), LimiterCode::InvalidTotalLimit),
        (request.totals.len() > OPENINGS_MAX, LimiterCode::TooManyCounters),
        (!request.totals.iter().all(has_valid_duration), LimiterCode::InvalidDuration),
        (request.slide_count > SLIDES_MAX, LimiterCode::InvalidSlideCount),
        (is_share, LimiterCode::InvalidMode),
    ];
    match checks.into_iter().find(|(is_bad, _)| *is_bad) {
        Some((_, code)) => Err(code),
        None => Ok(()),
    }
}

fn report(
    table: &mut Table,
    owner: &Owner,
    request: &RateLimitReportRequest,
    now_ms: u64,
) -> RateLimitReportResponse {
    let reported = check_report(request).and_then(|()| table.report(owner, request, now_ms));
    let mut response =
        RateLimitReportResponse { timestamp: now_ms.cast_signed(), ..Default::default() };
    match reported {
        Ok(lefts) => {
            response.code = LimiterCode::Success as u32;
            response.quota_lefts = lefts;
        }
        Err(code) => response.code = code as u32,
    }
    response
}

fn has_valid_duration(total: &messages::QuotaTotal) -> bool {
    (1..=DURATION_MAX_S).contains(&total.duration)
}

fn check_report(request: &RateLimitReportRequest) -> Result<(), LimiterCode> {
    let checks = [
        (request.client_key == 0, LimiterCode::InvalidClientKey),
        (request.timestamp <= 0, LimiterCode::InvalidTimestamp),
        (request.quota_uses.is_empty(), LimiterCode::InvalidUsedLimit),
        (request.quota_uses.iter().any(|it| it.counter_key == 0), LimiterCode::InvalidCounterKey),
    ];
    match checks.into_iter().find(|(is_bad, _)| *is_bad) {
        Some((_, code)) => Err(code),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
