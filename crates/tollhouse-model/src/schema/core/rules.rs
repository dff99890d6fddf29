//! Rules for an object beyond its schema that need no other object.
//!
//! Rules that the parser of an object implements are delegated to it. Certificates, plugin
//! configurations and references to other objects are checked elsewhere.

use serde_json::Value;

use super::core;
use crate::expr::Expr;
use crate::problem::Severity;
use crate::reader::{Fields, Reader};
use crate::schema::Violation;
use crate::schema::text::quoted;
use crate::upstream::{Policy, balance, check_addresses, discovery, warm_up};
use crate::{Problem, Problems};

/// Prefix of a message about a violation of the schema.
const SCHEMA_PREFIX: &str = "invalid configuration: ";

/// Validates an object by the schema `name` and by the rules beyond it.
///
/// # Errors
/// The first violation. The text of a schema violation starts with `invalid configuration: `; that
/// of another rule has no prefix.
pub fn check_core(name: &str, value: &Value) -> Result<(), Violation> {
    let refused = |text: String| Violation::new(text);
    let core = core(name).ok_or_else(|| refused(format!("not found schema: {name}")))?;
    if name == "route" {
        check_pairs(value)?;
    }
    core.schema().validate(value).map_err(|reason| refused(format!("{SCHEMA_PREFIX}{reason}")))?;
    match name {
        "upstream" => check_upstream(value),
        "route" => {
            check_inline_upstream(value)?;
            check_vars(value)?;
            check_lua(value)
        }
        "service" => {
            check_inline_upstream(value)?;
            check_service_script(value)
        }
        "stream_route" => check_inline_upstream(value),
        _ => Ok(()),
    }
}

/// Checks pairs of fields. The schema checks them too, but its message would not name the fields.
fn check_pairs(route: &Value) -> Result<(), Violation> {
    for (one, many) in [("host", "hosts"), ("remote_addr", "remote_addrs")] {
        if route.get(one).is_some() && route.get(many).is_some() {
            return Err(Violation::new(format!("only one of {one} or {many} is allowed")));
        }
    }
    Ok(())
}

fn check_vars(route: &Value) -> Result<(), Violation> {
    let written = route.get("vars").filter(|vars| vars.is_array());
    let Some(vars) = written else { return Ok(()) };
    let mut problems = Problems::new();
    Expr::parse(vars, "vars", &mut problems);
    let is_error = |problem: &&Problem| problem.severity == Severity::Error;
    match problems.iter().find(is_error) {
        Some(problem) => Err(Violation::new(&*problem.reason)),
        None => Ok(()),
    }
}

/// Refuses a script in a service, because a script belongs to one route.
fn check_service_script(value: &Value) -> Result<(), Violation> {
    match value.get("script") {
        Some(_) => {
            Err(Violation::new("'script' of a service is not supported; put it into the routes"))
        }
        None => Ok(()),
    }
}

fn check_lua(value: &Value) -> Result<(), Violation> {
    if value.get("script_id").is_some() {
        let text = "'script_id' is not supported; put the text into \"script\"";
        return Err(Violation::new(text));
    }
    Ok(())
}

fn check_inline_upstream(value: &Value) -> Result<(), Violation> {
    value.get("upstream").map_or(Ok(()), check_upstream)
}

fn check_upstream(upstream: &Value) -> Result<(), Violation> {
    let Value::Object(fields) = upstream else { return Ok(()) };
    let nodes = fields.get("nodes").map_or(Ok(()), check_addresses);
    nodes.map_err(|error| Violation::new(error.to_string()))?;
    let text = |name: &str| fields.get(name).and_then(Value::as_str);
    if text("pass_host") == Some("rewrite") && text("upstream_host").is_none_or(str::is_empty) {
        let text = "`upstream_host` can't be empty when `pass_host` is `rewrite`";
        return Err(Violation::new(text));
    }
    if text("type").and_then(Policy::from_name).is_some_and(Policy::hashes_key) {
        check_hash_key(fields)?;
    }
    check_read(|reader| {
        warm_up::read(reader, fields);
        discovery::read(reader, fields);
    })
}

/// Returns the first error that a parser reports.
fn check_read(read: impl FnOnce(&mut Reader<'_>)) -> Result<(), Violation> {
    let mut problems = Problems::new();
    read(&mut Reader::new("", &mut problems));
    match problems.iter().find(|problem| problem.severity == Severity::Error) {
        Some(problem) if problem.path.is_empty() => Err(Violation::new(&*problem.reason)),
        Some(problem) => Err(Violation::new(format!("{}: {}", problem.path, problem.reason))),
        None => Ok(()),
    }
}

fn check_hash_key(fields: &Fields) -> Result<(), Violation> {
    type Valid = fn(&str) -> bool;
    let hash_on = fields.get("hash_on").and_then(Value::as_str).unwrap_or("vars");
    let (pattern, valid): (&str, Valid) = match hash_on {
        "vars" => (balance::VARIABLE_PATTERN, balance::variable_is_valid),
        "header" | "cookie" => (balance::NAME_PATTERN, balance::name_is_valid),
        _ => return Ok(()),
    };
    let Some(key) = fields.get("key").and_then(Value::as_str) else {
        return Err(Violation::new("missing key"));
    };
    if valid(key) {
        return Ok(());
    }
    let (pattern, key) = (quoted(pattern), quoted(key));
    let text = format!("{SCHEMA_PREFIX}failed to match pattern {pattern} with {key}");
    Err(Violation::new(text))
}
