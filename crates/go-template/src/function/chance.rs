//! Functions with varying results: random texts and numbers, identifiers, the time.

use super::super::fault::Fault;
use super::super::value::Value;
use super::super::{put_uuid, random_128};
use super::Context;
use crate::golang::date as layout;

type Answer<'v> = Result<Value<'v>, Fault>;

const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
const LETTERS_AND_DIGITS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
const DIGITS: &[u8] = b"0123456789";
/// Maximum length in bytes of a random text that a template may request; request bodies are not
/// expected to be larger.
const TEXT_BYTES_MAX: i64 = 1024 * 1024;
/// Minimum length in bytes of the text that `randomString 0` returns, as in ghz.
const ANY_LENGTH_MIN: i64 = 2;
/// Maximum length in bytes of the text that `randomString 0` returns, as in ghz.
const ANY_LENGTH_MAX: i64 = 16;

pub(super) fn uuid<'v>(context: &mut Context<'_>, _: &[Value<'v>]) -> Answer<'v> {
    let mut out = String::with_capacity(36);
    put_uuid(random_128(context.random), &mut out);
    Ok(Value::text(out))
}

/// `randomString` of ghz: letters and digits. A length of 0 or less selects a random length.
pub(super) fn random_string<'v>(context: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    let length = match whole(&values[0])? {
        length if length > 0 => length,
        _ => between(context, ANY_LENGTH_MIN, ANY_LENGTH_MAX + 1),
    };
    characters(context, LETTERS_AND_DIGITS, length)
}

/// `randomInt` of ghz: from the first number to the second, exclusive.
pub(super) fn random_int<'v>(context: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    let from = whole(&values[0])?.max(0);
    let to = match whole(&values[1])? {
        to if to > 0 => to,
        _ => 1,
    };
    spread(context, from, to)
}

/// `randInt` of sprig: like `randomInt`, without ghz's corrections of the bounds.
pub(super) fn rand_int<'v>(context: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    spread(context, whole(&values[0])?, whole(&values[1])?)
}

fn spread<'v>(context: &mut Context<'_>, from: i64, to: i64) -> Answer<'v> {
    if to <= from {
        return Err(
            format!("{to} must be above {from}: numbers go up to, not including, it").into()
        );
    }
    Ok(Value::Integer(between(context, from, to)))
}

/// Returns a random number from `from` to `to`, exclusive; `to` must be above `from`.
fn between(context: &mut Context<'_>, from: i64, to: i64) -> i64 {
    let span = to.wrapping_sub(from) as u64;
    let offset = (u128::from(context.random.next_u64()) * u128::from(span)) >> u64::BITS;
    from.wrapping_add(offset as i64)
}

pub(super) fn rand_alpha_num<'v>(context: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    characters(context, LETTERS_AND_DIGITS, whole(&values[0])?)
}

pub(super) fn rand_alpha<'v>(context: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    characters(context, LETTERS, whole(&values[0])?)
}

pub(super) fn rand_numeric<'v>(context: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    characters(context, DIGITS, whole(&values[0])?)
}

/// `randAscii`: printable ASCII, including quotes and backslashes.
pub(super) fn rand_ascii<'v>(context: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    const PRINTABLE: [u8; 95] = {
        let mut all = [0; 95];
        let mut at = 0;
        while at < all.len() {
            all[at] = b' ' + at as u8;
            at += 1;
        }
        all
    };
    characters(context, &PRINTABLE, whole(&values[0])?)
}

fn characters<'v>(context: &mut Context<'_>, from: &[u8], length: i64) -> Answer<'v> {
    if length > TEXT_BYTES_MAX {
        return Err(
            format!("{length} characters are more than the {TEXT_BYTES_MAX} offered").into()
        );
    }
    let count = from.len() as u32;
    let text = (0..length.max(0)).map(|_| from[context.random.below(count) as usize] as char);
    Ok(Value::text(text.collect()))
}

/// Returns the value if it is a whole number. A text is an error and does not count as zero,
/// because ghz accepts only numbers.
fn whole(value: &Value<'_>) -> Result<i64, Fault> {
    match value {
        Value::Integer(number) => Ok(*number),
        other => Err(format!("needs a whole number, not {}", other.kind()).into()),
    }
}

pub(super) fn now<'v>(context: &mut Context<'_>, _: &[Value<'v>]) -> Answer<'v> {
    Ok(Value::Time(context.unix_ns))
}

/// `date LAYOUT TIME`: formats a time, or a number of seconds of Unix time.
pub(super) fn date<'v>(context: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    let mut out = String::new();
    layout::format(instant(context, &values[1]), &values[0].to_text(), &mut out);
    Ok(Value::text(out))
}

/// `dateInZone LAYOUT TIME ZONE`: formats a time as [`date`] does. UTC is the only supported zone.
pub(super) fn date_in_zone<'v>(context: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    let zone = values[2].to_text();
    if !matches!(&*zone, "" | "UTC" | "GMT" | "Etc/UTC" | "Z") {
        return Err(format!("zone {zone:?} is not offered; times are in UTC").into());
    }
    date(context, values)
}

pub(super) fn html_date<'v>(context: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    let mut out = String::new();
    layout::format(instant(context, &values[0]), "2006-01-02", &mut out);
    Ok(Value::text(out))
}

/// Adds a duration to a time: `dateModify "-1h30m" TIME`.
pub(super) fn date_modify<'v>(context: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    let text = values[0].to_text();
    let (is_back, distance) = match text.strip_prefix(['-', '+']) {
        Some(distance) => (text.starts_with('-'), distance),
        None => (false, &*text),
    };
    let distance = tollhouse_stdx::fine_duration::parse(distance)?;
    let distance_ns = i64::try_from(distance.as_nanos()).unwrap_or(i64::MAX);
    let time = instant(context, &values[1]);
    let moved = if is_back { time.checked_sub(distance_ns) } else { time.checked_add(distance_ns) };
    Ok(Value::Time(moved.unwrap_or(time)))
}

/// `unixEpoch`: seconds of Unix time, as a text.
pub(super) fn unix_epoch<'v>(context: &mut Context<'_>, values: &[Value<'v>]) -> Answer<'v> {
    Ok(Value::text(instant(context, &values[0]).div_euclid(1_000_000_000).to_string()))
}

/// Converts a time, or a number of seconds of Unix time, to nanoseconds. Other values yield the
/// time of the request, as in sprig.
fn instant(context: &Context<'_>, value: &Value<'_>) -> i64 {
    match value {
        Value::Time(time) => *time,
        Value::Integer(seconds) => seconds.saturating_mul(1_000_000_000),
        _ => context.unix_ns,
    }
}
