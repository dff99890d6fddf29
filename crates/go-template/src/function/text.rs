//! Functions for texts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::super::fault::Fault;
use super::super::printf;
use super::super::render::OUTPUT_BYTES_MAX;
use super::super::value::Value;
use super::Context;
use super::number::elements;

type Answer<'v> = Result<Value<'v>, Fault>;

fn made<'v>(text: impl Into<String>) -> Answer<'v> {
    Ok(Value::text(text.into()))
}

/// Refuses results longer than [`OUTPUT_BYTES_MAX`], so that a chain of functions cannot exhaust
/// the memory.
fn bounded(bytes: usize) -> Result<(), Fault> {
    if bytes > OUTPUT_BYTES_MAX {
        return Err(format!("{bytes} bytes are more than the {OUTPUT_BYTES_MAX} offered").into());
    }
    Ok(())
}

/// Concatenates the values, with a space between two values that are not texts.
pub(super) fn print<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    let mut out = String::new();
    for (index, value) in values.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|before| values.get(before));
        let is_text = |value: &Value<'_>| matches!(value, Value::Text(_));
        if before.is_some_and(|before| !is_text(before) && !is_text(value)) {
            out.push(' ');
        }
        value.put(&mut out);
        bounded(out.len())?;
    }
    made(out)
}

pub(super) fn println<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    made(spaced(values)? + "\n")
}

pub(super) fn printf<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    let (layout, values) = values.split_first().ok_or("needs a format")?;
    let text = printf::printf(&layout.to_text(), values);
    bounded(text.len())?;
    made(text)
}

/// `urlquery`: percent-encodes for a query, with `+` for spaces.
pub(super) fn urlquery<'v>(context: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    let text = print(context, values)?;
    let mut out = String::new();
    for byte in text.to_text().bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(byte as char);
            }
            b' ' => out.push('+'),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    made(out)
}

/// `html`: escapes the characters special in HTML.
pub(super) fn html<'v>(context: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    let text = print(context, values)?;
    let mut out = String::new();
    for letter in text.to_text().chars() {
        match letter {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            letter => out.push(letter),
        }
    }
    made(out)
}

pub(super) fn upper<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    made(values[0].to_text().to_uppercase())
}

pub(super) fn lower<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    made(values[0].to_text().to_lowercase())
}

pub(super) fn title<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    made(first_letters(&values[0].to_text(), |letter| letter.to_uppercase().collect()))
}

pub(super) fn untitle<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    made(first_letters(&values[0].to_text(), |letter| letter.to_lowercase().collect()))
}

fn first_letters(text: &str, change: fn(char) -> String) -> String {
    let mut out = String::with_capacity(text.len());
    let mut is_first = true;
    for letter in text.chars() {
        if is_first {
            out.push_str(&change(letter));
        } else {
            out.push(letter);
        }
        is_first = !(letter.is_alphanumeric() || matches!(letter, '_' | '\''));
    }
    out
}

pub(super) fn trim<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    made(values[0].to_text().trim())
}

pub(super) fn trim_all<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    let letters = values[0].to_text();
    made(values[1].to_text().trim_matches(|letter| letters.contains(letter)))
}

pub(super) fn trim_prefix<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    let text = values[1].to_text();
    made(text.strip_prefix(&*values[0].to_text()).unwrap_or(&text))
}

pub(super) fn trim_suffix<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    let text = values[1].to_text();
    made(text.strip_suffix(&*values[0].to_text()).unwrap_or(&text))
}

pub(super) fn nospace<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    made(values[0].to_text().split_whitespace().collect::<String>())
}

pub(super) fn repeat<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    let count = usize::try_from(values[0].to_integer())
        .map_err(|_| format!("cannot repeat {} times", values[0].to_integer()))?;
    let text = values[1].to_text();
    bounded(text.len().saturating_mul(count))?;
    made(text.repeat(count))
}

/// `trunc N TEXT`: the first N characters, or the last ones for a negative N.
pub(super) fn trunc<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    let text = values[1].to_text();
    let count = values[0].to_integer();
    let kept = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if count >= 0 {
        return made(text.chars().take(kept).collect::<String>());
    }
    let skipped = text.chars().count().saturating_sub(kept);
    made(text.chars().skip(skipped).collect::<String>())
}

