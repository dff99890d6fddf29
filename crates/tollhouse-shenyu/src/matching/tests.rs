//! Tests of ShenYu's algorithm in tables: conditions, scores, full and custom selectors, and
//! conditions that cannot be evaluated. The index is compared with a search of all objects.

use std::cmp::Reverse;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::key::Kind;
use crate::model::{Condition, Metadata, Plugin, Rule, Selector};

#[derive(Debug, Clone)]
struct Asked {
    path: &'static str,
    headers: Vec<(&'static str, &'static str)>,
}

impl Request for Asked {
    fn path(&self) -> &str {
        self.path
    }
    fn method(&self) -> &str {
        "GET"
    }
    fn domain(&self) -> &str {
        "shop.example"
    }
    fn client_ip(&self) -> &str {
        "10.1.2.3"
    }
    fn header(&self, name: &str) -> Option<Cow<'_, str>> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| Cow::Borrowed(*value))
    }
    fn query(&self, name: &str) -> Option<Cow<'_, str>> {
        (name == "id").then_some(Cow::Borrowed("7"))
    }
    fn cookie(&self, name: &str) -> Option<Cow<'_, str>> {
        (name == "session").then_some(Cow::Borrowed("s1"))
    }
    fn context(&self, field: &str) -> Option<Cow<'_, str>> {
        (field == "rpcType").then_some(Cow::Borrowed("http"))
    }
    fn local_time(&self) -> CivilTime {
        CivilTime::parse("2024-02-29 12:00:00").unwrap()
    }
}

fn get(path: &'static str) -> Asked {
    Asked { path, headers: Vec::new() }
}

fn condition(param_type: &str, operator: &str, name: &str, value: &str) -> Condition {
    Condition {
        param_type: param_type.into(),
        operator: operator.into(),
        param_name: Some(name.into()),
        param_value: Some(value.into()),
    }
}

fn uri(operator: &str, value: &str) -> Condition {
    condition("uri", operator, "/", value)
}

fn selector(id: &str, conditions: &[Condition]) -> Selector {
    Selector {
        id: id.into(),
        plugin_name: "divide".into(),
        type_code: Some(1),
        condition_list: conditions.to_vec(),
        ..Selector::default()
    }
}

fn rule(id: &str, selector: &str, conditions: &[Condition]) -> Rule {
    Rule {
        id: id.into(),
        selector_id: selector.into(),
        condition_data_list: conditions.to_vec(),
        ..Rule::default()
    }
}

fn plugin(name: &str) -> Plugin {
    Plugin { name: name.into(), ..Plugin::default() }
}

fn shared<T: Clone>(all: &[T]) -> Vec<Arc<T>> {
    all.iter().cloned().map(Arc::new).collect()
}

fn engine(selectors: &[Selector], rules: &[Rule]) -> (Engine, Vec<Problem>) {
    let plugins = shared(&[plugin("divide"), plugin("sign")]);
    let (selectors, rules) = (shared(selectors), shared(rules));
    Engine::build(Objects {
        plugins: &plugins,
        selectors: &selectors,
        rules: &rules,
        metadata: &[],
        roles: ROLES,
    })
}

/// Roles of the plugins in these tests.
const ROLES: Roles = Roles(|plugin| match plugin {
    "divide" => Role { order: 200, on_fault: OnFault::Skip },
    "rewrite" => Role { order: 90, on_fault: OnFault::Skip },
    "sign" => Role { order: 20, on_fault: OnFault::Refuse },
    "waf" => Role { order: 50, on_fault: OnFault::Refuse },
    _ => Role::UNKNOWN,
});

