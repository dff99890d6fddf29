//! Passes a response on through the filters that plugins have installed.
//!
//! The body is taken out of the node's framing, goes through the filters piece by piece, and gets
//! framing of the gateway's own. As in `relay.rs`, every piece is written before more is read.

use std::io::IoSlice;
use std::task::{Context, Poll, ready};

use tollhouse_http::BodyLength;
use tollhouse_http::chunked::{LAST_CHUNK, SizeLine};
use tollhouse_plugin::Effect;

use super::body_source::{Arrived, BodySource};
use super::coding::Coding;
use super::relay::{BodyRelay, Progress, RelayError};
use super::trailers::TrailerLines;
use super::{Sides, Waiting};
use crate::connection::link::Link;
use crate::grpc::MessageMeter;
use crate::plugins::state::Filters;

/// A filtered response on its way to the client.
pub(crate) struct FilteredRelay {
    source: BodySource,
    /// Whether the filters know that nothing more comes.
    is_finished: bool,
    coding: Coding,
    filters: Filters,
    /// Lines behind the node's body, and whether the client gets what filters leave of them.
    trailers: Box<TrailerLines>,
    passes_trailers: bool,
    /// How long the messages of a call may be, where that is limited.
    pub meter: Option<Box<MessageMeter>>,
    /// The piece under way, and room for what a filter makes of it.
    piece: Vec<u8>,
    made: Vec<u8>,
    out_sent: usize,
    progress: Progress,
}

impl FilteredRelay {
    /// For a response body delimited as `body` and written as `coding` says. A body that has none
    /// of its own may still get one from the filters. Lines behind it go out where `trailers` are given.
    pub(crate) fn new(
        body: BodyLength,
        coding: Coding,
        trailers: Option<Box<TrailerLines>>,
        filters: Filters,
    ) -> Self {
        Self {
            source: BodySource::new(body),
            is_finished: false,
            coding,
            filters,
            passes_trailers: trailers.is_some(),
            trailers: trailers.unwrap_or_default(),
            meter: None,
            piece: Vec::new(),
            made: Vec::new(),
            out_sent: 0,
            progress: Progress::new(),
        }
    }

    fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        out: &mut Vec<u8>,
        sides: &mut Sides<'_>,
    ) -> Poll<Result<(), RelayError>> {
        while self.out_sent < out.len() {
            self.progress.waiting = Waiting::DownstreamWrite;
            let parts = [IoSlice::new(&out[self.out_sent..])];
            let written = ready!(sides.downstream.stream.poll_write(context, &parts))
                .map_err(|_| RelayError::DownstreamGone)?;
            if written == 0 {
                return Poll::Ready(Err(RelayError::DownstreamGone));
            }
            self.progress.count_written(written);
            self.out_sent += written;
        }
        out.clear();
        self.out_sent = 0;
        Poll::Ready(Ok(()))
    }

    /// Takes the next piece of the body out of the node's buffer. `Some(true)` for the last one,
    /// `None` when more must arrive first.
    fn take_piece(&mut self, upstream: &mut Link) -> Result<Option<bool>, RelayError> {
        self.piece.clear();
        if self.is_finished {
            return Ok(None);
        }
        let filled = upstream.buffer.filled();
        let consumed = match self.source.take(filled.len()) {
            Arrived::Data(bytes) => {
                self.piece.extend_from_slice(&filled[..bytes]);
                bytes
            }
            Arrived::Chunks(decoder) => {
                // Filters see data without chunks, however they came.
                let mut at = 0;
                while at < filled.len() && !decoder.is_done() {
                    let is_trailer = decoder.is_in_trailers();
                    let step = decoder.step(&filled[at..]).map_err(|_| RelayError::BadBody)?;
                    if is_trailer {
                        self.trailers.add(&filled[at..at + step.consumed]);
                    }
                    self.piece.extend_from_slice(&filled[at..][step.data]);
                    at += step.consumed;
                }
                at
            }
        };
        upstream.buffer.consume(consumed);
        self.source.look_at_chunks();
        let is_last = self.source.is_ended();
        self.is_finished = is_last;
        if self.meter.as_mut().is_some_and(|meter| !meter.admits(&self.piece)) {
            return Err(RelayError::MessageTooLarge);
        }
        Ok((is_last || !self.piece.is_empty()).then_some(is_last))
    }

    /// Sends the piece through the filters and frames what comes out.
    fn emit(&mut self, is_last: bool, out: &mut Vec<u8>) -> Result<(), RelayError> {
        for (effect, filter) in &mut self.filters {
            if is_last {
                filter.trailers(self.trailers.section());
            }
            self.made.clear();
            filter.filter(&self.piece, is_last, &mut self.made);
            if filter.has_failed() {
                return Err(RelayError::MemoryLimit);
            }
            if *effect == Effect::Rewrites {
                std::mem::swap(&mut self.piece, &mut self.made);
            }
        }
        let is_chunk = self.coding == Coding::Chunked && !self.piece.is_empty();
        if is_chunk {
            out.extend_from_slice(SizeLine::new(self.piece.len()).as_bytes());
        }
        out.extend_from_slice(&self.piece);
        if is_chunk {
            out.extend_from_slice(b"\r\n");
        }
        if is_last && self.coding == Coding::Chunked {
            match self.passes_trailers {
                true => self.trailers.write_last_chunk(out),
                false => out.extend_from_slice(LAST_CHUNK),
            }
        }
        Ok(())
    }

    fn poll_receive(
        &mut self,
        context: &mut Context<'_>,
        sides: &mut Sides<'_>,
    ) -> Poll<Result<(), RelayError>> {
        self.progress.waiting = Waiting::UpstreamRead;
        match ready!(sides.upstream.poll_fill(context, sides.buffers)) {
            Ok(0) if self.source.ends_with_stream() => {}
            Ok(0) | Err(_) => return Poll::Ready(Err(RelayError::UpstreamTruncated)),
            Ok(read) => self.progress.moved += read as u64,
        }
        Poll::Ready(Ok(()))
    }
}

impl BodyRelay for FilteredRelay {
    fn poll_send(
        &mut self,
        context: &mut Context<'_>,
        out: &mut Vec<u8>,
        sides: &mut Sides<'_>,
    ) -> Poll<Result<(), RelayError>> {
        loop {
            if let Some(is_last) = self.take_piece(sides.upstream)? {
                self.emit(is_last, out)?;
            }
            ready!(self.poll_write(context, out, sides))?;
            if sides.upstream.buffer.is_empty() || self.is_finished {
                ready!(sides.downstream.stream.poll_flush(context))
                    .map_err(|_| RelayError::DownstreamGone)?;
            }
            if self.is_finished {
                return Poll::Ready(Ok(()));
            }
            if !self.source.is_ended() {
                ready!(self.poll_receive(context, sides))?;
            }
        }
    }

    fn progress(&self) -> &Progress {
        &self.progress
    }
}
