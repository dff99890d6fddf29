//! Decoder of Hessian 2 to JSON.
//!
//! Java types without a counterpart are converted: objects to their fields, enums to their names,
//! big numbers to numbers, dates to text, bytes to base64. A reference to an earlier value becomes
//! a copy. The size of copies is limited, because a few references can stand for any number of
//! them.

use std::rc::Rc;

use serde_json::{Map, Number, Value};
use tollhouse_stdx::civil::CivilTime;

/// Deepest nesting of values; far more than real messages have, and safe for the stack.
const DEPTH_MAX: usize = 64;

/// Maximum number of values of a message, copies included: some twenty megabytes as a JSON tree.
pub const VALUES_MAX: usize = 1 << 18;

/// Maximum sum of the text lengths of a message in bytes, copies included: twice the largest
/// message.
const TEXT_BYTES_MAX: usize = 16 << 20;

/// Maximum number of class and type definitions in a message.
const DEFINITIONS_MAX: usize = 4096;

/// Maximum number of fields of a class.
const FIELDS_MAX: usize = 4096;

/// Why a value cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    #[error("the message ends in the middle of a value")]
    Truncated,
    #[error("unexpected byte {0:#04x} at the start of a value")]
    Unknown(u8),
    #[error("a value is malformed: {0}")]
    Malformed(&'static str),
    #[error("a value is too large: {0}")]
    TooLarge(&'static str),
}

/// Decoded value. Its parts are indices into all nodes.
#[derive(Debug)]
enum Node {
    Plain(Value),
    List(Vec<usize>),
    /// Members with the name of their class, which is empty for an untyped map.
    Members(Rc<str>, Vec<(String, usize)>),
}

#[derive(Debug)]
struct Class {
    /// Shared by the objects of the class, because each object of one byte could name a class of
    /// megabytes.
    name: Rc<str>,
    fields: Vec<String>,
}

/// Decoder of the values in a message.
#[derive(Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    classes: Vec<Class>,
    types: Vec<Rc<str>>,
    nodes: Vec<Node>,
    /// Indices into `nodes` of the values that references can name, in order of appearance: a
    /// reference contains a position in this list.
    shared: Vec<usize>,
    values: usize,
    text_bytes: usize,
}

impl<'a> Reader<'a> {
    pub fn new(message: &'a [u8]) -> Self {
        Self {
            rest: message,
            classes: Vec::new(),
            types: Vec::new(),
            nodes: Vec::new(),
            shared: Vec::new(),
            values: 0,
            text_bytes: 0,
        }
    }

    pub fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Decodes the next value.
    ///
    /// # Errors
    ///
    /// If the bytes are not a value, or the value is too large.
    pub fn value(&mut self) -> Result<Value, ReadError> {
        let place = self.value_at(0)?;
        self.json(place, &mut Vec::new())
    }

    /// Converts a node to JSON, copying references. `around` holds the enclosing nodes.
    fn json(&mut self, place: usize, around: &mut Vec<usize>) -> Result<Value, ReadError> {
        // JSON cannot express cycles, so they end in `null`.
        if around.contains(&place) {
            return Ok(Value::Null);
        }
        if around.len() > DEPTH_MAX {
            return Err(ReadError::TooLarge("it is nested too deeply"));
        }
        around.push(place);
        let made = match self.nodes.get(place) {
            None => Value::Null,
            Some(Node::Plain(value)) => {
                let value = value.clone();
                self.count(1, value.as_str().map_or(0, str::len))?;
                value
            }
            Some(Node::List(parts)) => {
                let parts = parts.clone();
                self.count(parts.len(), 0)?;
                let items = parts.into_iter().map(|part| self.json(part, around));
                items.collect::<Result<Vec<_>, _>>()?.into()
            }
            Some(Node::Members(class, parts)) => {
                let (class, parts) = (Rc::clone(class), parts.clone());
                self.count(parts.len(), parts.iter().map(|(name, _)| name.len()).sum())?;
                let members = parts.into_iter().map(|(name, part)| {
                    let value = self.json(part, around)?;
                    Ok((name, value))
                });
                plain(&class, members.collect::<Result<Map<_, _>, ReadError>>()?)
            }
        };
        around.pop();
        Ok(made)
    }