/// Returns the ids of the chosen selector and rule, or the outcome in words.
fn chosen(engine: &Engine, plugin: &str, request: &Asked) -> String {
    match engine.select(plugin, request) {
        Outcome::Off => "off".into(),
        Outcome::NoSelector => "no selector".into(),
        Outcome::NoRule(selector) => format!("{} no rule", selector.id),
        Outcome::Serves { selector, rule: RuleChoice::Default, .. } => {
            format!("{} default", selector.id)
        }
        Outcome::Serves { selector, rule: RuleChoice::Rule(rule), .. } => {
            format!("{} {}", selector.id, rule.id)
        }
        Outcome::Unavailable { kind, id } => format!("unavailable {} {id}", kind.segment()),
    }
}

#[test]
fn operators_and_param_types() {
    let cases = [
        // Columns: type, operator, name, value, result.
        ("uri", "match", "/", " /order/** ", true),
        ("uri", "match", "/", "/orders/**", false),
        ("uri", "exclude", "/", "/order/**", false),
        ("uri", "exclude", "/", "/user/**", true),
        ("uri", "pathPattern", "/", "/order/{id}", true),
        ("uri", "=", "/", "/order/1", true),
        ("uri", "=", "/", "/Order/1", false),
        ("uri", "regex", "/", "/order/[0-9]", true),
        ("uri", "regex", "/", "order", false),
        ("uri", "regex", "/", "/order/1|x", true),
        ("uri", "contains", "/", "der", true),
        ("uri", "startsWith", "/", "/order", true),
        ("uri", "endsWith", "/", "/1", true),
        ("uri", "isBlank", "/", "", false),
        ("header", "match", "x-app", "ho", true),
        ("header", "pathPattern", "x-app", "ho", true),
        ("header", "exclude", "x-app", "ho", false),
        ("header", "exclude", "x-app", "zz", true),
        ("header", "=", "X-App", "shop", true),
        ("header", "=", "missing", "shop", false),
        ("header", "exclude", "missing", "shop", false),
        ("header", "exclude", "x-blank", "shop", false),
        ("header", "isBlank", "missing", "", true),
        ("header", "isBlank", "x-blank", "", true),
        ("header", "isBlank", "x-app", "", false),
        ("header", "TimeBefore", "x-time", "2024-01-01 00:00:01", true),
        ("header", "TimeAfter", "x-time", "2024-01-01 00:00:00", false),
        ("query", "=", "id", "7", true),
        ("cookie", "=", "session", "s1", true),
        ("host", "=", "", "10.1.2.3", true),
        ("ip", "startsWith", "", "10.1.", true),
        ("domain", "=", "", "shop.example", true),
        ("req_method", "=", "", "GET", true),
        ("post", "=", "rpcType", "http", true),
        ("post", "=", "userId", "1", false),
        ("uri", "TimeBefore", "", "2024-03-01 00:00:00", true),
        ("uri", "TimeAfter", "", "2024-02-28 23:59:59", true),
        ("uri", "TimeAfter", "", "2024-02-29 12:00:00", false),
    ];
    let request = Asked {
        path: "/order/1",
        headers: vec![("x-app", "shop"), ("x-blank", " "), ("x-time", "2024-01-01 00:00:00")],
    };
    for (kind, operator, name, value, holds) in cases {
        let one = selector("s", &[condition(kind, operator, name, value)]);
        let (engine, problems) = engine(&[Selector { continued: false, ..one }], &[]);
        assert!(problems.is_empty(), "{problems:?}");
        let expected = if holds { "s default" } else { "no selector" };
        assert_eq!(chosen(&engine, "divide", &request), expected, "{kind} {operator} {value}");
    }
}

