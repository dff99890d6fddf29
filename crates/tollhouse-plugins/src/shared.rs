//! What several plugins have in common; no plugin lives here.

pub(crate) mod addresses;
pub(crate) mod amount;
pub(crate) mod answer_body;
pub(crate) mod body;
pub(crate) mod compression;
pub(crate) mod conditions;
pub(crate) mod credentials;
pub(crate) mod encoding;
pub(crate) mod gate;
pub(crate) mod header_fields;
pub(crate) mod headers;
pub(crate) mod http_client;
pub(crate) mod http_date;
pub(crate) mod identity;
pub(crate) mod limit_key;
pub(crate) mod logging;
pub(crate) mod lua_number;
pub(crate) mod patterns;
pub(crate) mod redis;
pub(crate) mod refusal;
pub(crate) mod request_document;
pub(crate) mod secret;
pub(crate) mod status;
pub(crate) mod substitute;
pub(crate) mod table;
pub(crate) mod text;
pub(crate) mod uri;

#[cfg(test)]
pub(crate) mod test_server;
