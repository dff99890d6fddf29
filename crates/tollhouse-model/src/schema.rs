//! JSON Schema: compiled once, then values are checked by it in the words that users of APISIX's
//! Admin API know.
//!
//! The dialect is the common part of drafts 4, 6 and 7, with references inside of one document.
//! Here is the face of it; documents are taken apart in `compile.rs`, values are checked in
//! `walk.rs`, and `core.rs` holds the schemas of the objects that a configuration consists of.
//! Expressions, certificates and references between objects are no matter of schemas.

use std::cell::RefCell;

use serde_json::Value;

use self::walk::{Fills, Read};
use crate::json::{Additions, Document};

mod compile;
mod core;
mod equal;
mod error;
mod rules;
mod text;
mod walk;

pub use self::core::{CoreSchema, check_core, core, core_names};
pub use self::error::{SchemaError, Violation};
use self::rules::{Node, NodeId};
pub use self::walk::Fault;
use self::walk::Walk;

/// A compiled schema. Cheap to use from many threads; made once per document.
#[derive(Debug)]
pub struct Schema {
    nodes: Box<[Node]>,
    root: NodeId,
    subject: Subject,
    /// Whether any property of the document has a default.
    fills: bool,
}

/// What a schema is applied to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// Objects of the configuration: a reference to a secret (`$secret://…`, `$env://…`) stands
    /// for a text, number or boolean that is not known yet, and passes.
    Configuration,
    /// What clients send: nothing stands for anything else.
    Traffic,
}

impl Schema {
    /// Compiles the schema of an object of the configuration.
    ///
    /// # Errors
    /// What is wrong with the document.
    pub fn compile(document: &Value) -> Result<Schema, SchemaError> {
        Self::compile_for(document, Subject::Configuration)
    }

    /// Compiles a schema for what it is to be applied to.
    ///
    /// # Errors
    /// What is wrong with the document.
    pub fn compile_for(document: &Value, subject: Subject) -> Result<Schema, SchemaError> {
        let (nodes, root) = compile::compile(document)?;
        Ok(Schema { nodes: nodes.into(), root, subject, fills: compile::may_fill(document) })
    }

    /// Judges a value as it would stand with its defaults filled in.
    ///
    /// # Errors
    /// The first thing that is wrong, such as `property "uri" validation failed: wrong type:
    /// expected string, got number`.
    pub fn validate(&self, value: &Value) -> Result<(), Violation> {
        self.validate_and_fill(&mut value.clone())
    }

    /// All that is wrong with a value, each at its place; at most a hundred. Of an object's own faults the first counts,
    /// and what only tries (`anyOf`, `oneOf`, `if`) is one fault of the value around it.
    pub fn faults(&self, value: &Value) -> Vec<Fault> {
        Walk::new(&self.nodes, self.subject).collecting().run_to_end(self.root, &mut value.clone())
    }

    /// Judges a value and fills in the defaults of absent properties on the way; costs no copy.
    ///
    /// # Errors
    /// As `validate`; the value then has some of its defaults.
    pub fn validate_and_fill(&self, value: &mut Value) -> Result<(), Violation> {
        Walk::new(&self.nodes, self.subject).run(self.root, value)
    }

    /// Judges a text where it stands, without making a tree of it; returns the defaults that are to
    /// be added to its objects.
    ///
    /// # Errors
    /// As [`Self::validate`].
    pub fn validate_text(&self, document: &Document<'_>) -> Result<Additions, Violation> {
        let fills = RefCell::new(Fills::default());
        let mut root = Read::new(document.root(), &fills);
        Walk::new(&self.nodes, self.subject).run(self.root, &mut root)?;
        Ok(fills.into_inner().into_additions())
    }

    /// Fills in the defaults of absent properties, also inside of items and of other defaults. A
    /// value that the schema refuses gets those that stand before its first fault.
    pub fn apply_defaults(&self, value: &mut Value) {
        if self.fills {
            // The verdict is not asked for here, so its text is not written either.
            let _ = Walk::new(&self.nodes, self.subject).quietly().run(self.root, value);
        }
    }
}

#[cfg(test)]
mod tests;
