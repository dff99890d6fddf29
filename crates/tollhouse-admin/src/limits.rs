//! The bounds of the Admin API and the reason of each.

use std::time::Duration;

/// Largest body of a request, in bytes: what etcd takes, so that every object can move there.
pub const BODY_BYTES_MAX: usize = 1_572_864;

/// Largest document that is replaced or validated as a whole, in bytes: some 50,000 objects. Larger
/// configurations belong in a store, which takes them object by object.
pub const DOCUMENT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Most of a refused body that is given back, in bytes: enough to recognise it by.
pub const ECHO_BYTES_MAX: usize = 64 * 1024;

/// Objects handled before others get their turn: some milliseconds of work.
pub const OBJECTS_PER_TURN: usize = 512;

/// Most connections at a time: programs use a few, and each costs a buffer.
pub const CONNECTIONS_MAX: usize = 1024;

/// Most watches of the registry at a time: a quarter of the connections, so that the rest of the API
/// stays reachable whatever is watched.
pub const WATCHES_MAX: usize = CONNECTIONS_MAX / 4;

/// How long the head of a request may take, and how long a connection may idle between two.
pub const HEAD_TIME_MAX: Duration = Duration::from_secs(60);

/// How long a body may take: the largest one over a slow line.
pub const BODY_TIME_MAX: Duration = Duration::from_secs(60);

/// Most arguments of a query that are looked at: the API knows ten.
pub const ARGUMENTS_MAX: usize = 100;

/// Deepest object that a patch may make, in levels: below what JSON text may have when it is read
/// back.
pub const DEPTH_MAX: usize = 100;

/// How often a write is checked anew when others come between its check and its commit. Who loses that often
/// meets a flood, and had better wait.
pub const ATTEMPTS_MAX: usize = 5;

/// How often the same object may be written by others in between: as many as wait at a time for one object at worst,
/// each of which lets one go first.
pub const OVERTAKEN_MAX: usize = 1024;

/// For how long that is put up with: clients wait longer for an answer.
pub const OVERTAKEN_TIME_MAX: Duration = Duration::from_secs(10);

/// Longest wait for a turn at an object: as long as the store may take to say what it has.
pub const TURN_WAIT_MAX: Duration = Duration::from_secs(2);

/// Queues of those who wait for their turn at an object. Two objects may share one, which costs whoever waits in it a
/// little.
pub const TURNS: usize = 64;
