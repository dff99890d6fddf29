//! Limits of the registry, each with its reason. Lengths are in characters, as in Polaris.

use std::time::Duration;

/// Maximum length of a service's name, as in Polaris.
pub const SERVICE_CHARS_MAX: usize = 128;

/// Maximum length of a namespace's name, as in Polaris.
pub const NAMESPACE_CHARS_MAX: usize = 64;

/// Maximum length of an instance's host, as in Polaris; DNS names in use are shorter.
pub const HOST_CHARS_MAX: usize = 128;

/// Maximum length of an instance id: the width of Polaris' database column.
pub const INSTANCE_ID_CHARS_MAX: usize = 128;

/// Maximum length of an instance's protocol and version, as in Polaris.
pub const PROTOCOL_CHARS_MAX: usize = 32;

/// Maximum length of a logic set, as in Polaris.
pub const LOGIC_SET_CHARS_MAX: usize = 128;

/// Maximum length of the id of a virtual private cloud: the width of Polaris' database column.
pub const VPC_ID_CHARS_MAX: usize = 64;

/// Maximum number of metadata pairs of an object, as in Polaris.
pub const METADATA_PAIRS_MAX: usize = 64;

/// Maximum length of a metadata key, as in Polaris.
pub const METADATA_KEY_CHARS_MAX: usize = 128;

/// Maximum length of a metadata value, as in Polaris.
pub const METADATA_VALUE_CHARS_MAX: usize = 4_096;

/// Maximum weight of an instance, as in Polaris.
pub const WEIGHT_MAX: u32 = 65_535;

/// Default weight of an instance, as in Polaris.
pub const WEIGHT_DEFAULT: u16 = 100;

/// Maximum length of region, zone and campus: the width of Polaris' database columns.
pub const LOCATION_CHARS_MAX: usize = 128;

/// Maximum length of a descriptive text of a service or namespace (business, department, comment
/// and so on): the width of Polaris' database column for comments.
pub const TEXT_CHARS_MAX: usize = 1_024;

/// Default interval between heartbeats in seconds; it also replaces a value out of range.
pub const TTL_SECONDS_DEFAULT: u8 = 5;

/// Maximum interval between heartbeats in seconds, as in Polaris.
pub const TTL_SECONDS_MAX: u8 = 60;

/// Expiry time of an instance in heartbeat intervals, as in Polaris.
pub const TTLS_TO_EXPIRY: u64 = 3;

/// Maximum bytes of unknown fields kept with an instance: enough for a few fields of a newer
/// protocol, too few to be used as storage.
pub const UNKNOWN_BYTES_MAX: usize = 4 * 1024;

/// Maximum number of instances: ten times the measured load, about 1 GB of memory.
pub const INSTANCES_MAX: usize = 1_000_000;

/// Maximum number of services, and of aliases. Registering creates services, so that without a
/// bound a client with invented names could fill the memory.
pub const SERVICES_MAX: usize = 200_000;

/// Maximum number of namespaces, for the reason given at [`SERVICES_MAX`].
pub const NAMESPACES_MAX: usize = 20_000;

/// Maximum number of governance rules of all kinds.
pub const RULES_MAX: usize = 100_000;

/// Maximum number of service contracts.
pub const CONTRACTS_MAX: usize = 100_000;

/// Maximum length of a contract's kind: the width of Polaris' database column.
pub const CONTRACT_KIND_CHARS_MAX: usize = 128;
/// Maximum length of a contract's protocol: the width of Polaris' database column.
pub const CONTRACT_PROTOCOL_CHARS_MAX: usize = 32;
/// Maximum length of a contract's version: the width of Polaris' database column.
pub const CONTRACT_VERSION_CHARS_MAX: usize = 64;

/// Maximum length of a configuration file's content in bytes. Polaris allows 20,000 characters by
/// default, about which its users complain; a client's message of 4 MiB holds this and more.
pub const CONFIG_CONTENT_BYTES_MAX: usize = 1024 * 1024;

/// Maximum length of a configuration file's name: the width of Polaris' database column.
pub const CONFIG_NAME_CHARS_MAX: usize = 128;

/// Maximum number of labels of a gray release.
pub const CONFIG_LABELS_MAX: usize = 64;

/// Maximum number of configuration groups. Writing a file creates its group, so that without a
/// bound a client with invented names could fill the memory.
pub const CONFIG_GROUPS_MAX: usize = 20_000;

/// Maximum number of configuration files, for the reason given at [`CONFIG_GROUPS_MAX`].
pub const CONFIG_FILES_MAX: usize = 200_000;

/// Maximum number of releases that are kept of a file; the oldest idle ones are dropped, so that a
/// pipeline can publish for years.
pub const CONFIG_RELEASES_MAX: usize = 64;

/// Maximum number of history entries that are kept of a file; the oldest are dropped.
pub const CONFIG_HISTORY_MAX: usize = 64;

/// Maximum number of deleted files per group whose last entry is kept; the oldest are dropped.
pub const CONFIG_DELETED_FILES_MAX: usize = 1_000;

/// Maximum number of templates of configuration files.
pub const CONFIG_TEMPLATES_MAX: usize = 1_000;

/// Maximum number of files that one call awaits.
pub const CONFIG_WATCHED_FILES_MAX: usize = 4_096;

