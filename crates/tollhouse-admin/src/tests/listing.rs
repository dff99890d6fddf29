//! Lists: order, pages and filters, and the number of store reads.

use std::sync::atomic::{AtomicUsize, Ordering};

use tollhouse_store::Transaction;

use super::wrapper::{Wrapped, Wrapper};
use super::*;

async fn many(count: usize) -> Fixture {
    let fixture = Fixture::new().await;
    for number in 0..count {
        // Ids descend while revisions ascend.
        let id = 99 - number;
        let mut value = route();
        value["name"] = format!("name-{number}").into();
        value["uri"] = format!("/u/{number}").into();
        if number % 2 == 0 {
            value["labels"] = json!({"even": "yes"});
        }
        fixture.given(&[(&format!("/routes/{id}"), value)]).await;
    }
    fixture
}

async fn names(fixture: &Fixture, query: &str) -> (Vec<String>, u64) {
    let answer = fixture.get(&format!("/routes?{query}")).await.json();
    let list = answer["list"].as_array().expect("there is a list");
    let name = |item: &Value| item["value"]["name"].as_str().unwrap_or_default().to_owned();
    (list.iter().map(name).collect(), answer["total"].as_u64().expect("there is a total"))
}

#[tokio::test]
async fn an_empty_list_is_a_list() {
    let fixture = Fixture::new().await;
    for resource in crate::resource::ALL {
        if matches!(resource.layout, crate::resource::Layout::Child(_)) {
            continue;
        }
        let answer = fixture.get(&format!("/{}", resource.name)).await;
        assert_eq!(answer.status, 200, "{}", resource.name);
        assert_eq!(answer.text, "{\"list\":[],\"total\":0}\n", "{}", resource.name);
    }
}

#[tokio::test]
async fn items_are_shown_with_their_revisions() {
    let fixture = many(2).await;
    let answer = fixture.get("/routes").await.json();
    let item = &answer["list"][0];
    assert_eq!(item["key"], "/apisix/routes/98");
    assert_eq!((&item["createdIndex"], &item["modifiedIndex"]), (&json!(2), &json!(2)));
    assert_eq!(item["value"]["id"], "98");
}

#[tokio::test]
async fn pages_go_by_creation() {
    let fixture = many(25).await;
    let page = |range: std::ops::Range<usize>| -> Vec<String> {
        range.map(|number| format!("name-{number}")).collect()
    };
    assert_eq!(names(&fixture, "page=1&page_size=10").await, (page(0..10), 25));
    assert_eq!(names(&fixture, "page=3&page_size=10").await, (page(20..25), 25));
    assert_eq!(names(&fixture, "page=4&page_size=10").await, (vec![], 25));
    assert_eq!(names(&fixture, "page=1").await.0.len(), 25);
    assert_eq!(names(&fixture, "page_size=10").await.0.len(), 25);
    for size in ["9", "501"] {
        let answer = fixture.get(&format!("/routes?page=1&page_size={size}")).await;
        assert_eq!(answer.status, 400);
        assert_eq!(answer.text, "page_size must be between 10 and 500");
    }
}

#[tokio::test]
async fn filters_narrow_a_list_before_it_is_paged() {
    let fixture = many(24).await;
    fixture.given(&[("/services/s", json!({})), ("/upstreams/u", json!({"nodes": {}}))]).await;
    let referring = json!({"uris": ["/x", "/y"], "service_id": "s", "upstream_id": "u"});
    fixture.given(&[("/routes/r", referring)]).await;
    let totals = [
        ("name=name-1", 11),
        ("name=%5Ename-1%24", 1),
        ("uri=%2Fu%2F2", 5),
        ("uri=/y", 1),
        ("label=even", 12),
        ("label=odd", 0),
        ("label=even&name=1", 5),
        ("filter=service_id%3Ds", 1),
        ("filter=service_id%3Ds%26upstream_id%3Du", 1),
        ("filter=service_id%3Ds%26upstream_id%3Dv", 0),
        ("name=", 24),
        ("uri=", 25),
        ("label=", 0),
        ("name=&label=", 0),
    ];
    for (query, total) in totals {
        assert_eq!(names(&fixture, query).await.1, total, "{query}");
    }
    let (shown, total) = names(&fixture, "label=even&page=2&page_size=10").await;
    assert_eq!((shown, total), (vec!["name-20".to_owned(), "name-22".to_owned()], 12));
    let services = fixture.get("/services?filter=service_id%3Dnone").await.json();
    assert_eq!(services["total"], 1, "only what names others is filtered by it");
}

/// Store that counts reads.
struct Counting {
    inner: Arc<dyn Store>,
    lists: AtomicUsize,
    gets: AtomicUsize,
}

impl Counting {
    /// Returns the number of listings and the number of single reads since the last call.
    fn reads(&self) -> (usize, usize) {
        (self.lists.swap(0, Ordering::Relaxed), self.gets.swap(0, Ordering::Relaxed))
    }
}

impl Wrapper for Counting {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn before_get(&self) {
        self.gets.fetch_add(1, Ordering::Relaxed);
    }

    fn before_list(&self) {
        self.lists.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn a_page_reads_its_own_objects_and_no_more() {
    let inner = tollhouse_store::open(&tollhouse_store::Location::Memory).expect("memory is there");
    for number in 0..3_000 {
        let value = json!({"uri": format!("/{number}"), "name": format!("n{number}"),
            "labels": {if number % 2 == 0 { "even" } else { "odd" }: "x"}});
        let put = Transaction::new().put(format!("/apisix/routes/{number}"), value.to_string());
        inner.commit(put).await.expect("memory takes it");
    }
    let store = Arc::new(Counting { inner, lists: AtomicUsize::new(0), gets: AtomicUsize::new(0) });
    let fixture = Fixture::over(Arc::new(Wrapped(Arc::clone(&store))), options()).await;
    let pages = 3_000_usize.div_ceil(crate::limits::OBJECTS_PER_TURN) + 1;
    assert_eq!(store.reads(), (0, 0), "a start reads nothing");
    names(&fixture, "label=none").await;
    let expected = (pages + 1, 0);
    assert_eq!(store.reads(), expected, "the first call reads the objects page by page, and rows");
    for (query, first, shown, total) in [
        ("page=1&page_size=10", "n0", 10, 3_000),
        ("page=7&page_size=500", "", 0, 3_000),
        ("page=6&page_size=500", "n2500", 500, 3_000),
        ("page=2&page_size=20&label=odd", "n41", 20, 1_500),
        ("name=%5En299.%24", "n2990", 10, 10),
        ("uri=%5E%2F29%24", "n29", 1, 1),
        ("label=none", "", 0, 0),
    ] {
        let (names, counted) = names(&fixture, query).await;
        assert_eq!((names.len(), counted), (shown, total), "{query}");
        assert_eq!(names.first().map_or("", String::as_str), first, "{query}");
        assert_eq!(store.reads(), (0, shown), "{query}");
    }
    fixture.delete("/routes/0").await;
    fixture.given(&[("/routes/0", json!({"uri": "/0", "name": "new", "plugins": {}}))]).await;
    store.reads();
    let (last, total) = names(&fixture, "page=300&page_size=10").await;
    assert_eq!((last.last().map(String::as_str), total), (Some("new"), 3_000));
    assert_eq!(store.reads(), (0, 10));
}
