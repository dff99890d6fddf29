//! Regular expressions: `ngx.re`, with the engine of all other patterns, whose searches are bounded.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

use hashbrown::HashMap;
use mlua::{LuaString, MultiValue, Result, Table, Value};
use tollhouse_model::expr::pattern::{Case, Groups, Pattern};

use super::builder::Host;
use crate::shared::Shared;

/// Compiled patterns that a state keeps; scripts rarely make patterns from data.
const PATTERNS_MAX: usize = 256;

/// Pattern with the names of its groups.
struct Compiled {
    pattern: Pattern,
    names: Vec<(usize, String)>,
}

/// Patterns of a state by their texts and options.
#[derive(Default)]
struct Cache {
    patterns: RefCell<HashMap<(Vec<u8>, Vec<u8>), Rc<Compiled>>>,
    /// Number of patterns ever compiled.
    compiled: Cell<usize>,
}

pub(super) fn add(host: &Host) -> Result<()> {
    let cache = Rc::new(Cache::default());
    type Search = (LuaString, LuaString, LuaString, usize);
    let in_match = Rc::clone(&cache);
    host.add_shared("re_match", move |lua, shared, (subject, pattern, options, at): Search| {
        let found = search(&in_match, shared, (&subject, &pattern, &options), at);
        match found {
            Ok(Some((groups, compiled))) => {
                let table = table_of(lua, &subject.as_bytes(), &groups, &compiled)?;
                let (from, to) = range_of(&groups, 0);
                Ok(MultiValue::from_iter([Value::Table(table), from, to]))
            }
            Ok(None) => Ok(MultiValue::from_iter([Value::Nil])),
            Err(problem) => {
                let text = Value::String(lua.create_string(problem)?);
                Ok(MultiValue::from_iter([Value::Nil, Value::Nil, Value::Nil, text]))
            }
        }
    })?;
    type SearchOne = (LuaString, LuaString, LuaString, usize, usize);
    host.add_shared(
        "re_find",
        move |lua, shared, (subject, pattern, options, at, nth): SearchOne| match search(
            &cache,
            shared,
            (&subject, &pattern, &options),
            at,
        ) {
            Ok(Some((groups, _))) => {
                let (from, to) = range_of(&groups, nth);
                Ok(MultiValue::from_iter([Value::Boolean(true), from, to]))
            }
            Ok(None) => Ok(MultiValue::from_iter([Value::Nil])),
            Err(problem) => {
                let text = Value::String(lua.create_string(problem)?);
                Ok(MultiValue::from_iter([Value::Nil, Value::Nil, Value::Nil, text]))
            }
        },
    )
}

fn search(
    cache: &Cache,
    shared: &Shared,
    (subject, pattern, options): (&LuaString, &LuaString, &LuaString),
    at: usize,
) -> std::result::Result<Option<(Groups, Rc<Compiled>)>, String> {
    let compiled = compiled(cache, shared, &pattern.as_bytes(), &options.as_bytes())?;
    let subject = subject.as_bytes();
    let start = at.saturating_sub(1);
    if start > subject.len() {
        return Ok(None);
    }
    shared.budget.charge(20 + (subject.len() - start) as u64 / 16);
    let found = compiled.pattern.groups_at(&subject, start);
    let found = found.map_err(|_| "pcre_exec() failed: the search needs too many steps")?;
    let is_anchored = options.as_bytes().contains(&b'a');
    let begins_here = |groups: &Groups| {
        groups.first().cloned().flatten().is_some_and(|range| range.start == start)
    };
    Ok(found.filter(|groups| !is_anchored || begins_here(groups)).map(|groups| (groups, compiled)))
}

/// Returns a compiled pattern. The time of compiling does not count for the run, up to the number of
/// patterns that are kept: a list of patterns is compiled once, and patterns made from data are not free.
fn compiled(
    cache: &Cache,
    shared: &Shared,
    pattern: &[u8],
    options: &[u8],
) -> std::result::Result<Rc<Compiled>, String> {
    let key = (pattern.to_vec(), options.to_vec());
    if let Some(found) = cache.patterns.borrow().get(&key) {
        return Ok(Rc::clone(found));
    }
    let started = Instant::now();
    let text = std::str::from_utf8(pattern).map_err(|_| "the pattern is not valid UTF-8")?;
    let case = if options.contains(&b'i') { Case::Ignored } else { Case::Sensitive };
    let flags: String =
        options.iter().filter(|byte| b"smx".contains(byte)).map(|byte| *byte as char).collect();
    let flagged = if flags.is_empty() { text.to_owned() } else { format!("(?{flags}){text}") };
    let pattern = Pattern::compile(&flagged, case)
        .map_err(|problem| format!("pcre_compile() failed: {}", problem.reason()))?;
    let made = Rc::new(Compiled { pattern, names: names_of(text) });
    let mut patterns = cache.patterns.borrow_mut();
    if patterns.len() >= PATTERNS_MAX {
        patterns.clear();
    }
    patterns.insert(key, Rc::clone(&made));
    let number = cache.compiled.replace(cache.compiled.get().saturating_add(1));
    if number < PATTERNS_MAX {
        shared.budget.exempt(started.elapsed());
    }
    Ok(made)
}

/// Returns the names of groups by their numbers.
fn names_of(pattern: &str) -> Vec<(usize, String)> {
    let bytes = pattern.as_bytes();
    let (mut names, mut number, mut at, mut is_in_set) = (Vec::new(), 0, 0, false);
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            b'[' => is_in_set = true,
            b']' => is_in_set = false,
            b'(' if !is_in_set => {
                let rest = &pattern[at + 1..];
                let named = rest.strip_prefix("?P<").or_else(|| rest.strip_prefix("?<"));
                let named = named.filter(|rest| !rest.starts_with(['=', '!']));
                if let Some((name, _)) = named.and_then(|rest| rest.split_once('>')) {
                    number += 1;
                    names.push((number, name.to_owned()));
                } else if !rest.starts_with(['?', '*']) {
                    number += 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    names
}

fn table_of(
    lua: &mlua::Lua,
    subject: &[u8],
    groups: &Groups,
    compiled: &Compiled,
) -> Result<Table> {
    let table = lua.create_table()?;
    let value = |index: usize| match groups.get(index).cloned().flatten() {
        Some(range) => Ok::<_, mlua::Error>(Value::String(lua.create_string(&subject[range])?)),
        // A group that took no part is `false`, as in OpenResty.
        None => Ok(Value::Boolean(false)),
    };
    for index in 0..groups.len() {
        table.raw_set(index, value(index)?)?;
    }
    for (index, name) in &compiled.names {
        table.raw_set(name.as_str(), value(*index)?)?;
    }
    Ok(table)
}

fn range_of(groups: &Groups, nth: usize) -> (Value, Value) {
    match groups.get(nth).cloned().flatten() {
        Some(range) => (Value::Integer(range.start as i64 + 1), Value::Integer(range.end as i64)),
        None => (Value::Nil, Value::Nil),
    }
}