    fn keep(&mut self, value: impl Into<Value>) -> usize {
        self.nodes.push(Node::Plain(value.into()));
        self.nodes.len() - 1
    }

    fn byte(&mut self) -> Result<u8, ReadError> {
        let (&byte, rest) = self.rest.split_first().ok_or(ReadError::Truncated)?;
        self.rest = rest;
        Ok(byte)
    }

    fn bytes(&mut self, count: usize) -> Result<&'a [u8], ReadError> {
        let (bytes, rest) = self.rest.split_at_checked(count).ok_or(ReadError::Truncated)?;
        self.rest = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ReadError> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(ReadError::Truncated)?;
        self.rest = rest;
        Ok(*bytes)
    }

    fn count(&mut self, values: usize, text_bytes: usize) -> Result<(), ReadError> {
        self.values = self.values.saturating_add(values);
        self.text_bytes = self.text_bytes.saturating_add(text_bytes);
        if self.values > VALUES_MAX {
            return Err(ReadError::TooLarge("it has too many parts"));
        }
        if self.text_bytes > TEXT_BYTES_MAX {
            return Err(ReadError::TooLarge("its texts are too long"));
        }
        Ok(())
    }

    /// Decodes the next value into `nodes` and returns its index there. `depth` is the nesting
    /// depth.
    fn value_at(&mut self, depth: usize) -> Result<usize, ReadError> {
        if depth > DEPTH_MAX {
            return Err(ReadError::TooLarge("it is nested too deeply"));
        }
        self.count(1, 0)?;
        let tag = self.byte()?;
        let value = match tag {
            b'N' => Value::Null,
            b'T' => Value::Bool(true),
            b'F' => Value::Bool(false),
            0x80..=0xd7 | b'I' => self.int(tag)?.into(),
            0xd8..=0xff | 0x38..=0x3f | b'Y' | b'L' => self.long(tag)?.into(),
            0x5b..=0x5f | b'D' => number(self.double(tag)?),
            0x00..=0x1f | 0x30..=0x33 | b'R' | b'S' => self.text(tag)?.into(),
            0x20..=0x2f | 0x34..=0x37 | b'A' | b'B' => base64(&self.binary(tag)?).into(),
            b'J' | b'K' => self.date(tag)?.into(),
            b'U' | b'V' | b'W' | b'X' | 0x70..=0x7f => return self.list(tag, depth),
            b'H' | b'M' => return self.map(tag, depth),
            b'C' => {
                self.class()?;
                // A definition is not a value; the value follows it.
                return self.value_at(depth + 1);
            }
            0x60..=0x6f => return self.object(usize::from(tag - 0x60), depth),
            b'O' => {
                let class = self.length()?;
                return self.object(class, depth);
            }
            b'Q' => {
                let index = self.length()?;
                let place = self.shared.get(index).copied();
                return place.ok_or(ReadError::Malformed("a reference to an unknown value"));
            }
            other => return Err(ReadError::Unknown(other)),
        };
        Ok(self.keep(value))
    }

    fn int(&mut self, tag: u8) -> Result<i64, ReadError> {
        let lead = i64::from(tag);
        Ok(match tag {
            0x80..=0xbf => lead - 0x90,
            0xc0..=0xcf => (lead - 0xc8) << 8 | i64::from(self.byte()?),
            0xd0..=0xd7 => (lead - 0xd4) << 16 | i64::from(u16::from_be_bytes(self.array()?)),
            b'I' => i32::from_be_bytes(self.array()?).into(),
            other => return Err(ReadError::Unknown(other)),
        })
    }

    fn long(&mut self, tag: u8) -> Result<i64, ReadError> {
        let lead = i64::from(tag);
        Ok(match tag {
            0xd8..=0xef => lead - 0xe0,
            0xf0..=0xff => (lead - 0xf8) << 8 | i64::from(self.byte()?),
            0x38..=0x3f => (lead - 0x3c) << 16 | i64::from(u16::from_be_bytes(self.array()?)),
            b'Y' => i32::from_be_bytes(self.array()?).into(),
            _ => i64::from_be_bytes(self.array()?),
        })
    }

    fn double(&mut self, tag: u8) -> Result<f64, ReadError> {
        Ok(match tag {
            0x5b => 0.0,
            0x5c => 1.0,
            0x5d => i8::from_be_bytes(self.array()?).into(),
            0x5e => i16::from_be_bytes(self.array()?).into(),
            // In thousandths.
            0x5f => f64::from(i32::from_be_bytes(self.array()?)) * 0.001,
            _ => f64::from_bits(u64::from_be_bytes(self.array()?)),
        })
    }

    /// Decodes a length or index, which is an `int`.
    fn length(&mut self) -> Result<usize, ReadError> {
        let tag = self.byte()?;
        usize::try_from(self.int(tag)?).map_err(|_| ReadError::Malformed("a length below 0"))
    }

    fn text(&mut self, tag: u8) -> Result<String, ReadError> {
        let mut units = Vec::new();
        let mut tag = tag;
        loop {
            let (length, is_last) = match tag {
                0x00..=0x1f => (usize::from(tag), true),
                0x30..=0x33 => (usize::from(tag - 0x30) << 8 | usize::from(self.byte()?), true),
                b'S' => (u16::from_be_bytes(self.array()?).into(), true),
                b'R' => (u16::from_be_bytes(self.array()?).into(), false),
                _ => return Err(ReadError::Malformed("expected a text")),
            };
            // A unit has at least one byte, so a false length cannot cause a large allocation.
            if length > self.rest.len() {
                return Err(ReadError::Truncated);
            }
            self.count(0, length * 3)?;
            for _ in 0..length {
                units.push(self.unit()?);
            }
            if is_last {
                return Ok(String::from_utf16_lossy(&units));
            }
            tag = self.byte()?;
        }
    }

    fn unit(&mut self) -> Result<u16, ReadError> {
        let tail = |byte: u8| match byte {
            0x80..=0xbf => Ok(u16::from(byte & 0x3f)),
            _ => Err(ReadError::Malformed("a text is not encoded as UTF-8")),
        };
        let first = self.byte()?;
        Ok(match first {
            0x00..=0x7f => first.into(),
            0xc0..=0xdf => u16::from(first & 0x1f) << 6 | tail(self.byte()?)?,
            0xe0..=0xef => {
                let middle = tail(self.byte()?)?;
                u16::from(first & 0x0f) << 12 | middle << 6 | tail(self.byte()?)?
            }
            _ => return Err(ReadError::Malformed("a text is not encoded as UTF-8")),
        })
    }

    fn binary(&mut self, tag: u8) -> Result<Vec<u8>, ReadError> {
        let mut made = Vec::new();
        let mut tag = tag;
        loop {
            let (length, is_last) = match tag {
                0x20..=0x2f => (usize::from(tag - 0x20), true),
                0x34..=0x37 => (usize::from(tag - 0x34) << 8 | usize::from(self.byte()?), true),
                b'B' => (u16::from_be_bytes(self.array()?).into(), true),
                b'A' => (u16::from_be_bytes(self.array()?).into(), false),
                _ => return Err(ReadError::Malformed("expected bytes")),
            };
            self.count(0, length * 2)?;
            made.extend_from_slice(self.bytes(length)?);
            if is_last {
                return Ok(made);
            }
            tag = self.byte()?;
        }
    }

    /// Decodes a date to `yyyy-MM-dd HH:mm:ss` in UTC, the format of ShenYu.
    fn date(&mut self, tag: u8) -> Result<String, ReadError> {
        let seconds = match tag {
            b'J' => i64::from_be_bytes(self.array()?).div_euclid(1000),
            _ => i64::from(i32::from_be_bytes(self.array()?)) * 60,
        };
        let date = CivilTime::from_unix_seconds(seconds);
        let text = String::from_utf8_lossy(&date.iso_date()).into_owned();
        // `2023-11-14T22:13:20+00:00`
        Ok(text.get(..19).map_or(text.clone(), |text| text.replace('T', " ")))
    }

    fn type_name(&mut self) -> Result<Rc<str>, ReadError> {
        let tag = self.byte()?;
        match tag {
            0x00..=0x1f | 0x30..=0x33 | b'R' | b'S' => {
                let name = Rc::<str>::from(self.text(tag)?);
                if self.types.len() >= DEFINITIONS_MAX {
                    return Err(ReadError::TooLarge("it names too many types"));
                }
                self.types.push(Rc::clone(&name));
                Ok(name)
            }
            tag => {
                let index = usize::try_from(self.int(tag)?).ok();
                let name = index.and_then(|index| self.types.get(index)).cloned();
                name.ok_or(ReadError::Malformed("a reference to an unknown type"))
            }
        }
    }

    /// Reserves the index of a value that others may refer to, even before it is complete.
    fn open(&mut self) -> usize {
        let place = self.keep(Value::Null);
        self.shared.push(place);
        place
    }

    fn close(&mut self, place: usize, node: Node) -> usize {
        if let Some(kept) = self.nodes.get_mut(place) {
            *kept = node;
        }
        place
    }

    fn list(&mut self, tag: u8, depth: usize) -> Result<usize, ReadError> {
        if matches!(tag, b'U' | b'V' | 0x70..=0x77) {
            self.type_name()?;
        }
        let length = match tag {
            b'U' | b'W' => None,
            b'V' | b'X' => Some(self.length()?),
            _ => Some(usize::from(tag & 7)),
        };
        // An item has at least one byte.
        if length.is_some_and(|length| length > self.rest.len()) {
            return Err(ReadError::Truncated);
        }
        let place = self.open();
        let mut items = Vec::new();
        loop {
            let is_at_end = match length {
                Some(length) => items.len() == length,
                None => self.take_end(),
            };
            if is_at_end {
                break;
            }
            items.push(self.value_at(depth + 1)?);
        }
        Ok(self.close(place, Node::List(items)))
    }

    /// Consumes the end marker of a list or map, if it is next.
    fn take_end(&mut self) -> bool {
        let is_end = self.rest.first() == Some(&b'Z');
        self.rest = &self.rest[usize::from(is_end)..];
        is_end
    }

    fn map(&mut self, tag: u8, depth: usize) -> Result<usize, ReadError> {
        let class = if tag == b'M' { self.type_name()? } else { Rc::default() };
        let place = self.open();
        let mut members = Vec::new();
        while !self.take_end() {
            let key = self.value_at(depth + 1)?;
            let key = match self.nodes.get(key) {
                Some(Node::Plain(Value::String(key))) => key.clone(),
                Some(Node::Plain(other)) => other.to_string(),
                // Names in JSON must be text.
                _ => return Err(ReadError::Malformed("a key is neither text nor number")),
            };
            let value = self.value_at(depth + 1)?;
            // The member `class` is dropped, as in ShenYu, because it only concerns Java.
            if key != "class" {
                members.push((key, value));
            }
        }
        Ok(self.close(place, Node::Members(class, members)))
    }

    fn class(&mut self) -> Result<(), ReadError> {
        let tag = self.byte()?;
        let name = self.text(tag)?;
        let count = self.length()?;
        if count > FIELDS_MAX || self.classes.len() >= DEFINITIONS_MAX {
            return Err(ReadError::TooLarge("it defines too much"));
        }
        // A field with an empty name has one byte in the message, but more in memory.
        self.count(count, 0)?;
        let mut fields = Vec::new();
        for _ in 0..count {
            let tag = self.byte()?;
            fields.push(self.text(tag)?);
        }
        self.classes.push(Class { name: name.into(), fields });
        Ok(())
    }

    fn object(&mut self, index: usize, depth: usize) -> Result<usize, ReadError> {
        let count = self.classes.get(index).map(|class| class.fields.len());
        let count = count.ok_or(ReadError::Malformed("an object of an unknown class"))?;
        let place = self.open();
        let mut members = Vec::new();
        for field in 0..count {
            let value = self.value_at(depth + 1)?;
            let name = self.classes.get(index).and_then(|class| class.fields.get(field));
            let name = name.cloned().unwrap_or_default();
            self.count(0, name.len())?;
            members.push((name, value));
        }
        let class = self.classes.get(index).map(|class| Rc::clone(&class.name)).unwrap_or_default();
        Ok(self.close(place, Node::Members(class, members)))
    }
}

