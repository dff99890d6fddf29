//! Request bodies: size limits, content types, and errors about invalid bodies.

use super::*;
use crate::limits::BODY_BYTES_MAX;

#[tokio::test]
async fn bodies_that_do_not_decode_are_given_back() {
    let fixture = Fixture::new().await;
    let answer = fixture.call("PUT", "/routes/1", "{abc").await;
    let expected = json!({
        "error_msg": "invalid request body: Expected object key string but found invalid token \
                      at character 2",
        "req_body": "{abc",
    });
    assert_eq!((answer.status, answer.json()), (400, expected));
    assert_eq!(fixture.get("/routes/1").await.status, 404, "nothing was changed");
}

#[tokio::test]
async fn bodies_end_at_a_mebibyte_and_a_half() {
    let fixture = Fixture::new().await;
    let padded = |bytes: usize| {
        let start = r#"{"uri":"/a","upstream":{"nodes":{}},"desc":""#;
        format!("{}{start}\"}}", " ".repeat(bytes - start.len() - 2))
    };
    assert_eq!(fixture.call("PUT", "/routes/1", padded(BODY_BYTES_MAX)).await.status, 201);
    let answer = fixture.call("PUT", "/routes/2", padded(BODY_BYTES_MAX + 1)).await;
    assert_eq!(answer.status, 400);
    assert_eq!(
        answer.error(),
        "invalid request body: request size 1572865 is greater than the maximum size 1572864 \
         allowed"
    );
}

#[tokio::test]
async fn bodies_that_are_no_objects_are_refused() {
    let fixture = Fixture::new().await;
    let wrong = "invalid configuration: wrong type: expected object, got";
    let table = [
        ("", "missing configurations".to_owned()),
        ("null", "missing configurations".to_owned()),
        ("7", format!("{wrong} number")),
        ("\"a\"", format!("{wrong} string")),
        ("[1]", format!("{wrong} array")),
        ("true", format!("{wrong} boolean")),
    ];
    for (body, expected) in table {
        for (method, path) in [("PUT", "/routes/1"), ("POST", "/routes"), ("PUT", "/ssls/1")] {
            let answer = fixture.call(method, path, body).await;
            assert_eq!((answer.status, answer.error()), (400, expected.clone()), "{body}");
        }
    }
}

#[tokio::test]
async fn ttl_is_a_number_of_seconds() {
    let fixture = Fixture::new().await;
    let refused = "invalid argument ttl: should be a number";
    for ttl in ["a", "", "1s", "nan"] {
        for (method, path) in [("PUT", "/routes/1"), ("POST", "/routes"), ("PATCH", "/routes/1")] {
            let answer = fixture.call(method, &format!("{path}?ttl={ttl}"), "{}").await;
            assert_eq!((answer.status, answer.error().as_str()), (400, refused), "{ttl}");
        }
    }
    let lives = async |path: &str| {
        let entry = fixture.store.get(path).await.expect("the store can be read");
        entry.expect("it was written").expires_at_ms.is_some()
    };
    fixture.given(&[("/routes/1?ttl=60", route()), ("/routes/2", route())]).await;
    assert!(lives("/apisix/routes/1").await && !lives("/apisix/routes/2").await);
    fixture.given(&[("/routes/1?ttl=0", route())]).await;
    assert!(!lives("/apisix/routes/1").await);
}

#[tokio::test]
async fn texts_may_have_raw_line_ends() {
    let fixture = Fixture::new().await;
    let body = "{\"content\": \"syntax = \\\"proto3\\\";\n\tmessage A {}\r\n\"}";
    let answer = fixture.call("PUT", "/protos/1", body).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let read = fixture.get("/protos/1").await.json();
    assert_eq!(read["value"]["content"], "syntax = \"proto3\";\n\tmessage A {}\r\n");
    for (body, expected) in [
        (
            "{\"content\": \"a\nb\",}",
            "Expected object key string but found T_OBJ_END at character 19",
        ),
        (
            "{\"content\": \"a\0\"}",
            "Expected value but found unexpected end of string at character 15",
        ),
    ] {
        let answer = fixture.call("PUT", "/protos/1", body).await;
        assert_eq!(answer.error(), format!("invalid request body: {expected}"), "{body:?}");
    }
}
