//! Message template: compiled once from JSON into constant pieces and pieces that are expanded
//! anew, so that a request needs no JSON processing.
//!
//! [`compile`] converts JSON to pieces; [`scalar`] encodes single values. [`super::data`] selects
//! the message for a request.

mod any;
mod compile;
mod scalar;
mod well_known;

pub(super) use compile::{Templates, compile};

use prost::encoding::encode_varint;
use tollhouse_stdx::Random;

use go_template::{Template, TemplateError, Variables};
use scalar::{Input, Scalar, Unfit};

#[derive(Debug, Clone)]
pub(super) struct Message {
    pieces: Vec<Piece>,
}

/// Part of a message that is encoded in advance, or expanded for each request.
#[derive(Debug, Clone)]
enum Piece {
    Ready(Vec<u8>),
    /// Value of a field whose text contains `{{…}}`.
    Value(Box<Value>),
    /// Length-prefixed part: a message, a map entry or a packed list.
    Sized {
        key: Vec<u8>,
        pieces: Vec<Piece>,
    },
}

/// Value that is expanded anew for every message.
#[derive(Debug, Clone)]
struct Value {
    /// Encoded field key; empty inside a packed list.
    key: Vec<u8>,
    scalar: Scalar,
    /// Handling of a zero: omitted for fields without presence.
    zero: Zero,
    template: Template,
    /// Path within the message, for error messages.
    path: String,
}

/// Handling of a value equal to its type's default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Zero {
    Written,
    LeftOut,
}

pub(super) struct Fill<'a, 'v> {
    pub(super) variables: &'a Variables<'v>,
    pub(super) random: &'a mut Random,
    /// Scratch buffer for the text of one value.
    pub(super) text: &'a mut String,
}

impl Fill<'_, '_> {
    /// Expands a template.
    ///
    /// # Errors
    /// If the template fails.
    pub(super) fn render(&mut self, template: &Template) -> Result<&str, TemplateError> {
        self.text.clear();
        template.render(self.variables, self.random, self.text)?;
        Ok(self.text)
    }
}

/// Error in a message, with its path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{why}", if path.is_empty() { String::new() } else { format!("`{path}`: ") })]
pub(super) struct MessageError {
    /// Path such as `health_check.heartbeat.ttl`; empty for the message itself.
    pub(super) path: String,
    pub(super) why: String,
}

impl Message {
    /// Returns the encoded message if it is constant.
    pub(super) fn as_static(&self) -> Option<&[u8]> {
        match self.pieces.as_slice() {
            [] => Some(&[]),
            [Piece::Ready(bytes)] => Some(bytes),
            _ => None,
        }
    }

    /// Appends the encoded message.
    ///
    /// # Errors
    /// If a template fails, or its text is not a valid value of the field.
    pub(super) fn write(
        &self,
        fill: &mut Fill<'_, '_>,
        out: &mut Vec<u8>,
    ) -> Result<(), MessageError> {
        write_pieces(&self.pieces, fill, out)
    }
}

fn write_pieces(
    pieces: &[Piece],
    fill: &mut Fill<'_, '_>,
    out: &mut Vec<u8>,
) -> Result<(), MessageError> {
    for piece in pieces {
        match piece {
            Piece::Ready(bytes) => out.extend_from_slice(bytes),
            Piece::Value(value) => value.write(fill, out)?,
            Piece::Sized { key, pieces } => {
                out.extend_from_slice(key);
                let from = begin_sized(out);
                write_pieces(pieces, fill, out)?;
                end_sized(from, out);
            }
        }
    }
    Ok(())
}

impl Value {
    fn write(&self, fill: &mut Fill<'_, '_>, out: &mut Vec<u8>) -> Result<(), MessageError> {
        let error = |why: String| MessageError { path: self.path.clone(), why };
        let text = fill.render(&self.template).map_err(|failed| error(failed.to_string()))?;
        put_field(&self.key, &self.scalar, self.zero, Input::Text(text), out)
            .map_err(|unfit| error(unfit.to_string()))
    }
}

/// Appends key and value; neither for an omitted zero.
fn put_field(
    key: &[u8],
    scalar: &Scalar,
    zero: Zero,
    input: Input<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Unfit> {
    let from = out.len();
    out.extend_from_slice(key);
    let value_from = out.len();
    scalar.put(input, out)?;
    // The encoding of a default value consists of zero bytes only, and no other encoding does,
    // because lengths and sign bits are nonzero.
    if zero == Zero::LeftOut && out[value_from..].iter().all(|byte| *byte == 0) {
        out.truncate(from);
    }
    Ok(())
}

/// Reserves one byte for the length, which suffices for most messages.
fn begin_sized(out: &mut Vec<u8>) -> usize {
    out.push(0);
    out.len()
}

/// Writes the length of the data since [`begin_sized`]; moves the data if the length needs more
/// bytes.
fn end_sized(from: usize, out: &mut Vec<u8>) {
    const ONE_BYTE_MAX: usize = 0x7f;
    let length = out.len() - from;
    if let Ok(byte) = u8::try_from(length)
        && length <= ONE_BYTE_MAX
    {
        out[from - 1] = byte;
        return;
    }
    let mut prefix = Vec::with_capacity(size_of::<u64>());
    encode_varint(length as u64, &mut prefix);
    out.splice(from - 1..from, prefix);
}

#[cfg(test)]
mod tests;
