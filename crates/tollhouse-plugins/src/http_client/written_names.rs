//! Header names as the server writes them. The HTTP library keeps them in lower case only, so that
//! the bytes of a head are copied while they are read.

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use hyper::header::HeaderName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tollhouse_net::Stream;

/// Bytes of an answer that are copied. The spelling of names after them is not known.
const COPY_BYTES_MAX: usize = 64 << 10;

/// Names of headers as the server wrote them.
pub(crate) type WrittenNames = HashMap<HeaderName, String>;

/// Start of the answer that is being read on a connection.
#[derive(Debug, Clone, Default)]
pub(super) struct HeadCopy(Arc<Mutex<Vec<u8>>>);

impl HeadCopy {
    /// Forgets the previous answer.
    pub fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn add(&self, bytes: &[u8]) {
        let mut copy = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = COPY_BYTES_MAX - copy.len();
        copy.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Returns the names in the head of the answer. Heads of informational answers are passed over.
    pub fn written_names(&self) -> WrittenNames {
        let copy = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rest = &copy[..];
        loop {
            let end = memchr::memmem::find(rest, b"\r\n\r\n").unwrap_or(rest.len());
            let mut lines = rest[..end].split(|&byte| byte == b'\n');
            let status = lines.next().unwrap_or_default();
            if is_informational(status) && end + 4 < rest.len() {
                rest = &rest[end + 4..];
                continue;
            }
            return lines.filter_map(name_of).collect();
        }
    }
}

fn is_informational(status_line: &[u8]) -> bool {
    status_line.split(|&byte| byte == b' ').nth(1).is_some_and(|code| code.starts_with(b"1"))
}

fn name_of(line: &[u8]) -> Option<(HeaderName, String)> {
    let name = line.split(|&byte| byte == b':').next()?;
    let text = std::str::from_utf8(name).ok()?;
    Some((HeaderName::try_from(text).ok()?, text.to_owned()))
}

/// Connection that copies the heads of answers, if there is a place for them.
pub(super) struct StreamTap {
    pub stream: Stream,
    pub copy: Option<HeadCopy>,
}

impl AsyncRead for StreamTap {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let start = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if let Some(copy) = &self.copy {
            copy.add(&buffer.filled()[start..]);
        }
        polled
    }
}

impl AsyncWrite for StreamTap {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_spelling() {
        let copy = HeadCopy::default();
        copy.add(b"HTTP/1.1 100 Continue\r\nX-Early: 1\r\n\r\nHTTP/1.1 200 OK\r\nClient-IP: 1\r\n");
        copy.add(b"x-HeaderB: a: b\r\n\r\nX-Body: 1\r\n\r\n");
        let mut names: Vec<_> = copy.written_names().into_values().collect();
        names.sort();
        assert_eq!(names, ["Client-IP", "x-HeaderB"]);
        copy.clear();
        assert!(copy.written_names().is_empty());
    }

    #[test]
    fn the_copy_is_bounded() {
        let copy = HeadCopy::default();
        for _ in 0..3 {
            copy.add(&[b'a'; COPY_BYTES_MAX / 2 + 1]);
        }
        assert_eq!(copy.0.lock().expect("not poisoned").len(), COPY_BYTES_MAX);
    }
}
