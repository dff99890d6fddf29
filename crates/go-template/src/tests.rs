//! Tests of templates: output, refusals, and error texts. Random values have a fixed seed.

use proptest::prelude::*;
use tollhouse_stdx::Random;

use super::*;

/// 2024-02-29T13:04:05.678901234Z.
const UNIX_NS: u64 = 1_709_211_845_678_901_234;

fn method() -> Method {
    Method {
        fully_qualified_name: "v1.PolarisGRPC.Heartbeat".into(),
        method_name: "Heartbeat".into(),
        service_name: "PolarisGRPC".into(),
        input_name: "Instance".into(),
        output_name: "Response".into(),
        is_client_streaming: false,
        is_server_streaming: true,
    }
}

fn rendered_with(template: &Template, number: u64, seed: u64) -> Result<String, TemplateError> {
    let method = method();
    let variables = Variables {
        worker_id: "g0c3",
        request_number: number,
        method: &method,
        unix_ns: UNIX_NS,
        uuid: 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef,
    };
    let mut out = String::new();
    template.render(&variables, &mut Random::seeded(seed), &mut out).map(|()| out)
}

fn rendered(text: &str) -> String {
    let template = Template::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    rendered_with(&template, 42, 1).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn parse_error(text: &str) -> String {
    Template::parse(text).map(|_| ()).expect_err(text).to_string()
}

fn render_error(text: &str) -> String {
    let template = Template::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    rendered_with(&template, 42, 1).expect_err(text).to_string()
}

fn check(table: &[(&str, &str)]) {
    for (text, expected) in table {
        assert_eq!(rendered(text), *expected, "{text}");
    }
}

#[test]
fn variables_are_filled_in() {
    check(&[
        ("{{.WorkerID}}", "g0c3"),
        ("ins-{{.RequestNumber}}!", "ins-42!"),
        ("{{ .FullyQualifiedName }}", "v1.PolarisGRPC.Heartbeat"),
        ("{{.MethodName}} {{.ServiceName}}", "Heartbeat PolarisGRPC"),
        ("{{.InputName}} {{.OutputName}}", "Instance Response"),
        ("{{.IsClientStreaming}} {{.IsServerStreaming}}", "false true"),
        ("{{.Timestamp}}", "2024-02-29T13:04:05Z"),
        ("{{.TimestampUnix}}", "1709211845"),
        ("{{.TimestampUnixMilli}}", "1709211845678"),
        ("{{.TimestampUnixNano}}", "1709211845678901234"),
        ("{{.UUID}}", "01234567-89ab-4def-8123-456789abcdef"),
        ("{{$.RequestNumber}}", "42"),
    ]);
}

#[test]
fn a_text_without_actions_is_static() {
    for text in ["", "plain", "{\"a\": {}}", "{{/* only a comment */}}", "a{{/* b */}}c"] {
        assert!(Template::parse(text).expect(text).is_static(), "{text}");
    }
    assert_eq!(Template::parse("a{{/* b */}}c").expect("text").as_static(), Some("ac"));
    assert!(!Template::parse("{{.UUID}}").expect("text").is_static());
    assert_eq!(Template::verbatim("{{.UUID}}").as_static(), Some("{{.UUID}}"));
}

#[test]
fn markers_trim_the_text_beside_them() {
    check(&[
        ("a \n{{- .RequestNumber -}}\t b", "a42b"),
        ("a {{- .RequestNumber }} b", "a42 b"),
        ("a {{ .RequestNumber -}} b", "a 42b"),
        ("a {{-3}} b", "a -3 b"),
        ("a {{- /* note */ -}} b", "ab"),
        ("{{\"}}\"}} {{`{{`}}", "}} {{"),
        ("{{\n.RequestNumber\n}}", "42"),
    ]);
}

#[test]
fn literals_are_those_of_go() {
    check(&[
        (r#"{{"a\"b\\\n\u00e9\x41"}}"#, "a\"b\\\né\u{41}"),
        ("{{`a\\b`}}", "a\\b"),
        ("{{0x1f}} {{1_000}} {{-5}} {{0b101}}", "31 1000 -5 5"),
        ("{{1.5}} {{1e3}} {{1234567.5}} {{0.00001}} {{2.0}}", "1.5 1000 1.2345675e+06 1e-05 2"),
        ("{{'a'}}", "97"),
        ("{{true}} {{false}}", "true false"),
    ]);
}

#[test]
fn functions_of_texts() {
    check(&[
        (r#"{{upper "abc"}} {{lower "ABC"}} {{title "ab cd-e"}}"#, "ABC abc Ab Cd-E"),
        (r#"{{"abc" | upper | repeat 2}}"#, "ABCABC"),
        (r#"{{trim "  a "}}{{trimAll "-" "--b-"}}{{trimPrefix "x" "xc"}}"#, "abc"),
        (r#"{{trunc 2 "abc"}} {{trunc -2 "abc"}} {{substr 1 3 "abcd"}}"#, "ab bc bc"),
        (r#"{{replace "a" "b" "banana"}}"#, "bbnbnb"),
        (r#"{{contains "nan" "banana"}} {{hasPrefix "b" "banana"}}"#, "true true"),
        (r#"{{quote "a\"b" 3}} {{squote "x"}}"#, r#""a\"b" "3" 'x'"#),
        (r#"{{b64enc "hello"}} {{b64dec "aGVsbG8="}}"#, "aGVsbG8= hello"),
        (r#"{{cat "a" 1 "b"}} {{print "a" 1 2 "b"}}"#, "a 1 b a1 2b"),
        (r#"{{join "," (list 1 2 3)}} {{index (splitList "/" "a/b") 1}}"#, "1,2,3 b"),
        (r#"{{toString 5 | upper}} {{list "a" 1 true | toJson}}"#, r#"5 ["a",1,true]"#),
        (r#"{{urlquery "a b&c"}} {{html "<a>"}}"#, "a+b%26c &lt;a&gt;"),
        (r#"{{len "abc"}} {{len (list 1 2)}}"#, "3 2"),
    ]);
}

#[test]
fn printf_formats_like_go() {
    check(&[
        (r#"{{printf "%05d|%-5d|%5d|%+d" 42 42 42 42}}"#, "00042|42   |   42|+42"),
        (r#"{{printf "%s %v %q" "a" 1 "b"}}"#, r#"a 1 "b""#),
        (r#"{{printf "%x %X %#x %b %o %c" 255 255 255 5 8 65}}"#, "ff FF 0xff 101 10 A"),
        (
            r#"{{printf "%.2f %8.3f %e %g" 3.14159 2.5 1234.5 0.1}}"#,
            "3.14    2.500 1.234500e+03 0.1",
        ),
        (r#"{{printf "%t %5s|%-5s|%.2s" true "ab" "ab" "abc"}}"#, "true    ab|ab   |ab"),
        (r#"{{printf "%d%%" 5}}"#, "5%"),
        (
            r#"{{printf "%d" "x"}} {{printf "%d"}} {{printf "%s" 5}}"#,
            "%!d(string=x) %!d(MISSING) %!s(int=5)",
        ),
        (r#"{{printf "%06.2f %.3g" 3.14159 1234.5}}"#, "003.14 1.23e+03"),
        (r#"{{.RequestNumber | printf "user-%06d"}}"#, "user-000042"),
        (r#"{{printf "a" 1}}"#, "a%!(EXTRA int=1)"),
    ]);
}

#[test]
fn functions_of_numbers() {
    check(&[
        ("{{add 1 2 3}} {{sub 5 7}} {{mul 2 3 4}} {{div 7 2}} {{mod 7 3}}", "6 -2 24 3 1"),
        ("{{add1 .RequestNumber}} {{mod .RequestNumber 10}}", "43 2"),
        ("{{add \"5\" 1.9}} {{int \"17\"}} {{atoi \"x\"}}", "6 17 0"),
        (
            "{{max 3 9 4}} {{min 3 9 4}} {{round 3.14159 2}} {{round -2.5 0}} {{ceil 1.2}}",
            "9 3 3.14 -3 2",
        ),
        ("{{first (list 1 2)}} {{last (list 1 2)}} {{has 2 (list 1 2)}}", "1 2 true"),
        ("{{until 3}} {{untilStep 4 0 -2}}", "[0 1 2] [4 2]"),
    ]);
}

#[test]
fn functions_that_choose() {
    check(&[
        ("{{default \"x\" \"\"}} {{default \"x\" \"y\"}}", "x y"),
        ("{{ternary \"yes\" \"no\" (eq 1 1)}}", "yes"),
        ("{{and 1 0}} {{or 0 2}} {{not 1}}", "0 2 false"),
        ("{{eq 1 2 1}} {{ne 1 1}} {{lt 1 2}} {{ge \"b\" \"a\"}}", "true false true true"),
        ("{{coalesce \"\" 0 \"z\"}} {{empty 0}}", "z true"),
    ]);
}

#[test]
fn dates_follow_go_layouts() {
    check(&[
        ("{{now | date \"2006-01-02T15:04:05Z07:00\"}}", "2024-02-29T13:04:05Z"),
        ("{{date \"Mon Jan _2 3:04PM 06\" now}}", "Thu Feb 29 1:04PM 24"),
        (
            "{{date \"Monday, January 2 15h .000 -0700 MST\" now}}",
            "Thursday, February 29 13h .678 +0000 UTC",
        ),
        ("{{date \"05.999999\" now}}", "05.678901"),
        ("{{date \"2006-01-02\" 0}} {{htmlDate now}}", "1970-01-01 2024-02-29"),
        ("{{now | dateModify \"-24h\" | date \"02\"}}", "28"),
        ("{{(now).Unix}} {{(now).UnixMilli}} {{now.Unix}}", "1709211845 1709211845678 1709211845"),
        ("{{(now).Format \"2006\"}} {{unixEpoch now}}", "2024 1709211845"),
    ]);
}

#[test]
fn blocks_and_variables() {
    check(&[
        ("{{if eq .RequestNumber 42}}a{{else}}b{{end}}", "a"),
        ("{{if eq 1 2}}a{{else if eq 2 2}}b{{else}}c{{end}}", "b"),
        ("{{if false}}a{{else if false}}b{{else}}c{{end}}d", "cd"),
        ("{{range $i, $e := list \"a\" \"b\"}}{{$i}}={{$e}},{{end}}", "0=a,1=b,"),
        ("{{range until 3}}{{.}}{{$.RequestNumber}} {{end}}", "042 142 242 "),
        ("{{range list}}a{{else}}none{{end}}", "none"),
        (
            "{{range until 9}}{{if eq . 3}}{{break}}{{end}}{{if eq . 1}}{{continue}}{{end}}{{.}}{{end}}",
            "02",
        ),
        ("{{$x := 5}}{{$x = add $x 1}}{{$x}}", "6"),
        (
            "{{with \"v\"}}{{.}}{{else}}none{{end}}{{with $y := 0}}{{$y}}{{else}}zero{{end}}",
            "vzero",
        ),
        ("{{range 2}}{{.}}{{end}}", "01"),
    ]);
}

#[test]
fn random_values_keep_to_their_bounds() {
    let template = Template::parse(
        "{{randomInt 1000 50000}} {{randomString 8 }} {{randomString 0}} {{newUUID}}",
    );
    let template = template.expect("template");
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..2_000 {
        let text = rendered_with(&template, 0, seed).expect("text");
        let parts: Vec<&str> = text.split(' ').collect();
        let number: i64 = parts[0].parse().expect("number");
        assert!((1_000..50_000).contains(&number), "{text}");
        assert!(parts[1].len() == 8 && parts[1].bytes().all(|b| b.is_ascii_alphanumeric()));
        assert!((2..=16).contains(&parts[2].len()), "{text}");
        assert!(parts[3].len() == 36 && parts[3].as_bytes()[14] == b'4', "{text}");
        assert!(matches!(parts[3].as_bytes()[19], b'8' | b'9' | b'a' | b'b'), "{text}");
        seen.insert(parts[3].to_owned());
    }
    assert_eq!(seen.len(), 2_000);
    check(&[("{{randomInt -5 0}}", "0"), ("{{randomInt 7 8}}", "7"), ("{{randNumeric 0}}", "")]);
}

#[test]
fn what_is_no_template_is_named_with_its_place() {
    for (text, expected) in [
        (
            "{{.RequestNumbr}}",
            "character 3: variable `.RequestNumbr` is unknown; did you mean `.RequestNumber`?",
        ),
        (
            "ab{{randomStrng 8}}",
            "character 5: function `randomStrng` is unknown; did you mean `randomString`?",
        ),
        ("{{xyzzyx}}", "function `xyzzyx` is unknown; of sprig, those"),
        ("{{env \"HOME\"}}", "function `env` is refused"),
        ("{{randomInt 1}}", "`randomInt` takes 2 values, not 1"),
        ("{{printf}}", "`printf` takes 1 or more values"),
        ("{{.UUID", "this `{{` has no `}}`"),
        ("{{}}", "this {{}} is empty"),
        ("{{if true}}a", "this `if` has no `end`"),
        ("{{if true}}a{{else}}b{{else}}c{{end}}", "a second `else`"),
        ("{{end}}", "`end` without"),
        ("{{else}}", "`else` without"),
        ("{{(add 1 2}}", "has no `)`"),
        ("{{add 1 2)}}", "unexpected `)`"),
        ("{{1 2}}", "only functions take values"),
        ("{{$x}}", "variable `$x` is not declared"),
        ("{{\"a}}", "this `{{` has no"),
        ("{{'ab'}}", "not a single character"),
        ("{{\"\\q\"}}", "not an escape"),
        ("{{0xzz}}", "not a number"),
        ("{{template \"x\"}}", "`template` is not offered"),
        ("{{break}}", "outside of `range`"),
        ("{{range until 2}}{{.UUID}}{{end}}", "write `$.UUID`"),
        ("{{1 | 2}}", "after `|` comes a function"),
        ("{{\"a\".Unix.Foo}}", "unexpected"),
        ("{{(now).Foo}}", "a value has no `.Foo`"),
        ("{{.}}", "whole request"),
        (r#"{"a": "{{printf \"%d\" 1}}"}"#, "stand in backquotes"),
        ("{{#}}", "`#` means nothing"),
        ("é{{.X}}", "character 4"),
    ] {
        let error = parse_error(text);
        assert!(error.contains(expected), "{text}: {error}");
    }
    assert!(
        parse_error(&format!("{}1{}", "{{".to_owned() + &"(".repeat(99), "}}")).contains("deep")
    );
}

#[test]
fn what_cannot_be_filled_in_is_named() {
    for (text, expected) in [
        ("{{randomInt 5 5}}", "`randomInt`: 5 must be above 5"),
        ("{{randomInt \"a\" 5}}", "needs a whole number, not a text"),
        ("{{div 1 0}}", "`div`: division by zero"),
        ("{{index (list 1) 5}}", "element 5 does not exist"),
        ("{{repeat 999999999 \"aaaa\"}}", "more than"),
        ("{{repeat -1 \"a\"}}", "cannot repeat"),
        ("{{randomString 99999999}}", "more than"),
        ("{{until 99999}}", "at most 10000"),
        ("{{lt 1 \"a\"}}", "have no order"),
        ("{{range \"abc\"}}{{end}}", "needs a list"),
        ("{{date \"2006\" now | dateInZone \"2006\" now}}", "times are in UTC"),
        ("{{fail \"no\"}}", "`fail`: no"),
        ("{{range until 9999}}{{range until 9999}}x{{end}}{{end}}", "steps"),
        ("{{$x := repeat 10000000 \"a\"}}{{$x}}{{$x}}", "writes more than"),
    ] {
        let error = render_error(text);
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn functions_can_be_switched_off() {
    let parse = |text| Template::parse_with(text, Functions::Builtin).map(|_| ());
    assert!(parse("{{.RequestNumber | printf \"%d\"}}").is_ok());
    let error = parse("{{randomInt 1 2}}").expect_err("switched off").to_string();
    assert!(error.contains("switched off"), "{error}");
}

#[test]
fn a_render_appends_to_what_is_there() {
    let template = Template::parse("{{.RequestNumber}}").expect("template");
    let method = Method::default();
    let mut random = Random::seeded(1);
    let mut out = String::from("n=");
    for number in [1, 2] {
        let variables = Variables::now("w", number, &method, &mut random);
        template.render(&variables, &mut random, &mut out).expect("rendered");
    }
    assert_eq!(out, "n=12");
}

proptest! {
    #[test]
    fn any_text_is_a_template_or_an_error(
        text in r#"([a-z {}]|\{\{|\}\}|\{\{-|\.UUID|\$x|:=|"|'|`|\\|\||\(|\)|add|if|end|range|else|[0-9.e+-]){0,40}"#
    ) {
        if let Ok(template) = Template::parse(&text) {
            let _ = rendered_with(&template, 1, 1);
        }
    }

    #[test]
    fn text_without_braces_stands_for_itself(text in "[^{}]{0,60}") {
        let template = Template::parse(&text).expect("no action in it");
        prop_assert_eq!(template.as_static(), Some(text.as_str()));
    }
}
