//! Relays a response through the body filters of plugins.
//!
//! The body is removed from the node's framing, passes the filters piece by piece, and is framed
//! again. As in `relay.rs`, every piece is written before more is read. A piece with much work for
//! the filters is processed on a thread for long bodies (`offload.rs`).

use std::future::Future;
use std::io::IoSlice;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tollhouse_http::BodyLength;
use tollhouse_http::chunked::{LAST_CHUNK, SizeLine};
use tollhouse_plugin::{BodyFilter, Effect, Piece};

use super::body_source::{Arrived, BodySource};
use super::coding::Coding;
use super::relay::{BodyRelay, Progress, RelayError};
use super::trailers::TrailerLines;
use super::{Sides, Waiting};
use crate::connection::link::Link;
use crate::grpc::MessageMeter;
use crate::offload::{self, INLINE_BYTES_MAX};
use crate::plugins::overlay::{self, Side};
use crate::plugins::state::Filters;
use crate::turn::{self, TURN_BYTES};

/// Takes a body from the client; filters before it have seen it.
pub(crate) struct Discard;

impl BodyFilter for Discard {
    fn filter(&mut self, _input: &[u8], _piece: Piece, _out: &mut Vec<u8>) {}
}

/// Relay of a filtered response to the client.
pub(crate) struct FilteredRelay {
    source: BodySource,
    /// Whether the filters have received the end of the body.
    is_finished: bool,
    coding: Coding,
    chain: Chain,
    /// The chain and its piece, while another thread processes them.
    away: Option<Away>,
    passes_trailers: bool,
    /// Whether a filter holds the body until it is complete. Nothing is written until then, so that
    /// a failure can still be answered.
    is_held: bool,
    /// Length of the head, while nothing is behind it.
    head_bytes: Option<usize>,
    /// Check of message lengths, if they are limited.
    pub meter: Option<Box<MessageMeter>>,
    out_sent: usize,
    progress: Progress,
}

/// Chain on another thread. Resolves to the chain with its outcome, which is `None` after a panic.
type Away = Pin<Box<dyn Future<Output = Option<(Chain, Option<Result<(), RelayError>>)>>>>;

/// Filters and the piece that passes through them.
#[derive(Default)]
struct Chain {
    filters: Filters,
    /// Trailer lines of the node's response.
    trailers: Box<TrailerLines>,
    /// Current piece, and the output buffer of a filter.
    piece: Vec<u8>,
    made: Vec<u8>,
}

impl Chain {
    /// Passes the piece through the filters; the result replaces it.
    fn run(&mut self, piece: Piece) -> Result<(), RelayError> {
        for (effect, filter) in &mut self.filters {
            if piece.is_last() {
                filter.trailers(self.trailers.section());
            }
            self.made.clear();
            filter.filter(&self.piece, piece, &mut self.made);
            if let Some(failure) = filter.failure() {
                return Err(failure.into());
            }
            if *effect == Effect::Rewrites {
                std::mem::swap(&mut self.piece, &mut self.made);
            }
        }
        Ok(())
    }

    /// Returns the estimated number of bytes of work for the filters, beyond the piece itself.
    fn work_bytes(&self, piece: Piece) -> usize {
        if self.filters.iter().any(|(_, it)| it.is_bound_to_thread()) {
            return 0;
        }
        let works = self.filters.iter().map(|(_, it)| it.work_bytes(self.piece.len(), piece));
        works.fold(0, usize::saturating_add)
    }
}

