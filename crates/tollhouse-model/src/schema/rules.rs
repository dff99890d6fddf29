//! The compiled form of a schema document: a flat list of nodes that refer to each other by index.
//!
//! Plain data only: built in `compile.rs` and used in `walk.rs`.

use std::collections::HashSet;

use serde_json::Value;

use crate::expr::pattern::Pattern;

/// Index of a node in its schema.
pub(super) type NodeId = usize;

/// Schema or subschema within a document.
#[derive(Debug)]
pub(super) enum Node {
    /// `true`, or an object without an effective keyword.
    Anything,
    Nothing,
    Reference(NodeId),
    Rules(Box<Rules>),
}

/// The keywords of one schema, in the order in which they are checked.
#[derive(Debug, Default)]
pub(super) struct Rules {
    pub(super) types: Option<Types>,
    pub(super) object: Option<ObjectRules>,
    pub(super) array: Option<ArrayRules>,
    pub(super) text: Option<TextRules>,
    pub(super) number: Option<NumberRules>,
    pub(super) choices: Option<Box<[Value]>>,
    pub(super) combined: Option<Box<Combinators>>,
    pub(super) property_names: Option<NodeId>,
    pub(super) format: Option<Format>,
    pub(super) constant: Option<Value>,
    pub(super) contains: Option<Branch>,
}

#[derive(Debug)]
pub(super) struct Types {
    pub(super) allowed: Vec<Kind>,
    /// The types as messages name them: `string`, or `one of string, integer`.
    pub(super) shown: Box<str>,
}

/// A type name of JSON Schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Object,
    Array,
    Text,
    Number,
    Integer,
    Boolean,
    Null,
}

impl Kind {
    pub(super) const NAMES: [(&'static str, Kind); 7] = [
        ("object", Kind::Object),
        ("array", Kind::Array),
        ("string", Kind::Text),
        ("number", Kind::Number),
        ("integer", Kind::Integer),
        ("boolean", Kind::Boolean),
        ("null", Kind::Null),
    ];
}

/// A schema of a combining keyword, such as `anyOf`, which need not apply to the value. If it does
/// not apply, the defaults that it added are removed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Branch {
    pub(super) node: NodeId,
    /// Whether the schema may add defaults, so that trying it must be undone.
    pub(super) fills: bool,
}

#[derive(Debug, Default)]
pub(super) struct ObjectRules {
    /// Properties in the order of the document.
    pub(super) properties: Vec<Property>,
    /// Names in `required` that `properties` does not describe.
    pub(super) required: Vec<Box<str>>,
    /// Dependencies of names that `properties` does not describe.
    pub(super) dependencies: Vec<(Box<str>, Dependency)>,
    pub(super) patterns: Vec<(Box<str>, Pattern, NodeId)>,
    pub(super) additional: Additional,
    /// Names of the members of `properties`.
    pub(super) known: HashSet<Box<str>>,
    pub(super) least: Option<usize>,
    pub(super) most: Option<usize>,
}

#[derive(Debug)]
pub(super) struct Property {
    pub(super) name: Box<str>,
    pub(super) node: NodeId,
    pub(super) presence: Presence,
    pub(super) dependency: Option<Dependency>,
    pub(super) default: Option<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    Required,
    Optional,
}

#[derive(Debug)]
pub(super) enum Dependency {
    Names(Vec<Box<str>>),
    Schema(NodeId),
}

#[derive(Debug, Default)]
pub(super) enum Additional {
    #[default]
    Allowed,
    Forbidden,
    Schema(NodeId),
}

#[derive(Debug, Default)]
pub(super) struct ArrayRules {
    pub(super) least: Option<usize>,
    pub(super) most: Option<usize>,
    pub(super) unique: bool,
    pub(super) items: Items,
}

#[derive(Debug, Default)]
pub(super) enum Items {
    #[default]
    Any,
    /// Single schema that applies to all items.
    Each(NodeId),
    /// A schema per position, and the rule for the items after them.
    Tuple(Vec<NodeId>, Additional),
}

#[derive(Debug, Default)]
pub(super) struct TextRules {
    pub(super) least: Option<usize>,
    pub(super) most: Option<usize>,
    /// Regular expression that texts must match, and its quoted form for error messages.
    pub(super) pattern: Option<(Pattern, Box<str>)>,
}

#[derive(Debug, Default)]
pub(super) struct NumberRules {
    pub(super) minimum: Option<f64>,
    pub(super) above: Option<f64>,
    pub(super) maximum: Option<f64>,
    pub(super) below: Option<f64>,
    pub(super) multiple_of: Option<f64>,
}

/// Combining keywords, such as `anyOf`, which apply further schemas to the same value.
#[derive(Debug, Default)]
pub(super) struct Combinators {
    pub(super) all_of: Vec<NodeId>,
    pub(super) any_of: Option<AnyOf>,
    pub(super) one_of: Option<Vec<Branch>>,
    pub(super) conditional: Option<Conditional>,
    pub(super) not: Option<Branch>,
}

#[derive(Debug)]
pub(super) struct AnyOf {
    pub(super) branches: Vec<Branch>,
    /// Message if no branch applies; lists the fields that the branches require.
    pub(super) refusal: Box<str>,
}

#[derive(Debug)]
pub(super) struct Conditional {
    pub(super) condition: Branch,
    pub(super) then: Option<Branch>,
    pub(super) otherwise: Option<Branch>,
}

/// The `format` values that are checked. All others are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Ipv4,
    Ipv6,
}
