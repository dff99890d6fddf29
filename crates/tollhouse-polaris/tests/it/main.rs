//! The registry's dialect from outside: real sockets, and a client of its own that shares no code
//! with the server but HTTP/2 itself and the generated types of messages.

mod client;
mod dialect;
mod generated;
mod grpc;
mod server;
