//! Precomputed outcomes for exact paths, where no condition but the path matters. They cover every
//! path that a selector or rule names literally.

use std::borrow::Cow;
use std::cell::Cell;

use hashbrown::HashMap;
use tollhouse_router::may_be_ambiguous;
use tollhouse_shenyu::matching::{CivilTime, Request};

use crate::chain::Chain;
use crate::links::{Choice, Link, Unmatched};
use crate::plugin::Needs;
use crate::query;

/// Targets by path. The hash has no random seed, because the paths come from operators.
#[derive(Debug, Default)]
pub(crate) struct ByPath(HashMap<Box<[u8]>, usize, foldhash::fast::RandomState>);

impl ByPath {
    /// Computes the targets for a chain.
    pub(crate) fn new(chain: &Chain) -> Self {
        let paths = chain.links.iter().flat_map(|link| chain.engine.whole_paths(link.place));
        // Ambiguous paths are refused before the chain runs. With an escape in the path, the chain
        // writes the query anew.
        let paths = paths.filter(|path| {
            let path = path.as_bytes();
            let is_ambiguous = chain.judges_paths && may_be_ambiguous(path);
            !is_ambiguous && !path.contains(&b'%') && query::is_uri(path)
        });
        let found =
            paths.filter_map(|path| Some((path.as_bytes().into(), chain.target_by_path(path)?)));
        Self(found.collect())
    }

    #[inline]
    pub(crate) fn get(&self, path: &[u8]) -> Option<usize> {
        self.0.get(path).copied()
    }
}

impl Chain {
    /// Returns the index of the target of all requests for `path` that name no RPC type; `None` if
    /// a plugin other than a proxy might act on such a request.
    fn target_by_path<'c>(&'c self, path: &str) -> Option<usize> {
        let rpc_type = self.engine.rpc_type(None, None, path).ok()?.rpc_type;
        let request = PathAlone { path, is_asked_more: Cell::new(false) };
        // A selector that logs its matches must see every request.
        let select = |link: &'c Link| {
            let (selector, choice) = link.choose(&self.engine, &request);
            let is_clear = !request.is_asked_more.get() && !selector.is_some_and(|it| it.logged);
            is_clear.then_some(choice)
        };
        for link in self.links.iter().filter(|link| link.takes_part(rpc_type)) {
            let slot = match select(link)? {
                Choice::Unmatched if link.unmatched == Unmatched::Pass => continue,
                Choice::Slot(slot) => slot,
                Choice::Unmatched | Choice::NoRule | Choice::Unclear => return None,
            };
            match slot.action.needs() {
                Needs::Nothing => {}
                Needs::Path(rule) => {
                    let mut edits = self.answer_links.iter();
                    let is_plain = !rule.limits_size()
                        && edits.all(|link| matches!(select(link), Some(Choice::Unmatched)));
                    return slot.target.filter(|_| is_plain);
                }
                Needs::Exchange => return None,
            }
        }
        None
    }
}

/// Request that notices when a condition reads anything but its path.
struct PathAlone<'p> {
    path: &'p str,
    is_asked_more: Cell<bool>,
}

impl PathAlone<'_> {
    fn nothing<T: Default>(&self) -> T {
        self.is_asked_more.set(true);
        T::default()
    }
}

impl Request for PathAlone<'_> {
    fn path(&self) -> &str {
        self.path
    }

    fn method(&self) -> &str {
        self.nothing()
    }

    fn domain(&self) -> &str {
        self.nothing()
    }

    fn client_ip(&self) -> &str {
        self.nothing()
    }

    fn header(&self, _name: &str) -> Option<Cow<'_, str>> {
        self.nothing()
    }

    fn query(&self, _name: &str) -> Option<Cow<'_, str>> {
        self.nothing()
    }

    fn cookie(&self, _name: &str) -> Option<Cow<'_, str>> {
        self.nothing()
    }

    fn context(&self, _field: &str) -> Option<Cow<'_, str>> {
        self.nothing()
    }

    fn local_time(&self) -> CivilTime {
        self.nothing()
    }
}
