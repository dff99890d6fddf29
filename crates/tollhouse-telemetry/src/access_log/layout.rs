//! Line formats: parsing of a format into literal text and variables, and writing of one line.

use thiserror::Error;
use tollhouse_stdx::edit_distance::nearest;

use super::core_log::Times;
use super::escape::{push_hex_escaped, push_json_escaped};
use super::number::{push_number, push_seconds};
use super::variable::{Attempt, Source, Value, Variable};

/// The `combined` format of nginx and Apache.
pub const COMBINED: &str = "$remote_addr - $remote_user [$time_local] \"$request\" $status \
                            $body_bytes_sent \"$http_referer\" \"$http_user_agent\"";

/// Default fields of a JSON line.
pub const JSON_FIELDS: &[Variable] = &[
    Variable::TimeIso8601,
    Variable::RemoteAddr,
    Variable::RequestMethod,
    Variable::Host,
    Variable::RequestUri,
    Variable::ServerProtocol,
    Variable::Status,
    Variable::ErrorCode,
    Variable::RequestLength,
    Variable::BytesSent,
    Variable::RequestTime,
    Variable::UpstreamAddr,
    Variable::UpstreamStatus,
    Variable::UpstreamResponseTime,
    Variable::HttpReferer,
    Variable::HttpUserAgent,
    Variable::RequestId,
    Variable::RouteId,
    Variable::ServiceId,
    Variable::ConsumerName,
];

/// Maximum length of a format string in bytes. Formats in use are several times shorter; the limit
/// bounds the literal text of a line.
pub const FORMAT_BYTES_MAX: usize = 4_096;

/// Escaping of text from clients and nodes in the lines of a format string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Escape {
    /// Text is escaped as `\xHH`; absent values are written as `-`.
    Default,
    /// Text is escaped as in JSON strings; absent values are empty.
    Json,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FormatError {
    /// A dollar sign has no variable name after it, or a brace is not closed; holds the byte
    /// offset.
    #[error("a variable name is missing or not closed after the dollar sign at byte {0}")]
    NoName(usize),
    /// The name of the variable is unknown.
    #[error("unknown variable ${name}{}", did_you_mean(*suggestion))]
    UnknownVariable {
        /// Name as written in the format.
        name: String,
        /// Known name that is most similar to the unknown one; `None` if none is similar.
        suggestion: Option<&'static str>,
    },
    /// The literal text contains a line break or another control character; holds the byte offset.
    #[error("the format has a control character at byte {0}; one request is one line")]
    ControlCharacter(usize),
    /// The format is longer than [`FORMAT_BYTES_MAX`].
    #[error("the format is longer than {FORMAT_BYTES_MAX} bytes")]
    TooLong,
}

fn did_you_mean(suggestion: Option<&str>) -> String {
    suggestion.map_or_else(String::new, |name| format!("; did you mean ${name}?"))
}

/// Format of log lines, compiled from its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    pieces: Vec<Piece>,
    style: Style,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    /// Up to eight bytes of text and their number. Written as a single store, which is faster than
    /// a copy of variable length.
    Short([u8; SHORT_BYTES], u8),
    Long(Box<[u8]>),
    Variable(Variable),
}

const SHORT_BYTES: usize = 8;

/// Form of values in a line: escaped text, or JSON values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    /// Plain text, with the given escaping.
    Text(Escape),
    /// JSON values: quoted strings, numbers, null.
    JsonValues,
}

impl Layout {
    /// Parses `access_log.format`: `off` (returns `None`), `combined`, `json`, or a format string.
    ///
    /// # Errors
    /// If a format string is invalid.
    pub fn parse(format: &str, escape: Escape) -> Result<Option<Self>, FormatError> {
        match format {
            "off" => Ok(None),
            "combined" => Ok(Some(Self::combined())),
            "json" => Ok(Some(Self::json(JSON_FIELDS))),
            template => Self::template(template, escape).map(Some),
        }
    }

    /// Returns the layout of the format [`COMBINED`].
    pub fn combined() -> Self {
        Self::template(COMBINED, Escape::Default).expect("a test compiles the combined format")
    }

    /// Returns a format with one JSON object per line. Keys are the names of the variables.
    pub fn json(fields: &[Variable]) -> Self {
        let mut pieces = Vec::with_capacity(fields.len() * 2 + 1);
        for (index, field) in fields.iter().enumerate() {
            let before = if index == 0 { "{" } else { "," };
            pieces.push(literal(&format!("{before}\"{}\":", field.name())));
            pieces.push(Piece::Variable(*field));
        }
        pieces.push(literal(if fields.is_empty() { "{}\n" } else { "}\n" }));
        Self { pieces, style: Style::JsonValues }
    }

