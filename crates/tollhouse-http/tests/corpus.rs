//! Checks the codec against the verdicts that `testdata/corpus/requests.txt` lists for it. The
//! format of the file is explained at its top. The verdicts of other servers in it are not checked
//! here.

use tollhouse_http::{BodyLength, ChunkedDecoder, HeadError, HeadLimits, RequestHead};

const CORPUS: &str = include_str!("../testdata/corpus/requests.txt");

/// Minimum number of cases; fewer mean that the file was not read to its end.
const CASES_MIN: usize = 80;

/// Servers and libraries whose verdicts each case lists, in this order.
const JUDGES: [&str; 4] = ["tollhouse", "nginx", "haproxy", "h11"];

/// One request of the corpus.
#[derive(Default)]
struct Case {
    name: &'static str,
    bytes: Vec<u8>,
    /// Verdicts on the case, in the order of [`JUDGES`].
    verdicts: Vec<&'static str>,
}

fn read_corpus() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in CORPUS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix("== ") {
            cases.push(Case { name, ..Case::default() });
            continue;
        }
        let case = cases.last_mut().unwrap_or_else(|| panic!("line outside of a case: {line}"));
        if let Some(piece) = line.strip_prefix("> ") {
            case.bytes.extend(unescape(piece));
            continue;
        }
        let judge = JUDGES.get(case.verdicts.len()).copied().unwrap_or_default();
        let verdict = line.strip_prefix(judge).and_then(|rest| rest.strip_prefix(": "));
        case.verdicts.push(verdict.unwrap_or_else(|| panic!("{}: bad line: {line}", case.name)));
    }
    cases
}

fn unescape(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), text);
    while let Some(first) = rest.chars().next() {
        assert!(first.is_ascii() && !first.is_ascii_control(), "write it as an escape: {text}");
        let (byte, length) = match rest.as_bytes() {
            [b'\\', b'r', ..] => (b'\r', 2),
            [b'\\', b'n', ..] => (b'\n', 2),
            [b'\\', b't', ..] => (b'\t', 2),
            [b'\\', b'0', ..] => (0, 2),
            [b'\\', b'\\', ..] => (b'\\', 2),
            [b'\\', b'x', ..] => {
                let digits = rest.get(2..4).and_then(|digits| u8::from_str_radix(digits, 16).ok());
                (digits.unwrap_or_else(|| panic!("bad escape: {text}")), 4)
            }
            [b'\\', ..] => panic!("unknown escape: {text}"),
            _ => (first as u8, 1),
        };
        bytes.push(byte);
        rest = &rest[length..];
    }
    bytes
}

fn escape(bytes: &[u8]) -> String {
    let one = |&byte: &u8| match byte {
        b'\\' => "\\\\".to_owned(),
        b' '..=b'~' => char::from(byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    };
    bytes.iter().map(one).collect()
}

/// Returns the status with which the gateway answers a refused head.
fn status(error: HeadError) -> u16 {
    match error {
        HeadError::BadLine
        | HeadError::BadHeader
        | HeadError::BareLineFeed
        | HeadError::BadFraming
        | HeadError::BadHost
        | HeadError::BadTarget => 400,
        HeadError::MethodNotAllowed => 405,
        HeadError::LineTooLong => 414,
        HeadError::ExpectationFailed => 417,
        HeadError::HeadTooLong | HeadError::TooManyHeaders => 431,
        HeadError::MethodNotImplemented | HeadError::CodingNotImplemented => 501,
        HeadError::VersionNotSupported => 505,
    }
}

fn verdict(bytes: &[u8]) -> String {
    let mut head = RequestHead::default();
    match head.parse(bytes, &HeadLimits::default()) {
        Ok(true) => {}
        Ok(false) => return "incomplete".to_owned(),
        Err(error) => return format!("refuse {}", status(error)),
    }
    let rest = &bytes[head.head_bytes..];
    let body = match head.body {
        BodyLength::None => "none".to_owned(),
        BodyLength::Known(length) if length > rest.len() as u64 => return "incomplete".to_owned(),
        BodyLength::Known(length) => length.to_string(),
        BodyLength::Chunked => {
            let mut decoder = ChunkedDecoder::new();
            match decoder.skip(rest) {
                Err(_) => return "refuse 400".to_owned(),
                Ok(_) if !decoder.is_done() => return "incomplete".to_owned(),
                Ok(_) => "chunked".to_owned(),
            }
        }
        BodyLength::UntilClose => "until-close".to_owned(),
    };
    let (method, target) = (head.method.bytes_in(bytes), head.target.bytes_in(bytes));
    format!("accept {} {} {body}", escape(method), escape(target))
}

fn is_verdict(text: &str) -> bool {
    let parts: Vec<&str> = text.split(' ').collect();
    match parts[..] {
        ["?"] => true,
        ["refuse", status] => matches!(status.parse(), Ok(400..=599u16)),
        ["accept", method, target, body] => {
            let is_body = matches!(body, "none" | "chunked") || body.parse::<u64>().is_ok();
            !method.is_empty() && !target.is_empty() && is_body
        }
        _ => false,
    }
}

#[test]
fn the_codec_says_what_the_corpus_lists() {
    let mut wrong = String::new();
    for case in read_corpus() {
        let found = verdict(&case.bytes);
        if found != case.verdicts[0] {
            wrong += &format!("\n{}: listed {}, found {found}", case.name, case.verdicts[0]);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn the_corpus_is_well_formed() {
    let cases = read_corpus();
    assert!(cases.len() >= CASES_MIN, "{} cases", cases.len());
    let names: std::collections::BTreeSet<&str> = cases.iter().map(|case| case.name).collect();
    assert_eq!(names.len(), cases.len(), "names are unique");
    for case in &cases {
        assert_eq!(case.verdicts.len(), JUDGES.len(), "{}: one line for each judge", case.name);
        assert!(case.verdicts.iter().all(|text| is_verdict(text)), "{}", case.name);
        assert_ne!(case.verdicts[0], "?", "{}: our own verdict is known", case.name);
    }
}
