//! Client of OTLP collectors for every signal, over HTTP (`http.rs`) and gRPC (`grpc.rs`).

mod grpc;
mod http;
mod retry;

use std::time::Duration;

use prost::Message;
use tollhouse_net::tls::{TlsError, Trust};
use tollhouse_trace::otlp::Origin;
use tollhouse_trace::otlp::messages::collector::logs::v1 as logs;
use tollhouse_trace::otlp::messages::collector::trace::v1 as traces;
use tollhouse_trace::{Attribute, AttributeValue};

use self::grpc::GrpcCollector;
use self::http::HttpCollector;
use crate::logging::batch::DeliveryError;
use crate::shared::dial::{self, Verification};

/// Tries of a batch. With pauses of 1, 2, 4, 8 and 16 seconds a collector may restart meanwhile.
pub(crate) const TRIES_MAX: u64 = 6;

/// Transport of OTLP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// `POST` with a protobuf body; by convention on port 4318.
    Http,
    /// gRPC; by convention on port 4317.
    Grpc,
}

/// Compression of exported batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    None,
    Gzip,
}

/// Value of a resource's attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum ResourceValue {
    Text(String),
    Number(i64),
    Real(f64),
    Flag(bool),
}

impl ResourceValue {
    fn borrowed(&self) -> AttributeValue<'_> {
        match self {
            Self::Text(text) => AttributeValue::Text(text.as_bytes()),
            Self::Number(number) => AttributeValue::Number(*number),
            Self::Real(real) => AttributeValue::Real(*real),
            Self::Flag(flag) => AttributeValue::Flag(*flag),
        }
    }
}

/// Certificate chain and private key with which the gateway identifies itself, PEM.
#[derive(Clone)]
pub struct ClientIdentity {
    pub certificate: String,
    pub key: String,
}

/// Collectors that are trusted with TLS, and the certificate that they see.
#[derive(Clone)]
pub struct CollectorTls {
    verification: Verification,
    /// Authorities, PEM; `None` for those of the system.
    ca: Option<String>,
    identity: Option<ClientIdentity>,
}

impl CollectorTls {
    /// The authorities of the system, and no client certificate.
    pub const SYSTEM: Self = Self { verification: Verification::System, ca: None, identity: None };

    /// Any certificate.
    pub(crate) const UNVERIFIED: Self =
        Self { verification: Verification::Off, ca: None, identity: None };

    /// Returns the settings for these authorities and this client certificate. Each call keeps
    /// memory for the life of the process.
    ///
    /// # Errors
    /// If one of them is unusable.
    pub fn new(ca: Option<String>, identity: Option<ClientIdentity>) -> Result<Self, TlsError> {
        if ca.is_none() && identity.is_none() {
            return Ok(Self::SYSTEM);
        }
        let client = identity.as_ref().map(|it| (it.certificate.as_str(), it.key.as_str()));
        let trust = ca.as_deref().map_or(Trust::System, Trust::Authorities);
        Ok(Self { verification: dial::own(client, trust)?, ca, identity })
    }

    fn trust(&self) -> Trust<'_> {
        match (&self.ca, self.verification) {
            (_, Verification::Off) => Trust::Anybody,
            (Some(pem), _) => Trust::Authorities(pem),
            (None, _) => Trust::System,
        }
    }
}

impl std::fmt::Debug for CollectorTls {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_tuple("CollectorTls").field(&self.verification).finish()
    }
}

/// Collector and what is sent to it.
#[derive(Debug, Clone)]
pub struct Collector {
    /// URL with scheme; over HTTP with the path of the signal.
    pub endpoint: String,
    pub protocol: Protocol,
    /// Header lines of every export, such as credentials.
    pub headers: Vec<(String, String)>,
    /// Timeout of one export.
    pub timeout: Duration,
    pub compression: Compression,
    pub tls: CollectorTls,
    /// Attributes of the resource; of equal names the first counts.
    pub resource: Vec<(String, ResourceValue)>,
}

impl Collector {
    /// Returns the resource and the scope of what is exported.
    pub(crate) fn origin(&self) -> Origin {
        let resource = self.resource.iter();
        Origin::new(resource.map(|(name, value)| Attribute { name, value: value.borrowed() }))
    }
}

/// A kind of telemetry, with its messages.
pub(crate) trait Signal {
    type Request: Message + Send + Sync + 'static;
    type Response: Message + Default + Send + Sync + 'static;

    /// Path of the gRPC method.
    const METHOD: &'static str;
}

pub(crate) struct Traces;

impl Signal for Traces {
    type Request = traces::ExportTraceServiceRequest;
    type Response = traces::ExportTraceServiceResponse;
    const METHOD: &'static str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
}

pub(crate) struct Logs;

impl Signal for Logs {
    type Request = logs::ExportLogsServiceRequest;
    type Response = logs::ExportLogsServiceResponse;
    const METHOD: &'static str = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";
}

/// Client of one collector.
pub(crate) enum Client {
    Http(HttpCollector),
    Grpc(GrpcCollector),
}

impl Client {
    /// Returns a client. Nothing is connected before the first batch.
    pub(crate) fn new(collector: &Collector) -> Self {
        match collector.protocol {
            Protocol::Http => Self::Http(HttpCollector::new(collector)),
            Protocol::Grpc => Self::Grpc(GrpcCollector::new(collector)),
        }
    }

    /// Sends a batch.
    ///
    /// # Errors
    /// If the collector does not take it, with the pause before another try if one makes sense.
    pub(crate) async fn export<S: Signal>(
        &self,
        request: S::Request,
    ) -> Result<S::Response, DeliveryError> {
        match self {
            Self::Http(collector) => collector.export::<S>(&request).await,
            Self::Grpc(collector) => collector.export::<S>(request).await,
        }
    }
}
