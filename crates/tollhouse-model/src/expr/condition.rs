//! A condition: a variable, an operator and a right side, ready to evaluate.
//!
//! Conditions are parsed in `parse.rs`.

use std::cmp::Ordering;
use std::net::IpAddr;

use ipnet::IpNet;

use super::number::number_of;
use super::pattern::{Exhausted, Pattern};
use crate::json::{Document, Piece};
use crate::variable::{Lookup, Variable};

/// Condition on the value of one variable.
#[derive(Debug, Clone)]
pub(super) struct Condition {
    pub(super) variable: Variable,
    pub(super) sense: Sense,
    pub(super) test: Test,
}

/// Negation of the result of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sense {
    Plain,
    Negated,
}

#[derive(Debug, Clone)]
pub(super) enum Test {
    Equal(Right),
    NotEqual(Right),
    Order(Order, f64),
    Pattern(Pattern),
    /// Operator `in`: values sorted for binary search.
    OneOf(Box<[Box<[u8]>]>),
    /// `has`: the value is a list that contains this element.
    Holds(Right),
    Networks(Box<[IpNet]>),
    /// A comparison that never holds, such as `>` with text that is not a number.
    Never,
}

/// The right side of an equality.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Right {
    Absent,
    Text(Box<str>),
    Number(f64),
    /// Boolean, which only equals elements of lists. A comparison of a JSON body's member with a
    /// boolean is stored as [`Variable::PostBoolean`] and a text.
    Boolean(bool),
    /// An array or object, which no value of a variable equals.
    Unequal,
}

/// Comparison of a variable with a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Above,
    AtLeast,
    Below,
    AtMost,
}

impl Condition {
    pub(super) fn evaluate(&self, request: &dyn Lookup) -> Result<bool, Exhausted> {
        let value = request.variable(&self.variable);
        let holds = match (&self.test, value.as_deref()) {
            (Test::Pattern(pattern), Some(value)) => pattern.is_match(value)?,
            (test, value) => test.holds(value),
        };
        Ok(match self.sense {
            Sense::Plain => holds,
            Sense::Negated => !holds,
        })
    }
}

impl Test {
    /// Evaluates any test but a pattern, which `Condition::evaluate` handles because its search may
    /// fail.
    fn holds(&self, value: Option<&[u8]>) -> bool {
        match (self, value) {
            (Test::Equal(right), value) => right.equals(value),
            (Test::NotEqual(right), value) => !right.equals(value),
            (Test::Never | Test::Pattern(_), _) | (_, None) => false,
            (Test::Order(order, right), Some(value)) => {
                number_of(value).is_some_and(|left| order.holds(left, *right))
            }
            (Test::OneOf(elements), Some(value)) => {
                elements.binary_search_by(|element| (**element).cmp(value)).is_ok()
            }
            (Test::Holds(right), Some(value)) => holds_element(value, right),
            (Test::Networks(networks), Some(value)) => is_within(value, networks),
        }
    }
}

impl Right {
    /// Whether the value of a variable equals the right side. If the right side is a number, the
    /// value is converted to a number; otherwise the two are compared as text.
    fn equals(&self, value: Option<&[u8]>) -> bool {
        match (self, value) {
            (Right::Absent, value) => value.is_none(),
            (Right::Text(text), Some(value)) => text.as_bytes() == value,
            (Right::Number(right), Some(value)) => number_of(value) == Some(*right),
            (Right::Text(_) | Right::Number(_), None) => false,
            (Right::Boolean(_) | Right::Unequal, _) => false,
        }
    }

    fn equals_element(&self, element: Piece<'_>) -> bool {
        match self {
            Right::Text(text) => element.is_text(text),
            Right::Number(right) => element.number() == Some(*right),
            Right::Boolean(right) => element.raw() == if *right { "true" } else { "false" },
            Right::Absent | Right::Unequal => false,
        }
    }
}

impl Order {
    fn holds(self, left: f64, right: f64) -> bool {
        let Some(ordering) = left.partial_cmp(&right) else { return false };
        match self {
            Order::Above => ordering == Ordering::Greater,
            Order::AtLeast => ordering != Ordering::Less,
            Order::Below => ordering == Ordering::Less,
            Order::AtMost => ordering != Ordering::Greater,
        }
    }
}

/// Whether a list contains an element. The value of a variable that is a list is JSON text.
fn holds_element(value: &[u8], right: &Right) -> bool {
    if value.first() != Some(&b'[') {
        return false;
    }
    let Ok(document) = Document::parse(value) else { return false };
    document.root().items().any(|element| right.equals_element(element))
}

fn is_within(value: &[u8], networks: &[IpNet]) -> bool {
    let Some(text) = str::from_utf8(value).ok() else { return false };
    let Ok(address) = text.parse::<IpAddr>() else { return false };
    // A dual-stack socket reports IPv4 clients as mapped addresses.
    let address = address.to_canonical();
    networks.iter().any(|network| network.contains(&address))
}
