//! Conditions of selectors and rules: validation, and their form in answers.

use serde_json::{Value, json};

use crate::answer::Refusal;
use crate::row::{self, Row};
use crate::seed::{OPERATORS, PARAMETER_TYPES};

/// Maximum number of conditions of one object. Forms have a handful, and every request evaluates
/// each.
const CONDITIONS_MAX: usize = 256;

/// Validates the conditions of a body and returns them in their stored form.
///
/// # Errors
///
/// If an operator or a parameter type is unknown, or there are too many conditions.
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

/// Returns the conditions of an object as answers show them. Each has an id made of its owner's id
/// and its position.
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

/// Returns a member whose text is JSON or blank.
///
/// # Errors
///
/// If the text is neither.
pub(crate) fn json_text(body: &Row, member: &str) -> Result<Option<String>, Refusal> {
    let text = row::document(body, member);
    if let Some(text) = text.as_deref().filter(|text| !text.trim().is_empty())
        && let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(text)
    {
        return Err(Refusal::invalid(member, &format!("must be JSON: {error}")));
    }
    Ok(text)
}