#[test]
fn conditions_that_nobody_can_evaluate_are_reported() {
    let cases = [
        (condition("path", "=", "a", "b"), "unknown parameter type `path`"),
        (condition("form-data", "=", "a", "b"), "unknown parameter type `form-data`"),
        (uri(">", "1"), "unknown operator `>`"),
        (uri("SpEL", "#x"), "`SpEL` conditions were removed"),
        (condition("header", "=", " ", "b"), "`paramName` is missing"),
        (Condition { param_value: None, ..uri("=", "") }, "`paramValue` is missing"),
        (uri("pathPattern", "/**/a"), "no more pattern data allowed"),
        (uri("regex", "("), "the regular expression cannot be compiled"),
        (uri("regex", "a{1000}{1000}"), "bytes when compiled"),
        (uri("TimeBefore", "tomorrow"), "invalid time `tomorrow`"),
    ];
    for (broken, reason) in cases {
        let selectors = [selector("bad", &[broken]), selector("good", &[uri("match", "/**")])];
        let (engine, problems) = engine(&selectors, &[rule("r", "good", &[])]);
        assert_eq!((problems.len(), &*problems[0].id), (1, "bad"));
        assert!(problems[0].reason.contains(reason), "{}", problems[0].reason);
        assert_eq!(chosen(&engine, "divide", &get("/a")), "good r");
    }
}

#[test]
fn a_protection_that_cannot_be_evaluated_refuses_what_it_could_be_meant_for() {
    let broken = [uri("startsWith", "/pay"), condition("header", "regex", "x", "(")];
    let guard = Selector { plugin_name: "sign".into(), ..selector("g", &broken) };
    let (engine, _) = engine(&[guard], &[]);
    assert_eq!(chosen(&engine, "sign", &get("/pay/1")), "unavailable selector g");
    assert_eq!(chosen(&engine, "sign", &get("/other")), "no selector");
}

#[test]
fn plugin_selector_rule_engine_with_scoring_full_custom_continued_and_default_rule() {
    let (method, path) = (condition("req_method", "=", "", "GET"), uri("match", "/a/**"));
    let both = [path.clone(), method.clone()];
    let any = |one: Selector| Selector { match_mode: 1, ..one };
    let sorted = |sort, one: Selector| Selector { sort, ..one };
    let full = |one: Selector| Selector { type_code: Some(0), ..one };
    let ends = |one: Selector| Selector { continued: false, ..one };
    let off = |one: Selector| Selector { enabled: false, ..one };
    let one = || selector("one", std::slice::from_ref(&path));
    let rules = |owner: &str| {
        let named = |name: &str, sort, conditions: &[Condition]| Rule {
            sort,
            ..rule(&format!("{owner}-{name}"), owner, conditions)
        };
        [named("low", 1, &[uri("=", "/a/1")]), named("last", 2, &[uri("=", "/b")])]
    };
    let cases = [
        // Columns: selectors in addition to `one` and its rules; selector and rule chosen for
        // `/a/1`.
        (vec![selector("two", &both)], "two two-low"),
        (vec![sorted(-9, any(selector("any", &both)))], "one one-low"),
        (vec![sorted(-9, one())], "one one-low"),
        (vec![sorted(-9, selector("early", std::slice::from_ref(&path)))], "early early-low"),
        (vec![sorted(-9, selector("empty", &[]))], "one one-low"),
        (vec![sorted(-9, full(selector("full", &[])))], "one one-low"),
        (vec![full(selector("full", &both))], "full full-last"),
        (vec![ends(selector("ends", &both))], "ends default"),
        (vec![off(selector("off", &both))], "one one-low"),
        (vec![any(selector("any", &[uri("=", "/b")])), off(one())], "one one-low"),
        (
            vec![selector("missed", &[path.clone(), uri("=", "/a/2"), method.clone()])],
            "one one-low",
        ),
        // An unknown mode is "and".
        (vec![Selector { match_mode: 7, ..selector("two", &both) }], "two two-low"),
    ];
    for (beside, expected) in cases {
        let what = format!("{beside:?}");
        let ids: Vec<String> = beside.iter().map(|it| it.id.clone()).collect();
        let mut rows: Vec<Rule> = rules("one").into();
        rows.extend(ids.iter().filter(|id| *id != "one").flat_map(|id| rules(id)));
        let mut selectors = beside;
        selectors.push(one());
        let (engine, problems) = engine(&selectors, &rows);
        assert!(problems.is_empty(), "{problems:?}");
        assert_eq!(chosen(&engine, "divide", &get("/a/1")), expected, "{what}");
    }
}

