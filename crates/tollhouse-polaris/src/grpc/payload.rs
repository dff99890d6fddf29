//! Transmission of an answer: HTTP/2 takes bytes from a [`Payload`] as the client's window opens.
//!
//! Pieces are shared with other clients, and fetched from the chain when they are sent.

use bytes::{Buf, Bytes, BytesMut};

use super::budget::{Budget, Share};
use super::limits::{CHAIN_BYTES, GATHERED_BYTES, GATHERED_PIECE_BYTES_MAX, UNCOUNTED_BYTES_MAX};
use super::messages::PREFIX_BYTES;
use super::pinned::Pin;
use super::status::{Code, Status};
use super::unsent::UnsentAnswer;
use crate::answer::{Answer, Chunks};

/// Maximum length that a prefix can announce.
const ANSWER_BYTES_MAX: usize = u32::MAX as usize;

/// Filler for a chain that ends before its announced length. The client of the call cannot decode
/// the answer, but other calls of the connection are not affected.
static PADDING: [u8; 1_024] = [0; 1_024];

impl Answer {
    /// Converts the answer to a payload.
    ///
    /// # Errors
    /// The status to send instead, if the answer is too long for gRPC or the client's budget is
    /// exhausted.
    pub(super) fn into_payload(self, budget: &Budget) -> Result<Payload, Status> {
        if self.length > ANSWER_BYTES_MAX {
            let message = "the answer is longer than a message can be";
            return Err(Status::new(Code::ResourceExhausted, message));
        }
        let is_long = self.length > UNCOUNTED_BYTES_MAX;
        let (mut share, mut pin) = (None, None);
        // An answer for this client alone is charged to it. A shared one costs each client nothing,
        // but old versions stay in memory while any client still reads them.
        if is_long && !self.is_shared {
            share.insert(budget.share()).take(self.length)?;
        } else if is_long {
            let more = if self.rest.is_some() { CHAIN_BYTES } else { 0 };
            let place = self.first.as_ptr() as usize;
            pin = Some(budget.pinned().hold(place, self.first.len() + more)?);
        }
        let mut prefix = [0; PREFIX_BYTES];
        prefix[1..].copy_from_slice(&(self.length as u32).to_be_bytes());
        let remaining = PREFIX_BYTES + self.length;
        let mut payload = Payload {
            prefix,
            prefix_sent: 0,
            current: self.first,
            rest: self.rest.map(Gather::new),
            remaining,
            on_its_way: budget.unsent().begin(),
            _share: share,
            _pin: pin,
        };
        payload.refill();
        Ok(payload)
    }
}

/// A message in transmission, prefix included.
pub(super) struct Payload {
    prefix: [u8; PREFIX_BYTES],
    prefix_sent: u8,
    /// The piece being sent; never empty while message bytes remain.
    current: Bytes,
    rest: Option<Gather>,
    remaining: usize,
    on_its_way: UnsentAnswer,
    _share: Option<Share>,
    _pin: Option<Pin>,
}

/// Joins small pieces, because HTTP/2's cost per piece exceeds that of copying two hundred bytes.
/// At most one frame is copied at a time.
struct Gather {
    pieces: Box<dyn Chunks>,
    /// The next piece, which did not fit.
    held: Option<Bytes>,
    scratch: BytesMut,
}

impl Gather {
    fn new(pieces: Box<dyn Chunks>) -> Self {
        Self { pieces, held: None, scratch: BytesMut::new() }
    }

    fn next(&mut self) -> Option<Bytes> {
        let first = self.held.take().or_else(|| self.pieces.next())?;
        if first.len() > GATHERED_PIECE_BYTES_MAX {
            return Some(first);
        }
        // Reuses the memory of the previous joined piece, which was sent already.
        self.scratch.reserve(GATHERED_BYTES);
        self.scratch.extend_from_slice(&first);
        while let Some(piece) = self.pieces.next() {
            let is_small = piece.len() <= GATHERED_PIECE_BYTES_MAX;
            if !is_small || self.scratch.len() + piece.len() > GATHERED_BYTES {
                self.held = Some(piece);
                break;
            }
            self.scratch.extend_from_slice(&piece);
        }
        Some(self.scratch.split().freeze())
    }
}

impl Payload {
    /// Returns a body without a message prefix.
    pub(super) fn plain(text: &'static [u8], budget: &Budget) -> Self {
        Self {
            prefix: [0; PREFIX_BYTES],
            prefix_sent: PREFIX_BYTES as u8,
            current: Bytes::from_static(text),
            rest: None,
            remaining: text.len(),
            on_its_way: budget.unsent().begin(),
            _share: None,
            _pin: None,
        }
    }

    /// Returns the unsent bytes, prefix included.
    pub(super) fn remaining_bytes(&self) -> usize {
        self.remaining
    }

    fn prefix_left(&self) -> &[u8] {
        &self.prefix[usize::from(self.prefix_sent)..]
    }

    /// Returns the unsent bytes of the message, without the prefix.
    fn message_left(&self) -> usize {
        self.remaining - self.prefix_left().len()
    }

