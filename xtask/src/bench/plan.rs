//! The settings of every case: the programs to measure, the cores and the durations.
//! The list of cases is in `case.rs`.

use super::machine::Cores;
use super::peer::Peer;
use super::process;
use crate::shell;
use anyhow::{Context, Result};
use std::path::PathBuf;
use std::time::Duration;

/// Rounds of a full run; the median of three tolerates one disturbed round.
const ROUNDS: usize = 3;
const ROUND: Duration = Duration::from_secs(5);
const QUICK_ROUND: Duration = Duration::from_secs(2);

/// Settings that all cases share.
pub(crate) struct Plan {
    /// Path of the Tollhouse program under test.
    pub(super) binary: PathBuf,
    pub(super) peers: Vec<Peer>,
    pub(super) cores: Cores,
    pub(super) rounds: usize,
    pub(super) round: Duration,
    /// Whether cases reduce their number of repetitions for a first try.
    pub(super) is_quick: bool,
}

impl Plan {
    /// Checks the requirements, and moves this program to the core of the load.
    ///
    /// `program` returns the binary under test, which may have to be built, if it is one of the
    /// peers.
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
        // This program's own work during a measurement belongs to the side of the load.
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
