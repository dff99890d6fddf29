//! Lists: their order, pages and filters.

use super::*;

async fn many(count: usize) -> Fixture {
    let fixture = Fixture::new().await;
    for number in 0..count {
        // Ids fall while revisions rise.
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
        ("name=&label=", 25),
    ];
    for (query, total) in totals {
        assert_eq!(names(&fixture, query).await.1, total, "{query}");
    }
    let (shown, total) = names(&fixture, "label=even&page=2&page_size=10").await;
    assert_eq!((shown, total), (vec!["name-20".to_owned(), "name-22".to_owned()], 12));
    let services = fixture.get("/services?filter=service_id%3Dnone").await.json();
    assert_eq!(services["total"], 1, "only what names others is filtered by it");
}
