//! The corpus of raw requests, read and written back: what is in a case, and who said what to it.
//!
//! The format is explained at the top of the corpus itself.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// Everybody who says something to a case, in the order of the lines.
const JUDGES: [&str; 4] = ["tollhouse", "nginx", "haproxy", "h11"];

/// Nobody has asked yet.
const UNKNOWN: &str = "?";

/// The reason for which no verdict is listed: it depends on who is faster.
pub(crate) const WAVERS: &str = "wavers";

/// One request.
#[derive(Debug, Default, Clone)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    verdicts: BTreeMap<String, String>,
    /// By judge, why its verdict is not ours.
    reasons: BTreeMap<String, String>,
}

impl Case {
    pub(crate) fn verdict(&self, judge: &str) -> &str {
        self.verdicts.get(judge).map_or(UNKNOWN, String::as_str)
    }

    /// Whether a difference between the judge and us is not explained.
    pub(crate) fn is_unexplained(&self, judge: &str) -> bool {
        self.verdict(judge) != self.verdict("tollhouse") && !self.reasons.contains_key(judge)
    }

    /// Whether an explanation is given for something that is no difference.
    pub(crate) fn is_overexplained(&self, judge: &str) -> bool {
        self.verdict(judge) == self.verdict("tollhouse") && self.reasons.contains_key(judge)
    }

    pub(crate) fn reason(&self, judge: &str) -> Option<&str> {
        self.reasons.get(judge).map(String::as_str)
    }
}

/// The whole file.
#[derive(Debug)]
pub(crate) struct Corpus {
    text: String,
    pub(crate) cases: Vec<Case>,
}

impl Corpus {
    pub(crate) fn read() -> Self {
        let text = std::fs::read_to_string(path()).expect("the corpus is part of the tree");
        let mut cases: Vec<Case> = Vec::new();
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("== ") {
                cases.push(Case { name: name.to_owned(), ..Case::default() });
                continue;
            }
            let Some(case) = cases.last_mut() else { continue };
            if let Some(piece) = line.strip_prefix("> ") {
                case.bytes.extend(unescape(piece));
            } else if let Some((judge, reason)) = reason_in(line) {
                case.reasons.insert(judge.to_owned(), reason.to_owned());
            } else if let Some((judge, verdict)) = line.split_once(": ").filter(is_by_judge) {
                case.verdicts.insert(judge.to_owned(), verdict.to_owned());
            }
        }
        Self { text, cases }
    }

    /// The version of a peer that the verdicts were asked of.
    pub(crate) fn version_of(&self, judge: &str) -> Option<&str> {
        let prefix = format!("# asked: {judge} ");
        self.text.lines().find_map(|line| line.strip_prefix(&prefix))
    }

    /// The reasons that are explained at the top, by their names.
    pub(crate) fn known_reasons(&self) -> Vec<&str> {
        let explained = self.text.lines().filter_map(|line| line.strip_prefix("#   "));
        explained.filter_map(|line| line.split_whitespace().next()).collect()
    }

    /// Writes a judge's verdicts into the file.
    pub(crate) fn update(&mut self, judge: &str, found: &BTreeMap<String, String>) {
        let (mut name, prefix) = ("", format!("{judge}: "));
        let mut lines = Vec::new();
        for line in self.text.lines() {
            name = line.strip_prefix("== ").unwrap_or(name);
            let is_open = line.strip_prefix(&prefix) == Some(UNKNOWN);
            let wavers = is_open && lines.last() == Some(&format!("# {judge}: {WAVERS}"));
            match found.get(name).filter(|_| line.starts_with(&prefix) && !wavers) {
                Some(verdict) => lines.push(format!("{prefix}{verdict}")),
                None => lines.push(line.to_owned()),
            }
        }
        let text = lines.join("\n") + "\n";
        std::fs::write(path(), &text).expect("the corpus can be written");
        self.text = text;
        for case in &mut self.cases {
            if let Some(verdict) = found.get(&case.name) {
                case.verdicts.insert(judge.to_owned(), verdict.clone());
            }
        }
    }
}

fn is_by_judge((judge, _): &(&str, &str)) -> bool {
    JUDGES.contains(judge)
}

/// `# nginx: lenient-…`
fn reason_in(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix("# ")?.split_once(": ").filter(is_by_judge)
}

fn path() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.join("../tollhouse-http/testdata/corpus/requests.txt")
}

fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        bytes.push(match rest.next() {
            Some(b'r') => b'\r',
            Some(b'n') => b'\n',
            Some(b't') => b'\t',
            Some(b'0') => 0,
            Some(b'\\') => b'\\',
            Some(b'x') => {
                let digits = [rest.next(), rest.next()].map(|digit| char::from(digit.unwrap_or(0)));
                let digits: String = digits.into_iter().collect();
                u8::from_str_radix(&digits, 16).expect("two digits after \\x")
            }
            other => panic!("unknown escape {other:?} in {text:?}"),
        });
    }
    bytes
}

/// Bytes as they are written in the corpus.
pub(crate) fn escape(bytes: &[u8]) -> String {
    let one = |&byte: &u8| match byte {
        b'\\' => "\\\\".to_owned(),
        b' '..=b'~' => char::from(byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    };
    bytes.iter().map(one).collect()
}
