//! Functions for numbers and lists. Whole numbers wrap around at 64 bits, as in Go.

use super::super::fault::Fault;
use super::super::value::Value;
use super::Context;
use super::compare::equals;

type Answer<'v> = Result<Value<'v>, Fault>;

/// Maximum number of elements of a generated list, which limits the steps of a `range` over it.
const LIST_LENGTH_MAX: i64 = 10_000;

pub(super) fn int<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    Ok(Value::Integer(values[0].to_integer()))
}

pub(super) fn float<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    Ok(Value::Float(values[0].to_float()))
}

pub(super) fn add<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    Ok(Value::Integer(values.iter().fold(0, |sum, value| sum.wrapping_add(value.to_integer()))))
}

pub(super) fn add1<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    Ok(Value::Integer(values[0].to_integer().wrapping_add(1)))
}

pub(super) fn sub<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    Ok(Value::Integer(values[0].to_integer().wrapping_sub(values[1].to_integer())))
}

pub(super) fn mul<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    let product =
        values.iter().fold(1_i64, |product, value| product.wrapping_mul(value.to_integer()));
    Ok(Value::Integer(product))
}

pub(super) fn div<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    match values[1].to_integer() {
        0 => Err("division by zero".into()),
        divisor => Ok(Value::Integer(values[0].to_integer().wrapping_div(divisor))),
    }
}

pub(super) fn modulo<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    match values[1].to_integer() {
        0 => Err("division by zero".into()),
        divisor => Ok(Value::Integer(values[0].to_integer().wrapping_rem(divisor))),
    }
}

pub(super) fn max<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    Ok(Value::Integer(values.iter().map(Value::to_integer).max().unwrap_or(0)))
}

pub(super) fn min<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    Ok(Value::Integer(values.iter().map(Value::to_integer).min().unwrap_or(0)))
}

pub(super) fn floor<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    Ok(Value::Float(values[0].to_float().floor()))
}

pub(super) fn ceil<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    Ok(Value::Float(values[0].to_float().ceil()))
}

/// `round NUMBER DIGITS [FRACTION]`; fractions from `FRACTION` on (0.5 by default) are rounded up.
pub(super) fn round<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    const DIGITS_MAX: i64 = 15;
    let digits = values[1].to_integer().clamp(-DIGITS_MAX, DIGITS_MAX) as i32;
    let up_from = values.get(2).map_or(0.5, Value::to_float);
    let value = values[0].to_float();
    let scaled = value.abs() * 10_f64.powi(digits);
    let whole = if scaled.fract() >= up_from { scaled.ceil() } else { scaled.floor() };
    Ok(Value::Float(whole.copysign(value) / 10_f64.powi(digits)))
}

pub(super) fn list<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    Ok(Value::List(values.to_vec()))
}

pub(super) fn len<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    match &values[0] {
        Value::Text(text) => Ok(Value::Integer(text.len() as i64)),
        Value::List(list) => Ok(Value::Integer(list.len() as i64)),
        other => Err(format!("{} has no length", other.kind()).into()),
    }
}

pub(super) fn index<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    let at = values[1].to_integer();
    let place = usize::try_from(at).ok();
    let found = match &values[0] {
        Value::List(list) => place.and_then(|place| list.get(place)).cloned(),
        Value::Text(text) => place
            .and_then(|place| text.as_bytes().get(place))
            .map(|byte| Value::Integer(i64::from(*byte))),
        other => return Err(format!("{} has no elements", other.kind()).into()),
    };
    found.ok_or_else(|| format!("element {at} does not exist").into())
}

pub(super) fn first<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    Ok(elements(&values[0])?.first().cloned().unwrap_or(Value::Nil))
}

pub(super) fn last<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    Ok(elements(&values[0])?.last().cloned().unwrap_or(Value::Nil))
}

pub(super) fn has<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    let is_there = elements(&values[1])?.iter().any(|element| equals(element, &values[0]));
    Ok(Value::Boolean(is_there))
}

/// `until N`: the numbers from 0 to N, exclusive.
pub(super) fn until<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    let end = values[0].to_integer();
    counted(0, end, if end < 0 { -1 } else { 1 })
}

pub(super) fn until_step<'v>(_: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    counted(values[0].to_integer(), values[1].to_integer(), values[2].to_integer())
}

fn counted<'v>(from: i64, to: i64, step: i64) -> Answer<'v> {
    if step == 0 || (to > from) != (step > 0) {
        return Ok(Value::List(Vec::new()));
    }
    let distance = i128::from(to) - i128::from(from);
    let length = (distance.unsigned_abs()).div_ceil(u128::from(step.unsigned_abs()));
    if length > LIST_LENGTH_MAX as u128 {
        return Err(
            format!("makes {length} elements; at most {LIST_LENGTH_MAX} are offered").into()
        );
    }
    Ok(Value::List((0..length as i64).map(|turn| Value::Integer(from + turn * step)).collect()))
}

pub(super) fn elements<'a, 'v>(value: &'a Value<'v>) -> Result<&'a [Value<'v>], Fault> {
    match value {
        Value::List(list) => Ok(list),
        other => Err(format!("needs a list, not {}", other.kind()).into()),
    }
}
