//! The bounds of the registry and the reason of each. Lengths are in characters, as Polaris counts.

use std::time::Duration;

/// Longest name of a service, as in Polaris.
pub const SERVICE_CHARS_MAX: usize = 128;

/// Longest name of a namespace, as in Polaris.
pub const NAMESPACE_CHARS_MAX: usize = 64;

/// Longest host of an instance, as in Polaris; the longest DNS name in use is shorter.
pub const HOST_CHARS_MAX: usize = 128;

/// Longest id of an instance: what Polaris' database column holds.
pub const INSTANCE_ID_CHARS_MAX: usize = 128;

/// Longest protocol and version of an instance, as in Polaris.
pub const PROTOCOL_CHARS_MAX: usize = 32;

/// Longest logic set, as in Polaris.
pub const LOGIC_SET_CHARS_MAX: usize = 128;

/// Longest id of a virtual private cloud: what Polaris' database column holds.
pub const VPC_ID_CHARS_MAX: usize = 64;

/// Most metadata pairs of one object, as in Polaris.
pub const METADATA_PAIRS_MAX: usize = 64;

/// Longest metadata key, as in Polaris.
pub const METADATA_KEY_CHARS_MAX: usize = 128;

/// Longest metadata value, as in Polaris.
pub const METADATA_VALUE_CHARS_MAX: usize = 4_096;

/// Largest weight, as in Polaris.
pub const WEIGHT_MAX: u32 = 65_535;

/// Weight of an instance that gives none, as in Polaris.
pub const WEIGHT_DEFAULT: u16 = 100;

/// Longest region, zone and campus: what Polaris' database columns hold.
pub const LOCATION_CHARS_MAX: usize = 128;

/// Longest describing text of a service or namespace (business, department, comment and so on):
/// what Polaris' database column for comments holds.
pub const TEXT_CHARS_MAX: usize = 1_024;

/// Time between two heartbeats, in seconds, of an instance that gives none or one out of range.
pub const TTL_SECONDS_DEFAULT: u8 = 5;

/// Longest time between two heartbeats, in seconds, as in Polaris.
pub const TTL_SECONDS_MAX: u8 = 60;

/// Heartbeats that may be missed before an instance counts as unhealthy, as in Polaris.
pub const TTLS_TO_EXPIRY: u64 = 3;

/// Bytes of fields that this version does not know, kept with an instance: generous for a few
/// fields of a newer protocol, too few to be a store of its own.
pub const UNKNOWN_BYTES_MAX: usize = 4 * 1024;

/// Most instances: ten times what the registry is measured with; about 1 GB of memory.
pub const INSTANCES_MAX: usize = 1_000_000;

/// Most services and aliases, each: registering creates services, so that a client that makes names up
/// must not fill the memory.
pub const SERVICES_MAX: usize = 200_000;

/// Most namespaces, for the same reason.
pub const NAMESPACES_MAX: usize = 20_000;

/// Most governance rules of all kinds.
pub const RULES_MAX: usize = 100_000;

/// Most service contracts.
pub const CONTRACTS_MAX: usize = 100_000;

/// Longest kind, protocol and version of a contract: what Polaris' database columns hold.
pub const CONTRACT_KIND_CHARS_MAX: usize = 128;
/// See [`CONTRACT_KIND_CHARS_MAX`].
pub const CONTRACT_PROTOCOL_CHARS_MAX: usize = 32;
/// See [`CONTRACT_KIND_CHARS_MAX`].
pub const CONTRACT_VERSION_CHARS_MAX: usize = 64;

/// Most namespaces that one service or namespace names as its readers; more are named by `*`.
pub const EXPORTS_MAX: usize = 256;

/// Bytes of memory that all objects together may take, where nobody says otherwise: as many
/// instances as there may be, with usual metadata.
pub const STATE_BYTES_MAX: usize = 2 * 1024 * 1024 * 1024;

/// Largest body of a rule or contract, in bytes: what the store takes, less its own fields.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;

/// Commands that wait for the keeper; whoever submits more is refused. Some seconds of work.
pub const COMMANDS_QUEUED_MAX: usize = 16 * 1024;

