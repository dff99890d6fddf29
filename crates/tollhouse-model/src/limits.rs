//! Limits on documents, each with its reason. Limits on traffic live beside the code they bound.

/// Longest `uri` of a route, in characters: APISIX's schema.
pub const ROUTE_URI_CHARS_MAX: usize = 4096;

/// Longest id, in characters: APISIX's schema.
pub const ID_CHARS_MAX: usize = 64;

/// Longest name, in characters: APISIX's schema.
pub const NAME_CHARS_MAX: usize = 256;

/// Longest description and label value, in characters: APISIX's schema.
pub const TEXT_CHARS_MAX: usize = 256;

/// Deepest nesting of a `vars` expression: keeps evaluation off the end of a small stack.
pub const EXPRESSION_DEPTH_MAX: usize = 32;

/// Longest value quoted in a problem, in characters: enough to recognise, never a page.
pub const PROBLEM_VALUE_CHARS_MAX: usize = 120;

/// Longest time that a document may give, in seconds (about 31 years): more is a slip of the unit,
/// and sums of such times cannot overflow.
pub const SECONDS_MAX: f64 = 1e9;

/// Shortest and longest client certificate, in characters: APISIX's schema.
pub const CERTIFICATE_CHARS: (usize, usize) = (128, 65_536);

/// Shortest and longest private key, in characters: APISIX's schema.
pub const PRIVATE_KEY_CHARS: (usize, usize) = (64, 65_536);

/// Highest threshold of a health check: APISIX's schema; its counters are one byte each.
pub const CHECK_THRESHOLD_MAX: i64 = 254;

/// Statuses that a health check may list: APISIX's schema.
pub const CHECK_STATUSES: (i64, i64) = (200, 599);

/// Longest definition of a proto, in characters: APISIX's schema.
pub const PROTO_CHARS_MAX: usize = 1 << 20;

/// Longest namespace of the registry, in characters: no longer one can be registered.
pub const NAMESPACE_CHARS_MAX: usize = 64;

/// Longest service of the registry, in characters: no longer one can be registered.
pub const SERVICE_CHARS_MAX: usize = 128;

/// Longest version of an instance, in characters: no longer one can be registered.
pub const INSTANCE_VERSION_CHARS_MAX: usize = 32;

/// Most pairs of metadata of an instance: no more can be registered.
pub const METADATA_PAIRS_MAX: usize = 64;

/// Longest key of an instance's metadata, in characters: no longer one can be registered.
pub const METADATA_KEY_CHARS_MAX: usize = 128;

/// Longest value of an instance's metadata, in characters: no longer one can be registered.
pub const METADATA_VALUE_CHARS_MAX: usize = 4096;

/// Longest text of the authorities of an upstream's nodes: a bundle of all public ones has a quarter of it.
pub const AUTHORITIES_CHARS_MAX: usize = 1 << 20;
