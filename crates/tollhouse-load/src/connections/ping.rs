//! Pings on a held connection, and the wait for its end.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};

use crate::connect::Stream;
use crate::target::Target;

/// Ping of a plain connection: one byte that the server echoes.
const BYTE: &[u8] = b".";
/// Start of every HTTP response.
const HTTP: &[u8] = b"HTTP/1.";
/// Size of the read buffer, shared by all connections of a process because the bytes read are not
/// kept.
const SCRATCH_BYTES: usize = 16 * 1024;

/// Sends pings; shared by all connections of a holder.
pub(super) struct Pinger {
    message: Vec<u8>,
    /// Beginning of every answer.
    expected: &'static [u8],
    scratch: RefCell<Vec<u8>>,
}

impl Pinger {
    /// Creates a pinger that sends single bytes.
    pub(super) fn bytes() -> Self {
        Self::new(BYTE.to_vec(), BYTE)
    }

    /// Creates a pinger that sends requests for the path of `target`.
    pub(super) fn requests(target: &Target) -> Self {
        let Target { path, authority, .. } = target;
        Self::new(format!("GET {path} HTTP/1.1\r\nHost: {authority}\r\n\r\n").into_bytes(), HTTP)
    }

    fn new(message: Vec<u8>, expected: &'static [u8]) -> Self {
        Self { message, expected, scratch: RefCell::new(vec![0; SCRATCH_BYTES]) }
    }

    /// Waits until the connection ends and discards unsolicited data. Returns the error, if any.
    pub(super) async fn until_end(&self, stream: &mut Stream) -> Option<io::Error> {
        loop {
            match self.read(stream, |_| ()).await {
                Ok(Some(())) => {}
                Ok(None) => return None,
                Err(error) => return Some(error),
            }
        }
    }

    /// Sends a ping and waits for the beginning of its response.
    pub(super) async fn ping(&self, stream: &mut Stream) -> Result<(), Answer> {
        stream.write_all(&self.message).await.map_err(Answer::Failed)?;
        stream.flush().await.map_err(Answer::Failed)?;
        match self.read(stream, |bytes| self.is_answer(bytes)).await {
            Ok(Some(true)) => Ok(()),
            Ok(Some(false)) => Err(Answer::Wrong),
            Ok(None) => Err(Answer::Failed(io::ErrorKind::UnexpectedEof.into())),
            Err(error) => Err(Answer::Failed(error)),
        }
    }

    fn is_answer(&self, bytes: &[u8]) -> bool {
        // A short read may hold only a part of the expected beginning.
        bytes.starts_with(self.expected) || self.expected.starts_with(bytes)
    }

    /// Reads once and passes the bytes to `look`; returns `None` at the end of the stream.
    async fn read<T>(
        &self,
        stream: &mut Stream,
        look: impl Fn(&[u8]) -> T,
    ) -> io::Result<Option<T>> {
        poll_fn(|context| {
            // Borrowed during one poll only; no other task runs meanwhile.
            let mut scratch = self.scratch.borrow_mut();
            let mut buffer = ReadBuf::new(&mut scratch);
            Pin::new(&mut *stream).poll_read(context, &mut buffer).map_ok(|()| {
                let bytes = buffer.filled();
                (!bytes.is_empty()).then(|| look(bytes))
            })
        })
        .await
    }
}

pub(super) enum Answer {
    Failed(io::Error),
    /// The response has an unexpected beginning.
    Wrong,
}
