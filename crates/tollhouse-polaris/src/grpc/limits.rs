//! Limits of the gRPC server, each with its reason. A client that reaches one gets a status or is
//! disconnected; other clients are not affected.

use std::time::Duration;

/// Maximum length of a message: the default of gRPC servers.
pub const MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Maximum number of open calls per connection. Load generators run some hundred workers over one
/// connection, and clients queue further calls.
pub const STREAMS_MAX: u32 = 1_024;

/// Maximum number of connections, by default.
pub const CONNECTIONS_MAX: usize = 16_384;

/// Maximum bytes of a request's header fields: four times the size that SDKs and proxies send.
pub const HEADER_BYTES_MAX: u32 = 16 * 1024;

/// Flow-control window of a stream: usual messages fit without a wait.
pub const STREAM_WINDOW_BYTES: u32 = 1 << 18;

/// Flow-control window of a connection, and the bound on its unread bytes.
pub const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;

/// Maximum bytes held for a connection: incomplete messages, and long answers made for it alone
/// that it has not read. Equals eight messages of maximum length.
pub const HELD_BYTES_MAX: usize = 8 * MESSAGE_BYTES_MAX;

/// Maximum bytes held for all connections of a thread: eight connections at their own limit.
pub const THREAD_HELD_BYTES_MAX: usize = 8 * HELD_BYTES_MAX;

/// Maximum number of waiting calls per connection. Twice the streams, because a cancelled call
/// still counts until its request to the registry completes.
pub const CALLS_WAITING_MAX: usize = 2 * STREAMS_MAX as usize;

/// Bytes charged for a waiting call in addition to its head and message: its task.
pub const WAITING_CALL_BYTES: usize = 2 * 1024;

/// Timeout for the complete arrival of a message and, in a unary call, of the end of the stream.
pub const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum bytes of distinct shared answers in transmission per thread. Clients that read share the
/// newest answer of each service; slow clients would keep all older ones in memory.
pub const PINNED_BYTES_MAX: usize = 512 * 1024 * 1024;

/// Bytes charged for a long shared answer in addition to its first piece, because further pieces
/// are shared between versions.
pub const CHAIN_BYTES: usize = 64 * 1024;

/// Number of checks without progress after which a stalled answer ends its connection: one minute.
pub const STALLED_LOOKS_MAX: u32 = 4;

/// Bytes of an answer that count as progress within that time.
pub const STALL_PROGRESS_BYTES: usize = 64 * 1024;

/// Length in bytes up to which an answer for one client is not charged to [`HELD_BYTES_MAX`],
/// because all streams of a connection together cannot hold many such answers.
pub const UNCOUNTED_BYTES_MAX: usize = 16 * 1024;

/// Bytes sent on a stream between two checks that the client reads. A check costs a lock; so many
/// bytes may wait in HTTP/2's queue beyond the client's window.
pub const UNCHECKED_BYTES_MAX: usize = 64 * 1024;

/// Maximum burst of streams reset by the client, or by this side for a client's error. A load
/// generator may cancel all its calls at its end; a client that does so again and again is
/// disconnected.
pub const EARLY_RESETS_MAX: u32 = 1_024;

/// Resets per second that are allowed in the long run: those of a client that gives up slow calls.
pub const RESETS_PER_SECOND: u32 = 33;

/// Timeout for the HTTP/2 preface and settings of a new connection.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval between checks of all connections.
pub const PRESENCE_INTERVAL: Duration = Duration::from_secs(15);

/// Checks without a received byte after which a connection is pinged: half a minute of silence.
pub const SILENT_LOOKS_BEFORE_PING: u32 = 2;

/// Checks without a received byte after which a connection is closed; a live client answers a ping
/// within seconds.
pub const SILENT_LOOKS_BEFORE_END: u32 = 4;

/// Maximum time for calls in progress to finish after the stop.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause after a failed accept that only time can cure, such as a lack of file descriptors.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Maximum length of a status message in trailers; longer ones are truncated.
pub const STATUS_MESSAGE_BYTES_MAX: usize = 1_024;

/// Number of output bytes collected for one write: enough that most of them are payload, few enough
/// for a core's cache.
pub const OUTPUT_BYTES: usize = 64 * 1024;

/// Size of the read buffer, which all connections of a thread share.
pub const READ_BYTES: usize = 32 * 1024;

/// Bytes up to which small pieces of an answer are joined: a frame of default size.
pub const GATHERED_BYTES: usize = 16 * 1024;

/// Maximum length of a piece that is copied to be joined.
pub const GATHERED_PIECE_BYTES_MAX: usize = 1_024;
