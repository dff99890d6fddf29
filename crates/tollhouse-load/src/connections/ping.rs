//! Signs of life on a held connection, and the wait for what the other end does without being asked.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};

use crate::connect::Stream;
use crate::target::Target;

/// The byte that comes back.
const BYTE: &[u8] = b".";
/// What every answer to an HTTP request begins with.
const HTTP: &[u8] = b"HTTP/1.";
/// One buffer for all connections of a process: what is read is only looked at.
const SCRATCH_BYTES: usize = 16 * 1024;

/// What all connections of a holder share.
pub(super) struct Pinger {
    message: Vec<u8>,
    is_http: bool,
    scratch: RefCell<Vec<u8>>,
}

impl Pinger {
    /// For a target: a request for its path, or a byte.
    pub(super) fn new(target: &Target, is_http: bool) -> Self {
        let message = if is_http {
            format!("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", target.path, target.authority)
                .into_bytes()
        } else {
            BYTE.to_vec()
        };
        Self { message, is_http, scratch: RefCell::new(vec![0; SCRATCH_BYTES]) }
    }

    /// Waits until the connection ends, passing over what comes unasked.
    pub(super) async fn until_end(&self, stream: &mut Stream) -> Option<io::Error> {
        loop {
            match self.read(stream, |_| ()).await {
                Ok(Some(())) => {}
                Ok(None) => return None,
                Err(error) => return Some(error),
            }
        }
    }

    /// Sends a sign of life and waits until an answer begins.
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
        let expected = if self.is_http { HTTP } else { BYTE };
        // An answer that begins in a short piece is one all the same.
        bytes.starts_with(expected) || expected.starts_with(bytes)
    }

    /// Reads once and shows what came; `None` at the end.
    async fn read<T>(
        &self,
        stream: &mut Stream,
        look: impl Fn(&[u8]) -> T,
    ) -> io::Result<Option<T>> {
        poll_fn(|context| {
            // Borrowed for one poll only: nothing else runs meanwhile.
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

/// What came instead of an answer.
pub(super) enum Answer {
    /// The connection ended or failed.
    Failed(io::Error),
    /// Something else.
    Wrong,
}
