//! Functions of the string library with bounds: patterns, repetition.

use mlua::{Function, Lua, LuaString, MultiValue, Result, Table, Value};

use super::builder::{Host, error};
use crate::limits::TEXT_BYTES_MAX;
use crate::lua_pattern::{self, Capture, Match, PatternError};
use crate::shared::Shared;

/// Steps of a search that count as one instruction.
const STEPS_PER_INSTRUCTION: u64 = 2;

/// Arguments of `string.rep`: text, count and separator.
type Repetition = (LuaString, f64, Option<LuaString>);

/// Arguments of `string.find`: subject, pattern, first position, and whether the pattern is a text.
type Search = (LuaString, LuaString, Option<i64>, Option<bool>);

/// Arguments of `string.match`: subject, pattern and first position.
type FirstMatch = (LuaString, LuaString, Option<i64>);

/// Arguments of one step of `string.gmatch`: subject, pattern, position, and the function that takes
/// the position of the next step.
type Step = (LuaString, LuaString, usize, Function);

/// Arguments of `string.gsub`: subject, pattern, replacement and number of replacements.
type Substitution = (LuaString, LuaString, Value, Option<i64>);

pub(super) fn add(host: &Host) -> Result<()> {
    host.add_shared("rep", rep)?;
    host.add_shared("find", find)?;
    host.add_shared("match", first_match)?;
    host.add_shared("gmatch_step", gmatch_step)?;
    host.add_shared("gsub", gsub)
}

fn rep(lua: &Lua, shared: &Shared, (text, count, separator): Repetition) -> Result<LuaString> {
    let (text, count) = (text.as_bytes(), count.max(0.0) as usize);
    let separator = separator.as_ref().map(|it| it.as_bytes().to_vec()).unwrap_or_default();
    let bytes = (text.len() + separator.len()).saturating_mul(count);
    if bytes > TEXT_BYTES_MAX {
        return error(format!("the result of string.rep is longer than {TEXT_BYTES_MAX} bytes"));
    }
    shared.budget.charge(bytes as u64 / 64);
    // Copied in growing pieces, because a text of one byte is repeated millions of times.
    let mut out = [&*text, &separator].concat().repeat(count);
    out.truncate(bytes.saturating_sub(separator.len()));
    lua.create_string(out)
}

fn find(
    lua: &Lua,
    shared: &Shared,
    (subject, pattern, from, is_plain): Search,
) -> Result<MultiValue> {
    let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
    let Some(from) = start(from.unwrap_or(1), subject.len()) else {
        return Ok(MultiValue::from_iter([Value::Nil]));
    };
    if is_plain == Some(true) || !has_specials(&pattern) {
        let found = position(&subject[from..], &pattern).map(|at| at + from);
        shared.budget.charge(subject.len() as u64 / 64);
        return Ok(match found {
            Some(at) => MultiValue::from_iter([
                Value::Integer(at as i64 + 1),
                Value::Integer((at + pattern.len()) as i64),
            ]),
            None => MultiValue::from_iter([Value::Nil]),
        });
    }
    let Some(found) = search(shared, &subject, &pattern, from)? else {
        return Ok(MultiValue::from_iter([Value::Nil]));
    };
    let range = [Value::Integer(found.start as i64 + 1), Value::Integer(found.end as i64)];
    let captures = found.captures.iter().map(|it| value_of(lua, &subject, *it));
    range.into_iter().map(Ok).chain(captures).collect()
}

fn first_match(
    lua: &Lua,
    shared: &Shared,
    (subject, pattern, from): FirstMatch,
) -> Result<MultiValue> {
    let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
    let Some(from) = start(from.unwrap_or(1), subject.len()) else {
        return Ok(MultiValue::from_iter([Value::Nil]));
    };
    match search(shared, &subject, &pattern, from)? {
        Some(found) => captures_of(lua, &subject, &found),
        None => Ok(MultiValue::from_iter([Value::Nil])),
    }
}

fn gmatch_step(
    lua: &Lua,
    shared: &Shared,
    (subject, pattern, at, go_on): Step,
) -> Result<MultiValue> {
    let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
    match search(shared, &subject, &pattern, at.saturating_sub(1))? {
        Some(found) => {
            let next = if found.end > found.start { found.end } else { found.end + 1 };
            go_on.call::<()>(next + 1)?;
            captures_of(lua, &subject, &found)
        }
        None => {
            go_on.call::<()>(subject.len() + 2)?;
            Ok(MultiValue::from_iter([Value::Nil]))
        }
    }
}

