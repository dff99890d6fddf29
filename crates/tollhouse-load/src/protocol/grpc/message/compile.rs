//! Compiles JSON to pieces, following the message descriptor: proto JSON as Go clients read it.
//!
//! Fields may use either of their names. An unknown field is an error, because a load test with a
//! misspelt field measures something else.

use prost::encoding::{WireType, encode_key};
use prost_reflect::{ExtensionDescriptor, FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value as Json};
use tollhouse_stdx::nearest;

use super::scalar::{Input, Scalar};
use super::well_known::{self, Form};
use super::{Message, MessageError, Piece, Value, Zero, put_field};
use crate::case::GrpcCall;
use go_template::{Functions, Template};

/// Treatment of `{{…}}` in texts of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Templates {
    /// Expanded as a template, with these functions.
    Filled(Functions),
    /// Texts are sent unchanged.
    AsWritten,
}

impl Templates {
    pub(in super::super) fn from_call(call: &GrpcCall) -> Self {
        match (call.disable_template_data, call.disable_template_functions) {
            (true, _) => Self::AsWritten,
            (false, true) => Self::Filled(Functions::Builtin),
            (false, false) => Self::Filled(Functions::All),
        }
    }
}

/// Maximum nesting of messages, equal to the limit of protobuf's decoders.
const DEPTH_MAX: usize = 100;

/// Compiles a JSON value into a message.
///
/// # Errors
/// If the value does not match the descriptor; the error names the path of the first mismatch.
pub(in super::super) fn compile(
    json: &Json,
    descriptor: &MessageDescriptor,
    templates: Templates,
) -> Result<Message, MessageError> {
    let mut compiler = Compiler { templates, path: String::new(), depth: 0 };
    let pieces = compiler.message(json, descriptor)?;
    Ok(Message { pieces })
}

pub(super) struct Compiler {
    templates: Templates,
    /// Path of the current position in the message.
    path: String,
    depth: usize,
}

/// Common properties of fields and extensions.
struct Field {
    number: u32,
    kind: Kind,
    shape: Shape,
    zero: Zero,
    /// Index of the oneof that contains the field.
    oneof: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    One,
    Group,
    List,
    PackedList,
    Map,
}

pub(super) type Pieces = Vec<Piece>;

impl Compiler {
    /// Compiles a message, without key and length.
    pub(super) fn message(
        &mut self,
        json: &Json,
        descriptor: &MessageDescriptor,
    ) -> Result<Pieces, MessageError> {
        if self.depth == DEPTH_MAX {
            return Err(self.error(format!("nests deeper than {DEPTH_MAX} messages")));
        }
        self.depth += 1;
        let pieces = match well_known::form(descriptor) {
            Form::Fields => {
                let fields = self.object(json, descriptor.full_name())?;
                self.fields(fields.iter(), descriptor)
            }
            Form::Wrapped(scalar) => self.wrapped(json, scalar),
            Form::Text(scalar) => self.value(json, Vec::new(), &scalar, Zero::Written),
            Form::Any => self.any(json, &descriptor.parent_pool().clone()),
            Form::Struct => self.structure(json),
            Form::Value => self.any_value(json),
            Form::List => self.any_list(json),
        }?;
        self.depth -= 1;
        Ok(pieces)
    }

    fn wrapped(&mut self, json: &Json, scalar: Scalar) -> Result<Pieces, MessageError> {
        let key = key_of(1, wire_type(&scalar));
        self.value(json, key, &scalar, Zero::LeftOut)
    }

