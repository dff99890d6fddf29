//! Requests of routes that plugins refused, by route and plugin, on one core; for the console, not
//! for the metrics page. Only refusals cost anything: a hash and a few comparisons.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use once_cell::race::OnceBox;

use crate::counters::Counter;
use crate::object_counts::boxed;

/// Places of a core, for routes with plugins that have refused requests: 160 KB, allocated at the
/// first refusal.
const PLACES: usize = 4096;

/// Places that a route can use. Refusals of a route whose places are taken are counted by plugin
/// only.
const PROBES: usize = 16;

/// Fibonacci hashing: numbers of routes are dense.
const MULTIPLIER: u32 = 0x9e37_79b1;

/// Counts of one core, which is their only writer.
#[derive(Debug, Default)]
pub struct RouteRefusals(OnceBox<[Pair; PLACES]>);

#[derive(Debug, Default)]
struct Pair {
    /// Number of the route, and the plugin, once the pair has occurred.
    label: OnceLock<(u32, Box<str>)>,
    count: Counter,
}

/// Numbers of refused requests by route number and plugin.
pub type RefusalsByRoute = BTreeMap<u32, BTreeMap<String, u64>>;

impl RouteRefusals {
    /// Counts a refusal. Allocates when a pair first occurs.
    #[cold]
    pub fn count(&self, route: u32, plugin: &str) {
        let places = self.0.get_or_init(|| boxed(Pair::default));
        let start = route.wrapping_mul(MULTIPLIER) as usize;
        for at in start..start + PROBES {
            let pair = &places[at % PLACES];
            let (own, own_plugin) = pair.label.get_or_init(|| (route, plugin.into()));
            if *own == route && **own_plugin == *plugin {
                return pair.count.increment();
            }
        }
    }

    /// Adds the counts of this core to `sums`.
    pub(crate) fn add_to(&self, sums: &mut RefusalsByRoute) {
        for pair in self.0.get().into_iter().flatten() {
            let Some((route, plugin)) = pair.label.get() else { continue };
            let plugins = sums.entry(*route).or_default();
            *plugins.entry(plugin.to_string()).or_default() += pair.count.value();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(cores: &[RouteRefusals]) -> RefusalsByRoute {
        let mut sums = BTreeMap::new();
        cores.iter().for_each(|core| core.add_to(&mut sums));
        sums
    }

    #[test]
    fn refusals_are_counted_by_route_and_plugin_over_all_cores() {
        let cores = [RouteRefusals::default(), RouteRefusals::default()];
        cores[0].count(7, "key-auth");
        cores[0].count(7, "limit-count");
        cores[1].count(7, "key-auth");
        cores[1].count(8, "key-auth");
        let of = |pairs: &[(&str, u64)]| {
            pairs.iter().map(|(plugin, count)| ((*plugin).to_owned(), *count)).collect()
        };
        let expected =
            [(7, of(&[("key-auth", 2), ("limit-count", 1)])), (8, of(&[("key-auth", 1)]))];
        assert_eq!(sums(&cores), expected.into());
    }

    #[test]
    fn pairs_are_bounded_in_all_and_for_each_route() {
        let refusals = RouteRefusals::default();
        (0..2 * PROBES).for_each(|plugin| refusals.count(1, &plugin.to_string()));
        assert_eq!(sums(&[refusals])[&1].len(), PROBES);
        let refusals = RouteRefusals::default();
        (0..4 * PLACES as u32).for_each(|route| refusals.count(route, "key-auth"));
        assert!(sums(&[refusals]).len() <= PLACES);
    }
}