#[test]
fn selectors_compete_by_score_then_sort() {
    let sorted = |sort, selector| Selector { sort, continued: false, ..selector };
    let two = [uri("match", "/a/**"), condition("header", "=", "x", "1")];
    let any = Selector {
        match_mode: 1,
        ..selector("any", &[uri("=", "/a/1"), uri("=", "/b"), uri("=", "/c")])
    };
    let selectors = [
        sorted(9, selector("two", &two)),
        sorted(1, any),
        sorted(5, selector("one-late", &[uri("startsWith", "/a/")])),
        sorted(3, selector("one-early", &[uri("match", "/a/**")])),
        sorted(0, selector("none", &[])),
        sorted(0, Selector { enabled: false, ..selector("off", &two) }),
    ];
    let (engine, _) = engine(&selectors, &[]);
    let with_header = Asked { path: "/a/1", headers: vec![("x", "1")] };
    assert_eq!(chosen(&engine, "divide", &with_header), "two default");
    assert_eq!(chosen(&engine, "divide", &get("/a/1")), "one-early default");
    assert_eq!(chosen(&engine, "divide", &get("/b")), "any default");
    assert_eq!(chosen(&engine, "divide", &get("/d")), "no selector");
}

#[test]
fn full_selectors_take_the_last_rule_without_looking_at_it() {
    let full = Selector { type_code: Some(0), ..selector("full", &[]) };
    let sorted = |sort, id: &str| Rule { sort, ..rule(id, "full", &[uri("=", "/never")]) };
    let rules =
        [sorted(3, "last"), sorted(1, "first"), Rule { enabled: false, ..sorted(9, "off") }];
    let (with_rules, _) = engine(std::slice::from_ref(&full), &rules);
    assert_eq!(chosen(&with_rules, "divide", &get("/a")), "full last");
    let (without, _) = engine(&[full], &[]);
    assert_eq!(chosen(&without, "divide", &get("/a")), "full no rule");
}

#[test]
fn rules_of_custom_selectors_compete_too() {
    let selectors = [selector("s", &[uri("match", "/a/**")])];
    let rules = [
        Rule { sort: 2, ..rule("late", "s", &[uri("=", "/a/1")]) },
        Rule { sort: 1, ..rule("early", "s", &[uri("match", "/a/*")]) },
        rule("other", "t", &[uri("=", "/a/2"), uri("=", "/a/2")]),
        rule("bound", "s", &[uri("=", "/a/3"), condition("req_method", "=", "", "GET")]),
    ];
    let (engine, _) = engine(&selectors, &rules);
    for (path, expected) in [("/a/1", "s early"), ("/a/3", "s bound"), ("/a/b/c", "s no rule")] {
        assert_eq!(chosen(&engine, "divide", &get(path)), expected, "{path}");
    }
    assert_eq!(chosen(&engine, "waf", &get("/a/1")), "off");
}

#[test]
fn the_chain_is_in_built_in_order_where_rows_have_no_sort() {
    let sorted = Plugin { sort: Some(5), ..plugin("rewrite") };
    let off = Plugin { enabled: false, ..plugin("jwt") };
    let plugins = shared(&[plugin("divide"), plugin("waf"), sorted, off, plugin("sign")]);
    let (engine, _) =
        Engine::build(Objects { plugins: &plugins, roles: ROLES, ..Objects::default() });
    let names: Vec<&str> = engine.chain().map(|plugin| &*plugin.name).collect();
    assert_eq!(names, ["rewrite", "sign", "waf", "divide"]);
}

