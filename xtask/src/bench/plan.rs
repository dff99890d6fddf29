//! What every case needs to know: what is measured, on which cores, for how long.
//! Which cases there are is `case.rs`.

use super::machine::Cores;
use super::peer::Peer;
use super::process;
use crate::shell;
use anyhow::{Context, Result};
use std::path::PathBuf;
use std::time::Duration;

/// Rounds of a full run: the median of three forgives one disturbed round.
const ROUNDS: usize = 3;
const ROUND: Duration = Duration::from_secs(5);
const QUICK_ROUND: Duration = Duration::from_secs(2);

/// What every case needs to know.
pub(crate) struct Plan {
    /// The Tollhouse binary under test.
    pub(super) binary: PathBuf,
    pub(super) peers: Vec<Peer>,
    pub(super) cores: Cores,
    pub(super) rounds: usize,
    pub(super) round: Duration,
    /// What a case would do too often for a first try, it does rarely.
    pub(super) is_quick: bool,
}

impl Plan {
    /// Checks what is needed, and moves this program to the cores of the load.
    ///
    /// `program` gives the binary under test, which may have to be built, where it is one of the peers.
    pub(super) fn new(
        peers: Vec<Peer>,
        is_quick: bool,
        program: impl FnOnce() -> Result<PathBuf>,
    ) -> Result<Self> {
        for program in ["nginx", "wrk", "taskset"] {
            shell::find_program(program)
                .with_context(|| format!("{program} is missing; run `cargo x install`"))?;
        }
        let binary = if peers.contains(&Peer::Tollhouse) { program()? } else { PathBuf::new() };
        process::raise_open_files_limit();
        let cores = Cores::choose()?;
        // What this program does during a measurement belongs to the side of the load.
        cores.move_to_load()?;
        Ok(Self {
            binary,
            peers,
            cores,
            rounds: if is_quick { 1 } else { ROUNDS },
            round: if is_quick { QUICK_ROUND } else { ROUND },
            is_quick,
        })
    }
}
