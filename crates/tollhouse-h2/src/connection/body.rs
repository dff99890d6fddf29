//! Received DATA (RFC 9113 §6.1): checked by its header, and passed on in pieces as it arrives.

use super::{Connection, Ending};
use crate::event::{Event, ResetCause};
use crate::field::Malformed;
use crate::frame::{self, FrameHeader, flag};
use crate::message::EndStream;
use crate::stream::{Half, Reset};
use crate::{ConnectionError, ErrorCode, StreamId};

/// A DATA frame that has not fully arrived.
#[derive(Debug, Clone, Copy)]
pub(super) struct DataFrame {
    stream: StreamId,
    /// Number of bytes of DATA that have not arrived yet; includes the padding until its length is
    /// known.
    left: u32,
    padding: u32,
    ends: bool,
    step: Step,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The pad length octet comes next.
    PadLength,
    /// The lengths are known but not checked yet.
    Check,
    Data,
}

/// The recipient of a DATA frame.
enum Recipient {
    Stream(StreamId),
    Nobody,
    /// The DATA has no recipient, and the stream is reset.
    Fault(StreamId, ErrorCode),
}

impl Connection {
    /// Takes a frame's bytes from the windows, also if it has no recipient (RFC 9113 §5.2.2, §6.9),
    /// and starts reading its payload.
    pub(super) fn begin_data(&mut self, header: FrameHeader) -> Result<(), ConnectionError> {
        if header.stream == 0 {
            return Err(ConnectionError::protocol("DATA without a stream"));
        }
        let is_padded = header.has(flag::PADDED);
        if is_padded && header.length == 0 {
            return Err(ConnectionError::frame_size("DATA too short for its flags"));
        }
        // The window is charged before the recipient is known, because frames of closed streams
        // count too. Otherwise the two sides' windows would differ.
        self.charge_connection(header.length)?;
        match self.recipient(header)? {
            Recipient::Stream(stream) => {
                self.read_on_with_data(DataFrame {
                    stream,
                    left: header.length,
                    padding: 0,
                    ends: header.has(flag::END_STREAM),
                    step: if is_padded { Step::PadLength } else { Step::Check },
                });
            }
            Recipient::Nobody => {
                self.counters.late_frames += 1;
                self.skip(header.length);
            }
            Recipient::Fault(stream, code) => {
                self.pending_event = Some(self.reset_held(stream, code)?);
                self.skip(header.length);
            }
        }
        Ok(())
    }

    fn recipient(&mut self, header: FrameHeader) -> Result<Recipient, ConnectionError> {
        let closed = |reason| Err(ConnectionError::new(ErrorCode::STREAM_CLOSED, reason));
        let is_strict = self.fails_on_faults();
        let Some(id) = self.streams.find(header.stream) else {
            if self.is_idle(header.stream) {
                return Err(ConnectionError::protocol("DATA on a stream that has not begun"));
            }
            return match self.ending(header.stream) {
                Some(Ending::ByUs) | None => Ok(Recipient::Nobody),
                Some(Ending::Complete | Ending::ByPeer) => closed("DATA on a closed stream"),
            };
        };
        let Some(stream) = self.streams.get_mut(id) else { return Ok(Recipient::Nobody) };
        match (stream.reset, stream.receiving) {
            (Reset::ByUs, _) => Ok(Recipient::Nobody),
            (Reset::ByPeer, _) => closed("DATA after RST_STREAM"),
            (Reset::None, Half::Closed) if is_strict => closed("DATA after END_STREAM"),
            (Reset::None, Half::Closed) => Ok(Recipient::Fault(id, ErrorCode::STREAM_CLOSED)),
            (Reset::None, Half::Idle) => {
                self.note_malformed(Malformed::Sequence);
                Ok(Recipient::Fault(id, ErrorCode::PROTOCOL_ERROR))
            }
            (Reset::None, Half::Body) => {
                // Until the peer acknowledges our settings, it may still use the larger default
                // window.
                let slack = if stream.is_early { self.local.early_slack() } else { 0 };
                stream.receive_window -= header.length as i32;
                if stream.receive_window < -slack {
                    return Err(ConnectionError::flow_control("more DATA than its window allows"));
                }
                Ok(Recipient::Stream(id))
            }
        }
    }

