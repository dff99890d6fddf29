//! Rounds: the instances that a node has heard of since its previous round.
//!
//! Encoding: version, flags, number (8 bytes, little endian), then ids, each with a length of two
//! bytes before it. A large round is split into parts. The last part is marked *whole*: it
//! completes the ids that were cut at one time.

use std::sync::{Arc, Mutex, PoisonError};

use crate::pulse::Pulse;

/// Version of the encoding. Nodes of different versions cannot share a registry.
const VERSION: u8 = 1;
const WHOLE: u8 = 1;
const LAST: u8 = 2;
const HEAD_BYTES: usize = 10;

/// Size after which a round is split: a fraction of what one row of a database's log may take.
pub(crate) const ROUND_BYTES_MAX: usize = 256 * 1024;

/// Round as decoded from another node's message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Round<'a> {
    /// Sequence number of the node's rounds.
    pub(crate) number: u64,
    /// Whether the round completes the ids that were cut at one time.
    pub(crate) is_whole: bool,
    /// Whether the node accepts no further heartbeats.
    pub(crate) is_last: bool,
    /// Instance ids, still encoded.
    pub(crate) ids: &'a [u8],
}

impl<'a> Round<'a> {
    /// Decodes a round. Returns `None` if the head is truncated or the version differs.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (head, ids) = bytes.split_at_checked(HEAD_BYTES)?;
        let [VERSION, flags, number @ ..] = head else { return None };
        let number = u64::from_le_bytes(number.try_into().ok()?);
        Some(Self { number, is_whole: flags & WHOLE != 0, is_last: flags & LAST != 0, ids })
    }

    /// Iterates over the ids; stops at the first malformed one.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &'a str> {
        let mut rest = self.ids;
        std::iter::from_fn(move || {
            let (length, ids) = rest.split_first_chunk::<2>()?;
            let (id, ids) = ids.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
            rest = ids;
            std::str::from_utf8(id).ok()
        })
    }
}

/// Encodes at least one round. The heads stay zero: numbers and flags are written when the round is
/// sent.
pub(crate) fn encode(pulses: &[Arc<Pulse>]) -> Vec<Vec<u8>> {
    let empty = || vec![0; HEAD_BYTES];
    let mut rounds = vec![empty()];
    for pulse in pulses {
        let id = pulse.id().as_bytes();
        // Never happens, because instance ids are far shorter.
        let Ok(length) = u16::try_from(id.len()) else { continue };
        if rounds.last().is_some_and(|round| round.len() + id.len() > ROUND_BYTES_MAX) {
            rounds.push(empty());
        }
        if let Some(round) = rounds.last_mut() {
            round.extend(length.to_le_bytes());
            round.extend(id);
        }
    }
    rounds
}

/// Head of a round; see [`Round`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct RoundHead {
    pub(crate) number: u64,
    pub(crate) is_whole: bool,
    pub(crate) is_last: bool,
}

/// Writes the head of an encoded round.
pub(crate) fn mark(round: &mut [u8], head: RoundHead) {
    let RoundHead { number, is_whole, is_last } = head;
    let flags = if is_whole { WHOLE } else { 0 } | if is_last { LAST } else { 0 };
    if let Some(head) = round.first_chunk_mut::<HEAD_BYTES>() {
        head[0] = VERSION;
        head[1] = flags;
        head[2..].copy_from_slice(&number.to_le_bytes());
    }
}

/// Instances heard of since the last round was cut, each once, so that the list is bounded by the
/// registered instances.
#[derive(Debug, Default)]
pub(crate) struct HeardInstances(Mutex<Vec<Arc<Pulse>>>);

impl HeardInstances {
    pub(crate) fn note(&self, pulse: &Arc<Pulse>) {
        if pulse.enter_round() {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(pulse));
        }
    }

    /// Takes out all instances heard of until now.
    pub(crate) fn cut(&self) -> Vec<Arc<Pulse>> {
        let cut = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        // A heartbeat that arrives before this line is covered by the round, which has not been
        // sent yet.
        cut.iter().for_each(|pulse| pulse.leave_round());
        cut
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pulses(count: usize) -> Vec<Arc<Pulse>> {
        (0..count).map(|number| Pulse::new(format!("{number:040}").into(), 0)).collect()
    }

    #[test]
    fn what_is_written_is_read_back_in_as_many_rounds_as_it_needs() {
        for count in [0, 1, 3, 20_000] {
            let pulses = pulses(count);
            let mut rounds = encode(&pulses);
            let whole = rounds.len() - 1;
            let mut ids = Vec::new();
            for (place, round) in rounds.iter_mut().enumerate() {
                let number = place as u64 + 9;
                mark(round, RoundHead { number, is_whole: place == whole, is_last: false });
                assert!(round.len() <= ROUND_BYTES_MAX + HEAD_BYTES);
                let round = Round::parse(round).expect("it is whole");
                assert_eq!((round.number, round.is_whole), (place as u64 + 9, place == whole));
                ids.extend(round.ids().map(str::to_owned));
            }
            assert!(ids.iter().map(|id| &**id).eq(pulses.iter().map(|pulse| &**pulse.id())));
        }
    }

    #[test]
    fn what_is_no_round_is_none_and_what_is_cut_short_ends_there() {
        for bytes in [&b""[..], &[1; 9], &[2; 20]] {
            assert_eq!(Round::parse(bytes), None);
        }
        let mut round = encode(&pulses(2)).remove(0);
        mark(&mut round, RoundHead { number: 1, is_whole: true, is_last: true });
        for length in HEAD_BYTES..round.len() {
            let read = Round::parse(&round[..length]).expect("its head is there").ids().count();
            assert_eq!(read, usize::from(length >= HEAD_BYTES + 42));
        }
    }

    #[test]
    fn each_is_in_a_round_once_and_in_the_next_one_if_heard_again() {
        let heard = HeardInstances::default();
        let one = Pulse::new("one".into(), 0);
        heard.note(&one);
        heard.note(&one);
        assert_eq!(heard.cut().len(), 1);
        assert!(heard.is_empty());
        heard.note(&one);
        assert_eq!(heard.cut().len(), 1);
    }
}
