//! Every bound of the gRPC side, with its reason. A client that meets one gets a status or is
//! disconnected; the others do not notice.

use std::time::Duration;

/// Longest message that is taken: the limit that gRPC servers have unless told otherwise.
pub const MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Calls that a client may have open at once on a connection: load generators run some hundred
/// workers over one connection, and clients queue what goes beyond.
pub const STREAMS_MAX: u32 = 1_024;

/// Connections of a server of which nobody says how many it may have.
pub const CONNECTIONS_MAX: usize = 16_384;

/// Bytes of a request's header fields together: four times what SDKs and proxies put there.
pub const HEADER_BYTES_MAX: u32 = 16 * 1024;

/// Bytes that a client may send ahead on one stream: usual messages come without waiting.
pub const STREAM_WINDOW_BYTES: u32 = 1 << 18;

/// The same for all streams of a connection; also what HTTP/2 may hold unread for one.
pub const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;

/// Bytes that a connection may make us hold: parts of messages that are not whole yet, and long answers
/// made for it alone that it does not read. Eight messages of the longest kind.
pub const HELD_BYTES_MAX: usize = 8 * MESSAGE_BYTES_MAX;

/// The same for all connections of a thread together: eight connections that use up their own.
pub const THREAD_HELD_BYTES_MAX: usize = 8 * HELD_BYTES_MAX;

/// Calls of a connection that wait for something. Twice the streams, because a call that the client
/// takes back counts until what it asked the registry for is done.
pub const CALLS_WAITING_MAX: usize = 2 * STREAMS_MAX as usize;

/// Bytes that a call takes while it waits, beside its head and its message: a task.
pub const WAITING_CALL_BYTES: usize = 2 * 1024;

/// How long a message may take to arrive whole and, where it is the only one, to be ended.
pub const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(60);

/// Bytes of different shared answers on their way to the clients of a thread. Clients that read take
/// the newest, which is one for each service; others would keep all that were.
pub const PINNED_BYTES_MAX: usize = 512 * 1024 * 1024;

/// Bytes that a long shared answer keeps of its own: its pieces are shared with other versions of it.
pub const CHAIN_BYTES: usize = 64 * 1024;

/// Looks during which an answer may not move before its connection is ended: a minute.
pub const STALLED_LOOKS_MAX: u32 = 4;

/// Bytes of an answer that must be taken within that time.
pub const STALL_PROGRESS_BYTES: usize = 64 * 1024;

/// Answers made for one client that are shorter than this are not counted against
/// [`HELD_BYTES_MAX`]: a connection's streams together cannot hold much of them.
pub const UNCOUNTED_BYTES_MAX: usize = 16 * 1024;

/// Bytes sent on a stream between two looks at whether the client reads: looking costs a lock, and so
/// much may lie in HTTP/2's queue beyond what the client's window takes.
pub const UNCHECKED_BYTES_MAX: usize = 64 * 1024;

/// Streams that the client resets, or that this side does because of what the client did wrong. A load
/// generator that ends may take back all of its calls at once; a client that does so again and again is
/// sent away.
pub const EARLY_RESETS_MAX: u32 = 1_024;

/// Of those, how many a second are forgiven: those of a client that gives up on what is slow.
pub const RESETS_PER_SECOND: u32 = 33;

/// How long a new connection may take to speak HTTP/2.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How often connections are looked at for signs of life.
pub const PRESENCE_INTERVAL: Duration = Duration::from_secs(15);

/// Looks without a byte after which a connection is pinged: half a minute of silence.
pub const SILENT_LOOKS_BEFORE_PING: u32 = 2;

/// Looks without a byte after which a connection is ended: a living client answers a ping in seconds.
pub const SILENT_LOOKS_BEFORE_END: u32 = 4;

/// How long calls under way may take to end after the stop.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause after an error of accepting that only time mends, such as no file descriptors left.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Bytes of a status message in the trailers; longer ones are cut.
pub const STATUS_MESSAGE_BYTES_MAX: usize = 1_024;

/// Bytes of answers gathered before they are written: enough that a write is mostly payload, few enough
/// to stay in a core's cache.
pub const OUTPUT_BYTES: usize = 64 * 1024;

/// Bytes read at a time, into one buffer that all connections of a thread use.
pub const READ_BYTES: usize = 32 * 1024;

/// Reads of one connection before the others have their turn.
pub const READS_PER_TURN: u32 = 8;

/// Bytes of small pieces of an answer that are taken together: a frame of the usual size.
pub const GATHERED_BYTES: usize = 16 * 1024;

/// Longest piece that is copied to be taken together with others.
pub const GATHERED_PIECE_BYTES_MAX: usize = 1_024;
