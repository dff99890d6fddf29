//! Texts with `{{…}}`, expanded for every request: a subset of Go's text/template, with ghz's
//! variables and functions and common functions of sprig, as used in load tests.
//!
//! A text is compiled once ([`Template::parse`]) and rendered into a reusable buffer. Names are
//! resolved at compile time, so that a misspelt name is found before the first request. Output,
//! steps and lists are limited, so that no template blocks a worker. The crate never reads files,
//! the environment or the network.

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

/// Values of the template variables (`{{.RequestNumber}}`, `{{.WorkerID}}` and so on) for one
/// request.
#[derive(Debug, Clone, Copy)]
pub struct Variables<'a> {
    /// Value of `.WorkerID`: name of the sender, unique among concurrent senders.
    pub worker_id: &'a str,
    /// Value of `.RequestNumber`: number of the request within the run, from 0.
    pub request_number: u64,
    /// Names of the gRPC method of the request; all are empty for other protocols.
    pub method: &'a Method,
    /// Time of the request in nanoseconds of Unix time, for `.Timestamp`, its variants, and `now`.
    pub unix_ns: u64,
    /// Random bits for `.UUID`, which has the same value throughout a request.
    pub uuid: u128,
}

impl<'a> Variables<'a> {
    /// Creates the variables of request `request_number`, with the current time and a new UUID.
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

/// Names of a gRPC method, as variables show them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Method {
    /// Value of `.FullyQualifiedName`: `package.Service.Method`.
    pub fully_qualified_name: String,
    /// Value of `.MethodName`, without the service.
    pub method_name: String,
    /// Value of `.ServiceName`, without the package.
    pub service_name: String,
    /// Value of `.InputName`: type of the request message, without the package.
    pub input_name: String,
    /// Value of `.OutputName`: type of the response message, without the package.
    pub output_name: String,
    /// Value of `.IsClientStreaming`: whether the client sends several messages.
    pub is_client_streaming: bool,
    /// Value of `.IsServerStreaming`: whether the server sends several messages.
    pub is_server_streaming: bool,
}

/// Selection of the functions that a template may call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Functions {
    /// Functions of the template language, of ghz and of sprig.
    #[default]
    All,
    /// The functions of the template language only, such as `eq` and `printf`.
    Builtin,
}

/// Template compiled once and rendered for each request.
#[derive(Debug, Clone)]
pub struct Template {
    nodes: Vec<Node>,
    slots: usize,
}

/// Error in a template, or during rendering.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The text is not a valid template.
    #[error("template, character {at}: {why}")]
    Parse {
        /// Position of the error in characters, from 1.
        at: usize,
        /// Description of the error, for the author of the template.
        why: String,
    },
    /// A function failed while the template was rendered.
    #[error("template: {0}")]
    Render(String),
}

impl Template {
    /// Compiles a text; all functions are available.
    ///
    /// # Errors
    /// If the text is not a valid template; for an unknown name, the message suggests the closest
    /// known one.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        Self::parse_with(text, Functions::All)
    }

    /// Compiles a text with a given set of functions.
    ///
    /// # Errors
    /// Like [`Self::parse`].
    pub fn parse_with(text: &str, functions: Functions) -> Result<Self, TemplateError> {
        let (nodes, slots) = parser::parse(text, functions)?;
        Ok(Self { nodes, slots })
    }

    /// Creates a template that renders the text unchanged, even if it contains `{{…}}`.
    pub fn verbatim(text: &str) -> Self {
        Self { nodes: vec![Node::Text(text.into())], slots: 0 }
    }

    /// Returns the text of the template if it contains no placeholder; otherwise `None`.
    pub fn as_static(&self) -> Option<&str> {
        match self.nodes.as_slice() {
            [] => Some(""),
            [Node::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Whether the template contains no placeholder, so that every rendering has the same result.
    pub fn is_static(&self) -> bool {
        self.as_static().is_some()
    }

    /// Appends the expanded text to `out`. Allocates only for functions that create texts.
    ///
    /// # Errors
    /// If a function rejects its arguments, or a limit is exceeded; `out` keeps what was appended
    /// before.
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

/// Formats random bits as a UUID of version 4 (RFC 9562).
fn put_uuid(bits: u128, out: &mut String) {
    const VERSION_4: u128 = 0x4 << 76;
    const VARIANT: u128 = 0b10 << 62;
    let bits = bits & !(0xf << 76) & !(0b11 << 62) | VERSION_4 | VARIANT;
    let part = |shift: u32, digits: u32| (bits >> shift) & ((1 << (4 * digits)) - 1);
    // Writing to a `String` cannot fail.
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
