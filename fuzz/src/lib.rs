//! What fuzz targets share that are more than one call: a whole gateway between scripted clients and scripted nodes,
//! of HTTP and of datagrams, and a connection of HTTP/2 with its application. Parsers of single messages need none of it.

pub mod datagrams;
pub mod exchange;
pub mod h2;
pub mod worker;