    /// Compiles a format string with `$name` or `${name}` for each variable.
    ///
    /// # Errors
    /// The first mistake in the string.
    pub fn template(format: &str, escape: Escape) -> Result<Self, FormatError> {
        if format.len() > FORMAT_BYTES_MAX {
            return Err(FormatError::TooLong);
        }
        if let Some(at) = format.bytes().position(|byte| byte.is_ascii_control() && byte != b'\t') {
            return Err(FormatError::ControlCharacter(at));
        }
        let mut pieces = Vec::new();
        let mut rest = format;
        let mut text = String::new();
        while let Some(dollar) = rest.find('$') {
            text.push_str(&rest[..dollar]);
            let (name, after) = split_name(&rest[dollar + 1..])
                .ok_or(FormatError::NoName(format.len() - rest.len() + dollar))?;
            match variable(name)? {
                // The user is never known, so the placeholder for absent values becomes literal
                // text.
                Variable::RemoteUser => text.push_str(nothing(escape)),
                variable => {
                    if !text.is_empty() {
                        pieces.push(literal(&std::mem::take(&mut text)));
                    }
                    pieces.push(Piece::Variable(variable));
                }
            }
            rest = after;
        }
        text.push_str(rest);
        text.push('\n');
        pieces.push(literal(&text));
        Ok(Self { pieces, style: Style::Text(escape) })
    }

    /// Whether a line contains values about attempts to reach nodes.
    pub(super) fn shows_attempts(&self) -> bool {
        let is_about = |piece: &Piece| matches!(piece, Piece::Variable(variable) if Variable::OF_ATTEMPTS.contains(variable));
        self.pieces.iter().any(is_about)
    }

    /// Appends the line of one request, including the line break.
    #[inline]
    pub(super) fn write(&self, source: &impl Source, times: &Times, line: &mut Vec<u8>) {
        for piece in &self.pieces {
            match piece {
                Piece::Short(text, len) => {
                    let end = line.len() + usize::from(*len);
                    line.extend_from_slice(text);
                    line.truncate(end);
                }
                Piece::Long(text) => line.extend_from_slice(text),
                Piece::Variable(variable) => {
                    let value = source.value(*variable);
                    match self.style {
                        Style::Text(escape) => write_text(value, escape, times, line),
                        Style::JsonValues => write_json(value, times, line),
                    }
                }
            }
        }
    }
}

fn literal(text: &str) -> Piece {
    let mut short = [0; SHORT_BYTES];
    match short.get_mut(..text.len()) {
        Some(start) => {
            start.copy_from_slice(text.as_bytes());
            Piece::Short(short, text.len() as u8)
        }
        None => Piece::Long(text.as_bytes().into()),
    }
}

/// Splits the name, with or without braces, from the rest of `text`.
fn split_name(text: &str) -> Option<(&str, &str)> {
    if let Some(braced) = text.strip_prefix('{') {
        return braced.split_once('}').filter(|(name, _)| !name.is_empty());
    }
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let end = text.find(|letter| !is_name(letter)).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

fn variable(name: &str) -> Result<Variable, FormatError> {
    Variable::from_name(name).ok_or_else(|| FormatError::UnknownVariable {
        name: name.to_owned(),
        suggestion: nearest(name, Variable::ALL.iter().map(|known| known.name())),
    })
}

#[inline(always)]
fn write_text(value: Value<'_>, escape: Escape, times: &Times, line: &mut Vec<u8>) {
    match value {
        Value::Text([]) | Value::Own([]) | Value::Request { method: [], .. } | Value::Nothing => {
            line.extend_from_slice(nothing(escape).as_bytes());
        }
        Value::Own(text) => line.extend_from_slice(text),
        Value::Text(text) => push_escaped(text, escape, line),
        Value::Number(number) => push_number(number, line),
        Value::Seconds(milliseconds) => push_seconds(milliseconds, line),
        Value::Request { method, target, protocol } => {
            push_escaped(method, escape, line);
            line.push(b' ');
            push_escaped(target, escape, line);
            line.push(b' ');
            line.extend_from_slice(protocol.as_bytes());
        }
        Value::TimeLocal => line.extend_from_slice(&times.local),
        Value::TimeIso8601 => line.extend_from_slice(&times.iso),
        Value::Attempts(attempts, of) => push_attempts(attempts, of, escape, line),
    }
}

#[inline(never)]
fn write_json(value: Value<'_>, times: &Times, line: &mut Vec<u8>) {
    match value {
        Value::Text([]) | Value::Own([]) | Value::Nothing => line.extend_from_slice(b"null"),
        Value::Number(_) | Value::Seconds(_) => {
            write_text(value, Escape::Json, times, line);
        }
        _ => {
            line.push(b'"');
            write_text(value, Escape::Json, times, line);
            line.push(b'"');
        }
    }
}

/// Returns the text in place of an absent value.
fn nothing(escape: Escape) -> &'static str {
    match escape {
        Escape::Default => "-",
        Escape::Json => "",
    }
}

#[inline]
fn push_escaped(text: &[u8], escape: Escape, line: &mut Vec<u8>) {
    match escape {
        Escape::Default => push_hex_escaped(text, line),
        Escape::Json => push_json_escaped(text, line),
    }
}

/// Writes one value per attempt, separated by commas. An attempt without a value is written as `-`,
/// so that the lists of all variables correspond.
fn push_attempts(
    attempts: &[Attempt<'_>],
    of: for<'b> fn(&Attempt<'b>) -> Value<'b>,
    escape: Escape,
    line: &mut Vec<u8>,
) {
    for (index, attempt) in attempts.iter().enumerate() {
        if index > 0 {
            line.extend_from_slice(b", ");
        }
        match of(attempt) {
            Value::Text(text) if !text.is_empty() => push_escaped(text, escape, line),
            Value::Number(number) => push_number(number, line),
            Value::Seconds(milliseconds) => push_seconds(milliseconds, line),
            _ => line.push(b'-'),
        }
    }
}

#[cfg(test)]
mod tests;