/// Converts objects of certain Java classes to the single value that they wrap.
fn plain(class: &str, members: Map<String, Value>) -> Value {
    let text = |name: &str| members.get(name).and_then(Value::as_str);
    match class {
        "java.math.BigDecimal" => {
            let number = text("value").and_then(|text| text.parse::<Number>().ok());
            number.map_or(Value::Object(members), Value::Number)
        }
        "java.math.BigInteger" => big_integer(&members).unwrap_or(Value::Object(members)),
        _ => match (members.len(), text("name")) {
            // An enum is an object whose only field is its name.
            (1, Some(name)) if !class.is_empty() => name.to_owned().into(),
            _ => Value::Object(members),
        },
    }
}

/// Converts the words of a `BigInteger`, 32 bits each and highest first, to a number.
fn big_integer(members: &Map<String, Value>) -> Option<Value> {
    let words = members.get("mag")?.as_array()?;
    let sign = members.get("signum")?.as_i64()?;
    // Supports up to 128 bits; longer numbers stay objects.
    let mut sum: u128 = 0;
    for word in words.iter().filter(|_| words.len() <= 4) {
        // Words are signed `int` values in Java.
        let word = word.as_i64()? as u32;
        sum = sum.checked_mul(1 << 32)?.checked_add(word.into())?;
    }
    if words.len() > 4 {
        return None;
    }
    let text = if sign < 0 { format!("-{sum}") } else { sum.to_string() };
    text.parse::<Number>().ok().map(Value::Number)
}

