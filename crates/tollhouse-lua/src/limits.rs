//! Limits of a run of a script: time on the processor, instructions, and the size of results of
//! library functions.
//!
//! A run is the time between two waits. The hook of the interpreter checks it every
//! [`HOOK_INSTRUCTIONS`] instructions; functions of the gateway charge their own work. A script
//! that exceeds a limit is ended by a panic, because `pcall` catches errors and no panics. The
//! panic is caught where the run was started.

use std::cell::Cell;
use std::panic::resume_unwind;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Number of instructions between two checks. Fewer cost more; in a thousand, a script that copies
/// long texts can use milliseconds.
pub(crate) const HOOK_INSTRUCTIONS: u32 = 100;

/// Wall-clock time of a run after which its processor time is measured.
const UNMEASURED: Duration = Duration::from_micros(2_000);

/// Processor time of a run from its first measurement. Together with the unmeasured time, other
/// requests of the core wait less than five milliseconds.
const MEASURED_MAX: Duration = Duration::from_micros(2_000);

/// Instructions of one phase of a request, over all of its runs.
const INSTRUCTIONS_MAX: u64 = 20_000_000;

/// Length of the longest text that `string.rep` makes, in bytes.
pub(crate) const TEXT_BYTES_MAX: usize = 4 << 20;

/// Payload of the panic that ends a run.
pub(crate) struct LimitReached;

/// Work of the current run, and of its phase.
pub(crate) struct Budget {
    /// Start of this run; unset until its time is checked for the first time, which is after at most
    /// [`HOOK_INSTRUCTIONS`] instructions, because most runs end before.
    started: Cell<Option<Instant>>,
    /// Processor time at the first measurement of this run.
    measured_from: Cell<Option<Duration>>,
    instructions: Cell<u64>,
    /// Whether a run is in progress; only a run can be ended.
    is_running: Cell<bool>,
}

/// Presence of a run around the present one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunBefore(bool);

impl Budget {
    pub(crate) fn new() -> Self {
        Self {
            started: Cell::new(None),
            measured_from: Cell::new(None),
            instructions: Cell::new(0),
            is_running: Cell::new(false),
        }
    }

    /// Begins a phase, with its first run.
    pub(crate) fn begin_phase(&self) {
        self.instructions.set(0);
        self.begin_run();
    }

    /// Begins a run after a wait.
    pub(crate) fn begin_run(&self) {
        self.started.set(None);
        self.measured_from.set(None);
    }

    /// Returns the number of instructions of the phase until now.
    pub(crate) fn instructions(&self) -> u64 {
        self.instructions.get()
    }

    /// Continues a phase that had used this many instructions before a wait.
    pub(crate) fn resume_phase(&self, instructions: u64) {
        self.instructions.set(instructions);
        self.begin_run();
    }

    /// Notes that a run is in progress; returns what was noted before, for `restore`.
    pub(crate) fn enter(&self) -> RunBefore {
        RunBefore(self.is_running.replace(true))
    }

    pub(crate) fn restore(&self, before: RunBefore) {
        self.is_running.set(before.0);
    }

    /// Ends the run with a panic if its time is over. Called before each function of the gateway,
    /// because a hundred calls of an expensive one would otherwise run between two checks.
    #[inline]
    pub(crate) fn check(&self) {
        if self.is_running.get() && self.is_measured() && self.is_late() {
            resume_unwind(Box::new(LimitReached));
        }
    }

    /// Counts instructions or steps of comparable cost. Ends the run with a panic if a limit is
    /// reached.
    pub(crate) fn charge(&self, instructions: u64) {
        let total = self.instructions.get() + instructions;
        self.instructions.set(total);
        // Between runs the functions of the gateway's own prelude are executed, such as the one that
        // makes the context of a request; nothing would catch the panic there.
        let is_over = || total > INSTRUCTIONS_MAX || (self.is_measured() && self.is_late());
        if self.is_running.get() && is_over() {
            resume_unwind(Box::new(LimitReached));
        }
    }

    /// Leaves out of the run the time that a step with a lasting result took.
    pub(crate) fn exempt(&self, step: Duration) {
        self.started.set(self.started.get().map(|started| started + step));
        self.measured_from.set(self.measured_from.get().map(|from| from + step));
    }

    /// Whether the run is so long that its processor time is measured.
    fn is_measured(&self) -> bool {
        match self.started.get() {
            Some(started) => started.elapsed() > UNMEASURED,
            None => {
                self.started.set(Some(Instant::now()));
                false
            }
        }
    }

    fn is_late(&self) -> bool {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        let now = Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0));
        match self.measured_from.get() {
            Some(from) => now.saturating_sub(from) > MEASURED_MAX,
            None => {
                self.measured_from.set(Some(now));
                false
            }
        }
    }
}
