//! What fuzz targets share that are more than one call: a whole gateway between a scripted client and a
//! scripted node, and a connection of HTTP/2 with its application. Parsers of single messages need none of it.

pub mod exchange;
pub mod h2;
