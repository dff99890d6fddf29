//! OTLP over gRPC.

use std::sync::Arc;
use std::time::Duration;

use http::uri::PathAndQuery;
use tokio::sync::OnceCell;
use tonic::client::Grpc;
use tonic::codec::CompressionEncoding;
use tonic::metadata::{MetadataKey, MetadataMap};
use tonic::transport::{Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use super::retry::Pauses;
use super::{Collector, CollectorTls, Compression, Signal};
use crate::logging::batch::DeliveryError;

/// Trailer in which a collector says when to try again (`google.rpc.RetryInfo` in
/// `google.rpc.Status`).
const RETRY_PUSHBACK: &str = "grpc-retry-pushback-ms";

pub(crate) struct GrpcCollector {
    endpoint: String,
    /// Connection, which is opened with the first batch and re-established by itself.
    channel: OnceCell<Channel>,
    metadata: MetadataMap,
    timeout: Duration,
    compression: Compression,
    tls: CollectorTls,
    pauses: Pauses,
}

impl GrpcCollector {
    pub(super) fn new(collector: &Collector) -> Self {
        let mut metadata = MetadataMap::new();
        for (name, value) in &collector.headers {
            let name = MetadataKey::from_bytes(name.to_ascii_lowercase().as_bytes());
            if let (Ok(name), Ok(value)) = (name, value.parse()) {
                metadata.append(name, value);
            }
        }
        Self {
            endpoint: collector.endpoint.clone(),
            channel: OnceCell::new(),
            metadata,
            timeout: collector.timeout,
            compression: collector.compression,
            tls: collector.tls.clone(),
            pauses: Pauses::default(),
        }
    }

    pub(super) async fn export<S: Signal>(
        &self,
        request: S::Request,
    ) -> Result<S::Response, DeliveryError> {
        let channel = self.channel.get_or_try_init(|| async { self.connect() }).await;
        let channel = channel.map_err(DeliveryError::Rejected)?.clone();
        let call = async {
            let mut grpc = Grpc::new(channel);
            if self.compression == Compression::Gzip {
                grpc = grpc.send_compressed(CompressionEncoding::Gzip);
            }
            grpc.ready().await.map_err(|error| Status::unavailable(causes(&error)))?;
            let mut request = Request::new(request);
            *request.metadata_mut() = self.metadata.clone();
            let codec = ProstCodec::<S::Request, S::Response>::default();
            grpc.unary(request, PathAndQuery::from_static(S::METHOD), codec).await
        };
        let answered = tokio::time::timeout(self.timeout, call).await;
        let answered = answered.unwrap_or_else(|_| Err(Status::deadline_exceeded("timeout")));
        match answered {
            Ok(answer) => {
                self.pauses.note_success();
                Ok(answer.into_inner())
            }
            Err(status) => Err(self.failure(&status)),
        }
    }

    fn connect(&self) -> Result<Channel, String> {
        let refused = |error: tonic::transport::Error| causes(&error);
        let endpoint = Endpoint::from_shared(self.endpoint.clone()).map_err(refused)?;
        let endpoint = endpoint.connect_timeout(self.timeout).tcp_nodelay(true);
        if !self.endpoint.starts_with("https://") {
            return Ok(endpoint.connect_lazy());
        }
        let verifier = self.tls.trust().verifier().map_err(|error| causes(&error))?;
        let config = match &self.tls.identity {
            Some(own) => {
                ClientTlsConfig::new().identity(Identity::from_pem(&own.certificate, &own.key))
            }
            None => ClientTlsConfig::new(),
        };
        let endpoint = endpoint.tls_config_with_verifier(config, Arc::new(verifier));
        Ok(endpoint.map_err(refused)?.connect_lazy())
    }

    /// Returns the failure for a status: some may be tried again, after a pause.
    fn failure(&self, status: &Status) -> DeliveryError {
        let reason = format!("the collector answered {:?}: {}", status.code(), status.message());
        let pushback = status.metadata().get(RETRY_PUSHBACK);
        let pushback = pushback.and_then(|it| it.to_str().ok()?.parse().ok());
        let asked = pushback.map(Duration::from_millis);
        match status.code() {
            Code::Cancelled
            | Code::DeadlineExceeded
            | Code::Aborted
            | Code::OutOfRange
            | Code::Unavailable
            | Code::DataLoss => self.pauses.later(reason, asked),
            Code::ResourceExhausted if asked.is_some() => self.pauses.later(reason, asked),
            // A connection that breaks during a call.
            Code::Unknown | Code::Internal if status.source_is_transport() => {
                self.pauses.later(reason, asked)
            }
            _ => DeliveryError::Rejected(reason),
        }
    }
}

trait Transported {
    /// Whether the status was made on this side, for a connection that broke.
    fn source_is_transport(&self) -> bool;
}

impl Transported for Status {
    fn source_is_transport(&self) -> bool {
        std::error::Error::source(self).is_some()
    }
}

/// Formats an error with its causes, which tonic's own message omits.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(below) = cause {
        text = format!("{text}: {below}");
        cause = below.source();
    }
    text
}
