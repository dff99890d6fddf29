//! Limits on documents, each with its reason. Limits on traffic live beside the code they bound.

/// Maximum length of a route's `uri` in characters: APISIX's schema.
pub const ROUTE_URI_CHARS_MAX: usize = 4096;

/// Maximum length of an id in characters: APISIX's schema.
pub const ID_CHARS_MAX: usize = 64;

/// Maximum length of a name in characters: APISIX's schema.
pub const NAME_CHARS_MAX: usize = 256;

/// Maximum length of a description or label value in characters: APISIX's schema.
pub const TEXT_CHARS_MAX: usize = 256;

/// Maximum nesting depth of a `vars` expression; bounds the stack needed for evaluation.
pub const EXPRESSION_DEPTH_MAX: usize = 32;

/// Maximum length of a value quoted in a problem, in characters; enough to recognise the value.
pub const PROBLEM_VALUE_CHARS_MAX: usize = 120;

/// Maximum duration in a document in seconds (about 31 years). More is probably a wrong unit, and
/// sums of such durations cannot overflow.
pub const SECONDS_MAX: f64 = 1e9;

/// Minimum and maximum length of a client certificate in characters, by APISIX's schema.
pub const CERTIFICATE_CHARS: (usize, usize) = (128, 65_536);

/// Minimum and maximum length of a private key in characters, by APISIX's schema.
pub const PRIVATE_KEY_CHARS: (usize, usize) = (64, 65_536);

/// Maximum threshold of a health check, by APISIX's schema. The counters of checks are one byte
/// each.
pub const CHECK_THRESHOLD_MAX: i64 = 254;

/// Lowest and highest status that a health check may list, by APISIX's schema.
pub const CHECK_STATUSES: (i64, i64) = (200, 599);

/// Maximum length of a proto's definition in characters: APISIX's schema.
pub const PROTO_CHARS_MAX: usize = 1 << 20;

/// Maximum length of a registry namespace in characters; longer ones cannot be registered.
pub const NAMESPACE_CHARS_MAX: usize = 64;

/// Maximum length of a registry service name in characters; longer ones cannot be registered.
pub const SERVICE_CHARS_MAX: usize = 128;

/// Maximum length of an instance's version in characters; longer ones cannot be registered.
pub const INSTANCE_VERSION_CHARS_MAX: usize = 32;

/// Maximum number of metadata pairs of an instance; more cannot be registered.
pub const METADATA_PAIRS_MAX: usize = 64;

/// Maximum length of a key in an instance's metadata, in characters; longer ones cannot be
/// registered.
pub const METADATA_KEY_CHARS_MAX: usize = 128;

/// Maximum length of a value in an instance's metadata, in characters; longer ones cannot be
/// registered.
pub const METADATA_VALUE_CHARS_MAX: usize = 4096;

/// Maximum length of an upstream's bundle of CA certificates, in characters. A bundle of all public
/// certificates has a quarter of this.
pub const AUTHORITIES_CHARS_MAX: usize = 1 << 20;
