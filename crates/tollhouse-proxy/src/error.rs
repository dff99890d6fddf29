//! Error that ends a request in the data plane, until `rescue` turns it into a response.

use tollhouse_http::HeadError;
use tollhouse_telemetry::ErrorCode;

/// A request that ends without a response of the upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GatewayError {
    /// Stable error code, which also determines the HTTP status.
    pub code: ErrorCode,
}

impl From<ErrorCode> for GatewayError {
    fn from(code: ErrorCode) -> Self {
        Self { code }
    }
}

impl From<HeadError> for GatewayError {
    fn from(error: HeadError) -> Self {
        Self { code: request_code(error) }
    }
}

fn request_code(error: HeadError) -> ErrorCode {
    match error {
        HeadError::BadLine | HeadError::BadTarget => ErrorCode::BadRequestLine,
        HeadError::BadHeader | HeadError::BareLineFeed => ErrorCode::BadHeader,
        HeadError::BadFraming => ErrorCode::BadFraming,
        HeadError::BadHost => ErrorCode::BadHost,
        HeadError::LineTooLong => ErrorCode::RequestLineTooLong,
        HeadError::HeadTooLong => ErrorCode::HeaderTooLarge,
        HeadError::TooManyHeaders => ErrorCode::TooManyHeaders,
        HeadError::MethodNotAllowed => ErrorCode::MethodNotAllowed,
        HeadError::MethodNotImplemented => ErrorCode::MethodNotImplemented,
        HeadError::CodingNotImplemented => ErrorCode::TransferCodingNotImplemented,
        HeadError::VersionNotSupported => ErrorCode::VersionNotSupported,
        HeadError::ExpectationFailed => ErrorCode::ExpectationFailed,
    }
}
