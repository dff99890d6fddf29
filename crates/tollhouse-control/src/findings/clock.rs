//! Finding about the clock of this machine: a step, after which tokens, signatures and certificates
//! may be judged by the wrong time.

use std::time::Instant;

use tollhouse_stdx::duration::to_ms;
use tollhouse_stdx::plural::counted;

use super::finding::{Finding, Kind, Severity};

/// Difference between two looks from which it is a step, in milliseconds. Clocks are corrected
/// gradually by at most a few milliseconds a second.
const STEP_MS: i64 = 5_000;

/// Time after a step for which it is a finding, in milliseconds.
const TOLD_MS: u64 = 10 * 60 * 1000;

/// Watches the time of day beside a clock that no one sets.
#[derive(Debug)]
pub(super) struct ClockWatch {
    began: Instant,
    /// Time of day less the time since `began`, in milliseconds, at the last look.
    offset_ms: Option<i64>,
    /// Last step in milliseconds, with the time of day after it.
    step: Option<(i64, u64)>,
}

impl Default for ClockWatch {
    fn default() -> Self {
        Self { began: Instant::now(), offset_ms: None, step: None }
    }
}

impl ClockWatch {
    /// Adds a finding if the clock was set in the last minutes.
    pub(super) fn find(&mut self, now_ms: u64, findings: &mut Vec<Finding>) {
        self.look(now_ms, to_ms(self.began.elapsed()));
        let Some((step_ms, at_ms)) = self.step else { return };
        if now_ms.saturating_sub(at_ms) >= TOLD_MS {
            return;
        }
        let direction = if step_ms > 0 { "ahead" } else { "back" };
        let seconds = counted(step_ms.unsigned_abs() / 1000, "second");
        let what = format!("the clock of this machine went {seconds} {direction} at once");
        let finding = Finding::about(Severity::Warning, Kind::ClockStep, "clock".to_owned(), what);
        let remedy = "see whether it is right now (timedatectl), and what set it; a machine that slept does this too";
        findings.push(finding.with_remedy(remedy).since(at_ms));
    }

    /// Compares the time of day with the time since the first look.
    fn look(&mut self, now_ms: u64, elapsed_ms: u64) {
        let signed = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
        let offset_ms = signed(now_ms) - signed(elapsed_ms);
        let before_ms = self.offset_ms.replace(offset_ms).unwrap_or(offset_ms);
        if (offset_ms - before_ms).abs() >= STEP_MS {
            self.step = Some((offset_ms - before_ms, now_ms));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_is_told_for_some_minutes() {
        let mut watch = ClockWatch::default();
        let mut step = |now_ms, elapsed_ms| {
            watch.look(now_ms, elapsed_ms);
            watch.step
        };
        let hour_ms = 3_600_000;
        assert_eq!(step(10_000_000, 0), None);
        // Corrected gradually.
        assert_eq!(step(10_001_004, 1_000), None);
        assert_eq!(step(10_002_004 + hour_ms, 2_000), Some((3_600_000, 10_002_004 + hour_ms)));
        assert_eq!(step(10_003_004, 3_000), Some((-3_600_000, 10_003_004)));
        let told = |watch: &mut ClockWatch, now_ms| {
            let mut findings = Vec::new();
            let (step_ms, at_ms) = watch.step.expect("a step");
            watch.offset_ms = None;
            watch.find(now_ms, &mut findings);
            watch.step = Some((step_ms, at_ms));
            findings.first().map(|finding| finding.what.clone())
        };
        let expected = "the clock of this machine went 3600 seconds back at once";
        assert_eq!(told(&mut watch, 10_004_004).as_deref(), Some(expected));
        assert_eq!(told(&mut watch, 10_003_004 + TOLD_MS), None);
    }
}
