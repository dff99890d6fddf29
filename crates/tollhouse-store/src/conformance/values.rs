//! Cases about reading: values, revisions, lists by prefix.

use super::{Case, Fixture};
use crate::error::StoreError;
use crate::transaction::{Operation, Transaction};
use bytes::Bytes;

pub(super) const CASES: &[Case] = &[
    |fixture| Box::pin(a_new_store_is_empty(fixture)),
    |fixture| Box::pin(an_entry_knows_when_it_was_created_and_changed(fixture)),
    |fixture| Box::pin(a_prefix_lists_its_keys_in_order(fixture)),
    |fixture| Box::pin(pages_follow_each_other(fixture)),
    |fixture| Box::pin(keys_and_values_are_opaque(fixture)),
    |fixture| Box::pin(what_is_as_large_as_allowed_is_kept(fixture)),
];

async fn a_new_store_is_empty(fixture: Fixture) {
    assert_eq!(fixture.get("/routes/1").await, None);
    assert!(fixture.keys("").await.is_empty());
}

async fn an_entry_knows_when_it_was_created_and_changed(fixture: Fixture) {
    let created = fixture.put("k", "one").await;
    let changed = fixture.put("k", "two").await;
    assert!(created < changed);
    let entry = fixture.get("k").await.expect("it was put");
    assert_eq!((&*entry.key, &entry.value[..]), ("k", &b"two"[..]));
    assert_eq!((entry.create_revision, entry.mod_revision), (created, changed));
    assert_eq!(entry.expires_at_ms, None);

    fixture.commit(Transaction::new().delete("k")).await;
    assert_eq!(fixture.get("k").await, None);
    let again = fixture.put("k", "three").await;
    let entry = fixture.get("k").await.expect("it was put again");
    assert_eq!((entry.create_revision, entry.mod_revision), (again, again));
}

async fn a_prefix_lists_its_keys_in_order(fixture: Fixture) {
    let keys = ["/a", "/a/", "/a/1", "/a/10", "/a/2", "/a/\u{10FFFF}", "/a0", "/b/1", "\u{10FFFF}"];
    for key in keys.iter().rev() {
        fixture.put(key, key).await;
    }
    let cases: [(&str, &[&str]); 7] = [
        ("/a/", &["/a/", "/a/1", "/a/10", "/a/2", "/a/\u{10FFFF}"]),
        ("/a/1", &["/a/1", "/a/10"]),
        ("/a/\u{10FFFF}", &["/a/\u{10FFFF}"]),
        ("\u{10FFFF}", &["\u{10FFFF}"]),
        ("", &keys),
        ("/c", &[]),
        ("/a/1/", &[]),
    ];
    for (prefix, expected) in cases {
        assert_eq!(fixture.keys(prefix).await, expected, "under {prefix:?}");
    }
    let listing = fixture.store().list("/b").await.expect("the store lists");
    let newest = fixture.get("/a").await.expect("it was put last").mod_revision;
    assert_eq!(listing.revision, newest, "the revision is that of the whole store");
    assert_eq!(listing.entries[0].value, "/b/1");
}

async fn pages_follow_each_other(fixture: Fixture) {
    for key in ["/a/1", "/a/1\0", "/a/2", "/a/3", "/b/1", "0"] {
        fixture.put(key, key).await;
    }
    let revision = fixture.revision().await;
    let cases: [(&str, &str, usize, &[&str]); 8] = [
        ("/a/", "", 2, &["/a/1", "/a/1\0"]),
        ("/a/", "/a/1", 1, &["/a/1\0"]),
        ("/a/", "/a/1\0", 9, &["/a/2", "/a/3"]),
        ("/a/", "/a/3", 9, &[]),
        ("/a/", "/z", 9, &[]),
        ("/b/", "/a/2", 9, &["/b/1"]),
        ("", "/a/3", 9, &["/b/1", "0"]),
        ("", "", 0, &[]),
    ];
    for (prefix, after, entries_max, expected) in cases {
        let page = fixture.store().list_page(prefix, after, entries_max).await.expect("it lists");
        let keys: Vec<_> = page.entries.iter().map(|entry| &*entry.key).collect();
        assert_eq!(keys, expected, "{entries_max} under {prefix:?} after {after:?}");
        assert_eq!(page.revision, revision);
    }
}

async fn keys_and_values_are_opaque(fixture: Fixture) {
    let every_byte: Bytes = (0..=u8::MAX).collect();
    for key in [" ", "%", "_", "a\0b", "a\0", "'; DROP TABLE entries; --", "Ünïcödé 🚧", "k\n"]
    {
        for value in [Bytes::new(), every_byte.clone()] {
            fixture.commit(Transaction::new().put(key, value.clone())).await;
            let entry = fixture.get(key).await.expect("it was put");
            assert_eq!((&*entry.key, &entry.value), (key, &value), "{key:?}");
        }
    }
    assert_eq!(fixture.get("A\0").await, None, "keys differ by case");
    assert_eq!(fixture.keys("a\0").await, ["a\0", "a\0b"]);
}

async fn what_is_as_large_as_allowed_is_kept(fixture: Fixture) {
    let limits = fixture.store().limits();
    let key = "k".repeat(limits.key_bytes_max);
    let value = Bytes::from(vec![7; limits.value_bytes_max]);
    fixture.commit(Transaction::new().put(key.as_str(), value.clone())).await;
    assert_eq!(fixture.get(&key).await.map(|entry| entry.value), Some(value));
    let revision = fixture.revision().await;
    let too_long = fixture.refused(Transaction::new().put(format!("{key}k"), "v")).await;
    assert!(matches!(too_long, StoreError::TooLarge { .. }), "{too_long}");
    fixture.refused(Transaction::new().put("", "v")).await;
    let many = (0..=limits.operations_max).map(|number| Operation::delete(number.to_string()));
    let many = Transaction { operations: many.collect(), ..Transaction::new() };
    let too_many = fixture.refused(many).await;
    assert!(matches!(too_many, StoreError::TooLarge { .. }), "{too_many}");
    assert_eq!(fixture.revision().await, revision);
}