#[test]
fn rpc_type_is_decided_by_header_then_upgrade_then_metadata() {
    let known = |id: &str, path: &str, rpc_type: &str| Metadata {
        id: id.into(),
        path: path.into(),
        rpc_type: rpc_type.into(),
        ..Metadata::default()
    };
    let metadata = shared(&[
        known("1", "/dubbo/**", "dubbo"),
        known("2", "/dubbo/grpc", "grpc"),
        known("3", "/x", "carrier-pigeon"),
    ]);
    let (engine, problems) = Engine::build(Objects { metadata: &metadata, ..Objects::default() });
    assert_eq!((problems.len(), problems[0].kind, &*problems[0].id), (1, Kind::Metadata, "3"));
    let cases = [
        (None, None, "/dubbo/find", Ok(RpcType::Dubbo)),
        (None, None, "/dubbo//find", Ok(RpcType::Dubbo)),
        (None, None, "/dubbo/grpc", Ok(RpcType::Grpc)),
        (None, None, "/x", Ok(RpcType::Http)),
        (None, Some("WebSocket"), "/dubbo/find", Ok(RpcType::WebSocket)),
        (Some("sofa"), Some("websocket"), "/dubbo/find", Ok(RpcType::Sofa)),
        (Some("pigeon"), None, "/", Err(UnknownRpcType)),
    ];
    for (header, upgrade, path, expected) in cases {
        let decided = engine.rpc_type(header, upgrade, path).map(|decision| decision.rpc_type);
        assert_eq!(decided, expected, "{path}");
    }
}

#[test]
fn explanation_names_winners_and_why_others_lost() {
    let selectors = [
        selector("won", &[uri("match", "/a/**"), condition("req_method", "=", "", "GET")]),
        selector("outranked", &[uri("match", "/a/**")]),
        selector("failed", &[uri("match", "/a/**"), condition("req_method", "=", "", "PUT")]),
        selector("unclear", &[uri("regex", "(")]),
    ];
    let rules = [rule("r", "won", &[uri("=", "/a/1")]), rule("q", "won", &[uri("=", "/a/2")])];
    let (engine, _) = engine(&selectors, &rules);
    let explanation = engine.explain("divide", &get("/a/1")).unwrap();
    let standings = |list: &[Candidate]| -> Vec<(String, usize, Standing)> {
        list.iter().map(|each| (each.id.clone(), each.score, each.standing)).collect()
    };
    assert_eq!(
        standings(&explanation.selectors),
        [
            ("won".into(), 2, Standing::Won),
            ("failed".into(), 2, Standing::Failed(Some(1))),
            ("outranked".into(), 1, Standing::Outranked),
            ("unclear".into(), 1, Standing::Unclear),
        ]
    );
    assert_eq!(
        standings(&explanation.rules),
        [("r".into(), 1, Standing::Won), ("q".into(), 1, Standing::Failed(Some(0)))]
    );
    assert_eq!(engine.explain("nothing", &get("/")), None);
}

#[test]
fn times_are_read_as_java_reads_them() {
    let time = |text| CivilTime::parse(text).map(|time| (time.month, time.day, time.second));
    assert_eq!(time("2024-02-31 10:20:30"), Some((2, 29, 30)));
    assert_eq!(time("2023-02-29 10:20:30"), Some((2, 28, 30)));
    for text in [
        "2024-2-1 10:20:30",
        "2024-13-01 10:20:30",
        "2024-02-01T10:20:30",
        "",
        "+024-02-01 10:20:30",
    ] {
        assert_eq!(time(text), None, "{text}");
    }
}

/// Number of objects of one kind besides the one that matches the request.
const MANY: usize = 10_000;

/// Request that counts how often conditions read its values.
struct Counted {
    asked: Asked,
    questions: std::cell::Cell<usize>,
}

impl Counted {
    fn get(path: &'static str) -> Self {
        Self { asked: get(path), questions: std::cell::Cell::default() }
    }

    fn count(&self) -> &Asked {
        self.questions.set(self.questions.get() + 1);
        &self.asked
    }
}