/// `substr FROM TO TEXT`, in characters; a negative end means the end of the text.
pub(super) fn substr<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    let text = values[2].to_text();
    let from = usize::try_from(values[0].to_integer()).unwrap_or(0);
    let to = usize::try_from(values[1].to_integer()).unwrap_or(usize::MAX);
    made(text.chars().take(to).skip(from).collect::<String>())
}

/// Replaces all occurrences of a text: `replace OLD NEW TEXT`.
pub(super) fn replace<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    let (old, new, text) = (values[0].to_text(), values[1].to_text(), values[2].to_text());
    let growth = text.matches(&*old).count().saturating_mul(new.len());
    bounded(text.len().saturating_add(growth))?;
    made(text.replace(&*old, &new))
}

pub(super) fn contains<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    Ok(Value::Boolean(values[1].to_text().contains(&*values[0].to_text())))
}

pub(super) fn has_prefix<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    Ok(Value::Boolean(values[1].to_text().starts_with(&*values[0].to_text())))
}

pub(super) fn has_suffix<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    Ok(Value::Boolean(values[1].to_text().ends_with(&*values[0].to_text())))
}

/// `quote`: each value in double quotes.
pub(super) fn quote<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    let quoted: Vec<String> =
        present(values).map(|value| printf::quoted(&value.to_text())).collect();
    made(quoted.join(" "))
}

/// `squote`: each value in single quotes.
pub(super) fn squote<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    let quoted: Vec<String> =
        present(values).map(|value| format!("'{}'", value.to_text())).collect();
    made(quoted.join(" "))
}

/// `cat`: all values, separated by spaces.
pub(super) fn cat<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    let present: Vec<Value<'v>> = present(values).cloned().collect();
    made(spaced(&present)?)
}

fn present<'a, 'v>(values: &'a [Value<'v>]) -> impl Iterator<Item = &'a Value<'v>> {
    values.iter().filter(|value| **value != Value::Nil)
}

fn spaced(values: &[Value<'_>]) -> Result<String, Fault> {
    let mut out = String::new();
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            out.push(' ');
        }
        value.put(&mut out);
        bounded(out.len())?;
    }
    Ok(out)
}

/// `join SEPARATOR LIST`; a text counts as a list with one element.
pub(super) fn join<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    if let Value::Text(text) = &values[1] {
        return Ok(Value::Text(text.clone()));
    }
    let separator = values[0].to_text();
    let mut out = String::new();
    for (index, element) in elements(&values[1])?.iter().enumerate() {
        if index > 0 {
            out.push_str(&separator);
        }
        element.put(&mut out);
        bounded(out.len())?;
    }
    made(out)
}

/// Splits a text into a list: `splitList SEPARATOR TEXT`.
pub(super) fn split_list<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    let (separator, text) = (values[0].to_text(), values[1].to_text());
    if separator.is_empty() {
        return Ok(Value::List(text.chars().map(|letter| Value::text(letter.into())).collect()));
    }
    Ok(Value::List(text.split(&*separator).map(|part| Value::text(part.into())).collect()))
}

pub(super) fn to_string<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    made(values[0].to_text())
}

pub(super) fn to_json<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    // Escaped like Go's JSON, which is safe to embed in HTML.
    let text = json(&values[0]).to_string();
    made(text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026"))
}

fn json(value: &Value<'_>) -> serde_json::Value {
    match value {
        Value::Nil => serde_json::Value::Null,
        Value::Integer(number) => (*number).into(),
        Value::Float(number) => (*number).into(),
        Value::Boolean(is_true) => (*is_true).into(),
        Value::List(values) => values.iter().map(json).collect(),
        Value::Text(_) | Value::Time(_) => value.to_text().into_owned().into(),
    }
}

pub(super) fn b64enc<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    made(BASE64.encode(values[0].to_text().as_bytes()))
}

pub(super) fn b64dec<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    let bytes = BASE64.decode(values[0].to_text().as_bytes()).map_err(|error| error.to_string())?;
    made(String::from_utf8(bytes).map_err(|_| "what is encoded there is not text")?)
}

/// `fail`: aborts rendering with the given message.
pub(super) fn fail<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    Err(values[0].to_text().into_owned().into())
}
