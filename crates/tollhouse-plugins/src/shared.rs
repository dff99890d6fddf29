//! What several plugins have in common; no plugin lives here.

pub(crate) mod addresses;
pub(crate) mod conditions;
pub(crate) mod credentials;
pub(crate) mod encoding;
pub(crate) mod gate;
pub(crate) mod header_fields;
pub(crate) mod http_date;
pub(crate) mod lua_number;
pub(crate) mod patterns;
pub(crate) mod secret;
pub(crate) mod status;
pub(crate) mod text;
