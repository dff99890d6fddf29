//! Helpers for the gRPC tests.

use std::path::PathBuf;

use prost_reflect::{DescriptorPool, MessageDescriptor};

use super::schema::pool_of_files;
use crate::case::GrpcCall;

/// Returns the path of a test data file.
pub(super) fn testdata(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/grpc").join(name)
}

/// Compiles a `.proto` file of the test data.
pub(super) fn pool(proto: &str) -> DescriptorPool {
    let call = GrpcCall { proto: Some(testdata(proto)), ..GrpcCall::default() };
    pool_of_files(&call).expect(proto).expect("the call names a file")
}

/// Returns the descriptor of a message in a test data file.
pub(super) fn descriptor(proto: &str, message: &str) -> MessageDescriptor {
    pool(proto).get_message_by_name(message).expect(message)
}
