//! Cuts the bytes of a call into messages: a flag, a length, the message.
//!
//! A message that came in one piece is a view into that piece; only one that is spread over several is
//! put together by copying, and grows with what has arrived, not with what was announced.

use bytes::{Buf, Bytes, BytesMut};

use super::budget::{Budget, Share};
use super::status::{Code, Status};

/// Bytes in front of a message: whether it is compressed, and its length.
pub(super) const PREFIX_BYTES: usize = 5;

/// A whole message, and what it takes of its connection's budget where it was put together.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) bytes: Bytes,
    pub(super) share: Option<Share>,
}

/// The bytes of one call that have arrived and were not asked for yet.
#[derive(Debug)]
pub(super) struct Messages {
    /// What is left of the last piece.
    piece: Bytes,
    /// The beginning of a message that is not whole, prefix included.
    partial: BytesMut,
    share: Share,
    message_bytes_max: usize,
}

impl Messages {
    pub(super) fn new(budget: &Budget, message_bytes_max: usize) -> Self {
        let share = budget.share();
        Self { piece: Bytes::new(), partial: BytesMut::new(), share, message_bytes_max }
    }

    /// Takes the next piece. [`Self::next`] has been asked until it had no more.
    pub(super) fn feed(&mut self, piece: Bytes) {
        debug_assert!(self.piece.is_empty(), "the last piece is used up");
        self.piece = piece;
    }

    /// The next whole message.
    ///
    /// # Errors
    /// The status that the call ends with: too long, compressed, or too much held already.
    pub(super) fn next(&mut self) -> Result<Option<Message>, Status> {
        if self.is_between() {
            return Ok(None);
        }
        if !self.partial.is_empty() {
            return self.next_spread();
        }
        let Some(length) = self.announced(&self.piece)? else { return self.keep_rest() };
        if self.piece.len() < PREFIX_BYTES + length {
            return self.keep_rest();
        }
        self.piece.advance(PREFIX_BYTES);
        Ok(Some(Message { bytes: self.piece.split_to(length), share: None }))
    }

    /// Whether no part of a message is left over.
    pub(super) fn is_between(&self) -> bool {
        self.piece.is_empty() && self.partial.is_empty()
    }

    /// The next message, whose beginning came in earlier pieces.
    fn next_spread(&mut self) -> Result<Option<Message>, Status> {
        self.take_up_to(PREFIX_BYTES)?;
        let Some(length) = self.announced(&self.partial)? else { return Ok(None) };
        let whole_bytes = PREFIX_BYTES + length;
        self.take_up_to(whole_bytes)?;
        if self.partial.len() < whole_bytes {
            return Ok(None);
        }
        let mut bytes = std::mem::take(&mut self.partial).freeze();
        bytes.advance(PREFIX_BYTES);
        Ok(Some(Message { bytes, share: Some(self.share.split()) }))
    }

    /// Moves bytes from the piece until the partial message has `bytes` of them, or none are left.
    fn take_up_to(&mut self, bytes: usize) -> Result<(), Status> {
        let missing = bytes.saturating_sub(self.partial.len()).min(self.piece.len());
        self.share.take(missing)?;
        self.partial.extend_from_slice(&self.piece.split_to(missing));
        Ok(())
    }

    fn keep_rest(&mut self) -> Result<Option<Message>, Status> {
        let rest = std::mem::take(&mut self.piece);
        self.share.take(rest.len())?;
        self.partial.extend_from_slice(&rest);
        Ok(None)
    }

    /// The length that a prefix tells; `None` while it is not whole.
    fn announced(&self, bytes: &[u8]) -> Result<Option<usize>, Status> {
        let Some((prefix, _)) = bytes.split_first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
        let [flag, length @ ..] = *prefix;
        if flag != 0 {
            let message = "compressed messages are not understood here";
            return Err(Status::new(Code::Unimplemented, message));
        }
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if length > self.message_bytes_max {
            let limit = self.message_bytes_max;
            let message = format!("received message larger than max ({length} vs. {limit})");
            return Err(Status::new(Code::ResourceExhausted, message));
        }
        Ok(Some(length))
    }
}

impl Message {
    /// Counts the message, if it is not counted yet: it is going to be kept.
    pub(super) fn counted(self, budget: &Budget) -> Result<Self, Status> {
        let share = match self.share {
            Some(share) => share,
            None => {
                let mut share = budget.share();
                share.take(self.bytes.len())?;
                share
            }
        };
        Ok(Self { bytes: self.bytes, share: Some(share) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::limits::HELD_BYTES_MAX;

    fn messages(message_bytes_max: usize) -> Messages {
        Messages::new(&Budget::default(), message_bytes_max)
    }

    #[test]
    fn messages_are_found_however_their_bytes_are_split() {
        let bytes = b"\0\0\0\0\x02ab\0\0\0\0\0\0\0\0\0\x01c";
        for size in 1..=bytes.len() {
            let mut messages = messages(2);
            let mut found = Vec::new();
            for piece in bytes.chunks(size) {
                messages.feed(Bytes::copy_from_slice(piece));
                while let Some(message) = messages.next().expect("short and plain") {
                    found.push(message.bytes);
                }
            }
            assert_eq!(found, [&b"ab"[..], b"", b"c"], "{size}");
            assert!(messages.is_between());
        }
    }

    #[test]
    fn long_and_compressed_messages_are_refused_by_their_prefix() {
        for (prefix, code) in [
            (&b"\0\0\0\0\x03"[..], Code::ResourceExhausted),
            (b"\0\xff\xff\xff\xff", Code::ResourceExhausted),
            (b"\x01\0\0\0\x01", Code::Unimplemented),
        ] {
            for cut in [1, 3, 5] {
                let mut messages = messages(2);
                let mut verdict = None;
                for piece in prefix.chunks(cut) {
                    messages.feed(Bytes::copy_from_slice(piece));
                    verdict = messages.next().err().map(|status| status.code);
                }
                assert_eq!(verdict, Some(code), "{prefix:?} {cut}");
            }
        }
    }

    #[test]
    fn unfinished_messages_of_a_connection_share_one_budget() {
        let budget = Budget::default();
        let half = HELD_BYTES_MAX / 2 + 1;
        let mut piece = vec![0, 0x7f, 0xff, 0xff, 0xff];
        piece.resize(half, 0);
        let mut first = Messages::new(&budget, usize::MAX);
        first.feed(piece.clone().into());
        assert!(matches!(first.next(), Ok(None)));
        let mut second = Messages::new(&budget, usize::MAX);
        second.feed(piece.into());
        let refused = second.next().err().map(|status| status.code);
        assert_eq!(refused, Some(Code::ResourceExhausted));
    }

    #[test]
    fn a_whole_message_keeps_its_share_until_it_is_dropped() {
        let budget = Budget::default();
        let put_together = || {
            let mut messages = Messages::new(&budget, usize::MAX);
            let length = HELD_BYTES_MAX / 2;
            let prefix = [&[0][..], &u32::try_from(length).expect("short").to_be_bytes()].concat();
            messages.feed(prefix.into());
            assert!(matches!(messages.next(), Ok(None)));
            messages.feed(vec![0; length].into());
            messages.next().map_err(|status| status.code)
        };
        let first = put_together().expect("room").expect("whole");
        assert_eq!(put_together().err(), Some(Code::ResourceExhausted));
        let counted = Message { bytes: first.bytes.clone(), share: None }.counted(&budget);
        assert!(counted.is_err(), "one that came in one piece counts when it is kept");
        drop(first);
        assert!(put_together().is_ok());
    }
}
