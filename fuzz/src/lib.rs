//! Shared parts of fuzz targets that need more than one call: a whole gateway between scripted
//! clients and nodes, for HTTP and for datagrams, and an HTTP/2 connection with its application.
//! Targets for parsers of single messages need none of these parts.

pub mod datagrams;
pub mod exchange;
pub mod h2;
pub mod worker;
