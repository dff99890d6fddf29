//! Times in ShenYu's format, and ids made from them.

use std::time::{SystemTime, UNIX_EPOCH};

use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

use crate::answer::Refusal;

const DATE: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day] [hour]:[minute]:[second]");

/// Returns the current time in UTC as `yyyy-MM-dd HH:mm:ss`.
pub(crate) fn now_text() -> String {
    OffsetDateTime::now_utc().format(&DATE).unwrap_or_default()
}

/// Formats a time, in milliseconds since 1970, in UTC as `yyyy-MM-dd HH:mm:ss`.
pub(crate) fn text_at(ms: u64) -> String {
    let seconds = i64::try_from(ms / 1000).unwrap_or(i64::MAX);
    let time = OffsetDateTime::from_unix_timestamp(seconds).ok();
    time.and_then(|time| time.format(&DATE).ok()).unwrap_or_default()
}

/// Returns the current time in milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}

/// Creates a random UUID (RFC 9562 section 5.4), the form of namespace ids.
///
/// # Errors
///
/// If the system's random number generator is unavailable.
pub(crate) fn new_uuid() -> Result<String, Refusal> {
    let mut bytes = [0; 16];
    aws_lc_rs::rand::fill(&mut bytes)
        .map_err(|_| Refusal::error("the system's random number generator is unavailable"))?;
    let number = u128::from_be_bytes(bytes);
    // Sets version 4 and the variant of the RFC.
    let number = number & !(0xf << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
    let text = format!("{number:032x}");
    let (a, rest) = text.split_at(8);
    let (b, rest) = rest.split_at(4);
    let (c, rest) = rest.split_at(4);
    let (d, e) = rest.split_at(4);
    Ok(format!("{a}-{b}-{c}-{d}-{e}"))
}

/// Creates an id in ShenYu's form: nineteen digits that rise with time.
pub(crate) fn new_id() -> String {
    /// Number of random bits below the milliseconds.
    const CHANCE_BITS: u32 = 22;
    let mut chance = [0; 4];
    // If the generator fails, ids of one millisecond would collide; the transaction refuses that.
    let _ = aws_lc_rs::rand::fill(&mut chance);
    let chance = u64::from(u32::from_le_bytes(chance)) & ((1 << CHANCE_BITS) - 1);
    ((now_ms() << CHANCE_BITS) | chance).to_string()
}
