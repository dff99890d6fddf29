//! The protocols other than HTTP/1.1, over real sockets: against the mock, and against servers that
//! misbehave on purpose.

mod grpc;
mod http2;
mod raw;
mod reflection;
mod server;

use tollhouse_load::case::Case;
use tollhouse_load::error::BenchError;
use tollhouse_load::result::CaseResult;
use tollhouse_load::run::{self, Settings};
use tollhouse_mock::{Behaviour, Mock};

fn mock(behaviour: Behaviour) -> Mock {
    Mock::start(Behaviour { workers: 1, ..behaviour }).expect("mock")
}

/// A case of a few requests on one worker.
fn few(target: String) -> Case {
    let mut case = Case::new(target);
    case.load.connections = 1;
    case.load.workers = Some(1);
    case.load.requests = Some(20);
    case
}

fn try_run(case: &Case) -> Result<CaseResult, BenchError> {
    run::run(case, &Settings::default(), &mut |_| ())
}

fn measure(case: &Case) -> CaseResult {
    try_run(case).expect("it can be measured")
}