    pub(super) fn object<'a>(
        &self,
        json: &'a Json,
        what: &str,
    ) -> Result<&'a Map<String, Json>, MessageError> {
        json.as_object().ok_or_else(|| {
            self.error(format!("takes an object ({what}), not {}", shorten(&json.to_string())))
        })
    }

    /// Compiles the fields of a message, ordered by number.
    pub(super) fn fields<'a>(
        &mut self,
        fields: impl Iterator<Item = (&'a String, &'a Json)>,
        descriptor: &MessageDescriptor,
    ) -> Result<Pieces, MessageError> {
        let mut found: Vec<(u32, Pieces)> = Vec::new();
        let mut taken: Vec<(usize, String)> = Vec::new();
        for (name, json) in fields {
            let before = self.enter(name);
            let field = lookup(descriptor, name)
                .ok_or_else(|| self.error(unknown_field(descriptor, name)))?;
            // In proto JSON, `null` means an absent field, except for the two types that accept it
            // as a value.
            if json.is_null() && !well_known::takes_null(&field.kind) {
                self.leave(before);
                continue;
            }
            if found.iter().any(|(number, _)| *number == field.number) {
                return Err(self.error("is there twice, under both of its names"));
            }
            if let Some(oneof) = field.oneof {
                if let Some((_, other)) = taken.iter().find(|(index, _)| *index == oneof) {
                    let why = format!("and `{other}` exclude each other (oneof)");
                    return Err(self.error(why));
                }
                taken.push((oneof, name.clone()));
            }
            found.push((field.number, self.field(json, &field)?));
            self.leave(before);
        }
        // Ordered like the output of other encoders, so that a server that compares bytes sees the
        // same.
        found.sort_by_key(|(number, _)| *number);
        Ok(joined(found.into_iter().flat_map(|(_, pieces)| pieces)))
    }

    fn field(&mut self, json: &Json, field: &Field) -> Result<Pieces, MessageError> {
        match field.shape {
            Shape::One => self.one(json, field.number, &field.kind, field.zero),
            Shape::Group => self.group(json, field),
            Shape::List => self.list(json, |compiler, json| {
                compiler.one(json, field.number, &field.kind, Zero::Written)
            }),
            Shape::PackedList => {
                let Some(scalar) = Scalar::from_kind(&field.kind) else { return Ok(Vec::new()) };
                let pieces = self.list(json, |compiler, json| {
                    compiler.value(json, Vec::new(), &scalar, Zero::Written)
                })?;
                Ok(if pieces.is_empty() { pieces } else { vec![sized(field.number, pieces)] })
            }
            Shape::Map => self.map(json, field),
        }
    }

    /// Compiles a single value with its key.
    pub(super) fn one(
        &mut self,
        json: &Json,
        number: u32,
        kind: &Kind,
        zero: Zero,
    ) -> Result<Pieces, MessageError> {
        if let Kind::Message(descriptor) = kind {
            let pieces = self.message(json, descriptor)?;
            return Ok(vec![sized(number, pieces)]);
        }
        match Scalar::from_kind(kind) {
            Some(scalar) => {
                let key = key_of(number, wire_type(&scalar));
                self.value(json, key, &scalar, zero)
            }
            None => Ok(Vec::new()),
        }
    }

    fn group(&mut self, json: &Json, field: &Field) -> Result<Pieces, MessageError> {
        let Kind::Message(descriptor) = &field.kind else { return Ok(Vec::new()) };
        let mut pieces = vec![Piece::Ready(key_of(field.number, WireType::StartGroup))];
        pieces.extend(self.message(json, descriptor)?);
        pieces.push(Piece::Ready(key_of(field.number, WireType::EndGroup)));
        Ok(joined(pieces.into_iter()))
    }

    fn list(
        &mut self,
        json: &Json,
        mut each: impl FnMut(&mut Self, &Json) -> Result<Pieces, MessageError>,
    ) -> Result<Pieces, MessageError> {
        let Some(values) = json.as_array() else {
            return Err(self.error(format!("takes a list, not {}", shorten(&json.to_string()))));
        };
        let mut pieces = Vec::new();
        for (index, value) in values.iter().enumerate() {
            let before = self.path.len();
            self.path.push_str(&format!("[{index}]"));
            pieces.extend(each(self, value)?);
            self.leave(before);
        }
        Ok(joined(pieces.into_iter()))
    }

    fn map(&mut self, json: &Json, field: &Field) -> Result<Pieces, MessageError> {
        let Kind::Message(entry) = &field.kind else { return Ok(Vec::new()) };
        let (key, value) = (entry.map_entry_key_field(), entry.map_entry_value_field());
        let mut pieces = Vec::new();
        for (name, json) in self.object(json, "a map")? {
            let before = self.enter(name);
            if name.contains("{{") {
                return Err(self.error("keys of maps are not filled in"));
            }
            let name = Json::String(name.clone());
            let mut pair = self.one(&name, key.number(), &key.kind(), Zero::Written)?;
            pair.extend(self.one(json, value.number(), &value.kind(), Zero::Written)?);
            pieces.push(sized(field.number, joined(pair.into_iter())));
            self.leave(before);
        }
        Ok(joined(pieces.into_iter()))
    }

    /// Compiles a scalar, as a constant or as a template.
    fn value(
        &mut self,
        json: &Json,
        key: Vec<u8>,
        scalar: &Scalar,
        zero: Zero,
    ) -> Result<Pieces, MessageError> {
        let input = match json {
            Json::String(text) => {
                if let Some(template) = self.template(text)? {
                    let (scalar, path) = (scalar.clone(), self.path.clone());
                    let value = Value { key, scalar, zero, template, path };
                    return Ok(vec![Piece::Value(Box::new(value))]);
                }
                Input::Text(text)
            }
            Json::Number(number) => Input::Number(number),
            Json::Bool(value) => Input::Bool(*value),
            Json::Null if scalar.is_null_value() => Input::Text("NULL_VALUE"),
            other => {
                let why = format!("takes a single value, not {}", shorten(&other.to_string()));
                return Err(self.error(why));
            }
        };
        let mut bytes = Vec::new();
        put_field(&key, scalar, zero, input, &mut bytes)
            .map_err(|unfit| self.error(unfit.to_string()))?;
        Ok(if bytes.is_empty() { Vec::new() } else { vec![Piece::Ready(bytes)] })
    }

    /// Parses the text as a template; `None` if it contains no placeholder.
    pub(super) fn template(&self, text: &str) -> Result<Option<Template>, MessageError> {
        let Templates::Filled(functions) = self.templates else { return Ok(None) };
        if !text.contains("{{") {
            return Ok(None);
        }
        let template =
            Template::parse_with(text, functions).map_err(|wrong| self.error(wrong.to_string()))?;
        Ok(Some(template))
    }

    /// Appends a field to the path; pass the return value to [`Self::leave`].
    pub(super) fn enter(&mut self, name: &str) -> usize {
        let before = self.path.len();
        if before > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        before
    }

    pub(super) fn leave(&mut self, before: usize) {
        self.path.truncate(before);
    }

    pub(super) fn error(&self, why: impl Into<String>) -> MessageError {
        MessageError { path: self.path.clone(), why: why.into() }
    }
}

