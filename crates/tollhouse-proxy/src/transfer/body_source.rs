//! Rest of a message body still to be received, by its delimiter; shared by requests (`pump.rs`)
//! and responses (`relay.rs`, `filtered.rs`). Framing for sending is in `coding.rs`.

use tollhouse_http::{BodyLength, ChunkedDecoder};

/// Framing of a body that is being received, with its progress.
#[derive(Debug)]
pub(crate) enum BodySource {
    /// Number of bytes that are left.
    Remaining(u64),
    /// Chunks up to the last one.
    Chunked(ChunkedDecoder),
    /// All bytes up to the end of the stream.
    UntilClose,
    /// The whole body has been received.
    Ended,
}

/// Data of a body found in a buffer.
pub(crate) enum Arrived<'s> {
    /// Number of body bytes, without framing.
    Data(usize),
    /// Chunks that must be decoded; call [`BodySource::look_at_chunks`] afterwards.
    Chunks(&'s mut ChunkedDecoder),
}

impl BodySource {
    /// Creates the state for a node's body, delimited as its head declares.
    #[inline]
    pub(crate) fn for_answer(body: BodyLength) -> Self {
        match body {
            BodyLength::Chunked => BodySource::Chunked(ChunkedDecoder::for_answer()),
            body => Self::new(body),
        }
    }

    /// Creates the state for a client's body, delimited as its head declares.
    #[inline]
    pub(crate) fn new(body: BodyLength) -> Self {
        match body {
            BodyLength::None => BodySource::Ended,
            BodyLength::Known(bytes) => BodySource::Remaining(bytes),
            BodyLength::Chunked => BodySource::Chunked(ChunkedDecoder::new()),
            BodyLength::UntilClose => BodySource::UntilClose,
        }
    }

    /// Whether the whole body has been received.
    #[inline]
    pub(crate) fn is_ended(&self) -> bool {
        matches!(self, BodySource::Ended)
    }

    /// Marks those of `buffered` bytes as received that belong to the body.
    #[inline]
    pub(crate) fn take(&mut self, buffered: usize) -> Arrived<'_> {
        match self {
            BodySource::Ended => Arrived::Data(0),
            BodySource::UntilClose => Arrived::Data(buffered),
            BodySource::Chunked(decoder) => Arrived::Chunks(decoder),
            BodySource::Remaining(remaining) => {
                // Bytes after the body belong to the next message.
                let taken = buffered.min(usize::try_from(*remaining).unwrap_or(usize::MAX));
                *remaining -= taken as u64;
                if *remaining == 0 {
                    *self = BodySource::Ended;
                }
                Arrived::Data(taken)
            }
        }
    }

    /// Ends the body if its last chunk has been decoded.
    #[inline]
    pub(crate) fn look_at_chunks(&mut self) {
        if matches!(self, BodySource::Chunked(decoder) if decoder.is_done()) {
            *self = BodySource::Ended;
        }
    }

    /// Handles the end of the sender's stream; returns whether it completes the body instead of
    /// truncating it.
    pub(crate) fn ends_with_stream(&mut self) -> bool {
        let is_end = matches!(self, BodySource::UntilClose);
        if is_end {
            *self = BodySource::Ended;
        }
        is_end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(source: &mut BodySource, buffered: usize) -> usize {
        match source.take(buffered) {
            Arrived::Data(bytes) => bytes,
            Arrived::Chunks(_) => panic!("no chunks were announced"),
        }
    }

    #[test]
    fn a_known_length_ends_with_its_last_byte_and_leaves_what_is_behind() {
        let mut source = BodySource::new(BodyLength::Known(5));
        assert_eq!((taken(&mut source, 3), source.is_ended()), (3, false));
        assert!(!source.ends_with_stream());
        assert_eq!((taken(&mut source, 9), source.is_ended()), (2, true));
        assert_eq!(taken(&mut source, 7), 0);
    }

    #[test]
    fn an_empty_body_ends_at_its_first_look() {
        let mut source = BodySource::new(BodyLength::Known(0));
        assert_eq!((taken(&mut source, 4), source.is_ended()), (0, true));
        assert!(BodySource::new(BodyLength::None).is_ended());
    }

    #[test]
    fn chunks_end_with_the_last_one() {
        let mut source = BodySource::new(BodyLength::Chunked);
        for (bytes, is_ended) in [("3\r\nabc\r\n", false), ("0\r\n\r\n", true)] {
            let Arrived::Chunks(decoder) = source.take(bytes.len()) else { panic!("chunks") };
            let mut bytes = bytes.as_bytes().to_vec();
            decoder.undo(&mut bytes, |_| {}).expect("good chunks");
            source.look_at_chunks();
            assert_eq!(source.is_ended(), is_ended);
        }
    }

    #[test]
    fn only_a_body_without_a_length_ends_with_the_stream() {
        let mut source = BodySource::new(BodyLength::UntilClose);
        assert_eq!((taken(&mut source, 8), source.is_ended()), (8, false));
        assert!(source.ends_with_stream() && source.is_ended());
        assert!(!BodySource::new(BodyLength::Chunked).ends_with_stream());
    }
}
