//! Command lines of wrk and wrk2: what becomes of them, and what is refused in which words.
//! Every case that comes of one must be valid.

use super::*;

fn ask(tool: Tool, text: &str) -> Result<Action<WrkCommand>, String> {
    let arguments: Vec<String> = text.split(' ').map(ToOwned::to_owned).collect();
    parse(tool, &arguments).map_err(|error| error.to_string())
}

fn command(tool: Tool, text: &str) -> WrkCommand {
    match ask(tool, text) {
        Ok(Action::Run(command)) => {
            command.case.validate().expect("a case that can be run");
            command
        }
        other => panic!("{text}: {other:?}"),
    }
}

fn headers(command: &WrkCommand) -> String {
    let lines = command.case.http.headers.iter().map(|(name, value)| format!("{name}: {value}"));
    lines.collect::<Vec<_>>().join(", ")
}

#[test]
fn the_flags_of_wrk_make_a_case() {
    let plain = command(Tool::Wrk, "http://h/x");
    assert_eq!((plain.threads, plain.connections, plain.detail), (2, 10, Detail::Summary));
    assert_eq!(plain.case.load.duration, Some(Duration::from_secs(10)));
    assert_eq!(plain.case.load.timeout, Duration::from_secs(2));
    assert!(!plain.case.load.pace.is_open());
    assert!(!plain.case.tls.insecure && command(Tool::Wrk, "https://h/").case.tls.insecure);

    let full = command(
        Tool::Wrk,
        "-t4 -c 1k --duration=2m --latency --timeout 5s http://h/x -H Host:a -HX-Y:z",
    );
    assert_eq!((full.threads, full.connections), (4, 1_000));
    assert_eq!(full.case.load.workers, Some(4));
    assert_eq!(full.case.load.duration, Some(Duration::from_secs(120)));
    assert_eq!(full.case.load.timeout, Duration::from_secs(5));
    assert_eq!(full.detail, Detail::Latency);
    assert_eq!(headers(&full), "Host: a, X-Y: z, User-Agent: ");
    assert_eq!(full.case.target, "http://h/x");
    assert_eq!(headers(&command(Tool::Wrk, "-H User-Agent:me http://h/")), "User-Agent: me");
}

#[test]
fn every_thread_has_the_same_number_of_connections() {
    assert_eq!(command(Tool::Wrk, "-t3 -c10 http://h/").case.load.connections, 9);
}

#[test]
fn wrk2_has_a_rate_and_leaves_its_calibration_out() {
    let long = command(Tool::Wrk2, "-R2k -d30s -t2 -c100 -U http://h/");
    assert_eq!(long.case.load.pace, Pace::Rate(2_000.0));
    assert_eq!(long.case.load.warm_up, Duration::from_secs(10));
    assert_eq!(long.case.load.duration, Some(Duration::from_secs(20)));
    assert_eq!((long.duration, long.detail), (Duration::from_secs(30), Detail::Both));
    let short = command(Tool::Wrk2, "--rate 100 -d5 -LB http://h/");
    assert_eq!(short.case.load.warm_up, Duration::ZERO);
    assert_eq!(short.case.load.duration, Some(Duration::from_secs(5)));
    assert_eq!(short.detail, Detail::Latency);
}

#[test]
fn what_the_tools_refuse_is_refused_in_their_words() {
    for (tool, text, part) in [
        (Tool::Wrk, "-z http://h/", "wrk: invalid option -- 'z'"),
        (Tool::Wrk, "-R 5 http://h/", "wrk: invalid option -- 'R'"),
        (Tool::Wrk, "-t 2 -c 1 http://h/", "number of connections must be >= threads"),
        (Tool::Wrk, "h/x", "invalid URL: h/x"),
        (Tool::Wrk, "ftp://h/x", "invalid URL"),
        (Tool::Wrk, "-c ten http://h/", "connections `ten`"),
        (Tool::Wrk, "-c 99999999999999999999 http://h/", "connections"),
        (Tool::Wrk, "-c 18446744073709551615k http://h/", "connections"),
        (Tool::Wrk, "-d 1.5s http://h/", "duration `1.5s`"),
        (Tool::Wrk, "-d 0 http://h/", "above 0"),
        (Tool::Wrk, "-H nothing http://h/", "no colon"),
        (Tool::Wrk, "-t2", "URL is missing"),
        (Tool::Wrk, "http://h/ more", "arguments for a script"),
        (Tool::Wrk2, "http://h/", "Throughput MUST be specified"),
        (Tool::Wrk2, "-R0 http://h/", "Throughput MUST be specified"),
    ] {
        let error = ask(tool, text).expect_err(text);
        assert!(error.contains(part), "{text}: {error}");
        assert_eq!(error.lines().count(), 1);
    }
}

#[test]
fn help_and_version_are_printed() {
    for text in ["-h", "--help", "-v", "--version"] {
        assert!(matches!(ask(Tool::Wrk, text), Ok(Action::Print(_))), "{text}");
    }
    assert!(matches!(ask(Tool::Wrk, "-v http://h/"), Ok(Action::Run(_))));
    assert!(usage(Tool::Wrk2).contains("--rate"));
}

#[test]
fn a_script_decides_what_is_sent() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("post.lua");
    std::fs::write(&path, "wrk.method = 'POST'\nwrk.body = 'x'\nwrk.headers['A'] = 'b'")
        .expect("written");
    let sent = command(Tool::Wrk, &format!("-s {} -H A:c http://h/x", path.display())).case.http;
    assert_eq!(sent.method, "POST");
    assert_eq!(sent.body, Some(tollhouse_load::case::Body::Text("x".into())));
    assert_eq!(sent.headers[0], ("A".to_owned(), "b".to_owned()));
}
