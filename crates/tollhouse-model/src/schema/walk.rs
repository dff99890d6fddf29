//! Validation of a value by a compiled schema. Defaults are added on the way.
//!
//! Keywords are checked in the order used by the schema library of APISIX, so that of several
//! faults the one that APISIX reports is found. Properties are checked in the order of the
//! document. Defaults of an object are added before its `allOf`, `anyOf`, `oneOf`, `if` and `not`
//! are checked, as in that library. Objects, lists and the combining keywords are in separate
//! files.

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

/// Maximum nesting depth of schemas during validation. Bounds the stack and stops a schema that
/// refers to itself. JSON from outside nests at most 128 levels deep.
const DEPTH_MAX: usize = 160;

/// Maximum number of schemas applied during one validation, which takes some milliseconds. Only
/// schemas whose branches multiply with depth, or values of a hundred thousand items, come near
/// this limit.
const STEPS_MAX: usize = 1_000_000;

/// Prefixes of references to secrets and environment variables.
const SECRET_PREFIXES: [&str; 3] = ["$secret://", "$env://", "$ENV://"];

/// Result of validating a value: the violation, if the value is invalid.
type Verdict = Result<(), Violation>;

/// Decision whether violations get a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Voice {
    Speaking,
    /// No texts are written, because a branch is only tried or only defaults are wanted.
    Silent,
}

/// State of validating one value.
pub(super) struct Walk<'s> {
    nodes: &'s [Node],
    subject: Subject,
    voice: Voice,
    depth: usize,
    steps_left: usize,
    /// Reason for which validation was abandoned. Once it is set, verdicts of branches no longer
    /// count.
    stopped: Option<Violation>,
    /// Collected faults; `None` if the walk stops at the first fault.
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

    /// Validates a property or item. `step` leads to it from the enclosing value.
    fn check_part<V: Instance>(&mut self, step: Step<'_>, node: NodeId, value: &mut V) -> Verdict {
        if !self.is_collecting() {
            return self.check_bare_part(node, value);
        }
        self.enter(step);
        let verdict = self.check_bare_part(node, value);
        self.leave(verdict)
    }

    /// Validates a part. In a configuration, a reference to a secret is valid in place of most
    /// parts, but not as the whole value.
    fn check_bare_part<V: Instance>(&mut self, node: NodeId, value: &mut V) -> Verdict {
        if self.subject == Subject::Configuration
            && is_secret_reference(value)
            && self.allows_references(node)
        {
            return Ok(());
        }
        self.check(node, value)
    }

    /// Whether a reference may replace the value. A text cannot replace an object, so a schema that
    /// allows only objects is excluded.
    fn allows_references(&self, node: NodeId) -> bool {
        let Node::Rules(rules) = &self.nodes[node] else { return true };
        let Some(types) = &rules.types else { return true };
        types.allowed.iter().any(|kind| !matches!(kind, Kind::Object))
    }

    fn check<V: Instance>(&mut self, node: NodeId, value: &mut V) -> Verdict {
        // An added default is validated as a tree, because the text does not contain it.
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
        // The order of the schema library of APISIX, so that the same one of several faults is
        // reported.
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
            if let Some(text) = value.text() {
                self.suggest(&text, "known values", choices.iter().filter_map(|it| it.as_str()));
            }
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
            // A pattern whose match is undecided counts as not matching.
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
            // A remainder is exact for an integer divisor. For a fraction the quotient suffers from
            // rounding (0.3 by 0.1), by a few units in its last place.
            let whole = if divisor.fract() == 0.0 {
                value % divisor == 0.0
            } else {
                let quotient = value / divisor;
                (quotient - quotient.round()).abs() <= quotient.abs() * f64::EPSILON * 2.0
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

    /// Wraps a violation of a part in the message of the enclosing value.
    fn nest(&self, inner: Violation, text: impl FnOnce(Violation) -> String) -> Verdict {
        // The texts of a silent or given-up walk are not used.
        if self.voice == Voice::Silent || self.stopped.is_some() {
            return Err(Violation::unread());
        }
        Err(Violation::new(text(inner)))
    }

    /// Whether a branch applies. Defaults that it added are kept.
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

    /// Whether a branch applies. Defaults that it added are removed.
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

/// Whether a value is of a type. An empty list or object is of both types, because an empty Lua
/// table is encoded as either.
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
