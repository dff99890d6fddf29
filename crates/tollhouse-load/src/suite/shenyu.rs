//! Apache ShenYu's benchmark: an upstream that takes about 20 ms for about 2 KB, requested directly
//! with 600 connections and through the gateway with 600 to 1200, in a closed loop.

use std::time::Duration;

use serde_json::json;

use super::stage::{Server, Stage, Subject, request};
use super::{
    Beat, Length, MOMENT, Options, measure, peer::Upstream, resources::Resources, seconds,
};
use crate::error::BenchError;
use crate::plan::{DIRECT, Plan, PlannedCase};
use crate::session::{Event, Session};

const PATH: &str = "/";
/// Number of connections of the direct case.
const DIRECT_CONNECTIONS: usize = 600;
/// Numbers of connections of the cases through a gateway.
const CONNECTIONS: [usize; 4] = [600, 800, 1_000, 1_200];
/// Warm-up of a Java gateway before its first case, because until then much of its code is
/// interpreted.
const JAVA_WARM_UP: Duration = Duration::from_secs(30);
/// Number of requests to such a gateway in [`Length::Glance`].
const GLANCE_REQUESTS: u64 = 40;
/// Response size, about 2 KB as published.
const BODY_BYTES: u64 = 2_048;

fn beat(length: Length) -> Beat {
    match length {
        Length::Glance => Beat { warm_up: seconds(0), duration: MOMENT, repeat: 1 },
        Length::Quick => Beat { warm_up: seconds(2), duration: seconds(8), repeat: 1 },
        Length::Standard => Beat { warm_up: seconds(3), duration: seconds(30), repeat: 3 },
        // The published three minutes per case, as three repetitions of one.
        Length::Full => Beat { warm_up: seconds(5), duration: seconds(60), repeat: 3 },
    }
}

pub(super) fn run(
    options: &Options,
    observe: &mut dyn FnMut(Event<'_>),
) -> Result<Session, BenchError> {
    let mut stage = Stage::new(options, usize::MAX)?;
    let upstream = match &options.baseline {
        Some(line) => stage.command(line, PATH)?,
        None => stage.mock(&["--preset", "shenyu"], PATH)?,
    };
    let resources = Resources::default().route("/*", upstream.port, &json!({}));
    let gateway = stage.gateway("tollhouse", &resources, &request(PATH, ""))?;
    let mut subjects = vec![Subject::new("tollhouse", gateway)];
    let before = Upstream { port: upstream.port, path: PATH };
    subjects.extend(stage.peers(&options.peers, &before)?);
    let beat = beat(options.length);
    let checks_body = options.baseline.is_none();
    let direct = Subject::new(DIRECT, upstream.clone());
    let mut cases = vec![planned(&direct, &upstream, DIRECT_CONNECTIONS, beat)];
    for connections in CONNECTIONS {
        let through = |subject: &Subject| {
            let mut planned = planned(subject, &upstream, connections, beat);
            let warms_up = subject.server.warms_up;
            let load = &mut planned.case.load;
            match options.length {
                // A fixed count, because a cold gateway may answer none within a moment.
                Length::Glance if warms_up => {
                    load.duration = None;
                    load.requests = Some(GLANCE_REQUESTS);
                }
                Length::Quick | Length::Standard | Length::Full
                    if warms_up && connections == CONNECTIONS[0] =>
                {
                    load.warm_up = beat.warm_up.max(JAVA_WARM_UP);
                }
                _ => {}
            }
            planned
        };
        // Subjects alternate within a load, so that drift affects all of them alike.
        cases.extend(subjects.iter().map(through));
    }
    if !checks_body {
        cases.iter_mut().for_each(|planned| planned.case.checks.body_bytes = None);
    }
    let plan = Plan {
        name: "ShenYu's benchmark, measured again".into(),
        about: format!(
            "An upstream that takes about 20 ms for an answer of 2 KB, asked directly and through each \
             gateway, in a closed loop as wrk asks. {}",
            stage.sentence()
        ),
        repeat: beat.repeat,
        baseline: Some(DIRECT.into()),
        cases,
        ..Plan::default()
    };
    measure(&stage, &plan, options, observe)
}

fn planned(subject: &Subject, upstream: &Server, connections: usize, beat: Beat) -> PlannedCase {
    let mut planned = subject.case(upstream, PATH, BODY_BYTES);
    planned.case.name = format!("{connections} connections");
    planned.case.load = beat.load(connections);
    planned
}
