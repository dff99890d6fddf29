//! Datagrams: what some sources send × what nodes answer × time × configurations that change meanwhile.
//!
//! One worker runs for the life of the process, with bounds that a few sources reach. `script` turns an input into
//! steps, `stage` is the sockets of both ends, `ledger` knows what was sent and says what must not have happened.
//!
//! What must hold: every datagram reaches a node once and unchanged, or is counted as dropped; a session is of one
//! source, which its PROXY header names where there is one, and whose route lets it in; an answer reaches the source
//! that its session is of, and nobody else; there are never more sessions than the bounds say, and none is left once
//! all have been silent.

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
/// When anything that must hold does not.
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