/// Maximum bytes of all watches on configuration files: the names of ten files for each of a
/// hundred thousand clients.
pub const CONFIG_WATCHES_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Maximum number of users, groups, roles and policies together; each user has a policy.
pub const IDENTITIES_MAX: usize = 50_000;

/// Maximum number of members of a group or role, and of principals or resources of a policy: an
/// object of this many ids is within the store's limit for one value.
pub const POLICY_MEMBERS_MAX: usize = 5_000;

/// Maximum number of function names in a policy: the calls of Polaris and as many of later versions.
pub const POLICY_FUNCTIONS_MAX: usize = 256;

/// Maximum number of conditions on labels in a policy.
pub const POLICY_LABELS_MAX: usize = 64;

/// Maximum number of namespaces to which a service or namespace is exported; `*` exports to all.
pub const EXPORTS_MAX: usize = 256;

/// Default bound on the memory of all objects, in bytes: enough for [`INSTANCES_MAX`] instances
/// with usual metadata.
pub const STATE_BYTES_MAX: usize = 2 * 1024 * 1024 * 1024;

/// Maximum size of a rule or contract body, in bytes: the store's limit less the object's other
/// fields.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;

/// Maximum number of queued commands; further ones are refused. The queue holds some seconds of
/// work.
pub const COMMANDS_QUEUED_MAX: usize = 16 * 1024;

/// Maximum bytes of queued commands. Further commands are refused rather than delayed, because a
/// waiting caller would hold the bytes as well.
pub const COMMANDS_QUEUED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Maximum number of commands in one commit: as many as sixteen connections with full pipelines
/// submit during one disk flush, yet few enough that the first does not wait for long.
pub const COMMANDS_BATCHED_MAX: usize = 2_048;

/// Maximum number of unregistered ids whose heartbeats are counted; Polaris refuses the fifth.
pub const UNREGISTERED_MAX: usize = 64 * 1024;

/// Maximum size of the remembered ids of unregistered instances in bytes.
pub const UNREGISTERED_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Number of heartbeats of an unknown instance that are answered with success: Polaris tolerates
/// the delay of its own cache, and clients rely on it.
pub const UNREGISTERED_HEARTBEATS_TOLERATED: u32 = 4;

/// Maximum number of clients whose reports are kept.
pub const CLIENTS_MAX: usize = 100_000;

/// Maximum length of a reported client's id: the width of Polaris' database column.
pub const CLIENT_ID_CHARS_MAX: usize = 128;

/// Maximum bytes of a client's report: ten times the size of a usual SDK report.
pub const CLIENT_BYTES_MAX: usize = 4 * 1024;

/// Maximum size of all clients' reports in bytes.
pub const CLIENTS_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Interval between removals of silent clients from memory; listings omit them earlier.
pub const CLIENTS_SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// Duration for which a client's report is kept: three of the SDKs' intervals of two minutes.
pub const CLIENT_KEPT: Duration = Duration::from_secs(360);

/// Resolution of expiry: small beside the shortest expiry of three seconds.
pub const HEALTH_TICK: Duration = Duration::from_millis(100);

/// Maximum sleep of the registry's main task while an instance may expire, so that it notices
/// pauses of the process. A pause of up to this plus [`PAUSE_MIN`], two seconds, goes unnoticed:
/// the shortest expiry of three seconds, less the second in which the next heartbeat is due.
pub const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Delay from which a late look of the keeper counts as a pause of the whole process, for example
/// because it was stopped or the machine slept; far above scheduling delays.
pub const PAUSE_MIN: Duration = Duration::from_secs(1);

/// Delay before a change of health is saved: longer than flapping, and longer than a process takes
/// to shut down, during which it receives no heartbeats.
pub const HEALTH_SAVED_AFTER: Duration = Duration::from_secs(10);

/// Minimum interval between saves of changed health, all in one commit, so that a network failure
/// does not cause a storm of commits.
pub const HEALTH_SAVED_INTERVAL: Duration = Duration::from_secs(1);

/// Interval between comparisons of the nodes. A state that differs from the store is found within
/// two minutes; the checksum of a million instances takes some tens of milliseconds.
pub const DIGEST_INTERVAL: Duration = Duration::from_secs(60);

/// Lease of a member: silence after which the others remove the node.
pub const MEMBER_LEASE: Duration = Duration::from_secs(10);

/// Interval between renewals of the lease: three within a lease.
pub const MEMBER_RENEWAL: Duration = Duration::from_secs(3);

/// Interval between rounds over the store: the shortest heartbeat interval.
pub const ROUND_INTERVAL: Duration = Duration::from_secs(1);

/// Timeout of sending a round, after which it is sent another way.
pub const ROUND_WAIT: Duration = Duration::from_secs(2);

/// Maximum number of tries to commit a group that other nodes' commits overtake; after that each
/// command is tried alone.
pub const GROUP_TRIES_MAX: u32 = 3;

/// Maximum number of tries to commit a single command.
pub const COMMAND_TRIES_MAX: u32 = 8;

/// Delay before a failed change of health is tried again, and before a silent instance is examined
/// again whose expiry another node must commit.
pub const HEALTH_RETRY: Duration = Duration::from_secs(1);

/// Interval between runs of the cleaner.
pub const CLEAN_UP_INTERVAL: Duration = Duration::from_secs(30);

/// Interval between test writes to a store that refused a commit. Clients avoid a registry that
/// reports that it cannot write, so that no registration would detect the recovery.
pub const STORE_PROBE_INTERVAL: Duration = Duration::from_secs(1);
