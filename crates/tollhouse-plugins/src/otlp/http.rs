//! OTLP over HTTP with protobuf bodies.

use std::io::Write;
use std::time::Duration;

use bytes::Bytes;
use flate2::write::GzEncoder;
use prost::Message;

use super::retry::Pauses;
use super::{Collector, Compression, Signal};
use crate::http_client::{Call, HttpClient, Repeat, Reply, Reuse, Target, TargetError};
use crate::logging::batch::DeliveryError;

/// Lifetime of an idle connection, longer than the usual time between two batches.
const IDLE_MAX: Duration = Duration::from_secs(30);

/// Idle connections; there is one task for each collector.
const CONNECTIONS_MAX: usize = 1;

/// Largest answer in bytes: a message with one text.
const REPLY_BYTES_MAX: usize = 64 << 10;

pub(crate) struct HttpCollector {
    target: Result<Target, TargetError>,
    client: HttpClient,
    headers: Vec<(String, Vec<u8>)>,
    compression: Compression,
    pauses: Pauses,
}

impl HttpCollector {
    pub(super) fn new(collector: &Collector) -> Self {
        let reuse = Reuse::For { idle: IDLE_MAX, connections_max: CONNECTIONS_MAX };
        let client = HttpClient::new(collector.timeout, collector.tls.verification, reuse);
        let own = [("Content-Type".to_owned(), b"application/x-protobuf".to_vec())];
        let coding = [("Content-Encoding".to_owned(), b"gzip".to_vec())];
        let coding = coding.into_iter().filter(|_| collector.compression == Compression::Gzip);
        let sent = collector.headers.iter();
        let sent = sent.map(|(name, value)| (name.clone(), value.clone().into_bytes()));
        Self {
            target: Target::parse(&collector.endpoint),
            client: client.with_replies_up_to(REPLY_BYTES_MAX),
            headers: own.into_iter().chain(coding).chain(sent).collect(),
            compression: collector.compression,
            pauses: Pauses::default(),
        }
    }

    pub(super) async fn export<S: Signal>(
        &self,
        request: &S::Request,
    ) -> Result<S::Response, DeliveryError> {
        let target = self.target.clone()?;
        let call = Call {
            method: b"POST".to_vec(),
            path: target.path.clone().into_bytes(),
            headers: self.headers.clone(),
            body: self.body(request),
            // Collectors drop what they have seen.
            repeat: Repeat::Always,
        };
        let reply = self.client.send(&target, call).await;
        let reply = reply.map_err(|error| self.pauses.later(error.to_string(), None))?;
        match reply.status {
            200..300 => {
                self.pauses.note_success();
                Ok(S::Response::decode(reply.body).unwrap_or_default())
            }
            429 | 502 | 503 | 504 => {
                let reason = format!("the collector answered {}", reply.status);
                Err(self.pauses.later(reason, retry_after(&reply)))
            }
            status => {
                let text = String::from_utf8_lossy(&reply.body);
                let text: String = text.chars().filter(|it| !it.is_control()).take(200).collect();
                Err(DeliveryError::Rejected(format!("the collector answered {status}: {text}")))
            }
        }
    }

    fn body(&self, request: &impl Message) -> Bytes {
        let plain = request.encode_to_vec();
        if self.compression == Compression::None {
            return plain.into();
        }
        let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        // Writing to memory cannot fail.
        let _ = encoder.write_all(&plain);
        encoder.finish().unwrap_or_default().into()
    }
}

/// Pause in seconds that the collector asks for.
fn retry_after(reply: &Reply) -> Option<Duration> {
    let value = reply.values("retry-after").next()?;
    Some(Duration::from_secs(std::str::from_utf8(value).ok()?.trim().parse().ok()?))
}
