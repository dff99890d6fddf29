//! Exemplars of a histogram: for each classic bucket, the newest request that has a trace.

use std::sync::{Mutex, PoisonError, TryLockError};

use crate::histogram::{CLASSIC_BUCKETS, Observation};

/// Trace id of W3C Trace Context; all zeros are not a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceId([u8; 16]);

impl TraceId {
    /// `None` for the invalid id, all zeros.
    pub fn new(bytes: [u8; 16]) -> Option<Self> {
        (bytes != [0; 16]).then_some(Self(bytes))
    }

    /// Trace id of a `traceparent` header whose trace is sampled; `None` if the header is invalid
    /// or the trace is not recorded, so that nothing could be found under it.
    pub fn from_traceparent(header: &[u8]) -> Option<Self> {
        let header = std::str::from_utf8(header).ok()?.trim();
        let mut parts = header.splitn(4, '-');
        let (version, trace) = (parts.next()?, parts.next()?);
        let (parent, flags) = (parts.next()?, parts.next()?);
        let is_known = version.len() == 2 && version != "ff" && parent.len() == 16;
        if !is_known || trace.len() != 32 {
            return None;
        }
        let is_hex =
            |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if !is_hex(version) || !is_hex(trace) || !is_hex(parent) {
            return None;
        }
        let flags = u8::from_str_radix(flags.get(..2)?, 16).ok()?;
        let id = u128::from_str_radix(trace, 16).ok()?;
        Self::new(id.to_be_bytes()).filter(|_| flags & 1 == 1)
    }

    /// The id in 32 hexadecimal digits.
    pub fn text(self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.0))
    }
}

/// A request that stands for others of its bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exemplar {
    pub trace: TraceId,
    pub duration_ms: u64,
    /// End of the request, in milliseconds since 1970.
    pub unix_ms: u64,
}

/// The newest exemplar of each classic bucket, on one core.
#[derive(Debug, Default)]
pub(crate) struct Exemplars(Mutex<[Option<Exemplar>; CLASSIC_BUCKETS]>);

impl Exemplars {
    /// Keeps an exemplar. While the exemplars are being read, it is dropped, because a core does
    /// not wait.
    pub(crate) fn keep(&self, exemplar: Exemplar) {
        let mut all = match self.0.try_lock() {
            Ok(all) => all,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        all[Observation::from_ms(exemplar.duration_ms).classic_bucket()] = Some(exemplar);
    }

    /// Puts the newer exemplar of each bucket into `newest`.
    pub(crate) fn add_to(&self, newest: &mut [Option<Exemplar>; CLASSIC_BUCKETS]) {
        let all = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (place, exemplar) in newest.iter_mut().zip(all) {
            let age = |exemplar: &Option<Exemplar>| exemplar.map_or(0, |exemplar| exemplar.unix_ms);
            if age(&exemplar) > age(place) {
                *place = exemplar;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

    #[test]
    fn a_traceparent_gives_its_trace_if_that_is_recorded() {
        let header = |rest: &str| format!("00-{TRACE}-b7ad6b7169203331-{rest}");
        for (header, expected) in [
            (header("01"), true),
            (header("03-later-versions-add-more"), true),
            (header("00"), false),
            (header("0"), false),
            (header("01").replace("00-", "ff-"), false),
            (header("01").replace('a', "A"), false),
            (header("01").replace(TRACE, &"0".repeat(32)), false),
            (format!("00-{TRACE}-01"), false),
            (String::new(), false),
        ] {
            let trace = TraceId::from_traceparent(header.as_bytes());
            let text = trace.map(TraceId::text);
            assert_eq!(text.as_deref(), expected.then_some(TRACE), "{header}");
        }
    }

    #[test]
    fn the_newest_request_of_a_bucket_stands_for_it() {
        let trace = |byte| TraceId::new([byte; 16]).expect("a trace");
        let exemplar =
            |byte, duration_ms, unix_ms| Exemplar { trace: trace(byte), duration_ms, unix_ms };
        let (one, other) = (Exemplars::default(), Exemplars::default());
        one.keep(exemplar(1, 3, 1_000));
        one.keep(exemplar(2, 4, 2_000));
        one.keep(exemplar(3, 700, 3_000));
        other.keep(exemplar(4, 5, 1_500));
        let mut newest = [None; CLASSIC_BUCKETS];
        one.add_to(&mut newest);
        other.add_to(&mut newest);
        let found: Vec<_> = newest.iter().flatten().map(|it| (it.trace, it.duration_ms)).collect();
        assert_eq!(found, [(trace(2), 4), (trace(3), 700)]);
    }

    #[test]
    fn a_core_does_not_wait_for_a_reader() {
        let exemplars = Exemplars::default();
        let reading = exemplars.0.lock().expect("no writer has panicked");
        let trace = TraceId::new([1; 16]).expect("a trace");
        exemplars.keep(Exemplar { trace, duration_ms: 1, unix_ms: 1 });
        assert!(reading.iter().all(Option::is_none));
    }
}