impl Request for Counted {
    fn path(&self) -> &str {
        self.count().path()
    }
    fn method(&self) -> &str {
        self.count().method()
    }
    fn domain(&self) -> &str {
        self.count().domain()
    }
    fn client_ip(&self) -> &str {
        self.count().client_ip()
    }
    fn header(&self, name: &str) -> Option<Cow<'_, str>> {
        self.count().header(name)
    }
    fn query(&self, name: &str) -> Option<Cow<'_, str>> {
        self.count().query(name)
    }
    fn cookie(&self, name: &str) -> Option<Cow<'_, str>> {
        self.count().cookie(name)
    }
    fn context(&self, field: &str) -> Option<Cow<'_, str>> {
        self.count().context(field)
    }
    fn local_time(&self) -> CivilTime {
        self.count().local_time()
    }
}

#[test]
fn the_cost_depends_on_the_path_and_not_on_the_number_of_selectors_and_rules() {
    /// An operator, and the function that returns the path for the object with a number.
    type Form = (&'static str, fn(usize) -> String);
    let forms: [Form; 5] = [
        ("=", |at| format!("/service-{at}/order/find")),
        ("startsWith", |at| format!("/service-{at}/")),
        ("match", |at| format!("/service-{at}/**")),
        ("match", |at| format!("/service-{at}/*/find")),
        ("pathPattern", |at| format!("/service-{at}/{{what}}/find")),
    ];
    for (operator, path) in forms {
        let questions = |count: usize| {
            let places: Vec<usize> = if count == 1 { vec![7] } else { (0..count).collect() };
            let mut selectors: Vec<Selector> = places
                .iter()
                .map(|at| selector(&at.to_string(), &[uri(operator, &path(*at))]))
                .collect();
            // This selector wins by its score, and all rules are below it.
            let all = [uri("startsWith", "/"), uri("endsWith", "find")];
            selectors.push(selector("all", &all));
            let rules: Vec<Rule> = places
                .iter()
                .map(|at| rule(&format!("r{at}"), "all", &[uri(operator, &path(*at))]))
                .collect();
            let (engine, problems) = engine(&selectors, &rules);
            assert!(problems.is_empty(), "{problems:?}");
            let request = Counted::get("/service-7/order/find");
            match engine.select("divide", &request) {
                Outcome::Serves { rule: RuleChoice::Rule(rule), .. } => assert_eq!(rule.id, "r7"),
                other => panic!("{operator}: {other:?}"),
            }
            request.questions.get()
        };
        assert_eq!(questions(MANY), questions(1), "{operator} {}", path(7));
    }
}

#[test]
fn what_has_not_changed_is_not_compiled_again_and_what_has_is() {
    let plugins = shared(&[plugin("divide"), plugin("sign")]);
    let mut selectors = shared(&[
        selector("a", &[uri("=", "/a")]),
        selector("b", &[uri("=", "/b")]),
        Selector { plugin_name: "sign".into(), ..selector("c", &[uri("=", "/c")]) },
    ]);
    let mut rules = shared(&[
        rule("a1", "a", &[uri("=", "/a")]),
        rule("b1", "b", &[uri("regex", "(")]),
        rule("b2", "b", &[uri("=", "/b")]),
    ]);
    fn objects<'a>(
        plugins: &'a [Arc<Plugin>],
        selectors: &'a [Arc<Selector>],
        rules: &'a [Arc<Rule>],
    ) -> Objects<'a> {
        Objects { plugins, selectors, rules, metadata: &[], roles: ROLES }
    }
    let (first, problems) = Engine::build(objects(&plugins, &selectors, &rules));
    assert_eq!(problems.len(), 1);
    let compiled = |engine: &Engine, plugin: &str| -> Vec<usize> {
        let entry = engine.entry(plugin).expect("it is there");
        let parts = entry.selectors.iter().map(|each| Arc::as_ptr(each).addr());
        std::iter::once(Arc::as_ptr(&entry.selectors).addr()).chain(parts).collect()
    };
    let (second, problems) = Engine::rebuild(objects(&plugins, &selectors, &rules), Some(&first));
    assert_eq!(problems.len(), 1, "what was wrong is said again");
    for name in ["divide", "sign"] {
        assert_eq!(compiled(&second, name), compiled(&first, name));
    }
    rules[2] = Arc::new(rule("b2", "b", &[uri("=", "/c")]));
    selectors.push(Arc::new(selector("d", &[uri("=", "/d")])));
    let (third, _) = Engine::rebuild(objects(&plugins, &selectors, &rules), Some(&second));
    assert_eq!(compiled(&third, "sign"), compiled(&second, "sign"));
    let (before, after) = (compiled(&second, "divide"), compiled(&third, "divide"));
    let is_kept: Vec<bool> = after.iter().map(|place| before.contains(place)).collect();
    assert_eq!(is_kept, [false, true, false, false], "the index, a, b and d");
    assert_eq!(chosen(&third, "divide", &get("/b")), "b no rule");
    assert_eq!(chosen(&third, "divide", &get("/d")), "d no rule");
}

