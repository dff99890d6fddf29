//! Tests of the spelling of ghz: flags and files in all three languages, and what becomes of them.
//! The published files are taken as they stand.

use std::time::Duration;

use super::*;
use go_template::Template;
use tollhouse_load::case::{AtEnd, GrpcData, Occupancy, Protocol, Stairs};
use tollhouse_load::pace::{Pace, Steps};

const TESTDATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/ghz");
const PLAIN: &str = "--insecure --call p.S.M";

fn parsed(line: &str) -> Result<Action<GhzCommand>, BenchError> {
    let arguments: Vec<String> = line.split_whitespace().map(ToOwned::to_owned).collect();
    parse(&arguments)
}

fn command_of(line: &str) -> GhzCommand {
    match parsed(line) {
        Ok(Action::Run(command)) => {
            command.case.validate().expect(line);
            command
        }
        other => panic!("{line}: {other:?}"),
    }
}

fn error_of(line: &str) -> String {
    parsed(line).expect_err(line).to_string()
}

#[test]
fn published_configurations_are_taken_as_they_stand() {
    for (file, method) in [
        ("register_instance", "RegisterInstance"),
        ("discover_instance", "Discover"),
        ("heartbeat_instance", "Heartbeat"),
        ("deregister_instance", "DeregisterInstance"),
    ] {
        let command = command_of(&format!("--config={TESTDATA}/{file}.json -c 100 -x 60s"));
        let case = &command.case;
        assert_eq!(case.target, "grpc://127.0.0.1:8091");
        assert_eq!(case.protocol(), Protocol::Grpc);
        // `total` is 1 in all of them; the time overrules it.
        assert_eq!(case.load.requests, None);
        assert_eq!(case.load.duration, Some(Duration::from_secs(60)));
        assert_eq!((case.load.connections, case.load.streams), (1, 100));
        let grpc = case.grpc.as_ref().expect("a call");
        assert_eq!(grpc.call, format!("v1.PolarisGRPC.{method}"));
        assert_eq!(grpc.proto.as_deref(), Some(Path::new("./grpcapi.proto")));
        let Some(GrpcData::Json(data)) = &grpc.data else { panic!("{file}: {:?}", grpc.data) };
        assert!(!Template::parse(data).expect(file).is_static(), "{data}");
        assert!(command.notes.is_empty(), "{:?}", command.notes);
    }
}

#[test]
fn options_are_echoed_as_ghz_does() {
    let golden = std::fs::read_to_string(format!("{TESTDATA}/options.txt")).expect("golden file");
    let mut pairs = 0;
    for pair in golden.split("\n\n").skip(1) {
        let (line, expected) = pair.trim().split_once('\n').expect("a line and its options");
        let here = line
            .replace("--config=", &format!("--config={TESTDATA}/"))
            .replace("--config ", &format!("--config {TESTDATA}/"));
        let mut echo = command_of(&here).options.echo;
        if !line.contains("--cpus") {
            echo.cpus = 2;
        }
        // The order of keys is part of the shape; `data` has its own.
        let echoed = serde_json::to_string(&echo).expect("options are JSON");
        assert_eq!(echoed, expected, "{line}");
        pairs += 1;
    }
    assert_eq!(pairs, 11);
}

#[test]
fn every_way_of_writing_a_flag_is_taken() {
    for flags in ["-c 7 -n 70", "-c7 -n70", "--concurrency=7 --total 70", "-c=7 -n=70"] {
        let load = command_of(&format!("{PLAIN} {flags} h:1")).case.load;
        assert_eq!((load.streams, load.requests), (7, Some(70)), "{flags}");
    }
    let command = command_of("h:1 -ec 7 --call p.S.M --no-insecure --skipTLS --cname x");
    assert_eq!(command.case.target, "grpcs://h:1");
    assert!(command.case.tls.insecure && command.case.grpc.expect("a call").compression);
    assert_eq!(command.case.tls.server_name.as_deref(), Some("x"));
    assert!(
        matches!(parsed("--help"), Ok(Action::Print(text)) if text.contains("--load-schedule"))
    );
    assert!(matches!(parsed("-v"), Ok(Action::Print(_))));
}

