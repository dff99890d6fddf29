//! Judges a value by a compiled schema, filling in defaults on the way.
//!
//! Keywords are checked in the order in which the schema library that users of APISIX know checks
//! them, so that of several faults the same one is reported; properties go in the order of the
//! document. Defaults of an object stand before its `allOf`, `anyOf`, `oneOf`, `if` and `not` are
//! checked, as they do there. Objects, lists and the combining keywords have files of their own.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::rules::{Branch, Format, Kind, Node, NodeId, NumberRules, Rules, TextRules, Types};
use super::text::{number, plain, quoted, type_name};
use super::{Subject, Violation};

use self::instance::Instance;
use crate::json::Kind as Shape;

mod array;
mod combined;
mod faults;
mod instance;
mod object;
mod read;

pub use self::faults::Fault;
use self::faults::{Faults, Step};
pub(super) use self::read::{Fills, Read};

/// Deepest nesting of schemas within schemas while judging: bounds the stack, and ends a schema
/// that refers to itself without taking the value apart. JSON from outside nests 128 deep at most.
const DEPTH_MAX: usize = 160;

/// Most schemas applied to one value: some milliseconds. Only schemas whose branches multiply
/// with depth, or values of a hundred thousand items, come near it.
const STEPS_MAX: usize = 1_000_000;

/// What begins a text that stands for a value kept elsewhere.
const SECRET_PREFIXES: [&str; 3] = ["$secret://", "$env://", "$ENV://"];

/// Whether a value is good, and if not, why.
type Verdict = Result<(), Violation>;

/// Whether what is wrong will be read by anybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Voice {
    Speaking,
    /// A branch is only tried, or only defaults are wanted: texts would be written in vain.
    Silent,
}

/// One value being checked.
pub(super) struct Walk<'s> {
    nodes: &'s [Node],
    subject: Subject,
    voice: Voice,
    depth: usize,
    steps_left: usize,
    /// Why judging was given up; then no verdict of a branch counts.
    stopped: Option<Violation>,
    /// What is wrong so far, where more than the first fault is asked for.
    faults: Option<Faults>,
}

impl<'s> Walk<'s> {
    pub(super) fn new(nodes: &'s [Node], subject: Subject) -> Self {
        Self {
            nodes,
            subject,
            voice: Voice::Speaking,
            depth: 0,
            steps_left: STEPS_MAX,
            stopped: None,
            faults: None,
        }
    }

    pub(super) fn quietly(mut self) -> Self {
        self.voice = Voice::Silent;
        self
    }

    pub(super) fn run<V: Instance>(mut self, root: NodeId, value: &mut V) -> Verdict {
        let verdict = self.check(root, value);
        self.stopped.map_or(verdict, Err)
    }

    /// Judges a property or item, at that step from the value around it.
    fn check_part<V: Instance>(&mut self, step: Step<'_>, node: NodeId, value: &mut V) -> Verdict {
        if !self.is_collecting() {
            return self.check_bare_part(node, value);
        }
        self.enter(step);
        let verdict = self.check_bare_part(node, value);
        self.leave(verdict)
    }

    /// A reference to a secret passes as a part, never as a whole value.
    fn check_bare_part<V: Instance>(&mut self, node: NodeId, value: &mut V) -> Verdict {
        if self.subject == Subject::Configuration
            && is_secret_reference(value)
            && self.allows_references(node)
        {
            return Ok(());
        }
        self.check(node, value)
    }

    /// Whether a schema describes anything but objects, for which no text can stand.
    fn allows_references(&self, node: NodeId) -> bool {
        let Node::Rules(rules) = &self.nodes[node] else { return true };
        let Some(types) = &rules.types else { return true };
        types.allowed.iter().any(|kind| !matches!(kind, Kind::Object))
    }