/// Returns the id of the best selector, found by a search of all.
fn linear(selectors: &[Arc<Selector>], path: &str) -> Option<String> {
    let takes = |selector: &&Arc<Selector>| {
        let mut all = selector.condition_list.iter().map(|condition| {
            let value = condition.param_value.as_deref().unwrap();
            match &*condition.operator {
                "match" => crate::pattern::AntPattern::compile(value).unwrap().matches(path),
                "pathPattern" => crate::pattern::PathPattern::compile(value).unwrap().matches(path),
                "=" => path == value,
                "startsWith" => path.starts_with(value),
                "exclude" => !crate::pattern::AntPattern::compile(value).unwrap().matches(path),
                _ => path.contains(value),
            }
        });
        match selector.match_mode {
            1 => all.any(|holds| holds),
            _ => !selector.condition_list.is_empty() && all.all(|holds| holds),
        }
    };
    let score = |selector: &Arc<Selector>| match selector.match_mode {
        1 => 0,
        _ => selector.condition_list.len(),
    };
    let candidates = selectors.iter().filter(takes);
    let best = candidates.min_by_key(|selector| (Reverse(score(selector)), selector.sort));
    best.map(|selector| selector.id.clone())
}

fn any_condition() -> impl Strategy<Value = Condition> {
    let operators = vec!["match", "=", "startsWith", "contains", "exclude", "pathPattern"];
    let values = vec![
        "/a", "/a/", "/a/b", "/a/*", "/a/**", "/**", "/a*", "/*/b", "/b", "/ab", "/a//b", "/{x}/b",
        "/?",
    ];
    (prop::sample::select(operators), prop::sample::select(values))
        .prop_map(|(operator, value)| uri(operator, value))
}

proptest! {
    #[test]
    fn index_and_linear_search_agree(
        parts in prop::collection::vec(
            (prop::collection::vec(any_condition(), 0..4), 0_i64..2, 0_i64..3), 0..12),
        path in prop::sample::select(vec![
            "/", "/a", "/a/", "/a/b", "//a/b", "/a//b", "/ab", "/b", "/a/b/c", "/abc/b", "", "//",
        ]),
    ) {
        let selectors: Vec<Selector> = parts.iter().enumerate().map(|(at, (conditions, mode, sort))| {
            let one = selector(&at.to_string(), conditions);
            Selector { match_mode: *mode, sort: *sort, continued: false, ..one }
        }).collect();
        let (plugins, selectors) = (shared(&[plugin("divide")]), shared(&selectors));
        let objects = |selectors| Objects { plugins: &plugins, selectors, roles: ROLES, ..Objects::default() };
        // The engine for all selectors reuses the compiled parts of an engine for some of them.
        let (before, _) = Engine::build(objects(&selectors[selectors.len() / 2..]));
        let (engine, _) = Engine::rebuild(objects(&selectors), Some(&before));
        // A blank value satisfies no operator but `isBlank`.
        let expected = linear(&selectors, path).filter(|_| !path.is_empty());
        let expected = expected.map_or_else(|| "no selector".into(), |id| format!("{id} default"));
        prop_assert_eq!(chosen(&engine, "divide", &get(path)), expected);
    }
}