    /// Continues with a DATA frame; `None` when it needs more bytes.
    #[inline]
    pub(super) fn read_data<'a>(
        &mut self,
        mut frame: DataFrame,
        input: &mut &'a [u8],
    ) -> Result<Option<Option<Event<'a>>>, ConnectionError> {
        let is_there = |stream: &crate::stream::Stream| stream.receiving == Half::Body;
        if !self.streams.get(frame.stream).is_some_and(is_there) {
            // It was reset or released in the meantime.
            self.skip(frame.left + frame.padding);
            return Ok(Some(None));
        }
        if frame.step == Step::PadLength {
            let Some((&length, rest)) = input.split_first() else { return Ok(None) };
            *input = rest;
            frame.padding = u32::from(length);
            frame.left = (frame.left - 1)
                .checked_sub(frame.padding)
                .ok_or(ConnectionError::protocol("DATA with more padding than payload"))?;
            frame.step = Step::Check;
        }
        if frame.step == Step::Check {
            if let Some(event) = self.check_data(&frame)? {
                self.skip(frame.left + frame.padding);
                return Ok(Some(Some(event)));
            }
            frame.step = Step::Data;
        }
        if frame.left > 0 && input.is_empty() {
            self.read_on_with_data(frame);
            return Ok(None);
        }
        let (data, rest) = input.split_at((frame.left as usize).min(input.len()));
        frame.left -= data.len() as u32;
        // Padding that has arrived is taken with the data, so that the end is reported at once.
        let padding = if frame.left == 0 { (frame.padding as usize).min(rest.len()) } else { 0 };
        frame.padding -= padding as u32;
        *input = &rest[padding..];
        let is_whole = frame.left + frame.padding == 0;
        if data.is_empty() && padding == 0 && !is_whole {
            self.read_on_with_data(frame);
            return Ok(None);
        }
        if is_whole {
            self.skip(0);
        } else {
            self.read_on_with_data(frame);
        }
        let ends = is_whole && frame.ends;
        if !self.hand_out(frame.stream, data.len() as u32, ends.into()) {
            self.skip(frame.left + frame.padding);
            return Ok(Some(Some(self.reset_for_memory(frame.stream))));
        }
        if data.is_empty() && !ends {
            return Ok(Some(None));
        }
        Ok(Some(Some(Event::Data { stream: frame.stream, data, ends })))
    }

    /// Checks a frame once its lengths are known, against `content-length` and the limit on empty
    /// frames.
    fn check_data(&mut self, frame: &DataFrame) -> Result<Option<Event<'static>>, ConnectionError> {
        if frame.left == 0 && !frame.ends {
            self.counters.empty_data += 1;
            self.take_empty_frame()?;
        }
        let Some(stream) = self.streams.get_mut(frame.stream) else { return Ok(None) };
        if let Some(body_left) = &mut stream.body_left {
            let length = u64::from(frame.left);
            let is_wrong = if frame.ends { length != *body_left } else { length > *body_left };
            if is_wrong {
                let event = self.reset_malformed(frame.stream, Malformed::BodyLength)?;
                return Ok(Some(event));
            }
            *body_left -= length;
        }
        self.credit_padding(frame.stream, frame.padding);
        Ok(None)
    }

    /// Records a piece as handed out; `false` when memory is too low for it.
    fn hand_out(&mut self, id: StreamId, length: u32, ends: EndStream) -> bool {
        let Some(stream) = self.streams.get_mut(id) else { return true };
        stream.unread += length;
        if ends == EndStream::Yes {
            stream.receiving = Half::Closed;
        }
        self.book_unread(length)
    }

    /// Resets a stream because memory is too low for its data, which is not the peer's fault.
    #[cold]
    fn reset_for_memory(&mut self, id: StreamId) -> Event<'static> {
        let code = ErrorCode::ENHANCE_YOUR_CALM;
        self.counters.unbudgeted_streams += 1;
        frame::write_reset(&mut self.output.bytes, id.number(), code);
        self.close_stream(id, Reset::ByUs);
        Event::Reset { stream: id, code, cause: ResetCause::Memory }
    }
}
