//! Limits of the Admin API, with their reasons.

use std::time::Duration;

/// Largest request body in bytes: the limit of etcd, so that every object can be moved there.
pub const BODY_BYTES_MAX: usize = 1_572_864;

/// Largest document that is replaced or validated as a whole, in bytes: about 50,000 objects.
/// Larger configurations need a store, which accepts single objects.
pub const DOCUMENT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Bytes of a refused body that the answer contains, so that its sender recognises it.
pub const ECHO_BYTES_MAX: usize = 64 * 1024;

/// Objects that are processed before yielding to other tasks: a few milliseconds of work.
pub const OBJECTS_PER_TURN: usize = 512;

/// Limit of concurrent connections: programs use few, and each needs a buffer.
pub const CONNECTIONS_MAX: usize = 1024;

/// Limit of concurrent registry watches: a quarter of the connections, so that the API stays
/// reachable.
pub const WATCHES_MAX: usize = CONNECTIONS_MAX / 4;

/// Timeout for a request head, and idle timeout of a connection.
pub const HEAD_TIME_MAX: Duration = Duration::from_secs(60);

/// Timeout for a request body: enough for the largest one over a slow connection.
pub const BODY_TIME_MAX: Duration = Duration::from_secs(60);

/// Limit of query arguments that are parsed; the API uses about ten.
pub const ARGUMENTS_MAX: usize = 100;

/// Deepest object that a patch may create, in levels; less than the limit for JSON that is read
/// back.
pub const DEPTH_MAX: usize = 100;

/// Limit of attempts of a write when objects that it depends on keep changing. More would not help
/// under such load.
pub const ATTEMPTS_MAX: usize = 5;

/// Maximum number of attempts that fail because other calls wrote the object first: as many as may
/// wait for one object, because each failed attempt means that another write succeeded.
pub const OVERTAKEN_MAX: usize = 1024;

/// Total time for such attempts; clients wait longer for an answer.
pub const OVERTAKEN_TIME_MAX: Duration = Duration::from_secs(10);

/// Timeout for the turn at an object; as long as catching up with the store may take.
pub const TURN_WAIT_MAX: Duration = Duration::from_secs(2);

/// Number of queues for turns at objects. Objects may share a queue, which only delays their writes
/// a little.
pub const TURNS: usize = 64;
