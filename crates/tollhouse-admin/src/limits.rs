//! Limits of the Admin API, with their reasons.

use std::time::Duration;

/// Maximum size of a request body in bytes: the limit of etcd, so that every object can be moved to
/// an etcd.
pub const BODY_BYTES_MAX: usize = 1_572_864;

/// Maximum size in bytes of a document that is replaced or validated as a whole: about 50,000
/// objects. Larger configurations need a store, in which objects are written individually.
pub const DOCUMENT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Maximum number of bytes of a refused body that the answer contains, so that the client
/// recognises the body.
pub const ECHO_BYTES_MAX: usize = 64 * 1024;

/// Number of objects that are processed before yielding to other tasks: a few milliseconds of work.
pub const OBJECTS_PER_TURN: usize = 512;

/// Maximum number of concurrent connections. Programs use few connections, and each needs a buffer.
pub const CONNECTIONS_MAX: usize = 1024;

/// Maximum number of concurrent registry watches: a quarter of the connections, so that the API
/// stays reachable.
pub const WATCHES_MAX: usize = CONNECTIONS_MAX / 4;

/// Maximum time to receive a request head, and idle timeout of a connection.
pub const HEAD_TIME_MAX: Duration = Duration::from_secs(60);

/// Maximum time to receive a request body: enough for the largest one over a slow connection.
pub const BODY_TIME_MAX: Duration = Duration::from_secs(60);

/// Maximum number of query arguments that are parsed; the API uses about ten.
pub const ARGUMENTS_MAX: usize = 100;

/// Maximum nesting depth of an object that a patch creates. Lower than the limit of the JSON
/// parser, so that the object can be read back.
pub const DEPTH_MAX: usize = 100;

/// Maximum number of attempts of a write whose commits fail because objects that it depends on keep
/// changing. More attempts would not help under such load.
pub const ATTEMPTS_MAX: usize = 5;

/// Maximum number of attempts of a write that fail because other calls wrote the object first. This
/// is the number of calls that may wait for one object, because each failed attempt means that
/// another of these writes succeeded.
pub const OVERTAKEN_MAX: usize = 1024;

/// Maximum total time of the attempts that [`OVERTAKEN_MAX`] limits; clients wait longer for an
/// answer.
pub const OVERTAKEN_TIME_MAX: Duration = Duration::from_secs(10);

/// Maximum time that a call waits in the queue for writing an object; as long as catching up with
/// the store may take.
pub const TURN_WAIT_MAX: Duration = Duration::from_secs(2);

/// Number of queues in which calls wait to write an object. Objects may share a queue, which delays
/// their writes only a little.
pub const TURNS: usize = 64;
