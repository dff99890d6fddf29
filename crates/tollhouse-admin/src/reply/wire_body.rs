//! Body of a reply: complete, or chunks that arrive while it is sent.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

/// Body of a reply: complete bytes, or a stream.
#[derive(Debug)]
pub struct WireBody(Content);

#[derive(Debug)]
enum Content {
    Whole(Bytes),
    Chunks(mpsc::Receiver<Bytes>),
}

impl WireBody {
    pub(crate) fn whole(bytes: Bytes) -> Self {
        Self(Content::Whole(bytes))
    }

    /// Returns a body of chunks, which ends when the sender is dropped.
    pub(crate) fn chunks(chunks: mpsc::Receiver<Bytes>) -> Self {
        Self(Content::Chunks(chunks))
    }

    /// Returns the complete body; empty for a body of chunks.
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.0 {
            Content::Whole(bytes) => bytes,
            Content::Chunks(_) => &[],
        }
    }
}

impl Body for WireBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = match &mut self.0 {
            Content::Whole(bytes) if bytes.is_empty() => None,
            Content::Whole(bytes) => Some(std::mem::take(bytes)),
            Content::Chunks(chunks) => std::task::ready!(chunks.poll_recv(context)),
        };
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.0, Content::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Content::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Content::Chunks(_) => SizeHint::default(),
        }
    }
}
