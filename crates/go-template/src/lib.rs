//! Texts with `{{…}}` in them, filled in anew for every request: the part of Go's text/template, with
//! ghz's variables and functions and the usual ones of sprig, that people write in load tests.
//!
//! A text is compiled once ([`Template::parse`]) and rendered into a buffer that is used again. Names are
//! resolved while compiling, so that a misspelt one is found before the first request; output, steps and
//! lists are bounded, so that no template takes a worker with it. Nothing here reads files, the
//! environment or the network.

#![warn(missing_docs)]

mod fault;
mod function;
pub mod golang;
mod lexer;
mod node;
mod parser;
mod printf;
mod render;
mod value;

use std::fmt::Write;

use tollhouse_stdx::Random;

use node::Node;

/// What `{{.Name}}` stands for, of one request.
#[derive(Debug, Clone, Copy)]
pub struct Variables<'a> {
    /// `.WorkerID`: names what sends the request; no two that send at the same time share it.
    pub worker_id: &'a str,
    /// `.RequestNumber`, from 0.
    pub request_number: u64,
    /// The names of the call; all empty for other protocols.
    pub method: &'a Method,
    /// The time of the call: `.Timestamp` and its relatives, `now`. Nanoseconds of Unix time.
    pub unix_ns: u64,
    /// 128 random bits: `.UUID`, the same wherever it is used in one request.
    pub uuid: u128,
}

impl<'a> Variables<'a> {
    /// Variables of request `request_number`, with the time of now and a new UUID.
    pub fn now(
        worker_id: &'a str,
        request_number: u64,
        method: &'a Method,
        random: &mut Random,
    ) -> Self {
        let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let unix_ns = since_epoch.map_or(0, |time| time.as_nanos() as u64);
        Self { worker_id, request_number, method, unix_ns, uuid: random_128(random) }
    }
}

/// The names of a gRPC method, as variables show them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Method {
    /// `.FullyQualifiedName`: `package.Service.Method`.
    pub fully_qualified_name: String,
    /// `.MethodName`, without service.
    pub method_name: String,
    /// `.ServiceName`, without package.
    pub service_name: String,
    /// `.InputName`, without package.
    pub input_name: String,
    /// `.OutputName`, without package.
    pub output_name: String,
    /// `.IsClientStreaming`.
    pub is_client_streaming: bool,
    /// `.IsServerStreaming`.
    pub is_server_streaming: bool,
}

/// Which functions a template may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Functions {
    /// All of them.
    #[default]
    All,
    /// Only those of the template language itself, such as `eq` and `printf`.
    Builtin,
}

/// A compiled template.
#[derive(Debug, Clone)]
pub struct Template {
    nodes: Vec<Node>,
    slots: usize,
}

/// What is wrong with a template, or with what it does.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// It is no template.
    #[error("template, character {at}: {why}")]
    Parse {
        /// Where, in characters from 1.
        at: usize,
        /// What is wrong there.
        why: String,
    },
    /// It cannot be filled in.
    #[error("template: {0}")]
    Render(String),
}

impl Template {
    /// Compiles a text; every function may be used.
    ///
    /// # Errors
    /// Says where the text is no template; unknown names come with the nearest known one.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        Self::parse_with(text, Functions::All)
    }

    /// Compiles a text that may use only some functions.
    ///
    /// # Errors
    /// Like [`Self::parse`].
    pub fn parse_with(text: &str, functions: Functions) -> Result<Self, TemplateError> {
        let (nodes, slots) = parser::parse(text, functions)?;
        Ok(Self { nodes, slots })
    }

    /// A text that stands for itself, whatever is in it.
    pub fn verbatim(text: &str) -> Self {
        Self { nodes: vec![Node::Text(text.into())], slots: 0 }
    }

    /// The text, when nothing in it has to be filled in.
    pub fn as_static(&self) -> Option<&str> {
        match self.nodes.as_slice() {
            [] => Some(""),
            [Node::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Whether nothing has to be filled in, so that the text may be prepared once.
    pub fn is_static(&self) -> bool {
        self.as_static().is_some()
    }

    /// Appends the filled-in text to `out`. Allocates only for functions that make texts.
    ///
    /// # Errors
    /// A function refused its arguments, or a bound was passed; what was appended until then stays.
    pub fn render(
        &self,
        variables: &Variables<'_>,
        random: &mut Random,
        out: &mut String,
    ) -> Result<(), TemplateError> {
        if let Some(text) = self.as_static() {
            out.push_str(text);
            return Ok(());
        }
        render::render(&self.nodes, self.slots, variables, random, out)
            .map_err(|fault| TemplateError::Render(fault.to_string()))
    }
}

fn random_128(random: &mut Random) -> u128 {
    u128::from(random.next_u64()) << 64 | u128::from(random.next_u64())
}

/// Writes random bits as a UUID of version 4 (RFC 9562).
fn put_uuid(bits: u128, out: &mut String) {
    const VERSION_4: u128 = 0x4 << 76;
    const VARIANT: u128 = 0b10 << 62;
    let bits = bits & !(0xf << 76) & !(0b11 << 62) | VERSION_4 | VARIANT;
    let part = |shift: u32, digits: u32| (bits >> shift) & ((1 << (4 * digits)) - 1);
    // Writing into a String cannot fail.
    let _ = write!(
        out,
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        part(96, 8),
        part(80, 4),
        part(64, 4),
        part(48, 4),
        part(0, 12)
    );
}

#[cfg(test)]
mod tests;
