//! Command lines of ab: what becomes of them, and what is refused in which words.
//! Every case that comes of one must be valid.

use super::*;

fn ask(text: &str) -> Result<Action<AbCommand>, String> {
    let arguments: Vec<String> = text.split(' ').map(ToOwned::to_owned).collect();
    parse(&arguments).map_err(|error| error.to_string())
}

fn command(text: &str) -> AbCommand {
    match ask(text) {
        Ok(Action::Run(command)) => {
            command.case.validate().expect("a case that can be run");
            command
        }
        other => panic!("{text}: {other:?}"),
    }
}

fn header<'a>(command: &'a AbCommand, name: &str) -> Option<&'a str> {
    let headers = command.case.http.headers.iter();
    headers.filter(|(present, _)| present == name).map(|(_, value)| value.as_str()).next_back()
}

#[test]
fn a_plain_command_is_one_request_over_http_1_0() {
    let plain = command("http://h/x?y");
    assert_eq!((plain.requests, plain.concurrency), (1, 1));
    assert_eq!(plain.case.target, "http://h:80/x?y");
    assert_eq!(plain.case.http.version, HttpVersion::Http10);
    assert!(!plain.case.tls.insecure && command("https://h/").case.tls.insecure);
    assert!(!plain.case.load.keep_alive && plain.case.checks.same_length);
    assert_eq!(plain.case.load.timeout, Duration::from_secs(30));
    assert_eq!(plain.on_receive_error, OnReceiveError::End);
}

#[test]
fn the_command_of_ngxway_is_understood() {
    let one = command("-r -n 100000 -c 1200 -k http://127.0.0.1:9080/api/test?sign=a&timestamp=1");
    assert_eq!((one.requests, one.concurrency), (100_000, 1_200));
    assert_eq!(one.case.load.connections, 1_200);
    assert!(one.case.load.keep_alive);
    assert_eq!(one.on_receive_error, OnReceiveError::Count);
    assert_eq!(one.address.path, "/api/test?sign=a&timestamp=1");
}

#[test]
fn a_time_limit_implies_a_number_of_requests_unless_one_follows() {
    for (text, requests) in
        [("-t 5 h/", 50_000), ("-n 10 -t 5 h/", 50_000), ("-t 5 -n 100000 h/", 100_000)]
    {
        let command = command(text);
        assert_eq!(command.requests, requests, "{text}");
        assert_eq!(command.case.load.duration, Some(Duration::from_secs(5)));
    }
}

#[test]
fn headers_cookies_and_authorization_are_sent() {
    let arguments = [
        "-kC",
        "a=1",
        "-C",
        "b=2",
        "-A",
        "user:pass",
        "-P",
        "p:q",
        "-H",
        "Accept: text/html",
        "-H",
        "X-Y: z",
        "-H",
        "Host: other",
        "http://h/",
    ];
    let Ok(Action::Run(full)) = parse(&arguments.map(String::from)) else { panic!("a command") };
    let cookies = full.case.http.headers.iter().filter(|(name, _)| name == "Cookie").count();
    assert_eq!(cookies, 2);
    assert_eq!(header(&full, "Authorization"), Some("Basic dXNlcjpwYXNz"));
    assert_eq!(header(&full, "Proxy-Authorization"), Some("Basic cDpx"));
    assert_eq!(header(&full, "Accept"), Some("text/html"));
    assert_eq!(header(&full, "X-Y"), Some("z"));
    assert_eq!(header(&full, "Host"), Some("other"));
}

#[test]
fn files_are_sent_by_post_and_put() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let path = file.path().display();
    let post = command(&format!("-p {path} -T application/json h/"));
    assert_eq!(post.case.http.method, "POST");
    assert_eq!(post.case.http.body, Some(Body::File(file.path().to_owned())));
    assert_eq!(header(&post, "Content-type"), Some("application/json"));
    assert!(post.sheet.sends_body);
    assert_eq!(command(&format!("-u {path} h/")).case.http.method, "PUT");
    assert_eq!(command(&format!("-p {path} -m PATCH h/")).case.http.method, "PATCH");
    assert_eq!(command("-i h/").case.http.method, "HEAD");
}

#[test]
fn a_proxy_is_told_the_whole_url() {
    let through = command("-X 127.0.0.1:3128 http://h.example:99/x");
    assert_eq!(through.case.connect_to.as_deref(), Some("127.0.0.1:3128"));
    assert_eq!(through.case.http.form, RequestForm::Absolute);
    assert_eq!((through.address.host.as_str(), through.address.port), ("h.example", 99));
    assert_eq!(command("-X proxy h/").case.connect_to.as_deref(), Some("proxy:80"));
}

