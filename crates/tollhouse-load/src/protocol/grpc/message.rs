//! A message that is encoded over and over: compiled once from JSON into pieces that are ready and pieces
//! that are filled in anew, so that a request costs no JSON.
//!
//! How JSON becomes pieces is [`compile`]; how one value is written is [`scalar`]. Which message is due
//! when is not decided here ([`super::data`]).

mod any;
mod compile;
mod scalar;
mod well_known;

pub(super) use compile::{Templates, compile};

use prost::encoding::encode_varint;
use tollhouse_stdx::Random;

use go_template::{Template, TemplateError, Variables};
use scalar::{Input, Scalar, Unfit};

/// A compiled message.
#[derive(Debug, Clone)]
pub(super) struct Message {
    pieces: Vec<Piece>,
}

/// A part of an encoded message.
#[derive(Debug, Clone)]
enum Piece {
    Ready(Vec<u8>),
    /// A value with `{{…}}` in it.
    Value(Box<Value>),
    /// Something with a length in front: a message, a map entry, a packed list.
    Sized {
        key: Vec<u8>,
        pieces: Vec<Piece>,
    },
}

/// A value that is filled in anew for every message.
#[derive(Debug, Clone)]
struct Value {
    /// The field's key; empty inside a packed list.
    key: Vec<u8>,
    scalar: Scalar,
    /// Whether a zero is left out, as fields without presence have it.
    zero: Zero,
    template: Template,
    /// Where in the message, for its author.
    path: String,
}

/// What becomes of a value that is its type's default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Zero {
    Written,
    LeftOut,
}

/// What a message is filled in with.
pub(super) struct Fill<'a, 'v> {
    pub(super) variables: &'a Variables<'v>,
    pub(super) random: &'a mut Random,
    /// For the text of one value; content does not matter.
    pub(super) text: &'a mut String,
}

impl Fill<'_, '_> {
    /// A template filled in.
    ///
    /// # Errors
    /// What the template says.
    pub(super) fn render(&mut self, template: &Template) -> Result<&str, TemplateError> {
        self.text.clear();
        template.render(self.variables, self.random, self.text)?;
        Ok(self.text)
    }
}

/// What is wrong with a message, and where in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{why}", if path.is_empty() { String::new() } else { format!("`{path}`: ") })]
pub(super) struct MessageError {
    /// Such as `health_check.heartbeat.ttl`; empty for the message itself.
    pub(super) path: String,
    pub(super) why: String,
}

impl Message {
    /// The encoded message, when nothing in it changes.
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
    /// A template failed, or gave a text that is no value of its field.
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

/// Appends key and value; neither for a zero that is left out.
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
    // Every encoding of a default is made of zero bytes, and no other value's is: lengths and minus signs
    // are bits that are set.
    if zero == Zero::LeftOut && out[value_from..].iter().all(|byte| *byte == 0) {
        out.truncate(from);
    }
    Ok(())
}

/// Leaves room for a length of one byte, which most messages need.
fn begin_sized(out: &mut Vec<u8>) -> usize {
    out.push(0);
    out.len()
}

/// Puts the length of what came since [`begin_sized`]; moves it when the length takes more room.
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
