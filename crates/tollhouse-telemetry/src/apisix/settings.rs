//! Settings from `plugin_attr.prometheus`: prefix, buckets, extra labels, and expiry of label sets.

use super::family::Family;
use super::{BUCKETS_MAX, EXTRA_LABELS_MAX};

/// Prefix of metric names by default, as in APISIX.
pub const DEFAULT_PREFIX: &str = "apisix_";

/// Default upper bounds of the latency buckets.
pub const DEFAULT_BUCKETS_MS: [f64; 15] = [
    1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 2_000.0, 5_000.0, 10_000.0,
    30_000.0, 60_000.0,
];

/// Prefix, buckets and labels of the metrics.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Prefix of the names of all metrics.
    pub prefix: String,
    buckets_ms: Vec<f64>,
    families: [FamilySettings; Family::COUNT],
    variables: Vec<String>,
}

/// Extra labels and expiry of one metric.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FamilySettings {
    /// Extra labels, which follow the built-in ones.
    pub extra_labels: Vec<ExtraLabel>,
    /// Seconds without a count after which a label set is removed from the page; 0 disables expiry.
    pub expire_s: u64,
}

/// A label whose value is a variable of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtraLabel {
    pub name: String,
    /// Name of the variable whose value the label has, without `$`.
    pub variable: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self::new(DEFAULT_PREFIX, &DEFAULT_BUCKETS_MS, Default::default())
    }
}

impl Settings {
    /// Builds settings; `families` are in the order of [`Family::ALL`]. Buckets are sorted; buckets
    /// and labels beyond the limits are dropped.
    pub fn new(
        prefix: &str,
        buckets_ms: &[f64],
        mut families: [FamilySettings; Family::COUNT],
    ) -> Self {
        let mut buckets_ms: Vec<f64> =
            buckets_ms.iter().copied().filter(|bound| bound.is_finite()).collect();
        buckets_ms.sort_by(f64::total_cmp);
        buckets_ms.dedup();
        buckets_ms.truncate(BUCKETS_MAX);
        let mut variables: Vec<String> = Vec::new();
        for family in &mut families {
            family.extra_labels.truncate(EXTRA_LABELS_MAX);
            for label in &family.extra_labels {
                if !variables.contains(&label.variable) {
                    variables.push(label.variable.clone());
                }
            }
        }
        Self { prefix: prefix.to_owned(), buckets_ms, families, variables }
    }

    /// Returns the upper bounds of the latency buckets, ascending.
    pub fn buckets_ms(&self) -> &[f64] {
        &self.buckets_ms
    }

    pub fn family(&self, family: Family) -> &FamilySettings {
        &self.families[family.index()]
    }

    /// Returns the variables used by extra labels. A request passes their values in this order.
    pub fn variables(&self) -> &[String] {
        &self.variables
    }

    /// Returns the index of `variable` among the values of a request.
    pub(super) fn place_of(&self, variable: &str) -> Option<usize> {
        self.variables.iter().position(|other| other == variable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_asked_for_once() {
        let label = |name: &str, variable: &str| ExtraLabel {
            name: name.into(),
            variable: variable.into(),
        };
        let with = |extra_labels| FamilySettings { extra_labels, expire_s: 0 };
        let families = [
            with(vec![label("a", "upstream_addr"), label("b", "host")]),
            with(vec![label("c", "host")]),
            with(vec![]),
        ];
        let settings = Settings::new("x_", &[5.0, 1.0, 5.0, f64::NAN], families);
        assert_eq!(settings.variables(), ["upstream_addr", "host"]);
        assert_eq!(settings.place_of("host"), Some(1));
        assert_eq!(settings.buckets_ms(), [1.0, 5.0]);
    }
}
