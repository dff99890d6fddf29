//! Cost of a proxied request, without a published counterpart: responses of 1 KiB to 1 MiB over 64
//! connections, and of 2 KiB over 1 to 1,000, directly and through each gateway, in a closed loop.

use serde_json::json;

use super::stage::{Stage, Subject, request};
use super::{
    Beat, Length, MOMENT, Options, measure, peer::Upstream, resources::Resources, seconds,
};
use crate::error::BenchError;
use crate::plan::{DIRECT, Plan};
use crate::session::{self, Event, Session};

const PATH: &str = "/";
/// Response size of a typical API.
const BODY_BYTES: u64 = 2 << 10;
/// Further response sizes, up to one that exceeds any buffer.
const OTHER_BODY_BYTES: [u64; 4] = [1 << 10, 16 << 10, 100 << 10, 1 << 20];
/// Number of connections when the size varies.
const CONNECTIONS: usize = 64;
const OTHER_CONNECTIONS: [usize; 4] = [1, 16, 256, 1_000];

fn beat(length: Length) -> Beat {
    match length {
        Length::Glance => Beat { warm_up: seconds(0), duration: MOMENT, repeat: 1 },
        Length::Quick => Beat { warm_up: seconds(1), duration: seconds(3), repeat: 1 },
        Length::Standard => Beat { warm_up: seconds(1), duration: seconds(5), repeat: 3 },
        Length::Full => Beat { warm_up: seconds(2), duration: seconds(20), repeat: 3 },
    }
}

pub(super) fn run(
    options: &Options,
    observe: &mut dyn FnMut(Event<'_>),
) -> Result<Session, BenchError> {
    let mut counts = [&[CONNECTIONS][..], &OTHER_CONNECTIONS].concat();
    let mut sizes = OTHER_BODY_BYTES.to_vec();
    if options.length == Length::Glance {
        counts.truncate(2);
        sizes.truncate(1);
    }
    let mut session = run_size(options, BODY_BYTES, &counts, observe)?;
    // Only the first stage is saved on the way; the complete report is saved at the end.
    let rest = session::Options { save: None, ..options.session.clone() };
    let rest = Options { session: rest, ..options.clone() };
    for body_bytes in sizes {
        if session.failed.is_some() || options.session.stop.is_stopped() {
            break;
        }
        let next = run_size(&rest, body_bytes, &[CONNECTIONS], observe)?;
        session.report.results.extend(next.report.results);
        session.failed = next.failed;
    }
    Ok(session)
}

/// Measures responses of one size. The mock sends one body only, so that each size has a separate
/// stage.
fn run_size(
    options: &Options,
    body_bytes: u64,
    counts: &[usize],
    observe: &mut dyn FnMut(Event<'_>),
) -> Result<Session, BenchError> {
    let mut stage = Stage::new(options, usize::MAX)?;
    let upstream = stage.mock(&["--body-bytes", &body_bytes.to_string()], PATH)?;
    let resources = Resources::default().route("/*", upstream.port, &json!({}));
    let gateway = stage.gateway("tollhouse", &resources, &request(PATH, ""))?;
    let mut subjects =
        vec![Subject::new(DIRECT, upstream.clone()), Subject::new("tollhouse", gateway)];
    let before = Upstream { port: upstream.port, path: PATH };
    subjects.extend(stage.peers(&options.peers, &before)?);
    let beat = beat(options.length);
    let mut cases = Vec::new();
    for connections in counts {
        let planned = |subject: &Subject| {
            let mut planned = subject.case(&upstream, PATH, body_bytes);
            let plural = if *connections == 1 { "" } else { "s" };
            let kibibytes = body_bytes >> 10;
            planned.case.name = format!("{kibibytes} KiB, {connections} connection{plural}");
            planned.case.load = beat.load(*connections);
            planned
        };
        // Subjects alternate within a load, so that drift affects all of them alike.
        cases.extend(subjects.iter().map(planned));
    }
    let plan = Plan {
        name: "What a proxied request costs".into(),
        about: format!(
            "Answers of 1 KiB to 1 MiB over {CONNECTIONS} connections, and of 2 KiB over 1 to 1,000, directly \
             and through each gateway, in a closed loop. {}",
            stage.sentence()
        ),
        repeat: beat.repeat,
        cases,
        ..Plan::default()
    };
    measure(&stage, &plan, options, observe)
}