/// Converts a number; NaN and infinity become `null`, because JSON has neither.
fn number(value: f64) -> Value {
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut made = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let mut group = [0; 4];
        group[1..=chunk.len()].copy_from_slice(chunk);
        let group = u32::from_be_bytes(group);
        for place in 0..4 {
            let letter = LETTERS[(group >> (18 - 6 * place) & 0x3f) as usize];
            made.push(if place > chunk.len() { '=' } else { char::from(letter) });
        }
    }
    made
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn objects_share_the_name_of_their_class() {
        // A class name of a megabyte, in Hessian's chunks. With a copy per object it would take
        // gigabytes.
        let piece = [&b"R\x7f\xff"[..], &[b'x'; 0x7fff]].concat();
        let name = [piece.repeat(32), vec![0]].concat();
        let list = b"XI\0\0\x27\x10";
        // An object without fields has one byte, a map of a known type three.
        let objects = [&list[..], b"C", &name, b"\x90", &[b'\x60'; 10_000]].concat();
        let maps = [&list[..], b"M", &name, b"Z", &b"M\x90Z".repeat(9_999)].concat();
        for message in [objects, maps] {
            let mut reader = Reader::new(&message);
            let place = reader.value_at(0).expect("it is a list");
            let Some(Node::List(items)) = reader.nodes.get(place) else { panic!("no list") };
            let name = |item: &usize| match &reader.nodes[*item] {
                Node::Members(name, _) => name.as_ptr(),
                other => panic!("{other:?}"),
            };
            assert_eq!(items.iter().map(name).collect::<BTreeSet<_>>().len(), 1);
            assert_eq!(items.len(), 10_000);
        }
    }
}
