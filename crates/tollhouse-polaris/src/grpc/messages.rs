//! Splitting of a call's bytes into messages: flag, length, message.
//!
//! A message within one piece is a view into that piece. A message spread over several pieces is
//! copied together; the buffer grows with the bytes that arrive, not with the announced length.

use bytes::{Buf, Bytes, BytesMut};

use super::budget::{Budget, Share};
use super::status::{Code, Status};

/// Size of the prefix: compression flag and length.
pub(super) const PREFIX_BYTES: usize = 5;

/// A complete message, with its share of the budget if it was copied together.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) bytes: Bytes,
    pub(super) share: Option<Share>,
}

/// Received bytes of a call that are not consumed yet.
#[derive(Debug)]
pub(super) struct Messages {
    /// Part of the last piece that is not yet split into messages.
    piece: Bytes,
    /// Beginning of an incomplete message, prefix included.
    partial: BytesMut,
    share: Share,
    message_bytes_max: usize,
}

impl Messages {
    pub(super) fn new(budget: &Budget, message_bytes_max: usize) -> Self {
        let share = budget.share();
        Self { piece: Bytes::new(), partial: BytesMut::new(), share, message_bytes_max }
    }

    /// Adds a piece. [`Self::next`] must have returned `None` before.
    pub(super) fn feed(&mut self, piece: Bytes) {
        debug_assert!(self.piece.is_empty(), "the last piece is used up");
        self.piece = piece;
    }

    /// Returns the next complete message.
    ///
    /// # Errors
    /// The status to end the call with, if the message is too long or compressed, or the budget is
    /// exhausted.
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

    /// Whether no partial message is left.
    pub(super) fn is_between(&self) -> bool {
        self.piece.is_empty() && self.partial.is_empty()
    }

    /// Returns the next message if it began in earlier pieces.
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

    /// Moves bytes into the partial message until it has `bytes`, or the piece is empty.
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

    /// Decodes the length in a prefix; `None` if the prefix is incomplete.
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
    /// Charges the message to the budget, unless it is charged already, because it will be kept.
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
