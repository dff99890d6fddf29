//! Definitions of gRPC services, and who is compiled anew when one changes.

use super::*;
use crate::plugins::PluginStep;

fn proto(id: &str, content: &str) -> Change {
    put(Kind::Proto, id, json!({ "content": content }))
}

fn transcoded(id: &str, proto: &Value) -> Change {
    let conf = json!({"proto_id": proto, "service": "a.B", "method": "C"});
    let path = format!("/{id}");
    put(Kind::Route, id, json!({"uri": path, "plugins": {"grpc-transcode": conf}}))
}

fn step(desk: &TestCompiler, route: &str) -> Arc<PluginStep> {
    Arc::clone(&desk.route(route).chain.steps()[0])
}

#[test]
fn a_definition_that_changes_changes_those_who_name_it_and_nobody_else() {
    let mut desk = TestCompiler::new();
    let text = "syntax = \"proto3\";";
    desk.apply([
        transcoded("one", &json!("1")),
        transcoded("by-number", &json!(1)),
        transcoded("two", &json!("2")),
        proto("1", text),
        proto("2", text),
    ]);
    assert_eq!(desk.problems(), [""; 0]);
    for change in [proto("1", "syntax = \"proto3\"; package a;"), delete(Kind::Proto, "1")] {
        let before = ["one", "by-number", "two"].map(|route| step(&desk, route));
        desk.apply([change]);
        let after = ["one", "by-number", "two"].map(|route| step(&desk, route));
        let stays = |index: usize| Arc::ptr_eq(&before[index], &after[index]);
        assert_eq!([stays(0), stays(1), stays(2)], [false, false, true]);
    }
}

#[test]
fn a_definition_that_does_not_compile_leaves_the_last_good_one() {
    let mut desk = TestCompiler::new();
    desk.apply([transcoded("one", &json!("1")), proto("1", "syntax = \"proto3\";")]);
    let before = step(&desk, "one");
    desk.apply([proto("1", "message A {")]);
    assert!(Arc::ptr_eq(&before, &step(&desk, "one")));
    assert_eq!(desk.problems(), ["Proto 1: 1"]);
    desk.apply([proto("1", "syntax = \"proto3\";")]);
    assert_eq!(desk.problems(), [""; 0]);
}
