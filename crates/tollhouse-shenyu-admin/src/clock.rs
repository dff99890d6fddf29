//! The time as ShenYu writes it.

use std::time::{SystemTime, UNIX_EPOCH};

use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

/// `yyyy-MM-dd HH:mm:ss`.
const DATE: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day] [hour]:[minute]:[second]");

/// Now, in UTC, as `yyyy-MM-dd HH:mm:ss`.
pub(crate) fn now_text() -> String {
    OffsetDateTime::now_utc().format(&DATE).unwrap_or_default()
}

/// Now, in milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}

/// A new id in the form of ShenYu's: nineteen digits, rising with time.
pub(crate) fn new_id() -> String {
    /// Bits below the milliseconds: chance.
    const CHANCE_BITS: u32 = 22;
    let mut chance = [0; 4];
    // Without chance ids of one millisecond would meet; the transaction refuses that.
    let _ = aws_lc_rs::rand::fill(&mut chance);
    let chance = u64::from(u32::from_le_bytes(chance)) & ((1 << CHANCE_BITS) - 1);
    ((now_ms() << CHANCE_BITS) | chance).to_string()
}
