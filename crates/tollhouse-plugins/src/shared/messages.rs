//! Parts of HTTP messages that several plugins read or write: bodies and their encodings, dates,
//! targets, and requests as documents.

pub(crate) mod answer_body;
pub(crate) mod body;
pub(crate) mod compression;
pub(crate) mod http_date;
pub(crate) mod request_document;
pub(crate) mod unique_members;
pub(crate) mod uri;