impl FilteredRelay {
    /// Creates a relay for a body delimited by `body` and sent with `coding`. Filters may produce a
    /// body even if the node sent none. Trailers are passed on if `trailers` is given.
    pub(crate) fn new(
        body: BodyLength,
        coding: Coding,
        trailers: Option<Box<TrailerLines>>,
        filters: Filters,
    ) -> Self {
        Self {
            source: BodySource::for_answer(body),
            is_finished: false,
            coding,
            passes_trailers: trailers.is_some(),
            is_held: filters.iter().any(|(_, filter)| filter.holds_body()),
            chain: Chain { filters, trailers: trailers.unwrap_or_default(), ..Chain::default() },
            head_bytes: None,
            away: None,
            meter: None,
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

    /// Takes the next piece of the body from the node's buffer. Returns `Some(true)` for the last
    /// one, and `None` if more bytes must arrive first.
    fn take_piece(&mut self, upstream: &mut Link) -> Result<Option<Piece>, RelayError> {
        let Chain { piece, trailers, .. } = &mut self.chain;
        piece.clear();
        if self.is_finished {
            return Ok(None);
        }
        let filled = upstream.buffer.filled();
        let consumed = match self.source.take(filled.len()) {
            Arrived::Data(bytes) => {
                piece.extend_from_slice(&filled[..bytes]);
                bytes
            }
            Arrived::Chunks(decoder) => {
                // Filters receive the data without chunk framing.
                let mut at = 0;
                while at < filled.len() && !decoder.is_done() {
                    let is_trailer = decoder.is_in_trailers();
                    let step = decoder.step(&filled[at..]).map_err(|_| RelayError::BadBody)?;
                    if is_trailer {
                        trailers.add(&filled[at..at + step.consumed]);
                    }
                    piece.extend_from_slice(&filled[at..][step.data]);
                    at += step.consumed;
                }
                at
            }
        };
        upstream.buffer.consume(consumed);
        self.source.look_at_chunks();
        let is_last = self.source.is_ended();
        self.is_finished = is_last;
        if self.meter.as_mut().is_some_and(|meter| !meter.admits(piece)) {
            return Err(RelayError::MessageTooLarge);
        }
        Ok((is_last || !piece.is_empty()).then_some(if is_last {
            Piece::Last
        } else {
            Piece::Middle
        }))
    }

    /// Passes the piece through the filters and frames the result; long work continues on another
    /// thread.
    fn emit(&mut self, piece: Piece, out: &mut Vec<u8>) -> Result<(), RelayError> {
        if self.chain.work_bytes(piece) > INLINE_BYTES_MAX {
            let chain = std::mem::take(&mut self.chain);
            let away = offload::run(chain, move |chain: &mut Chain| chain.run(piece));
            self.away = Some(Box::pin(away));
            self.progress.is_at_work = true;
            return Ok(());
        }
        self.chain.run(piece)?;
        self.frame(out);
        Ok(())
    }

    /// Polls the chain on another thread, and frames its result.
    fn poll_away(
        &mut self,
        context: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Result<(), RelayError>> {
        let Some(away) = &mut self.away else { return Poll::Ready(Ok(())) };
        let back = ready!(away.as_mut().poll(context));
        self.away = None;
        self.progress.is_at_work = false;
        let Some((chain, Some(outcome))) = back else {
            return Poll::Ready(Err(RelayError::FilterPanicked));
        };
        self.chain = chain;
        outcome?;
        // The wait was neither the node's nor the client's, so the timeouts start again.
        self.progress.moved += 1;
        self.frame(out);
        Poll::Ready(Ok(()))
    }

    /// Appends the piece, framed for the client.
    fn frame(&mut self, out: &mut Vec<u8>) {
        if self.is_finished && self.is_held && self.head_bytes == Some(out.len()) {
            let filters = self.chain.filters.iter();
            for edits in filters.filter_map(|(_, filter)| filter.late_head_edits()) {
                overlay::apply(out, &edits, Side::Response);
            }
        }
        let Chain { piece, trailers, .. } = &mut self.chain;
        let is_chunk = self.coding == Coding::Chunked && !piece.is_empty();
        if is_chunk {
            out.extend_from_slice(SizeLine::new(piece.len()).as_bytes());
        }
        out.extend_from_slice(piece);
        if is_chunk {
            out.extend_from_slice(b"\r\n");
        }
        if self.is_finished && self.coding == Coding::Chunked {
            match self.passes_trailers {
                true => trailers.write_last_chunk(out),
                false => out.extend_from_slice(LAST_CHUNK),
            }
        }
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
        let turn_end = self.progress.moved + TURN_BYTES as u64;
        self.head_bytes.get_or_insert(out.len());
        loop {
            ready!(self.poll_away(context, out))?;
            if let Some(piece) = self.take_piece(sides.upstream)? {
                self.emit(piece, out)?;
                ready!(self.poll_away(context, out))?;
            }
            if !self.is_held || self.is_finished {
                ready!(self.poll_write(context, out, sides))?;
            }
            if sides.upstream.buffer.is_empty() || self.is_finished {
                ready!(sides.downstream.stream.poll_flush(context))
                    .map_err(|_| RelayError::DownstreamGone)?;
            }
            if self.is_finished {
                return Poll::Ready(Ok(()));
            }
            if !self.source.is_ended() {
                if self.progress.moved >= turn_end {
                    return turn::give_way(context);
                }
                ready!(self.poll_receive(context, sides))?;
            }
        }
    }

    fn progress(&self) -> &Progress {
        &self.progress
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::{Arc, Mutex};
    use std::thread::{ThreadId, current};

    use tollhouse_plugin::HeaderEdits;

    use super::*;
    use crate::transfer::testing::{Bench, fill, run};

    /// Doubles what it holds once the body is whole; notes which thread has.
    struct Doubling {
        held: Vec<u8>,
        work_bytes: usize,
        threads: Arc<Mutex<Vec<ThreadId>>>,
    }

    impl BodyFilter for Doubling {
        fn filter(&mut self, input: &[u8], piece: Piece, out: &mut Vec<u8>) {
            self.held.extend_from_slice(input);
            self.threads.lock().expect("a lock").push(current().id());
            assert!(self.held != b"panic", "as asked for");
            if piece.is_last() {
                out.extend_from_slice(&self.held.repeat(2));
            }
        }

        fn work_bytes(&self, _input_bytes: usize, piece: Piece) -> usize {
            if piece.is_last() { self.work_bytes } else { 0 }
        }
    }

    /// What a client reads of `body`, or why it does not; and who has worked on it.
    fn relayed(body: &'static str, work_bytes: usize) -> (Result<(), RelayError>, Vec<bool>) {
        let threads = Arc::new(Mutex::new(Vec::new()));
        let filter = Doubling { held: Vec::new(), work_bytes, threads: Arc::clone(&threads) };
        let filters: Filters = vec![(Effect::Rewrites, Box::new(filter))];
        let outcome = Arc::new(Mutex::new(Ok(())));
        let kept = Arc::clone(&outcome);
        run(async move {
            let mut bench = Bench::new().await;
            fill(&mut bench.upstream, &bench.buffers, body.as_bytes());
            let length = BodyLength::Known(body.len() as u64);
            let mut relay = FilteredRelay::new(length, Coding::Chunked, None, filters);
            let mut head = b"head ".to_vec();
            let sent = poll_fn(|context| {
                let Bench { buffers, downstream, upstream, .. } = &mut bench;
                relay.poll_send(context, &mut head, &mut Sides::new(buffers, downstream, upstream))
            })
            .await;
            if sent.is_ok() {
                let twice = body.repeat(2);
                let expected = format!("head {:x}\r\n{twice}\r\n0\r\n\r\n", twice.len());
                bench.client.expect(expected.as_bytes()).await;
            }
            *kept.lock().expect("a lock") = sent;
        });
        let here = current().id();
        let threads = threads.lock().expect("a lock").iter().map(|id| *id == here).collect();
        (*outcome.lock().expect("a lock"), threads)
    }

    /// Holds the body, and names it in the head.
    #[derive(Default)]
    struct Naming(Vec<u8>);

    impl BodyFilter for Naming {
        fn filter(&mut self, input: &[u8], piece: Piece, out: &mut Vec<u8>) {
            self.0.extend_from_slice(input);
            if piece.is_last() {
                out.extend_from_slice(&self.0);
            }
        }

        fn holds_body(&self) -> bool {
            true
        }

        fn late_head_edits(&self) -> Option<HeaderEdits> {
            let mut edits = HeaderEdits::default();
            edits.set("X-Body", &self.0);
            Some(edits)
        }
    }

    #[test]
    fn a_filter_that_holds_the_body_may_change_the_head_behind_it() {
        run(async {
            let mut bench = Bench::new().await;
            fill(&mut bench.upstream, &bench.buffers, b"hello");
            let filters: Filters = vec![(Effect::Rewrites, Box::new(Naming::default()))];
            let length = BodyLength::Known(5);
            let mut relay = FilteredRelay::new(length, Coding::Chunked, None, filters);
            let mut head = b"HTTP/1.1 200 OK\r\nX-Body: none\r\n\r\n".to_vec();
            let sent = poll_fn(|context| {
                let Bench { buffers, downstream, upstream, .. } = &mut bench;
                relay.poll_send(context, &mut head, &mut Sides::new(buffers, downstream, upstream))
            });
            assert_eq!(sent.await, Ok(()));
            let expected = "HTTP/1.1 200 OK\r\nX-Body: hello\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
            bench.client.expect(expected.as_bytes()).await;
        });
    }

    #[test]
    fn long_work_is_done_on_another_thread_and_short_work_at_once() {
        assert_eq!(relayed("hello", 0), (Ok(()), vec![true]));
        assert_eq!(relayed("hello", INLINE_BYTES_MAX), (Ok(()), vec![true]));
        assert_eq!(relayed("hello", INLINE_BYTES_MAX + 1), (Ok(()), vec![false]));
    }

    #[test]
    fn a_filter_that_panics_on_another_thread_ends_its_own_answer() {
        let (outcome, threads) = relayed("panic", INLINE_BYTES_MAX + 1);
        assert_eq!((outcome, threads), (Err(RelayError::FilterPanicked), vec![false]));
    }
}
