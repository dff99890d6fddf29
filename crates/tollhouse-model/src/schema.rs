//! JSON Schema: compiled once, then used to validate values. Error messages use the wording of
//! APISIX's Admin API.
//!
//! The dialect is the common part of drafts 4, 6 and 7, with references inside one document. This
//! file is the interface; documents are compiled in `compile.rs`, values are validated in
//! `walk.rs`, and `core.rs` holds the schemas of the configuration objects. Expressions,
//! certificates and references between objects are beyond the scope of schemas.

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

/// A compiled schema. Compile once per document; validation may run on many threads.
#[derive(Debug)]
pub struct Schema {
    nodes: Box<[Node]>,
    root: NodeId,
    subject: Subject,
    /// Whether any property of the document may have a default.
    fills: bool,
}

/// Kind of values that a schema validates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// Configuration objects. A reference to a secret (`$secret://…`, `$env://…`) is valid in place
    /// of a text, number or boolean, because its value is not known yet.
    Configuration,
    /// Data sent by clients. References have no meaning there.
    Traffic,
}

impl Schema {
    /// Compiles the schema of a configuration object.
    ///
    /// # Errors
    /// If the document is not a valid schema.
    pub fn compile(document: &Value) -> Result<Schema, SchemaError> {
        Self::compile_for(document, Subject::Configuration)
    }

    /// Compiles a schema for the given kind of values.
    ///
    /// # Errors
    /// If the document is not a valid schema.
    pub fn compile_for(document: &Value, subject: Subject) -> Result<Schema, SchemaError> {
        let (nodes, root) = compile::compile(document)?;
        Ok(Schema { nodes: nodes.into(), root, subject, fills: compile::may_fill(document) })
    }

    /// Validates a value as it would be with its defaults.
    ///
    /// # Errors
    /// The first violation, such as `property "uri" validation failed: wrong type: expected string,
    /// got number`.
    pub fn validate(&self, value: &Value) -> Result<(), Violation> {
        self.validate_and_fill(&mut value.clone())
    }

    /// Returns all violations of a value with their positions; at most a hundred. Only the first
    /// violation of each object itself is included. A failed `anyOf`, `oneOf` or `if` counts as one
    /// violation of the enclosing value.
    pub fn faults(&self, value: &Value) -> Vec<Fault> {
        Walk::new(&self.nodes, self.subject).collecting().run_to_end(self.root, &mut value.clone())
    }

    /// Validates a value and adds the defaults of missing properties, without copying it.
    ///
    /// # Errors
    /// As `validate`; the value may then contain some of the defaults.
    pub fn validate_and_fill(&self, value: &mut Value) -> Result<(), Violation> {
        Walk::new(&self.nodes, self.subject).run(self.root, value)
    }

    /// Validates a text in place, without building a tree. Returns the defaults to add to its
    /// objects.
    ///
    /// # Errors
    /// As [`Self::validate`].
    pub fn validate_text(&self, document: &Document<'_>) -> Result<Additions, Violation> {
        let fills = RefCell::new(Fills::default());
        let mut root = Read::new(document.root(), &fills);
        Walk::new(&self.nodes, self.subject).run(self.root, &mut root)?;
        Ok(fills.into_inner().into_additions())
    }

    /// Adds the defaults of missing properties, also within items and within other defaults. An
    /// invalid value receives the defaults that precede its first violation.
    pub fn apply_defaults(&self, value: &mut Value) {
        if self.fills {
            // The verdict is ignored, so its text is not written.
            let _ = Walk::new(&self.nodes, self.subject).quietly().run(self.root, value);
        }
    }
}

#[cfg(test)]
mod tests;