    /// Fetches the next piece if the current one is used up, and truncates it to the announced
    /// length.
    fn refill(&mut self) {
        let left = self.message_left();
        while self.current.is_empty() && left > 0 {
            // Drops the used piece first, so that its memory can be reused.
            self.current = Bytes::new();
            self.current = match self.rest.as_mut().and_then(Gather::next) {
                Some(piece) => piece,
                None => {
                    debug_assert!(false, "a chain is as long as it was said to be");
                    Bytes::from_static(&PADDING)
                }
            };
        }
        debug_assert!(self.current.len() <= left, "a chain is no longer than it was said to be");
        self.current.truncate(left);
    }
}

impl Payload {
    /// Returns the next bytes to send: the rest of the prefix, and a piece of the message. Both are
    /// empty only at the end.
    pub(super) fn front(&self) -> (&[u8], &[u8]) {
        (self.prefix_left(), &self.current)
    }

    /// Removes `count` bytes from the front, which have been sent.
    pub(super) fn advance(&mut self, mut count: usize) {
        assert!(count <= self.remaining, "no more is sent than there is");
        self.on_its_way.advance(count);
        let of_prefix = count.min(self.prefix_left().len());
        self.prefix_sent += of_prefix as u8;
        self.remaining -= of_prefix;
        count -= of_prefix;
        while count > 0 {
            let of_piece = count.min(self.current.len());
            self.current.advance(of_piece);
            self.remaining -= of_piece;
            count -= of_piece;
            self.refill();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: &str = match std::str::from_utf8(&[b'l'; GATHERED_PIECE_BYTES_MAX + 1]) {
        Ok(text) => text,
        Err(_) => "",
    };

    struct Pieces(&'static [&'static str]);

    impl Chunks for Pieces {
        fn next(&mut self) -> Option<Bytes> {
            let (first, rest) = self.0.split_first()?;
            self.0 = rest;
            Some(Bytes::from_static(first.as_bytes()))
        }
    }

    fn chain(first: &'static str, pieces: &'static [&'static str]) -> Answer {
        let length = first.len() + pieces.iter().map(|piece| piece.len()).sum::<usize>();
        Answer::chain(Bytes::from_static(first.as_bytes()), length, Pieces(pieces))
    }

    fn taken(answer: Answer, step: usize) -> Vec<u8> {
        let mut payload = answer.into_payload(&Budget::default()).expect("short");
        let mut taken = Vec::new();
        while payload.remaining_bytes() > 0 {
            let (prefix, piece) = payload.front();
            let front = [prefix, piece].concat();
            assert!(!front.is_empty());
            let size = front.len().min(step);
            taken.extend_from_slice(&front[..size]);
            payload.advance(size);
        }
        taken
    }

    #[test]
    fn an_answer_travels_whole_whatever_its_pieces_are() {
        for (case, pieces) in [
            ("no pieces", &[][..]),
            ("one", &["cd"]),
            ("several", &["c", "d", "efg"]),
            ("empty ones", &["", "c", "", "", "de", ""]),
            ("long ones", &["c", LONG, "d", LONG, LONG]),
        ] {
            for first in ["", "ab"] {
                let whole = chain(first, pieces).into_bytes();
                let length = (whole.len() as u32).to_be_bytes();
                let expected = [&[0], &length[..], &whole].concat();
                for step in [1, 2, 3, 7, 5_000, 100_000] {
                    assert_eq!(taken(chain(first, pieces), step), expected, "{case} by {step}");
                }
            }
        }
    }

    #[test]
    fn advancing_over_several_pieces_keeps_the_count() {
        let payload = chain("ab", &["c", "", "def"]).into_payload(&Budget::default());
        let mut payload = payload.expect("short");
        payload.advance(9);
        let none = &b""[..];
        assert_eq!((payload.remaining_bytes(), payload.front()), (2, (none, &b"ef"[..])));
        payload.advance(2);
        assert_eq!((payload.remaining_bytes(), payload.front()), (0, (none, none)));
    }

    #[test]
    fn small_pieces_are_taken_together_up_to_a_frame() {
        let piece = [&LONG[1..]; 40];
        let pieces = Pieces(Box::leak(Box::new(piece)));
        let answer = Answer::chain(Bytes::new(), 40 * GATHERED_PIECE_BYTES_MAX, pieces);
        let mut payload = answer.into_payload(&Budget::default()).expect("short");
        payload.advance(PREFIX_BYTES);
        let mut sizes = Vec::new();
        while payload.remaining_bytes() > 0 {
            let size = payload.front().1.len();
            sizes.push(size);
            payload.advance(size);
        }
        assert_eq!(sizes, [GATHERED_BYTES, GATHERED_BYTES, 8 * GATHERED_PIECE_BYTES_MAX]);
    }

    #[test]
    fn long_answers_of_one_client_count_until_they_are_sent() {
        let budget = Budget::default();
        let long = || Answer::from(Bytes::from(vec![0; 8 << 20]));
        let kept: Vec<_> = (0..4).map(|_| long().into_payload(&budget).expect("room")).collect();
        let refused = long().into_payload(&budget).err().map(|status| status.code);
        assert_eq!(refused, Some(Code::ResourceExhausted));
        Answer::shared(vec![0; 8 << 20].into()).into_payload(&budget).expect("shared");
        drop(kept);
        long().into_payload(&budget).expect("room again");
    }
}
