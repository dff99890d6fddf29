//! Handles and plugin configurations: JSON objects written as text.

use serde::Deserialize;

/// Why a handle or a configuration cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HandleError {
    /// The text is not JSON of this shape.
    #[error("the handle cannot be read: {0}")]
    Malformed(String),
    /// A node has no valid address.
    #[error("node {0} has no address: expected host:port, or the host alone for http and https")]
    Address(usize),
    /// A node has an unsupported protocol.
    #[error(
        "node {index} has the protocol `{protocol}`; `http://`, `https://`, `ws://`, `wss://`, `grpc://`, `grpcs://`, `dubbo://` and `tcp://` are possible"
    )]
    Protocol {
        /// Position in the list, from 1.
        index: usize,
        /// Given protocol.
        protocol: String,
    },
    /// A member names an unknown algorithm.
    #[error("unknown {member} `{value}`; possible are {possible}")]
    Name {
        member: &'static str,
        /// Given value.
        value: String,
        /// Supported values.
        possible: &'static str,
    },
    /// A member is missing or has an unsupported value.
    #[error("`{member}` is `{value}`; possible are {possible}")]
    Value {
        member: &'static str,
        /// Given value; empty if missing.
        value: String,
        /// Supported values.
        possible: &'static str,
    },
    /// A number is out of range.
    #[error("{member} is {value}; it may be from {least} to {most}")]
    Bounds {
        member: &'static str,
        /// Given value.
        value: i64,
        /// Smallest accepted value.
        least: i64,
        /// Greatest accepted value.
        most: i64,
    },
}

/// Parses a handle. A blank text is an object without members.
///
/// # Errors
///
/// If the text is not a JSON object of the shape of `T`.
pub(crate) fn read<'a, T: Deserialize<'a> + Default>(
    text: Option<&'a str>,
) -> Result<T, HandleError> {
    let text = text.map(str::trim).unwrap_or_default();
    if text.is_empty() {
        return Ok(T::default());
    }
    // Derived deserializers would also accept a JSON array with the members in order.
    if !text.starts_with('{') {
        return Err(HandleError::Malformed("expected a JSON object".to_owned()));
    }
    serde_json::from_str(text).map_err(|error| HandleError::Malformed(error.to_string()))
}