    fn check<V: Instance>(&mut self, node: NodeId, value: &mut V) -> Verdict {
        // A default that stands in no text yet is checked where it was put.
        if let Some(added) = value.added_mut() {
            return self.check(node, added);
        }
        if self.stopped.is_none() {
            if self.depth == DEPTH_MAX {
                let text = format!("nested more than {DEPTH_MAX} levels deep");
                self.stopped = Some(Violation::new(text));
            }
            if self.steps_left == 0 {
                let text = format!("more than {STEPS_MAX} steps to validate");
                self.stopped = Some(Violation::new(text));
            }
        }
        if self.stopped.is_some() {
            return Err(Violation::unread());
        }
        self.steps_left -= 1;
        self.depth += 1;
        let nodes = self.nodes;
        let verdict = match &nodes[node] {
            Node::Anything => Ok(()),
            Node::Nothing => self.refuse(|| "expect false always".to_owned()),
            Node::Reference(target) => self.check(*target, value),
            Node::Rules(rules) => self.check_rules(rules, value),
        };
        self.depth -= 1;
        verdict
    }

    fn check_rules<V: Instance>(&mut self, rules: &'s Rules, value: &mut V) -> Verdict {
        if let Some(types) = &rules.types
            && !types.allowed.iter().any(|kind| is_of(*kind, value))
        {
            return self.refuse_type(types, value);
        }
        // In the order of the schema library that users know, so that of several faults the same
        // one is named.
        if let Some(object) = &rules.object {
            self.check_object(object, value)?;
        }
        if let Some(array) = &rules.array {
            self.check_array(array, value)?;
        }
        if rules.text.is_some()
            && let Some(text) = value.text()
        {
            self.check_text(rules, &text)?;
        }
        if let (Some(bounds), Some(number)) = (&rules.number, value.number()) {
            self.check_number(bounds, number)?;
        }
        if let Some(choices) = &rules.choices
            && !choices.iter().any(|choice| value.equals(choice))
        {
            return self.refuse(|| "matches none of the enum values".to_owned());
        }
        if let Some(combined) = &rules.combined {
            self.check_combined(combined, value)?;
        }
        if let Some(names) = rules.property_names {
            self.check_names(names, value)?;
        }
        if let Some(format) = rules.format
            && let Some(text) = value.text()
        {
            self.check_format(format, &text)?;
        }
        if let Some(constant) = &rules.constant
            && !value.equals(constant)
        {
            return self.refuse(|| "matches none of the enum values".to_owned());
        }
        match rules.contains {
            Some(branch) => self.check_contains(branch, value),
            None => Ok(()),
        }
    }

    fn check_text(&mut self, rules: &Rules, text: &str) -> Verdict {
        let Some(TextRules { least, most, pattern }) = &rules.text else { return Ok(()) };
        if least.is_some() || most.is_some() {
            let count = text.chars().count();
            if let Some(least) = least.filter(|least| count < *least) {
                return self.refuse(|| {
                    format!("string too short, expected at least {least}, got {count}")
                });
            }
            if let Some(most) = most.filter(|most| count > *most) {
                return self
                    .refuse(|| format!("string too long, expected at most {most}, got {count}"));
            }
        }
        if let Some((pattern, shown)) = pattern
            // What cannot be decided does not match.
            && !pattern.is_match(text.as_bytes()).unwrap_or(false)
        {
            return self
                .refuse(|| format!("failed to match pattern {shown} with {}", quoted(text)));
        }
        Ok(())
    }

