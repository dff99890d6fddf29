//! Bounds of the buckets, computed when the program is compiled.

use super::native::{native_index_of, native_last_ms};

/// Upper bounds of the classic buckets in milliseconds; a further bucket holds all longer durations.
pub const BOUNDS_MS: [u64; 15] =
    [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000];

/// Number of classic buckets, including the one without a bound.
pub const CLASSIC_BUCKETS: usize = BOUNDS_MS.len() + 1;

/// Native bucket of one millisecond.
const NATIVE_FIRST: i32 = -79;

/// Native bucket that ends at 128 seconds. Above it, a bucket covers a power of two, because such
/// durations are those of downloads and tunnels.
const NATIVE_FINE_LAST: i32 = 56;

/// Native bucket that ends at 2^17 seconds, 36 hours; longer durations count in it.
pub(super) const NATIVE_LAST: i32 = 136;

/// Native buckets of a power of two.
const NATIVE_STEPS: i32 = 8;

/// Room for the bounds while they are collected.
const CAPACITY: usize = 256;

/// Upper bounds in ascending order, and their number.
struct Bounds {
    last_ms: [u64; CAPACITY],
    count: usize,
}

const BOUNDS: Bounds = bounds();

/// Number of buckets of a histogram; the last one has no bound.
pub const BUCKETS: usize = BOUNDS.count + 1;

/// Longest duration of each bucket but the last, in milliseconds.
const LAST_MS: [u64; BUCKETS - 1] = {
    let mut all = [0; BUCKETS - 1];
    let mut at = 0;
    while at < all.len() {
        all[at] = BOUNDS.last_ms[at];
        at += 1;
    }
    all
};

/// Classic bucket of each bucket.
pub(super) const CLASSIC_OF: [u8; BUCKETS] = {
    let mut all = [BOUNDS_MS.len() as u8; BUCKETS];
    let (mut at, mut classic) = (0, 0);
    while at < LAST_MS.len() && classic < BOUNDS_MS.len() {
        if LAST_MS[at] > BOUNDS_MS[classic] {
            classic += 1;
        } else {
            all[at] = classic as u8;
            at += 1;
        }
    }
    all
};

/// Native bucket of each bucket; the first bucket is the zero bucket and has no index.
pub(super) const NATIVE_OF: [i32; BUCKETS] = {
    let mut all = [NATIVE_LAST; BUCKETS];
    let mut at = 0;
    while at < LAST_MS.len() {
        all[at] = native_index_of(LAST_MS[at]);
        at += 1;
    }
    all
};

/// Durations whose buckets are in a table.
const TABLE_MS: usize = 256;

/// Buckets of the durations below [`TABLE_MS`].
static TABLE: [u8; TABLE_MS] = {
    assert!(BUCKETS <= u8::MAX as usize, "a bucket is one byte");
    let mut all = [0; TABLE_MS];
    let (mut ms, mut bucket) = (0, 0);
    while ms < TABLE_MS {
        if LAST_MS[bucket] < ms as u64 {
            bucket += 1;
        } else {
            all[ms] = bucket as u8;
            ms += 1;
        }
    }
    all
};

const fn bounds() -> Bounds {
    let mut bounds = Bounds { last_ms: [0; CAPACITY], count: 1 };
    let (mut native, mut classic, mut last) = (NATIVE_FIRST, 0, 0);
    while native <= NATIVE_LAST {
        let native_ms = native_last_ms(native);
        let is_classic = classic < BOUNDS_MS.len() && BOUNDS_MS[classic] <= native_ms;
        let next = if is_classic { BOUNDS_MS[classic] } else { native_ms };
        if is_classic {
            classic += 1;
        } else {
            native += if native < NATIVE_FINE_LAST { 1 } else { NATIVE_STEPS };
        }
        if next > last {
            bounds.last_ms[bounds.count] = next;
            bounds.count += 1;
            last = next;
        }
    }
    bounds
}

/// Bucket of a duration.
#[inline]
pub(super) fn bucket_of(duration_ms: u64) -> usize {
    match TABLE.get(duration_ms as usize) {
        Some(bucket) => usize::from(*bucket),
        None => search(duration_ms),
    }
}

#[inline(never)]
fn search(duration_ms: u64) -> usize {
    LAST_MS.partition_point(|last| *last < duration_ms)
}

/// Longest duration of a bucket; of the last one, that of the one before.
pub(super) fn last_of(bucket: usize) -> u64 {
    LAST_MS[bucket.min(LAST_MS.len() - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_is_in_the_classic_bucket_whose_bound_it_does_not_pass() {
        let near = |bound: &u64| [bound - 1, *bound, bound + 1];
        for ms in (0..1_000).chain(BOUNDS_MS.iter().flat_map(near)).chain([u64::MAX]) {
            let expected = BOUNDS_MS.iter().position(|bound| ms <= *bound);
            let expected = expected.unwrap_or(BOUNDS_MS.len());
            assert_eq!(usize::from(CLASSIC_OF[bucket_of(ms)]), expected, "{ms}");
        }
    }

    #[test]
    fn every_duration_is_in_the_native_bucket_whose_bounds_enclose_it() {
        let bound_ms = |index: i32| 1_000.0 * (f64::from(index) / 8.0).exp2();
        for ms in (1..3_000).chain((3_000..128_000).step_by(97)) {
            let index = NATIVE_OF[bucket_of(ms)];
            let (ms, from) = (ms as f64, bound_ms(index - 1));
            assert!(from < ms && ms <= bound_ms(index), "{ms} is in {index}");
        }
        assert_eq!(NATIVE_OF[bucket_of(u64::MAX)], NATIVE_LAST);
    }

    #[test]
    fn a_duration_is_read_back_at_most_an_eleventh_above() {
        for ms in (0..200).chain([255, 256, 511, 512, 999, 1_000, 4_095, 60_000, 127_999]) {
            let read = last_of(bucket_of(ms));
            assert!(read >= ms && read - ms <= ms / 11 + 1, "{ms} reads {read}");
        }
        assert_eq!((last_of(bucket_of(7)), last_of(BUCKETS - 1)), (7, 131_072_000));
    }

    #[test]
    fn the_table_and_the_search_agree() {
        for ms in 0..TABLE_MS as u64 {
            assert_eq!(bucket_of(ms), search(ms), "{ms}");
        }
    }
}