fn gsub(
    lua: &Lua,
    shared: &Shared,
    (subject, pattern, replacement, max): Substitution,
) -> Result<(LuaString, usize)> {
    let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
    let replacement = Replacement::new(replacement)?;
    let max = max.map_or(usize::MAX, |max| usize::try_from(max).unwrap_or(0));
    let is_anchored = pattern.first() == Some(&b'^');
    let (mut out, mut at, mut count) = (Vec::with_capacity(subject.len()), 0, 0);
    while count < max {
        let Some(found) = search(shared, &subject, &pattern, at)? else { break };
        out.extend_from_slice(&subject[at..found.start]);
        count += 1;
        let whole = &subject[found.start..found.end];
        replacement.append(lua, &subject, &found, whole, &mut out)?;
        if out.len() > TEXT_BYTES_MAX {
            let text = format!("the result of string.gsub is longer than {TEXT_BYTES_MAX} bytes");
            return error(text);
        }
        at = found.end;
        if found.end == found.start {
            // An empty match moves on by one byte, which stays.
            out.extend(subject.get(at));
            at += 1;
        }
        if is_anchored || at > subject.len() {
            break;
        }
    }
    out.extend_from_slice(subject.get(at..).unwrap_or_default());
    Ok((lua.create_string(out)?, count))
}

/// Replacement of `string.gsub`.
enum Replacement {
    Text(Vec<u8>),
    Table(Table),
    Function(Function),
}

impl Replacement {
    fn new(value: Value) -> Result<Self> {
        Ok(match value {
            Value::String(text) => Self::Text(text.as_bytes().to_vec()),
            Value::Integer(_) | Value::Number(_) => Self::Text(value.to_string()?.into_bytes()),
            Value::Table(table) => Self::Table(table),
            Value::Function(function) => Self::Function(function),
            other => {
                let kind = other.type_name();
                return error(format!(
                    "bad argument #3 to 'gsub' (string/function/table expected, got {kind})"
                ));
            }
        })
    }

    fn append(
        &self,
        lua: &Lua,
        subject: &[u8],
        found: &Match,
        whole: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let value = match self {
            Self::Text(text) => return expand(text, subject, found, whole, out),
            Self::Table(table) => {
                let first = captures_of(lua, subject, found)?.into_iter().next();
                table.get::<Value>(first.unwrap_or(Value::Nil))?
            }
            Self::Function(function) => {
                function.call::<Value>(captures_of(lua, subject, found)?)?
            }
        };
        match value {
            Value::Nil | Value::Boolean(false) => out.extend_from_slice(whole),
            Value::String(text) => out.extend_from_slice(&text.as_bytes()),
            Value::Integer(_) | Value::Number(_) => out.extend(value.to_string()?.into_bytes()),
            other => {
                let kind = other.type_name();
                return error(format!("invalid replacement value (a {kind})"));
            }
        }
        Ok(())
    }
}

fn expand(
    text: &[u8],
    subject: &[u8],
    found: &Match,
    whole: &[u8],
    out: &mut Vec<u8>,
) -> Result<()> {
    let mut bytes = text.iter();
    while let Some(&byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        match bytes.next() {
            Some(b'0') => out.extend_from_slice(whole),
            Some(digit) if digit.is_ascii_digit() => {
                let index = usize::from(digit - b'1');
                match found.captures.get(index) {
                    Some(Capture::Text { start, end }) => {
                        out.extend_from_slice(&subject[*start..*end]);
                    }
                    Some(Capture::Position(at)) => out.extend(at.to_string().into_bytes()),
                    None if index == 0 && found.captures.is_empty() => {
                        out.extend_from_slice(whole);
                    }
                    None => return error("invalid capture index"),
                }
            }
            Some(other) => out.push(*other),
            None => return error("invalid use of '%' in replacement string"),
        }
    }
    Ok(())
}

/// Searches a pattern and charges the steps.
fn search(shared: &Shared, subject: &[u8], pattern: &[u8], from: usize) -> Result<Option<Match>> {
    match lua_pattern::find(subject, pattern, from) {
        Ok((found, steps)) => {
            shared.budget.charge(steps / STEPS_PER_INSTRUCTION);
            Ok(found)
        }
        Err(problem) => {
            if problem == PatternError::TooManySteps {
                shared.budget.charge(200_000);
            }
            error(problem)
        }
    }
}

fn captures_of(lua: &Lua, subject: &[u8], found: &Match) -> Result<MultiValue> {
    if found.captures.is_empty() {
        let whole = lua.create_string(&subject[found.start..found.end])?;
        return Ok(MultiValue::from_iter([Value::String(whole)]));
    }
    found.captures.iter().map(|it| value_of(lua, subject, *it)).collect()
}

fn value_of(lua: &Lua, subject: &[u8], capture: Capture) -> Result<Value> {
    Ok(match capture {
        Capture::Text { start, end } => Value::String(lua.create_string(&subject[start..end])?),
        Capture::Position(at) => Value::Integer(at as i64),
    })
}

/// Converts a position of Lua to an offset; `None` if it is behind the end.
fn start(from: i64, bytes: usize) -> Option<usize> {
    let bytes = bytes as i64;
    let at = match from {
        1.. => from - 1,
        0 => 0,
        _ => (bytes + from).max(0),
    };
    (at <= bytes).then_some(at as usize)
}

fn has_specials(pattern: &[u8]) -> bool {
    pattern.iter().any(|byte| b"^$*+?.([%-".contains(byte))
}

fn position(subject: &[u8], needle: &[u8]) -> Option<usize> {
    if needle.is_empty() {
        return Some(0);
    }
    memchr::memmem::find(subject, needle)
}