fn lookup(descriptor: &MessageDescriptor, name: &str) -> Option<Field> {
    if let Some(extension) = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
        return descriptor
            .get_extension_by_full_name(extension)
            .map(|found| extension_field(&found));
    }
    let found =
        descriptor.get_field_by_json_name(name).or_else(|| descriptor.get_field_by_name(name));
    found.map(|found| message_field(&found))
}

fn message_field(field: &FieldDescriptor) -> Field {
    let shape = match () {
        () if field.is_map() => Shape::Map,
        () if field.is_list() && field.is_packed() => Shape::PackedList,
        () if field.is_list() => Shape::List,
        () if field.is_group() => Shape::Group,
        () => Shape::One,
    };
    let zero = if field.supports_presence() { Zero::Written } else { Zero::LeftOut };
    let oneof = field.containing_oneof().filter(|oneof| !oneof.is_synthetic());
    // Descriptors give oneofs no number, so that the position of the name within the message
    // identifies them.
    let oneof = oneof.and_then(|oneof| {
        oneof.parent_message().oneofs().position(|other| other.name() == oneof.name())
    });
    Field { number: field.number(), kind: field.kind(), shape, zero, oneof }
}

fn extension_field(field: &ExtensionDescriptor) -> Field {
    let shape = match () {
        () if field.is_list() && field.is_packed() => Shape::PackedList,
        () if field.is_list() => Shape::List,
        () if field.is_group() => Shape::Group,
        () => Shape::One,
    };
    Field { number: field.number(), kind: field.kind(), shape, zero: Zero::Written, oneof: None }
}

fn unknown_field(descriptor: &MessageDescriptor, name: &str) -> String {
    let names: Vec<String> = descriptor.fields().map(|field| field.name().to_owned()).collect();
    let message = descriptor.full_name();
    match nearest(name, names.iter().map(String::as_str)) {
        Some(meant) => format!("{message} has no such field; did you mean `{meant}`?"),
        None => format!("{message} has no such field"),
    }
}

/// Adds key and length to pieces; constant pieces are encoded at once.
pub(super) fn sized(number: u32, pieces: Pieces) -> Piece {
    let mut key = key_of(number, WireType::LengthDelimited);
    match pieces.as_slice() {
        [] => key.push(0),
        [Piece::Ready(bytes)] => super::scalar::put_sized(bytes, &mut key),
        _ => return Piece::Sized { key, pieces },
    }
    Piece::Ready(key)
}

/// Joins adjacent constant pieces, so that encoding copies fewer of them.
pub(super) fn joined(pieces: impl Iterator<Item = Piece>) -> Pieces {
    let mut all: Pieces = Vec::new();
    for piece in pieces {
        match (all.last_mut(), piece) {
            (Some(Piece::Ready(before)), Piece::Ready(bytes)) => before.extend_from_slice(&bytes),
            (_, piece) => all.push(piece),
        }
    }
    all
}

pub(super) fn key_of(number: u32, wire_type: WireType) -> Vec<u8> {
    let mut key = Vec::new();
    encode_key(number, wire_type, &mut key);
    key
}

fn wire_type(scalar: &Scalar) -> WireType {
    match scalar {
        Scalar::Double | Scalar::Fixed64 | Scalar::Sfixed64 => WireType::SixtyFourBit,
        Scalar::Float | Scalar::Fixed32 | Scalar::Sfixed32 => WireType::ThirtyTwoBit,
        Scalar::String
        | Scalar::Bytes
        | Scalar::Timestamp
        | Scalar::Duration
        | Scalar::FieldMask => WireType::LengthDelimited,
        _ => WireType::Varint,
    }
}

/// Shortens an invalid value for an error message.
fn shorten(json: &str) -> String {
    const SHOWN_CHARS: usize = 60;
    match json.char_indices().nth(SHOWN_CHARS) {
        Some((at, _)) => format!("{}…", &json[..at]),
        None => json.to_owned(),
    }
}
