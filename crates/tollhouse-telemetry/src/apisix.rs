//! Metrics of requests under APISIX's names and labels, so that its dashboards and alerts read them
//! as they are.
//!
//! Labels are open sets here: routes, services, consumers, nodes. Each core has tables of its own:
//! a label set is put into words when the core meets it first, and handed to the side that renders
//! through a channel; from then on a request costs one look-up in the core's table and plain adds
//! to numbers that only this core writes. A page reads those numbers and takes no lock that a core
//! takes. What may be asked about the process as a whole is handed in as [`ProcessFacts`].

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

/// Label sets that one core counts apart; requests of further ones are counted under `other`. At
/// the default buckets one label set takes 10 KB of a page and 1.5 KB of memory, so that this many
/// make a page of 200 MB, beyond what Prometheus takes well in one scrape.
pub const LABEL_SETS_MAX: usize = 20_000;

/// What labels say for requests beyond [`LABEL_SETS_MAX`].
pub const FOLDED: &str = "other";

/// Longest label value in bytes; the longest path pattern of a route has as many. Values of extra
/// labels may come from clients and are cut off here.
pub const LABEL_BYTES_MAX: usize = 4096;

/// Extra labels that one metric may have; Prometheus advises against more than ten in all.
pub const EXTRA_LABELS_MAX: usize = 16;

/// Buckets that the histogram of latencies may have.
pub const BUCKETS_MAX: usize = 64;