#[test]
fn files_of_every_format_say_the_same() {
    let path = |name: &str| PathBuf::from(name);
    let json = r#"{"call": "p.S.M", "host": "h:1", "Total": "5", "timeout": 3000000000,
                   "concurrency": 2.0, "data": {"a": 1,}, /* c */ "metadata": {"n": 5}}"#;
    let toml = "call = 'p.S.M'\nhost = 'h:1'\ntotal = 5\ntimeout = '3s'\nconcurrency = 2\n\
                [data]\na = 1\n[metadata]\nn = '5'";
    let yaml = "call: p.S.M\nhost: h:1\ntotal: 5\ntimeout: 3s\nconcurrency: 2\ndata: {a: 1}\n\
                metadata: {n: '5'}";
    let first = parse_config(&path("x.json"), json).expect("JSON");
    assert_eq!(first.case.load.requests, Some(5));
    assert_eq!(first.case.load.timeout, Duration::from_secs(3));
    for (name, text) in [("x.toml", toml), ("x.yaml", yaml), ("x", toml), ("x", json), ("x", yaml)]
    {
        let other = parse_config(&path(name), text).expect(name);
        assert_eq!(other.case, first.case, "{name}");
        assert_eq!(other.options.echo, first.options.echo, "{name}");
    }
    let list = command_of(&format!("--config {TESTDATA}/list_of_messages.yaml"));
    let data = list.case.grpc.expect("a call").data;
    assert_eq!(data, Some(GrpcData::Json(r#"[{"name":"a"},{"name":"b"}]"#.into())));
    assert_eq!((list.options.skip_first, list.options.count_errors), (1, true));
    assert!(list.case.load.keep_samples);
}

#[test]
fn rates_and_schedules_become_paces() {
    let steps = |start, step, end, every: u64| {
        Pace::Steps(Steps { start, step, end, every: Duration::from_secs(every) })
    };
    for (flags, expected) in [
        ("", Pace::Closed),
        ("-r 100", Pace::Rate(100.0)),
        (
            "--load-schedule=step --load-start=50 --load-step=10 --load-step-duration=5s --load-end=150",
            steps(50.0, 10.0, 150.0, 5),
        ),
        (
            "--load-schedule=step --load-start=50 --load-step=10 --load-step-duration=5s \
             --load-max-duration=40s",
            steps(50.0, 10.0, 130.0, 5),
        ),
        (
            "--load-schedule=line --load-start=200 --load-step=-2 --load-end=50",
            steps(200.0, -2.0, 50.0, 1),
        ),
        ("--load-schedule=line --load-start=5 --load-step=-2", steps(5.0, -2.0, 1.0, 1)),
    ] {
        let command = command_of(&format!("{PLAIN} {flags} h:1"));
        assert_eq!(command.case.load.pace, expected, "{flags}");
        assert_eq!(command.case.load.pace.problem(), None, "{flags}");
        assert!(command.notes.is_empty(), "{:?}", command.notes);
    }
}

#[test]
fn concurrency_becomes_lanes() {
    let lanes = |flags: &str| {
        let load = command_of(&format!("{PLAIN} {flags} h:1")).case.load;
        (load.connections, load.streams, load.lanes)
    };
    assert_eq!(lanes("-c 100 --connections 20"), (20, 5, Occupancy::All));
    assert_eq!(lanes("-c 100 --connections 3"), (3, 34, Occupancy::First(100)));
    let stairs =
        Stairs { start: 5, step: 5, end: Some(50), every: Duration::from_secs(5), until: None };
    let flags = "--concurrency-schedule=step --concurrency-start=5 --concurrency-step=5 \
                 --concurrency-end=50 --concurrency-step-duration=5s";
    assert_eq!(lanes(flags), (1, 50, Occupancy::Stairs(stairs)));
    let line = Stairs { start: 20, step: 2, end: None, every: Duration::from_secs(1), ..stairs };
    let until = Stairs { until: Some(Duration::from_secs(30)), ..line };
    let flags = "--concurrency-schedule=line --concurrency-start=20 --concurrency-step=2";
    assert_eq!(
        lanes(&format!("{flags} --concurrency-max-duration=30s")),
        (1, 80, Occupancy::Stairs(until))
    );
    assert_eq!(lanes(&format!("{flags} -z 10s")), (1, 40, Occupancy::Stairs(line)));
}

#[test]
fn what_differs_from_ghz_is_noted() {
    for (flags, expected) in [
        ("--async -r 10", "at most 10000 requests"),
        ("--async", "as fast as answers"),
        ("--max-send-message-size 1MB", "not enforced"),
        (
            "--load-schedule=step --load-start=10 --load-step=10 --load-end=100 \
             --load-step-duration=1s --load-max-duration=3s",
            "at 40 requests/s in ghz, which then jumps to 100",
        ),
    ] {
        let notes = command_of(&format!("{PLAIN} {flags} h:1")).notes;
        assert!(notes.iter().any(|note| note.contains(expected)), "{flags}: {notes:?}");
    }
}

#[test]
fn the_end_of_the_time_is_what_duration_stop_says() {
    for (flags, expected) in [
        ("", AtEnd::Abandon),
        ("--duration-stop wait", AtEnd::Wait),
        ("--duration-stop ignore", AtEnd::Abandon),
    ] {
        let load = command_of(&format!("{PLAIN} -z 10s {flags} h:1")).case.load;
        assert_eq!((load.at_end, load.duration), (expected, Some(Duration::from_secs(10))));
        assert_eq!(load.requests, None);
    }
}

#[test]
fn what_is_wrong_on_the_line_is_named() {
    for (line, expected) in [
        ("--insecure h:1", "ghz: call: is missing"),
        ("--call p.S.M", "ghz: host: is missing"),
        ("--cal p.S.M h:1", "flag `--cal` is unknown; did you mean `--call`?"),
        ("-q 5 h:1", "flag `-q` is unknown"),
        ("--call p.S.M h:1 i:2", "unexpected `i:2`"),
        ("--call", "--call needs a value"),
        ("--call p.S.M -c many h:1", "ghz: --concurrency: \"many\" is not a whole number"),
        (
            "--call p.S.M -c 2 --connections 5 h:1",
            "--connections: 5 is more than the concurrency of 2",
        ),
        ("--call p.S.M -z 60 h:1", "--duration: `60` is not a time; write it with units"),
        ("--call p.S.M -n 0 h:1", "--total: 0 has no end"),
        ("--call p.S.M -d {a} h:1", "--data is not JSON"),
        ("--call p.S.M -d 5 h:1", "--data: must be an object"),
        ("--call p.S.M -d [] h:1", "--data: must be an object, or a list"),
        ("--call p.S.M -O xml h:1", "--format: `xml` is not one of summary, csv"),
        ("--call p.S.M -O prometheus h:1", "`prometheus` is not written; add `--prometheus FILE`"),
        ("--call p.S.M -O pretty h:1", "--format: `pretty` is not written; write `json`"),
        (
            "--call p.S.M -O influx-summary h:1",
            "`influx-summary` is not written; add `--prometheus FILE`",
        ),
        ("--call p.S.M --proto a.txt h:1", "--proto: must be a file whose name ends with .proto"),
        ("--call p.S.M --load-schedule curve h:1", "`curve` is not one of const, step, line"),
        ("--call p.S.M --load-schedule line h:1", "load-start: must be above 0"),
        ("--call p.S.M --debug x.log h:1", "--debug: requests are not logged"),
        ("--call p.S.M --lb-strategy magic h:1", "`magic` is not one of round_robin, pick_first"),
        ("--call p.S.M --skipFirst 300 h:1", "--skipFirst: 300 of 200 requests"),
        ("--call p.S.M --max-recv-message-size big h:1", "not a size"),
        ("--call p.S.M -b --stream-dynamic-messages h:1", "nothing to fill in"),
        ("--call p.S.M http://h:1", "ghz: host: `http://` is not part of it"),
        ("--config /nowhere/x.json h:1", "/nowhere/x.json: cannot be opened"),
        (
            "--call p.S.M --concurrency-schedule line --concurrency-start 1 --concurrency-step 100 h:1",
            "set an end or a time",
        ),
        (
            "--call p.S.M --load-schedule line --load-start 9 --load-step 1 --load-end 5 h:1",
            "leads away",
        ),
    ] {
        let error = error_of(line);
        assert!(error.contains(expected), "{line}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn what_is_wrong_in_a_file_is_named_with_the_file() {
    for (name, text, expected) in [
        ("x.json", r#"{"cal": "p.S.M"}"#, "x.json: key `cal` is unknown; did you mean `call`?"),
        ("x.json", r#"{"loadschedule": "step"}"#, "did you mean `load-schedule`?"),
        ("x.json", r#"{"config": "y.json"}"#, "key `config` is unknown"),
        ("x.json", r#"{"call": "#, "x.json: is not JSON"),
        ("x.json", "[]", "must be an object of keys"),
        ("x.toml", "call = ", "x.toml: is not TOML"),
        ("x.yaml", "a: [", "x.yaml: is not YAML"),
        (
            "x.json",
            r#"{"call": "p.S.M", "host": "h:1", "total": -1}"#,
            "x.json: total: -1 is below 0",
        ),
        ("x.json", r#"{"call": "p.S.M", "host": "h:1", "total": 1.5}"#, "not a whole number"),
        (
            "x.json",
            r#"{"call": "p.S.M", "host": "h:1", "insecure": "yes"}"#,
            "neither true nor false",
        ),
        (
            "x.json",
            r#"{"call": "p.S.M", "host": "h:1", "timeout": -5}"#,
            "not a number of nanoseconds",
        ),
        ("x.json", r#"{"call": "p.S.M", "host": "h:1", "tags": {"a": []}}"#, "`a` must be a text"),
        ("x.json", r#"{"call": {}, "host": "h:1"}"#, "call: must be a text"),
    ] {
        let error = parse_config(Path::new(name), text).expect_err(text).to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn a_file_that_grows_by_repeating_itself_is_refused() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let before = format!("*a{}", level - 1);
        bomb.push_str(&format!("a{level}: &a{level} [{}]\n", vec![before; 10].join(", ")));
    }
    let error = parse_config(Path::new("x.yaml"), &bomb).expect_err("it would not fit in memory");
    assert!(error.to_string().starts_with("x.yaml: is not YAML: "), "{error}");
}

proptest::proptest! {
    #[test]
    fn any_file_is_read_or_refused(text in r#"[{}\[\]",:/* a-z0-9\n\\.-]{0,60}"#) {
        for name in ["x.json", "x.toml", "x.yaml", "x"] {
            let _ = parse_config(Path::new(name), &text);
        }
    }
}
