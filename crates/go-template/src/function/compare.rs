//! Functions for comparing and choosing.

use std::cmp::Ordering;

use super::super::fault::Fault;
use super::super::value::Value;
use super::Context;

type Answer<'v> = Result<Value<'v>, Fault>;

pub(super) fn and<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    let chosen = values.iter().find(|value| !value.is_true()).or(values.last());
    Ok(chosen.cloned().unwrap_or(Value::Nil))
}

pub(super) fn or<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    let chosen = values.iter().find(|value| value.is_true()).or(values.last());
    Ok(chosen.cloned().unwrap_or(Value::Nil))
}

pub(super) fn not<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    Ok(Value::Boolean(!values[0].is_true()))
}

/// `eq`: whether the first value equals one of the others.
pub(super) fn eq<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    let (first, others) = values.split_first().ok_or("needs values")?;
    for other in others {
        if equals(first, other) {
            return Ok(Value::Boolean(true));
        }
    }
    Ok(Value::Boolean(false))
}

pub(super) fn ne<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    Ok(Value::Boolean(!equals(&values[0], &values[1])))
}

pub(super) fn lt<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    ordered(values, |order| order == Ordering::Less)
}

pub(super) fn le<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    ordered(values, |order| order != Ordering::Greater)
}

pub(super) fn gt<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    ordered(values, |order| order == Ordering::Greater)
}

pub(super) fn ge<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    ordered(values, |order| order != Ordering::Less)
}

pub(super) fn equals(left: &Value<'_>, right: &Value<'_>) -> bool {
    match (left, right) {
        (Value::Integer(_), Value::Float(_)) | (Value::Float(_), Value::Integer(_)) => {
            left.to_float() == right.to_float()
        }
        _ => left == right,
    }
}

fn ordered<'v>(values: &[Value<'v>], fits: fn(Ordering) -> bool) -> Answer<'v> {
    let (left, right) = (&values[0], &values[1]);
    let order = match (left, right) {
        (Value::Text(left), Value::Text(right)) => Some(left.cmp(right)),
        (Value::Time(left), Value::Time(right)) => Some(left.cmp(right)),
        (Value::Integer(left), Value::Integer(right)) => Some(left.cmp(right)),
        (Value::Integer(_) | Value::Float(_), Value::Integer(_) | Value::Float(_)) => {
            left.to_float().partial_cmp(&right.to_float())
        }
        _ => None,
    };
    let order =
        order.ok_or_else(|| format!("{} and {} have no order", left.kind(), right.kind()))?;
    Ok(Value::Boolean(fits(order)))
}

/// `default "x" .Value`: the second value, unless it is empty.
pub(super) fn default<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    Ok(values[usize::from(values[1].is_true())].clone())
}

pub(super) fn empty<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    Ok(Value::Boolean(!values[0].is_true()))
}

/// `coalesce`: the first value that is not empty.
pub(super) fn coalesce<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    Ok(values.iter().find(|value| value.is_true()).cloned().unwrap_or(Value::Nil))
}

/// Returns the first value if the condition holds, otherwise the second: `ternary "yes" "no"
/// CONDITION`.
pub(super) fn ternary<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    Ok(values[usize::from(!values[2].is_true())].clone())
}