    fn check_number(&mut self, rules: &NumberRules, value: f64) -> Verdict {
        type Outside = fn(&f64, &f64) -> bool;
        let bounds: [(Option<f64>, Outside, &str); 4] = [
            (rules.minimum, f64::lt, "at least"),
            (rules.above, f64::le, "greater than"),
            (rules.maximum, f64::gt, "at most"),
            (rules.below, f64::ge, "smaller than"),
        ];
        for (bound, outside, relation) in bounds {
            if let Some(bound) = bound.filter(|bound| outside(&value, bound)) {
                let text = || format!("{} to be {relation} {}", number(value), number(bound));
                return self.refuse(|| format!("expected {}", text()));
            }
        }
        if let Some(divisor) = rules.multiple_of {
            // A whole divisor is exact by remainder; with a fraction the remainder is off by rounding (0.3 by 0.1).
            let whole = if divisor.fract() == 0.0 {
                value % divisor == 0.0
            } else {
                (value / divisor).fract() == 0.0
            };
            if !whole {
                let (value, divisor) = (number(value), number(divisor));
                return self.refuse(|| format!("expected {value} to be a multiple of {divisor}"));
            }
        }
        Ok(())
    }

    fn check_format(&mut self, format: Format, text: &str) -> Verdict {
        let (good, name) = match format {
            Format::Ipv4 => (text.parse::<Ipv4Addr>().is_ok(), "ipv4"),
            Format::Ipv6 => (text.parse::<Ipv6Addr>().is_ok(), "ipv6"),
        };
        if good {
            return Ok(());
        }
        self.refuse(|| format!("expect valid {name} format but got: {}", plain(text)))
    }

    fn refuse_type<V: Instance>(&self, types: &Types, value: &V) -> Verdict {
        let got = type_name(value.shape());
        self.refuse(|| format!("wrong type: expected {}, got {got}", types.shown))
    }

    fn refuse(&self, text: impl FnOnce() -> String) -> Verdict {
        self.nest(Violation::unread(), |_| text())
    }

    /// Says around what is wrong where it is.
    fn nest(&self, inner: Violation, text: impl FnOnce(Violation) -> String) -> Verdict {
        // Nobody reads what a silent or given-up walk says.
        if self.voice == Voice::Silent || self.stopped.is_some() {
            return Err(Violation::unread());
        }
        Err(Violation::new(text(inner)))
    }

    /// Whether a value is good by a branch; what that fills in stays where it is.
    fn applies<V: Instance>(&mut self, branch: Branch, value: &mut V) -> bool {
        if !branch.fills {
            return self.tries(branch.node, value);
        }
        let mark = value.mark();
        let applies = self.tries(branch.node, value);
        if !applies {
            value.undo(mark);
        }
        applies
    }

    /// Whether a value is good by a branch, which leaves no trace.
    fn would_apply<V: Instance>(&mut self, branch: Branch, value: &mut V) -> bool {
        if !branch.fills {
            return self.tries(branch.node, value);
        }
        let mark = value.mark();
        let applies = self.tries(branch.node, value);
        value.undo(mark);
        applies
    }

    fn tries<V: Instance>(&mut self, node: NodeId, value: &mut V) -> bool {
        let voice = std::mem::replace(&mut self.voice, Voice::Silent);
        let good = self.check(node, value).is_ok();
        self.voice = voice;
        good
    }
}

/// Whether a value is of a type. What has neither fields nor items is an object and a list: the
/// two look alike to Lua, and clients that speak to it write either.
fn is_of<V: Instance>(kind: Kind, value: &V) -> bool {
    match (kind, value.shape()) {
        (Kind::Object, Shape::List) | (Kind::Array, Shape::Object) => value.is_empty(),
        (Kind::Integer, Shape::Number) => value.number().is_some_and(|value| value.fract() == 0.0),
        (Kind::Object, Shape::Object)
        | (Kind::Array, Shape::List)
        | (Kind::Text, Shape::Text)
        | (Kind::Number, Shape::Number)
        | (Kind::Boolean, Shape::Boolean)
        | (Kind::Null, Shape::Null) => true,
        _ => false,
    }
}

fn is_secret_reference<V: Instance>(value: &V) -> bool {
    let is_reference = |text: &str| SECRET_PREFIXES.iter().any(|prefix| text.starts_with(prefix));
    value.text().is_some_and(|text| is_reference(&text))
}
