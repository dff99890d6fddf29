//! Page of the instances of several services. The order is stable: services as they are added, and
//! instances by id.
//!
//! A service before or after the page is only counted, unless its instances are filtered. A page
//! therefore costs the services on it, not all services.

use std::sync::Arc;

use crate::instance::Instance;
use crate::view::ServiceView;

/// Builder of a page; see the module. Services must be added in their order.
#[derive(Debug)]
pub struct InstancePage<'a> {
    offset: usize,
    limit: usize,
    total: usize,
    instances: Vec<&'a Arc<Instance>>,
}

impl<'a> InstancePage<'a> {
    /// Creates a page that skips `offset` instances and holds at most `limit`.
    pub fn new(offset: usize, limit: usize) -> Self {
        Self { offset, limit, total: 0, instances: Vec::new() }
    }

    /// Adds a service with all its instances.
    pub fn add(&mut self, view: &'a ServiceView) {
        let count = view.counts.total as usize;
        if self.reaches(count) {
            self.place(view.instances().collect());
        }
        self.total += count;
    }

    /// Adds a service with those instances that `admits` accepts.
    pub fn add_some(&mut self, view: &'a ServiceView, admits: impl Fn(&Instance) -> bool) {
        let matches: Vec<_> = view.instances().filter(|instance| admits(instance)).collect();
        let count = matches.len();
        if self.reaches(count) {
            self.place(matches);
        }
        self.total += count;
    }

    /// Returns the instances on the page, and the number of instances on all pages.
    pub fn finish(self) -> (Vec<&'a Arc<Instance>>, usize) {
        (self.instances, self.total)
    }

    /// Whether any of the next `count` instances are on the page.
    fn reaches(&self, count: usize) -> bool {
        self.instances.len() < self.limit && self.offset < self.total.saturating_add(count)
    }

    fn place(&mut self, mut matches: Vec<&'a Arc<Instance>>) {
        let start = self.offset.saturating_sub(self.total);
        let room = self.limit - self.instances.len();
        // Selecting first sorts only the instances that are on the page.
        if start > 0 {
            matches.select_nth_unstable_by(start, |one, other| one.id.cmp(&other.id));
            matches.drain(..start);
        }
        if room < matches.len() {
            matches.select_nth_unstable_by(room, |one, other| one.id.cmp(&other.id));
            matches.truncate(room);
        }
        matches.sort_unstable_by(|one, other| one.id.cmp(&other.id));
        self.instances.extend(matches);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::ServiceRef;
    use crate::state::tests::{Bench, instance};

    /// Three services; the second has instances whose names are registered in no order.
    fn registered() -> Bench {
        let mut bench = Bench::new();
        for (service, count) in [("a", 3_u32), ("b", 50), ("c", 2)] {
            for number in 0..count {
                let id = format!("{service}-{:02}", number * 37 % count);
                bench.register(instance(&id, service));
            }
        }
        bench
    }

    fn views(bench: &Bench) -> Vec<&ServiceView> {
        let view = |name| bench.state.service(ServiceRef { namespace: "ns", name });
        ["a", "b", "c"].iter().filter_map(|name| view(name)).map(|view| &**view).collect()
    }

    fn ids(page: InstancePage<'_>) -> (Vec<String>, usize) {
        let (instances, total) = page.finish();
        (instances.iter().map(|instance| instance.id.to_string()).collect(), total)
    }

    #[test]
    fn pages_follow_each_other_in_the_order_of_services_and_ids() {
        let bench = registered();
        let page = |offset, limit| {
            let mut page = InstancePage::new(offset, limit);
            views(&bench).into_iter().for_each(|view| page.add(view));
            ids(page)
        };
        let (all, total) = page(0, usize::MAX);
        assert_eq!((all.len(), total), (55, 55));
        assert!(all.is_sorted(), "{all:?}");
        for limit in [1, 2, 3, 7, 54, 55, 60] {
            let joined: Vec<_> =
                (0..55).step_by(limit).flat_map(|offset| page(offset, limit).0).collect();
            assert_eq!(joined, all, "{limit} a page");
        }
        assert_eq!(page(55, 10), (Vec::new(), 55));
        assert_eq!(page(usize::MAX, 10), (Vec::new(), 55));
        assert_eq!(page(0, 0), (Vec::new(), 55));
    }

    #[test]
    fn what_is_not_admitted_is_neither_shown_nor_counted() {
        let bench = registered();
        let page = |offset, limit| {
            let mut page = InstancePage::new(offset, limit);
            for view in views(&bench) {
                page.add_some(view, |instance| instance.id.ends_with('1'));
            }
            ids(page)
        };
        let expected = ["a-01", "b-01", "b-11", "b-21", "b-31", "b-41", "c-01"];
        assert_eq!(page(0, 10), (expected.map(str::to_owned).to_vec(), 7));
        assert_eq!(page(2, 3), (expected[2..5].iter().map(|id| (*id).to_owned()).collect(), 7));
    }
}
