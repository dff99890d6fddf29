//! Datagrams: some sources × the answers of nodes × time × configurations that change during the
//! play.
//!
//! One worker runs for the life of the process, with session limits that a few sources reach.
//! `script` turns an input into steps, `stage` holds the sockets of both ends, and `ledger` records
//! the sent datagrams and detects violations.
//!
//! Invariants: every datagram reaches a node once and unchanged, or is counted as dropped. A
//! session belongs to one source, which its route admits and which its PROXY header names, if it
//! has one. An answer only reaches the source of its session. The number of sessions never exceeds
//! the limits, and every session ends after the idle time.

mod ledger;
mod script;
mod stage;

use std::cell::RefCell;

use script::{Script, Step};
use stage::Stage;

thread_local! {
    static STAGE: RefCell<Option<Stage>> = const { RefCell::new(None) };
}

/// Plays one input.
///
/// # Panics
/// If an invariant is violated.
pub fn play(input: &[u8]) {
    let script = Script::decode(input);
    STAGE.with_borrow_mut(|stage| {
        let stage = stage.get_or_insert_with(Stage::new);
        let played = stage.begin(script.configuration).and_then(|()| {
            script.steps.iter().try_for_each(|step| match step {
                Step::Send { source, count, filler } => stage.send(*source, *count, *filler),
                Step::Answer { session, count, filler } => stage.answer(*session, *count, *filler),
                Step::Configure(configuration) => stage.configure(*configuration),
                Step::Silence => stage.fall_silent(),
            })?;
            stage.fall_silent()
        });
        if let Err(finding) = played {
            panic!("{finding}\nscript: {script:?}");
        }
    });
}
