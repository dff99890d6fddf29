//! Conditions of selectors and rules, as calls write them and as they are kept.

use serde_json::{Value, json};

use crate::answer::Refusal;
use crate::row::{self, Row};
use crate::seed::{OPERATORS, PARAMETER_TYPES};

/// Conditions of one object: forms have a handful; each costs every request a look.
const CONDITIONS_MAX: usize = 256;

/// The conditions of a body, as they are kept.
///
/// # Errors
/// When one has an operator or a type that does not exist, or there are too many.
pub(crate) fn read(body: &Row, member: &str) -> Result<Value, Refusal> {
    let conditions: Vec<&Row> = row::rows(body, member).collect();
    if conditions.len() > CONDITIONS_MAX {
        return Err(Refusal::invalid(member, &format!("at most {CONDITIONS_MAX} are possible")));
    }
    let read: Result<Vec<Value>, Refusal> = conditions.into_iter().map(read_one).collect();
    Ok(Value::Array(read?))
}

fn read_one(condition: &Row) -> Result<Value, Refusal> {
    let one_of = |member: &str, known: &[&str]| {
        let value = row::filled(condition, member);
        let value = value.ok_or_else(|| Refusal::invalid(member, "must not be blank"))?;
        if known.contains(&value.as_str()) {
            return Ok(value);
        }
        let text = format!("`{value}` does not exist; possible are {}", known.join(", "));
        Err(Refusal::invalid(member, &text))
    };
    let param_type = one_of("paramType", PARAMETER_TYPES)?;
    let operator = one_of("operator", OPERATORS)?;
    Ok(json!({
        "paramType": param_type,
        "operator": operator,
        "paramName": row::text(condition, "paramName").unwrap_or_default(),
        "paramValue": row::text(condition, "paramValue").unwrap_or_default(),
    }))
}

/// The conditions of an object as answers show them, each with an id made of its place.
pub(crate) fn view(kept: Option<&Value>, owner_member: &str, owner: &str) -> Value {
    let conditions = kept.and_then(Value::as_array).into_iter().flatten();
    let view = |(place, condition): (usize, &Value)| {
        let mut condition = condition.as_object().cloned().unwrap_or_default();
        condition.insert("id".to_owned(), format!("{owner}-{place}").into());
        condition.insert(owner_member.to_owned(), owner.into());
        Value::Object(condition)
    };
    conditions.enumerate().map(view).collect()
}

/// A text that is JSON, or blank.
///
/// # Errors
/// When it is neither.
pub(crate) fn json_text(body: &Row, member: &str) -> Result<Option<String>, Refusal> {
    let text = row::document(body, member);
    if let Some(text) = text.as_deref().filter(|text| !text.trim().is_empty())
        && let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(text)
    {
        return Err(Refusal::invalid(member, &format!("must be JSON: {error}")));
    }
    Ok(text)
}
