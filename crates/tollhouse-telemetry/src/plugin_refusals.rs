//! Requests that plugins refused, by plugin and error code, on one core. Only refusals cost
//! anything: a pass over the pairs that have occurred.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use crate::catalogue::PLUGIN_REFUSALS;
use crate::codes::ErrorCode;
use crate::counters::Counter;
use crate::exposition::{Exposition, labels};

/// Limit of pairs, for a hundred plugins; refusals of further pairs are counted by code only.
const PAIRS_MAX: usize = 256;

/// Counts of one core, which is their only writer.
#[derive(Debug)]
pub struct PluginRefusals(Box<[Pair]>);

#[derive(Debug, Default)]
struct Pair {
    /// Plugin and code, once the pair has occurred.
    label: OnceLock<(Box<str>, ErrorCode)>,
    count: Counter,
}

impl Default for PluginRefusals {
    fn default() -> Self {
        Self((0..PAIRS_MAX).map(|_| Pair::default()).collect())
    }
}

impl PluginRefusals {
    /// Counts a refusal. Allocates when a pair first occurs.
    #[cold]
    pub fn count(&self, plugin: &str, code: ErrorCode) {
        for pair in &self.0 {
            let (own, own_code) = pair.label.get_or_init(|| (plugin.into(), code));
            if **own == *plugin && *own_code == code {
                return pair.count.increment();
            }
        }
    }

    /// Sums over cores, by plugin and error code: at most [`PAIRS_MAX`] for each core.
    pub(crate) fn sums<'a>(
        cores: impl Iterator<Item = &'a Self>,
    ) -> BTreeMap<(&'a str, &'static str), u64> {
        let mut sums = BTreeMap::new();
        for pair in cores.flat_map(|core| &core.0) {
            let Some((plugin, code)) = pair.label.get() else { continue };
            *sums.entry((&**plugin, code.text())).or_default() += pair.count.value();
        }
        sums
    }

    /// Writes the sums over all cores to the metrics page.
    pub(crate) fn render<'a>(cores: impl Iterator<Item = &'a Self>, page: &mut Exposition) {
        let sums = Self::sums(cores);
        page.family(PLUGIN_REFUSALS.name, PLUGIN_REFUSALS.help, PLUGIN_REFUSALS.kind);
        for ((plugin, code), count) in sums {
            page.sample(&labels([("plugin", plugin), ("code", code)]), count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exposition::Format;

    #[test]
    fn refusals_are_counted_by_plugin_and_code_over_all_cores() {
        let (one, other) = (PluginRefusals::default(), PluginRefusals::default());
        one.count("key-auth", ErrorCode::AuthMissing);
        one.count("key-auth", ErrorCode::AuthInvalid);
        other.count("limit-count", ErrorCode::LimitExceeded);
        other.count("key-auth", ErrorCode::AuthMissing);
        let mut page = Exposition::new(Format::Text);
        PluginRefusals::render([&one, &other].into_iter(), &mut page);
        let text = String::from_utf8(page.finish()).expect("text");
        let lines: Vec<&str> = text.lines().skip(2).collect();
        let expected = [
            "tollhouse_requests_refused_total{plugin=\"key-auth\",code=\"auth_invalid\"} 1",
            "tollhouse_requests_refused_total{plugin=\"key-auth\",code=\"auth_missing\"} 2",
            "tollhouse_requests_refused_total{plugin=\"limit-count\",code=\"limit_exceeded\"} 1",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn pairs_are_bounded() {
        let refusals = PluginRefusals::default();
        (0..2 * PAIRS_MAX).for_each(|at| refusals.count(&at.to_string(), ErrorCode::NoNodes));
        assert!(refusals.0.iter().all(|pair| pair.count.value() == 1));
    }
}
