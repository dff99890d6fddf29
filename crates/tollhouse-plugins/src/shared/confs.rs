//! Configuration fields that several plugins share, parsed for use with requests: lists of
//! addresses and patterns, conditions, statuses, header lines, texts with variables.

pub(crate) mod addresses;
pub(crate) mod conditions;
pub(crate) mod defaults;
pub(crate) mod header_fields;
pub(crate) mod headers;
pub(crate) mod identity;
pub(crate) mod lua_number;
pub(crate) mod patterns;
pub(crate) mod shares;
pub(crate) mod status;
pub(crate) mod substitute;
pub(crate) mod text;