#[test]
fn printing_is_as_asked() {
    let sheet = command("-dSql h/").sheet;
    assert!(!sheet.percentiles && !sheet.confidence && !sheet.progress && sheet.variable_length);
    assert_eq!(command("-e a.csv h/").csv, Some("a.csv".into()));
    assert!(matches!(ask("-h"), Ok(Action::Print(text)) if text.starts_with("Usage")));
    assert!(matches!(ask("-V"), Ok(Action::Print(_))));
}

#[test]
fn what_ab_refuses_is_refused_in_its_words() {
    for (text, part) in [
        ("", "invalid URL"),
        ("-k", "wrong number of arguments"),
        ("http://h/ http://h/", "wrong number of arguments"),
        ("http://h", "invalid URL: http://h (a path is needed"),
        ("ftp://h/", "invalid URL"),
        ("http://h:0/", "port `0`"),
        ("http://:80/", "invalid URL"),
        ("-n 5 -c 10 h/", "Cannot use concurrency level greater than total number of requests"),
        ("-n 0 h/", "Invalid number of requests"),
        (
            "-g b.tsv h/",
            "-g: requests are not written one by one; `tollhouse bench http --json FILE`",
        ),
        ("-w h/", "-w: HTML tables are not printed; leave it out for text"),
        ("-x border=1 h/", "-x: HTML tables are not printed"),
        ("-n 10k h/", "Invalid number of requests: 10k"),
        ("-c 20001 -n 30000 h/", "Invalid Concurrency 20001 [Range 1..20000]"),
        ("-c 0 h/", "Invalid Concurrency"),
        ("-t x h/", "-t x: a whole number of seconds"),
        ("-p /nonexistent/x h/", "Could not open POST data file (/nonexistent/x)"),
        ("-u /dev/null -i h/", "Cannot mix HEAD with other methods"),
        ("-p /dev/null -u /dev/null h/", "Cannot mix PUT with other methods"),
        ("-Y h/", "invalid option -- 'Y'"),
        ("-H nothing h/", "no colon"),
    ] {
        let error = ask(text).expect_err(text);
        assert!(error.starts_with("ab: ") && error.contains(part), "{text}: {error}");
        assert_eq!(error.lines().count(), 1);
    }
}

#[test]
fn flags_that_cannot_be_honoured_are_refused_with_the_reason() {
    for flag in ["-b 1000", "-B 127.0.0.2", "-I", "-Z HIGH", "-f TLS1.2", "-v 4"] {
        let error = ask(&format!("{flag} h/")).expect_err(flag);
        assert!(error.contains(&format!("{}: ", &flag[..2])), "{error}");
    }
    for flag in ["-f ALL", "-v 1"] {
        command(&format!("{flag} h/"));
    }
    assert!(ask("-X p:1 https://h/").expect_err("a tunnel").contains("tunnel"));
}

#[test]
fn what_cannot_be_received_ends_the_run_unless_it_is_counted() {
    let reset = Failure::new(FailureClass::Reset, "reset");
    let other = Failure::new(FailureClass::Check, "length");
    let mut result = CaseResult::default();
    result.counts.failures.insert("check".into(), 3);
    let (ends, counts) = (command("h/"), command("-r h/"));
    assert!(ends.ends_on(&reset) && !ends.ends_on(&other) && !counts.ends_on(&reset));
    assert!(ends.accept(&result).is_ok());
    result.counts.failures.insert("reset".into(), 1);
    assert!(counts.accept(&result).is_ok());
    let error = ends.accept(&result).expect_err("a reset").to_string();
    assert!(error.contains("-r counts"), "{error}");
}

#[test]
fn addresses_are_taken_apart() {
    for (url, host, port, path) in [
        ("h/", "h", 80, "/"),
        ("h:81/x?y", "h", 81, "/x?y"),
        ("HTTPS://h/", "h", 443, "/"),
        ("http://[::1]:82/", "[::1]", 82, "/"),
        ("http://[::1]/", "[::1]", 80, "/"),
    ] {
        let address = Address::parse(url).expect(url);
        assert_eq!(
            (address.host.as_str(), address.port, address.path.as_str()),
            (host, port, path),
            "{url}"
        );
    }
}
