//! Socket with a read buffer, shared by test clients and origins.
//!
//! Sends and receives raw bytes; `message` parses them.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use crate::patience::DEADLINE;

/// Number of bytes requested by one read.
const READ_BYTES: usize = 64 * 1024;

/// Socket with the bytes that were read but not consumed.
#[derive(Debug)]
pub struct Wire {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Wire {
    /// Wraps a socket and sets the deadline as its timeouts.
    ///
    /// # Errors
    ///
    /// If the socket is broken.
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Self::without_options(stream)
    }

    /// Wraps a socket other than TCP, without setting options of TCP.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn without_options(stream: TcpStream) -> io::Result<Self> {
        stream.set_read_timeout(Some(DEADLINE))?;
        stream.set_write_timeout(Some(DEADLINE))?;
        Ok(Self { stream, buffer: Vec::new() })
    }

    /// Returns the socket, for setting options.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Returns the local address.
    ///
    /// # Errors
    ///
    /// If the socket is broken.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.stream.local_addr()
    }

    /// Sends all of `bytes`.
    ///
    /// # Errors
    ///
    /// If the peer has disconnected, or accepts nothing until the deadline.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Shuts down the sending direction; receiving still works.
    ///
    /// # Errors
    ///
    /// If the socket is broken.
    pub fn half_close(&self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Write)
    }

    /// Makes the connection end with a reset instead of an orderly close when dropped.
    ///
    /// # Errors
    ///
    /// If the socket is broken.
    pub fn reset(&self) -> io::Result<()> {
        socket2::SockRef::from(&self.stream).set_linger(Some(std::time::Duration::ZERO))
    }

    /// Returns the bytes that were read but not consumed.
    pub fn pending(&self) -> &[u8] {
        &self.buffer
    }

    /// Reads once into the buffer; 0 means the end of the stream.
    ///
    /// # Errors
    ///
    /// As reading from the socket, including an expired deadline.
    pub fn fill(&mut self) -> io::Result<usize> {
        let filled = self.buffer.len();
        self.buffer.resize(filled + READ_BYTES, 0);
        let read = self.stream.read(&mut self.buffer[filled..]);
        self.buffer.truncate(filled + read.as_ref().copied().unwrap_or(0));
        read
    }

    /// Consumes the bytes up to and including the first `end`; `None` if the stream ends before any
    /// byte.
    ///
    /// # Errors
    ///
    /// If the stream ends or the deadline passes in between.
    pub fn take_through(&mut self, end: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let mut searched = 0;
        loop {
            let found = self.buffer[searched..].windows(end.len()).position(|window| window == end);
            if let Some(at) = found {
                return Ok(Some(self.take_pending(searched + at + end.len())));
            }
            searched = self.buffer.len().saturating_sub(end.len());
            if self.fill()? == 0 {
                let nothing = self.buffer.is_empty();
                return if nothing { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
            }
        }
    }

    /// Consumes exactly `count` bytes.
    ///
    /// # Errors
    ///
    /// If the stream ends or the deadline passes in between.
    pub fn take(&mut self, count: usize) -> io::Result<Vec<u8>> {
        while self.buffer.len() < count {
            if self.fill()? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(self.take_pending(count))
    }

    /// Discards `count` bytes in constant memory.
    ///
    /// # Errors
    ///
    /// If the stream ends or the deadline passes in between.
    pub fn discard(&mut self, mut count: u64) -> io::Result<()> {
        loop {
            let here = self.buffer.len().min(usize::try_from(count).unwrap_or(usize::MAX));
            self.take_pending(here);
            count -= here as u64;
            if count == 0 {
                return Ok(());
            }
            if self.fill()? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Consumes everything until the stream ends.
    ///
    /// # Errors
    ///
    /// If the connection is reset or the deadline passes.
    pub fn take_all(&mut self) -> io::Result<Vec<u8>> {
        while self.fill()? > 0 {}
        Ok(std::mem::take(&mut self.buffer))
    }

    fn take_pending(&mut self, count: usize) -> Vec<u8> {
        let rest = self.buffer.split_off(count);
        std::mem::replace(&mut self.buffer, rest)
    }
}
