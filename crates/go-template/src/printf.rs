//! `printf` with Go's verbs and flags, for texts and numbers.

use super::value::Value;
use crate::golang;

/// Maximum field width and precision in characters; larger numbers are reduced to it.
const WIDTH_MAX: usize = 10_000;

#[derive(Debug, Default)]
struct Format {
    is_left: bool,
    is_zeroed: bool,
    has_sign: bool,
    has_space: bool,
    is_alternate: bool,
    width: usize,
    precision: Option<usize>,
}

/// Formats values according to the layout.
pub(super) fn printf(layout: &str, values: &[Value<'_>]) -> String {
    let mut out = String::new();
    let mut values = values.iter();
    let mut rest = layout;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let (format, after) = read_format(rest);
        let Some(verb) = after.chars().next() else {
            out.push_str("%!(NOVERB)");
            rest = "";
            break;
        };
        rest = &after[verb.len_utf8()..];
        if verb == '%' {
            out.push('%');
            continue;
        }
        match values.next() {
            Some(value) => put(&format, verb, value, &mut out),
            None => out.push_str(&format!("%!{verb}(MISSING)")),
        }
    }
    out.push_str(rest);
    // As in Go, an error is reported within the resulting text, and the call succeeds.
    let shown = |value: &Value<'_>| format!("{}={}", go_kind(value), value.to_text());
    let extra: Vec<String> = values.map(shown).collect();
    if !extra.is_empty() {
        out.push_str(&format!("%!(EXTRA {})", extra.join(", ")));
    }
    out
}

fn read_format(text: &str) -> (Format, &str) {
    let mut format = Format::default();
    let mut rest = text;
    while let Some(flag) = rest.chars().next() {
        match flag {
            '-' => format.is_left = true,
            '0' => format.is_zeroed = true,
            '+' => format.has_sign = true,
            ' ' => format.has_space = true,
            '#' => format.is_alternate = true,
            _ => break,
        }
        rest = &rest[1..];
    }
    let (width, after) = read_number(rest);
    format.width = width.unwrap_or(0);
    rest = after;
    if let Some(after) = rest.strip_prefix('.') {
        let (precision, after) = read_number(after);
        format.precision = Some(precision.unwrap_or(0));
        rest = after;
    }
    (format, rest)
}

