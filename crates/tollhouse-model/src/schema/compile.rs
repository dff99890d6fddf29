//! Compiles a schema document into nodes.
//!
//! Each schema of the document is compiled once, regardless of the number of references to it. A
//! reference is a node too, so recursive schemas compile. The keywords are compiled in
//! `compile/keywords.rs`.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::SchemaError;
use super::rules::{Branch, Node, NodeId};

mod keywords;

/// Maximum nesting depth of a schema document. The compiler is recursive and runs on a small stack.
const DOCUMENT_DEPTH_MAX: usize = 96;

/// Maximum number of values in a document. The largest built-in schemas have a few thousand. A
/// schema sent by a user stays in memory as long as its object.
const DOCUMENT_VALUES_MAX: usize = 50_000;

/// Returns the nodes of a document and the id of its root node.
pub(super) fn compile(document: &Value) -> Result<(Vec<Node>, NodeId), SchemaError> {
    let mut values_left = DOCUMENT_VALUES_MAX;
    measure(document, DOCUMENT_DEPTH_MAX, &mut values_left)?;
    let mut compiler =
        Compiler { document, nodes: Vec::new(), known: HashMap::new(), pending: Vec::new() };
    let root = compiler.node_of(document)?;
    // References are resolved last and in a loop, so that a chain of references does not nest
    // calls.
    while let Some((id, target)) = compiler.pending.pop() {
        compiler.nodes[id] = Node::Reference(compiler.node_of(target)?);
    }
    Ok((compiler.nodes, root))
}

/// Whether a schema may add a default. A schema that contains a reference counts as one that may.
pub(super) fn may_fill(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => {
            fields.contains_key("default")
                || fields.contains_key("$ref")
                || fields.values().any(may_fill)
        }
        Value::Array(items) => items.iter().any(may_fill),
        _ => false,
    }
}

fn measure(value: &Value, depth_left: usize, values_left: &mut usize) -> Result<(), SchemaError> {
    let Some(depth_left) = depth_left.checked_sub(1) else {
        return Err(SchemaError::TooDeep(DOCUMENT_DEPTH_MAX));
    };
    *values_left = values_left.checked_sub(1).ok_or(SchemaError::TooLarge(DOCUMENT_VALUES_MAX))?;
    match value {
        Value::Array(items) => {
            items.iter().try_for_each(|item| measure(item, depth_left, values_left))
        }
        Value::Object(fields) => {
            fields.values().try_for_each(|field| measure(field, depth_left, values_left))
        }
        _ => Ok(()),
    }
}

struct Compiler<'d> {
    document: &'d Value,
    nodes: Vec<Node>,
    /// Nodes by the address of their schema. The address is stable while the document is borrowed.
    known: HashMap<*const Value, NodeId>,
    /// Reference nodes and the schemas they refer to.
    pending: Vec<(NodeId, &'d Value)>,
}

impl<'d> Compiler<'d> {
    /// Returns the node of a schema, compiling the schema on first use.
    fn node_of(&mut self, schema: &'d Value) -> Result<NodeId, SchemaError> {
        let address = std::ptr::from_ref(schema);
        if let Some(id) = self.known.get(&address) {
            return Ok(*id);
        }
        let id = self.nodes.len();
        self.nodes.push(Node::Anything);
        self.known.insert(address, id);
        let node = match schema {
            Value::Bool(true) => Node::Anything,
            Value::Bool(false) => Node::Nothing,
            Value::Object(fields) => match fields.get("$ref") {
                Some(reference) => {
                    let target = self.target_of(reference)?;
                    self.pending.push((id, target));
                    Node::Anything
                }
                None => self.rules(fields)?,
            },
            _ => return Err(SchemaError::NotASchema),
        };
        self.nodes[id] = node;
        Ok(id)
    }

    /// Resolves a reference such as `#/definitions/a`.
    fn target_of(&self, reference: &Value) -> Result<&'d Value, SchemaError> {
        let text = reference.as_str().ok_or_else(|| invalid("$ref", "a string"))?;
        let target = text.strip_prefix('#').and_then(|path| self.document.pointer(path));
        target.ok_or_else(|| SchemaError::Reference(text.to_owned()))
    }

    /// Compiles a schema of a combining keyword, such as `anyOf`, which need not apply to the
    /// value.
    fn branch(&mut self, schema: &'d Value) -> Result<Branch, SchemaError> {
        Ok(Branch { node: self.node_of(schema)?, fills: may_fill(schema) })
    }

    fn node_at(&mut self, fields: &'d Fields, name: &str) -> Result<Option<NodeId>, SchemaError> {
        fields.get(name).map(|schema| self.node_of(schema)).transpose()
    }

    fn branch_at(&mut self, fields: &'d Fields, name: &str) -> Result<Option<Branch>, SchemaError> {
        fields.get(name).map(|schema| self.branch(schema)).transpose()
    }

    fn nodes_at(&mut self, fields: &'d Fields, name: &str) -> Result<Vec<NodeId>, SchemaError> {
        let schemas = list_at(fields, name)?.unwrap_or_default();
        schemas.iter().map(|schema| self.node_of(schema)).collect()
    }

    fn branches_at(
        &mut self,
        fields: &'d Fields,
        name: &str,
    ) -> Result<Option<Vec<Branch>>, SchemaError> {
        let Some(schemas) = list_at(fields, name)? else { return Ok(None) };
        schemas.iter().map(|schema| self.branch(schema)).collect::<Result<_, _>>().map(Some)
    }
}

type Fields = Map<String, Value>;

fn invalid(keyword: &str, expected: &'static str) -> SchemaError {
    SchemaError::Keyword { keyword: keyword.to_owned(), expected }
}

fn list_at<'d>(fields: &'d Fields, name: &str) -> Result<Option<&'d [Value]>, SchemaError> {
    match fields.get(name) {
        None => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items)),
        Some(_) => Err(invalid(name, "an array")),
    }
}

fn map_at<'d>(fields: &'d Fields, name: &str) -> Result<Option<&'d Fields>, SchemaError> {
    match fields.get(name) {
        None => Ok(None),
        Some(Value::Object(entries)) => Ok(Some(entries)),
        // Lua encodes an empty object as an empty list.
        Some(Value::Array(items)) if items.is_empty() => Ok(None),
        Some(_) => Err(invalid(name, "an object")),
    }
}
