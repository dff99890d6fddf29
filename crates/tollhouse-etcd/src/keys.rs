//! Conversion of keys between the store and etcd, where they are in a namespace.

use crate::messages::{KeyValue, ResponseHeader};
use crate::options::{EtcdOptions, Relocation};
use bytes::Bytes;
use tollhouse_store::{Entry, LeaseId, Revision};

/// Range of all keys, as first key and as end (in etcd's API: a range from `\0` to `\0`).
const EVERYTHING: &[u8] = b"\0";

/// Location of a store's keys in etcd.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    namespace: Box<str>,
    own: Box<str>,
    relocation: Option<Relocation>,
}

impl Keys {
    pub(crate) fn new(options: &EtcdOptions) -> Self {
        Self {
            namespace: options.namespace.as_str().into(),
            own: options.own_prefix.as_str().into(),
            relocation: options.relocation.clone(),
        }
    }

    /// Converts a key to its form in etcd.
    pub(crate) fn outside(&self, key: &str) -> Bytes {
        let moved = self.relocation.as_ref().and_then(|relocation| {
            Some((relocation.place.as_str(), key.strip_prefix(&*relocation.keys)?))
        });
        let (place, key) = moved.unwrap_or(("", key));
        [self.namespace.as_bytes(), place.as_bytes(), key.as_bytes()].concat().into()
    }

    /// Converts a key from etcd; `None` if it is not UTF-8 or not in this store.
    pub(crate) fn inside(&self, key: &[u8]) -> Option<Box<str>> {
        let key = key.strip_prefix(self.namespace.as_bytes())?;
        let key = std::str::from_utf8(key).ok()?;
        let Some(relocation) = &self.relocation else { return Some(key.into()) };
        if let Some(key) = key.strip_prefix(&*relocation.place) {
            return Some([&*relocation.keys, key].concat().into());
        }
        // The key belongs to another cluster, or to a version without relocation.
        (!key.starts_with(&*relocation.keys)).then(|| key.into())
    }

    /// Returns the first key and end of the range of a prefix.
    pub(crate) fn range(&self, prefix: &str) -> (Bytes, Bytes) {
        let first = self.outside(prefix);
        if first.is_empty() {
            return (EVERYTHING.into(), EVERYTHING.into());
        }
        let end = end_of(&first);
        (first, end.into())
    }

    /// Returns the key that exists as long as a lease, because etcd can compare keys but not
    /// leases.
    pub(crate) fn lease(&self, lease: LeaseId) -> Bytes {
        format!("{}lease/{:x}", self.own, lease.0).into()
    }

    /// Returns the probe key, put to check that a watch delivers changes.
    pub(crate) fn tick(&self) -> Bytes {
        format!("{}tick", self.own).into()
    }

    /// Whether a watch of this prefix includes the probe key.
    pub(crate) fn hears_ticks(&self, prefix: &str) -> bool {
        self.tick().starts_with(&self.outside(prefix))
    }

    /// Converts an etcd entry of a listing; `None` if its name in the store does not begin with
    /// `prefix`. The range that etcd lists may contain such entries.
    pub(crate) fn entry_below(&self, prefix: &str, held: &KeyValue) -> Option<Entry> {
        self.entry(held).filter(|entry| entry.key.starts_with(prefix))
    }

    /// Converts an entry; `None` if its key is not in this store.
    pub(crate) fn entry(&self, held: &KeyValue) -> Option<Entry> {
        Some(Entry {
            key: self.inside(&held.key)?,
            value: held.value.clone(),
            create_revision: to_revision(held.create_revision),
            mod_revision: to_revision(held.mod_revision),
            expires_at_ms: None,
        })
    }
}

/// Returns the smallest key after all keys with this prefix.
fn end_of(prefix: &[u8]) -> Vec<u8> {
    let kept = prefix.iter().rposition(|byte| *byte != u8::MAX);
    let Some(last) = kept else { return EVERYTHING.to_vec() };
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    end
}

/// Converts a revision from etcd, which uses signed numbers and never a negative one.
pub(crate) fn to_revision(number: i64) -> Revision {
    Revision(u64::try_from(number).unwrap_or_default())
}

/// Converts a revision to etcd. A number too large for etcd becomes the largest one, which is never
/// reached.
pub(crate) fn to_number(revision: Revision) -> i64 {
    i64::try_from(revision.0).unwrap_or(i64::MAX)
}

/// Returns the revision in the header of a response.
pub(crate) fn revision_of(header: Option<&ResponseHeader>) -> Revision {
    to_revision(header.map_or(0, |header| header.revision))
}

/// Converts a lease id to etcd's signed form; etcd may use all bits.
pub(crate) fn to_lease_number(lease: LeaseId) -> i64 {
    lease.0.cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_ends_behind_all_that_begins_with_its_prefix() {
        let cases: [(&[u8], &[u8]); 4] = [
            (b"/a/", b"/a0"),
            (b"a\xff", b"b"),
            (b"\xff\xff", b"\0"),
            ("\u{10FFFF}".as_bytes(), b"\xf4\x8f\xbf\xc0"),
        ];
        for (prefix, end) in cases {
            assert_eq!(end_of(prefix), end, "{prefix:?}");
        }
        let new = |namespace: &str, own: &str| Keys {
            namespace: namespace.into(),
            own: own.into(),
            relocation: None,
        };
        let keys = new("", "/apisix/tollhouse/");
        assert_eq!(keys.range(""), (Bytes::from("\0"), Bytes::from("\0")));
        assert_eq!(new("n/", "o/").range(""), (Bytes::from("n/"), Bytes::from("n0")));
        assert!(keys.hears_ticks("/apisix/") && !keys.hears_ticks("/apisix/routes/"));
    }

    #[test]
    fn relocated_keys_lie_elsewhere_and_keep_their_names() {
        let relocation =
            Relocation { keys: "/shenyu/".into(), place: "/a/tollhouse/shenyu/".into() };
        let keys = Keys {
            namespace: "n".into(),
            own: "/a/tollhouse/".into(),
            relocation: Some(relocation),
        };
        let cases = [
            ("/shenyu/rule/1", "n/a/tollhouse/shenyu/rule/1"),
            ("/shenyu/", "n/a/tollhouse/shenyu/"),
            ("/a/routes/1", "n/a/routes/1"),
            ("/shenyu", "n/shenyu"),
        ];
        for (inside, outside) in cases {
            assert_eq!(keys.outside(inside), outside, "{inside}");
            assert_eq!(keys.inside(outside.as_bytes()).as_deref(), Some(inside), "{outside}");
        }
        assert_eq!(keys.inside(b"n/shenyu/rule/1"), None, "another cluster's");
        assert_eq!(keys.range("/shenyu/rule/").0, "n/a/tollhouse/shenyu/rule/");
        let held = KeyValue { key: "n/a/tollhouse/shenyu/rule/1".into(), ..KeyValue::default() };
        assert!(keys.entry_below("/shenyu/", &held).is_some());
        assert!(keys.entry_below("/a/", &held).is_none(), "in the range, but named otherwise");
    }
}
