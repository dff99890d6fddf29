//! Writes through the Admin API: single requests, or many over several connections.

use crate::bench::client::Connection;
use crate::bench::gateway::ADMIN_KEY;
use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Number of concurrent clients, each with one persistent connection.
pub(crate) const CLIENTS: usize = 16;

/// A connection to the Admin API.
pub(crate) struct Writer {
    connection: Connection,
}

impl Writer {
    pub(crate) fn open(port: u16) -> Result<Self> {
        Ok(Self { connection: Connection::open(port)? })
    }

    /// Puts an object at a path of the Admin API; fails unless it is accepted.
    pub(crate) fn put(&mut self, path: &str, object: &Value) -> Result<()> {
        self.connection.send(put_request(path, object).as_bytes())?;
        let (status, body) = self.connection.receive_answer()?;
        if !matches!(status, 200 | 201) {
            bail!("{path} was answered {status}: {}", String::from_utf8_lossy(&body));
        }
        Ok(())
    }
}

fn put_request(path: &str, object: &Value) -> String {
    let body = object.to_string();
    format!(
        "PUT /apisix/admin/{path} HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: {ADMIN_KEY}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Puts the objects with numbers below `count`, distributed over all clients. Returns the duration
/// and the time of the last response.
pub(crate) fn put_all<F>(port: u16, count: usize, object: F) -> Result<(Duration, Instant)>
where
    F: Fn(usize) -> (String, Value) + Sync,
{
    let next = AtomicUsize::new(0);
    let mut writers: Vec<Writer> =
        (0..CLIENTS).map(|_| Writer::open(port)).collect::<Result<_>>()?;
    let work = |writer: &mut Writer| -> Result<()> {
        loop {
            // Relaxed, because only the number is shared and no data is published with it.
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return Ok(());
            }
            let (path, value) = object(number);
            writer.put(&path, &value)?;
        }
    };
    let work = &work;
    let start = Instant::now();
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            writers.iter_mut().map(|writer| scope.spawn(move || work(writer))).collect();
        for thread in threads {
            thread.join().map_err(|_| anyhow!("a client stopped early"))?.context("writing")?;
        }
        anyhow::Ok(())
    })?;
    let end = Instant::now();
    Ok((end - start, end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_write_names_its_length_and_the_key() {
        let text = put_request("routes/1", &json!({ "uri": "/a" }));
        assert!(text.starts_with("PUT /apisix/admin/routes/1 HTTP/1.1\r\n"), "{text}");
        assert!(text.contains(&format!("X-API-KEY: {ADMIN_KEY}\r\n")), "{text}");
        assert!(text.ends_with("Content-Length: 12\r\n\r\n{\"uri\":\"/a\"}"), "{text}");
    }
}
