//! Summary of an import: effects counted by kind, with the first objects that are left out.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use tollhouse_registry::Effect;

use super::source::LeftOut;

/// Maximum number of listed objects that are left out; further ones are counted.
const NAMED_MAX: usize = 50;

/// Number of created, changed and unchanged objects by kind, and the objects that were refused.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tally {
    kinds: BTreeMap<&'static str, [u64; 3]>,
    faults: LineList,
    notes: LineList,
}

/// First lines of a long list, and the number of all lines.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LineList {
    lines: Vec<String>,
    count: u64,
}

impl LineList {
    pub(super) fn add(&mut self, line: String) {
        self.count += 1;
        if self.lines.len() < NAMED_MAX {
            self.lines.push(line);
        }
    }

    pub(super) fn write(&self, head: &str, text: &mut String) {
        if self.count == 0 {
            return;
        }
        // Writing to a string never fails.
        let _ = writeln!(text, "{head}:");
        for line in &self.lines {
            let _ = writeln!(text, "  {line}");
        }
        let more = self.count - self.lines.len() as u64;
        if more > 0 {
            let _ = writeln!(text, "  and {more} more");
        }
    }
}

impl Tally {
    /// Counts the effect on an object.
    pub fn add(&mut self, kind: &'static str, effect: Effect) {
        let place = match effect {
            Effect::Created => 0,
            Effect::Changed => 1,
            Effect::Unchanged => 2,
        };
        self.kinds.entry(kind).or_default()[place] += 1;
    }

    /// Counts an object that is left out.
    pub fn leave_out(&mut self, left_out: &LeftOut) {
        let LeftOut { what, reason, is_expected } = left_out;
        let named = if *is_expected { &mut self.notes } else { &mut self.faults };
        named.add(format!("{what}: {reason}"));
    }

    /// Returns the number of objects that the import writes, or has written.
    pub fn writes(&self) -> u64 {
        self.kinds.values().map(|[created, changed, _]| created + changed).sum()
    }

    /// Whether an object was left out for a reason that needs attention.
    pub fn has_faults(&self) -> bool {
        self.faults.count > 0
    }

    pub fn text(&self) -> String {
        let mut text = String::new();
        for (kind, [created, changed, unchanged]) in &self.kinds {
            let _ = writeln!(
                text,
                "{kind}: {created} new, {changed} changed, {unchanged} there already"
            );
        }
        if self.kinds.is_empty() {
            text.push_str("nothing to take over\n");
        }
        self.notes.write("not taken over, as expected", &mut text);
        self.faults.write("left out", &mut text);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_counted_and_the_first_faults_named() {
        let mut tally = Tally::default();
        assert_eq!(tally.text(), "nothing to take over\n");
        tally.add("service", Effect::Created);
        tally.add("instance", Effect::Changed);
        tally.add("instance", Effect::Unchanged);
        let left_out = |number: usize, is_expected| LeftOut {
            what: format!("instances {number}"),
            reason: "its service is not there".to_owned(),
            is_expected,
        };
        tally.leave_out(&left_out(0, true));
        assert!(!tally.has_faults());
        (0..NAMED_MAX + 3).for_each(|number| tally.leave_out(&left_out(number, false)));
        let text = tally.text();
        assert!(text.starts_with("instance: 0 new, 1 changed, 1 there already\nservice: 1 new"));
        assert!(
            text.contains("not taken over, as expected:\n  instances 0: its service"),
            "{text}"
        );
        assert!(text.ends_with("instances 49: its service is not there\n  and 3 more\n"), "{text}");
        assert_eq!((tally.writes(), tally.has_faults()), (2, true));
    }
}
