//! Request head, as far as a mock needs it.

use tollhouse_h2::{Field, FieldKind, FieldSink, HeadKind, StreamId};

/// Fields of the latest head that influence the response; the codec limits their length.
#[derive(Debug, Default)]
pub(super) struct Head {
    pub(super) is_head_method: bool,
    /// Path, including the query.
    path: Vec<u8>,
    pub(super) content_type: Option<Vec<u8>>,
    pub(super) grpc_encoding: Option<Vec<u8>>,
}

impl Head {
    /// Returns the path without its query.
    pub(super) fn path(&self) -> &[u8] {
        self.path.split(|byte| *byte == b'?').next().unwrap_or_default()
    }
}

impl FieldSink for Head {
    fn begin(&mut self, _: StreamId, _: HeadKind) {
        self.is_head_method = false;
        self.path.clear();
        self.content_type = None;
        self.grpc_encoding = None;
    }

    fn field(&mut self, field: Field<'_>) {
        match (field.kind, field.name) {
            (FieldKind::Method, _) => self.is_head_method = field.value == b"HEAD",
            (FieldKind::Path, _) => self.path.extend_from_slice(field.value),
            (_, b"content-type") => self.content_type = Some(field.value.to_vec()),
            (_, b"grpc-encoding") => self.grpc_encoding = Some(field.value.to_vec()),
            _ => {}
        }
    }
}