/// Bytes of commands that wait for the keeper. Whoever submits more is refused: who waits would hold
/// the bytes all the same.
pub const COMMANDS_QUEUED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Commands committed together: what sixteen connections with full pipelines submit during one
/// flush of a disk, while the first of them does not wait for long.
pub const COMMANDS_BATCHED_MAX: usize = 2_048;

/// Ids that nobody registered, remembered to answer their fifth heartbeat as Polaris does.
pub const UNREGISTERED_MAX: usize = 64 * 1024;

/// Bytes of their ids.
pub const UNREGISTERED_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Heartbeats of an unknown instance that are answered as if it were known: Polaris tolerates the delay
/// of its own cache, and clients count on it.
pub const UNREGISTERED_HEARTBEATS_TOLERATED: u32 = 4;

/// Most reported clients kept in memory.
pub const CLIENTS_MAX: usize = 100_000;

/// Longest id of a reported client: what Polaris' database column holds.
pub const CLIENT_ID_CHARS_MAX: usize = 128;

/// Bytes that are kept of a client's report: ten times what SDKs say of themselves.
pub const CLIENT_BYTES_MAX: usize = 4 * 1024;

/// Bytes that are kept of all reports together.
pub const CLIENTS_BYTES_MAX: usize = 64 * 1024 * 1024;

/// How often clients that fell silent are looked for, to free their memory; lists leave them out before.
pub const CLIENTS_SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// How long a reported client is kept: three of the SDKs' intervals of two minutes.
pub const CLIENT_KEPT: Duration = Duration::from_secs(360);

/// How exact expiry is. A tenth of a second of delay is little beside the three seconds of the shortest.
pub const HEALTH_TICK: Duration = Duration::from_millis(100);

/// How long the keeper sleeps at most while anybody may expire, so that it notices when this process was
/// stopped. A pause goes unnoticed for as long as this and [`PAUSE_MIN`] together, two seconds: the
/// shortest expiry of three, less the second in which the next heartbeat is due.
pub const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// A look of the keeper that comes later than this by its own timer was held up by something that held
/// up everybody: the process was stopped, the machine slept. Far above what scheduling adds.
pub const PAUSE_MIN: Duration = Duration::from_secs(1);

/// How long a change of health stands before it is made durable: longer than flapping, and than a
/// process takes to end, in which no heartbeat is heard.
pub const HEALTH_SAVED_AFTER: Duration = Duration::from_secs(10);

/// How often changes of health are made durable, in one commit, so that a network failure is no storm
/// of them.
pub const HEALTH_SAVED_INTERVAL: Duration = Duration::from_secs(1);

/// How often nodes are compared with each other: a state that is not what the store holds is found within two
/// minutes, and a million instances are added up in some tens of milliseconds.
pub const DIGEST_INTERVAL: Duration = Duration::from_secs(60);

/// How long a node of a shared registry may be silent before the others count it out.
pub const MEMBER_LEASE: Duration = Duration::from_secs(10);

/// How often it says that it lives: three times within a lease.
pub const MEMBER_RENEWAL: Duration = Duration::from_secs(3);

/// How often a node says over the store whom it has heard of: as often as the shortest interval of beats.
pub const ROUND_INTERVAL: Duration = Duration::from_secs(1);

/// How long a round may take on its way before it goes another one.
pub const ROUND_WAIT: Duration = Duration::from_secs(2);

/// How often a group of commands is done again because another node has changed what it rests on, before each
/// command is tried by itself.
pub const GROUP_TRIES_MAX: u32 = 3;

/// How often one command is.
pub const COMMAND_TRIES_MAX: u32 = 8;

/// How soon a change of health is tried again that could not be committed, and how often a node looks at
/// silent instances of which another one is to say that they have expired.
pub const HEALTH_RETRY: Duration = Duration::from_secs(1);

/// How often is looked for what nobody needs any more.
pub const CLEAN_UP_INTERVAL: Duration = Duration::from_secs(30);

/// How often a store that refused a commit is tried again without being asked to: clients stay away from
/// a registry that says it cannot write, so that no registration would find out.
pub const STORE_PROBE_INTERVAL: Duration = Duration::from_secs(1);
