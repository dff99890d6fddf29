//! Request metrics with APISIX's names and labels, so that its dashboards and alerts work
//! unchanged.
//!
//! The label values are open sets: routes, services, consumers, nodes. Each core has separate
//! tables. A core formats a label set when it first occurs and sends it through a channel to the
//! renderer; from then on a request costs one lookup in the core's table and plain additions to
//! numbers that only this core writes. Rendering reads those numbers without a lock that a core
//! takes. Facts about the whole process are passed in as [`ProcessFacts`].

mod core;
mod family;
mod page;
mod process;
mod series;
mod settings;
mod traffic;

pub use family::{Family, Hidden, LabelName, LabelSet};
pub use page::Page;
pub use process::{BatchQueue, Connections, NodeStatus, ProcessFacts};
pub use series::{ResponseSource, Served, Values};
pub use settings::{DEFAULT_BUCKETS_MS, DEFAULT_PREFIX, ExtraLabel, FamilySettings, Settings};
pub use traffic::Traffic;

/// Maximum number of label sets counted separately per core; requests beyond that are counted under
/// `other`. With the default buckets a label set takes 10 KB of a page and 1.5 KB of memory, so
/// this many make a page of 200 MB, more than Prometheus handles well in one scrape.
pub const LABEL_SETS_MAX: usize = 20_000;

/// Label value for requests beyond [`LABEL_SETS_MAX`].
pub const FOLDED: &str = "other";

/// Maximum length of a label value in bytes; as long as the longest path pattern of a route. Values
/// of extra labels may come from clients and are truncated.
pub const LABEL_BYTES_MAX: usize = 4096;

/// Maximum number of extra labels of a metric. Prometheus advises against more than ten labels in
/// total.
pub const EXTRA_LABELS_MAX: usize = 16;

/// Maximum number of buckets of the latency histogram.
pub const BUCKETS_MAX: usize = 64;