fn read_number(text: &str) -> (Option<usize>, &str) {
    let end = text.find(|digit: char| !digit.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    let number = digits.parse::<usize>().ok().map(|number| number.min(WIDTH_MAX));
    (number, rest)
}

fn put(format: &Format, verb: char, value: &Value<'_>, out: &mut String) {
    let written = match (verb, value) {
        ('v', Value::Float(number)) if format.precision.is_some() => float(format, 'g', *number),
        ('v', Value::Integer(number)) | ('d', Value::Integer(number)) => signed(
            format,
            (*number < 0).then_some("-"),
            &grouped(format, number.unsigned_abs().to_string()),
        ),
        // Go's `%s` rejects numbers and booleans; the code below then appends Go's message for an
        // invalid verb.
        ('s', Value::Integer(_) | Value::Float(_) | Value::Boolean(_)) => None,
        ('s' | 'v', value) => Some(cut(format, value.to_text().into_owned())),
        ('q', Value::Text(text)) => Some(quoted(text)),
        ('t', Value::Boolean(is_true)) => Some(is_true.to_string()),
        ('x', Value::Integer(number)) => {
            let digits = grouped(format, format!("{:x}", number.unsigned_abs()));
            signed(format, (*number < 0).then_some("-"), &alternate(format, "0x", digits))
        }
        ('X', Value::Integer(number)) => {
            let digits = grouped(format, format!("{:X}", number.unsigned_abs()));
            signed(format, (*number < 0).then_some("-"), &alternate(format, "0X", digits))
        }
        ('o', Value::Integer(number)) => {
            let digits = grouped(format, format!("{:o}", number.unsigned_abs()));
            signed(format, (*number < 0).then_some("-"), &alternate(format, "0", digits))
        }
        ('b', Value::Integer(number)) => signed(
            format,
            (*number < 0).then_some("-"),
            &grouped(format, format!("{:b}", number.unsigned_abs())),
        ),
        ('x', Value::Text(text)) => {
            Some(text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>())
        }
        ('X', Value::Text(text)) => {
            Some(text.bytes().map(|byte| format!("{byte:02X}")).collect::<String>())
        }
        ('q', Value::Integer(number)) => Some(format!("'{}'", character(*number))),
        ('c', Value::Integer(number)) => Some(character(*number).to_string()),
        ('U', Value::Integer(number)) => Some(format!("U+{number:04X}")),
        ('e' | 'f' | 'F' | 'g', Value::Float(number)) => float(format, verb, *number),
        _ => None,
    };
    match written {
        Some(written) => pad(format, Padded::new(value, &written), out),
        None => {
            let kind = go_kind(value);
            out.push_str(&format!("%!{verb}({kind}={})", value.to_text()));
        }
    }
}

/// Returns Go's name of the value's type, for the message about an invalid verb.
fn go_kind(value: &Value<'_>) -> &'static str {
    match value {
        Value::Nil => "nil",
        Value::Text(_) => "string",
        Value::Integer(_) => "int",
        Value::Float(_) => "float64",
        Value::Boolean(_) => "bool",
        Value::List(_) => "[]interface {}",
        Value::Time(_) => "time.Time",
    }
}

fn character(number: i64) -> char {
    u32::try_from(number).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// Pads digits with leading zeros to the precision, which is the minimum number of digits.
fn grouped(format: &Format, digits: String) -> String {
    match format.precision {
        Some(precision) => format!("{digits:0>precision$}"),
        None => digits,
    }
}

fn alternate(format: &Format, prefix: &str, digits: String) -> String {
    if format.is_alternate { format!("{prefix}{digits}") } else { digits }
}

#[expect(clippy::unnecessary_wraps, reason = "one arm of many that may have nothing to show")]
fn signed(format: &Format, minus: Option<&str>, digits: &str) -> Option<String> {
    let sign = match (format.has_sign, format.has_space) {
        (true, _) => "+",
        (false, true) => " ",
        (false, false) => "",
    };
    let sign = minus.unwrap_or(sign);
    Some(format!("{sign}{digits}"))
}

fn float(format: &Format, verb: char, number: f64) -> Option<String> {
    let magnitude = number.abs();
    let digits = match (verb, format.precision) {
        ('f' | 'F', precision) => format!("{magnitude:.*}", precision.unwrap_or(6)),
        ('e', precision) => {
            let mut text = String::new();
            golang::put_exponent(&format!("{magnitude:.*e}", precision.unwrap_or(6)), &mut text);
            text
        }
        (_, None) => Value::Float(magnitude).to_text().into_owned(),
        (_, Some(precision)) => significant(magnitude, precision.max(1)),
    };
    signed(format, number.is_sign_negative().then_some("-"), &digits)
}

/// Formats like `%.3g`: with this many significant digits, without trailing zeros.
fn significant(magnitude: f64, digits: usize) -> String {
    let scientific = format!("{magnitude:.*e}", digits - 1);
    let exponent: i32 =
        scientific.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if exponent < -4 || exponent >= digits as i32 {
        let (mantissa, _) = scientific.split_once('e').unwrap_or((&scientific, ""));
        let mut out = String::new();
        golang::put_exponent(&format!("{}e{exponent}", trimmed(mantissa)), &mut out);
        return out;
    }
    let decimals = usize::try_from(digits as i32 - 1 - exponent).unwrap_or(0);
    trimmed(&format!("{magnitude:.decimals$}"))
}

/// Truncates a text to the precision, in characters.
fn cut(format: &Format, text: String) -> String {
    match format.precision {
        Some(precision) => text.chars().take(precision).collect(),
        None => text,
    }
}

/// Formatted value before it is padded to the width. The sign of a number is separate; it is empty
/// for other values.
struct Padded<'a> {
    sign: &'a str,
    rest: &'a str,
}

impl<'a> Padded<'a> {
    fn new(value: &Value<'_>, written: &'a str) -> Self {
        let is_number = matches!(value, Value::Integer(_) | Value::Float(_));
        let sign_bytes = usize::from(is_number && written.starts_with(['-', '+', ' ']));
        let (sign, rest) = written.split_at(sign_bytes);
        Self { sign, rest }
    }
}

/// Pads to the width: with zeros between sign and rest, or with spaces around both.
fn pad(format: &Format, padded: Padded<'_>, out: &mut String) {
    let Padded { sign, rest } = padded;
    let missing = format.width.saturating_sub(sign.len() + rest.chars().count());
    let (before, zeros, after) = match (format.is_left, format.is_zeroed) {
        (true, _) => (0, 0, missing),
        (false, true) => (0, missing, 0),
        (false, false) => (missing, 0, 0),
    };
    out.extend(std::iter::repeat_n(' ', before));
    out.push_str(sign);
    out.extend(std::iter::repeat_n('0', zeros));
    out.push_str(rest);
    out.extend(std::iter::repeat_n(' ', after));
}

/// Quotes a text with Go's escapes, which for the usual characters equal those of JSON.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if (control as u32) < 0x20 || control as u32 == 0x7f => {
                out.push_str(&format!("\\x{:02x}", control as u32));
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}
