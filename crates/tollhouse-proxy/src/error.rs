//! Why a request could not be served, as the data plane carries it until `rescue` answers it.

use tollhouse_http::HeadError;
use tollhouse_telemetry::ErrorCode;

/// A request that ends without the upstream's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GatewayError {
    /// The stable code, which also knows the status.
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
