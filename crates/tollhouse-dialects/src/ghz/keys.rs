//! Table of all ghz keys: name, letter, type and help text.

use std::fmt::Write;

use tollhouse_stdx::nearest;

/// Type of the value that a setting of ghz takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    /// Integer, not negative.
    Count,
    /// Integer, possibly negative.
    Signed,
    /// Boolean; a flag on the command line needs no value.
    Toggle,
    /// Time with units. In a file, a number is nanoseconds.
    Time,
    /// List of texts, separated by commas on the command line.
    Texts,
    /// Map of texts, written as JSON on the command line.
    TextsByName,
    /// Messages, written as JSON or `@` on the command line.
    Data,
}

/// Sources in which a setting is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The key is accepted in configuration files and on the command line.
    Anywhere,
    /// The key is accepted on the command line only.
    Line,
    /// The key is accepted in configuration files only.
    File,
}

#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    /// Letter of the flag; a space if it has none.
    pub(super) letter: char,
    pub(super) kind: Kind,
    pub(super) place: Place,
    help: &'static str,
}

const fn key(name: &'static str, kind: Kind, help: &'static str) -> Key {
    Key { name, letter: ' ', kind, place: Place::Anywhere, help }
}

const fn lettered(name: &'static str, letter: char, kind: Kind, help: &'static str) -> Key {
    Key { name, letter, kind, place: Place::Anywhere, help }
}

const fn on_line(name: &'static str, letter: char, kind: Kind, help: &'static str) -> Key {
    Key { name, letter, kind, place: Place::Line, help }
}

/// All keys, in the order of the help text.
static KEYS: &[Key] = &[
    on_line("config", ' ', Kind::Text, "JSON, TOML or YAML file with keys like these"),
    Key { name: "host", letter: ' ', kind: Kind::Text, place: Place::File, help: "host:port" },
    key("proto", Kind::Text, "the .proto file; without it and a protoset, reflection"),
    key("protoset", Kind::Text, "the compiled descriptor set"),
    key("call", Kind::Text, "package.Service.Method or package.Service/Method"),
    lettered("import-paths", 'i', Kind::Texts, "where imports are looked for, with commas"),
    key("cacert", Kind::Text, "PEM file of authorities to trust"),
    key("cert", Kind::Text, "PEM file of the client certificate"),
    key("key", Kind::Text, "PEM file of the client key"),
    key("cname", Kind::Text, "the server name to verify"),
    key("skipTLS", Kind::Toggle, "take any certificate"),
    key("insecure", Kind::Toggle, "without TLS"),
    key("authority", Kind::Text, "the :authority to send"),
    key("async", Kind::Toggle, "do not wait for an answer before the next request"),
    lettered("rps", 'r', Kind::Count, "requests a second (as fast as possible)"),
    key("load-schedule", Kind::Text, "const, step or line"),
    key("load-start", Kind::Count, "requests a second at the start of step or line"),
    key("load-step", Kind::Signed, "change per step, or per second of the line"),
    key("load-end", Kind::Count, "requests a second at the end"),
    key("load-step-duration", Kind::Time, "how long a step lasts"),
    key("load-max-duration", Kind::Time, "when the rate stops changing"),
    lettered("concurrency", 'c', Kind::Count, "requests at the same time (50)"),
    key("concurrency-schedule", Kind::Text, "const, step or line"),
    key("concurrency-start", Kind::Count, "requests at the same time, at the start"),
    key("concurrency-end", Kind::Count, "requests at the same time, at the end"),
    key("concurrency-step", Kind::Signed, "change per step, or per second of the line"),
    key("concurrency-step-duration", Kind::Time, "how long a step lasts"),
    key("concurrency-max-duration", Kind::Time, "when the number stops changing"),
    lettered("total", 'n', Kind::Count, "requests in all (200)"),
    lettered("timeout", 't', Kind::Time, "the longest a request may take (20s); 0 is unlimited"),
    lettered("duration", 'z', Kind::Time, "length of the run; overrides the total"),
    lettered("max-duration", 'x', Kind::Time, "length of the run; overrides the total"),
    key("duration-stop", Kind::Text, "requests under way at the end: close, wait or ignore"),
    lettered("data", 'd', Kind::Data, "messages as JSON; @ reads standard input"),
    lettered("data-file", 'D', Kind::Text, "a file of messages as JSON"),
    on_line("binary", 'b', Kind::Toggle, "one encoded message from standard input"),
    lettered("binary-file", 'B', Kind::Text, "a file of one encoded message"),
    lettered("metadata", 'm', Kind::TextsByName, "metadata as JSON"),
    lettered("metadata-file", 'M', Kind::Text, "a file of metadata as JSON"),
    key("stream-interval", Kind::Time, "between messages of a client stream"),
    key("stream-call-duration", Kind::Time, "how long a streaming call lasts"),
    key("stream-call-count", Kind::Count, "messages of a streaming call"),
    key("stream-dynamic-messages", Kind::Toggle, "fill {{…}} in for every message of a stream"),
    key("reflect-metadata", Kind::TextsByName, "metadata for reflection as JSON"),
    lettered("output", 'o', Kind::Text, "the file to write (standard output)"),
    lettered("format", 'O', Kind::Text, "see below (summary)"),
    key("skipFirst", Kind::Count, "requests left out at the start"),
    key("count-errors", Kind::Toggle, "count failures in times too"),
    key("connections", Kind::Count, "connections that share the requests (1)"),
    key("connect-timeout", Kind::Time, "the longest connecting may take (10s)"),
    key("keepalive", Kind::Time, "time between pings of an idle connection"),
    key("name", Kind::Text, "name of the report"),
    key("tags", Kind::TextsByName, "tags of the report as JSON"),
    key("cpus", Kind::Count, "threads"),
    key("debug", Kind::Text, "not supported: requests are not logged one by one"),
    lettered("enable-compression", 'e', Kind::Toggle, "compress with gzip"),
    key("lb-strategy", Kind::Text, "round_robin or pick_first; connections take turns"),
    key("max-recv-message-size", Kind::Text, "the largest answer, such as 10MB"),
    key("max-send-message-size", Kind::Text, "the largest message, such as 10MB"),
    key("disable-template-functions", Kind::Toggle, "only variables in {{…}}"),
    key("disable-template-data", Kind::Toggle, "send {{…}} as written"),
];

impl Key {
    /// Whether the key is allowed in a file.
    pub(super) fn is_of_files(&self) -> bool {
        self.place != Place::Line
    }

    /// Whether the key is a flag of the command line.
    pub(super) fn is_of_lines(&self) -> bool {
        self.place != Place::File
    }
}

/// Finds the key of a file. As in ghz, names are not case-sensitive.
pub(super) fn file_key(name: &str) -> Result<&'static Key, String> {
    let known = || KEYS.iter().filter(|key| key.is_of_files());
    known()
        .find(|key| key.name.eq_ignore_ascii_case(name))
        .ok_or_else(|| unknown("key", name, known().map(|key| key.name)))
}

/// Finds the flag with this long name.
pub(super) fn long_flag_key(name: &str) -> Result<&'static Key, String> {
    let known = || KEYS.iter().filter(|key| key.is_of_lines());
    known()
        .find(|key| key.name == name)
        .ok_or_else(|| unknown("flag", &format!("--{name}"), known().map(|key| key.name)))
}

/// Finds the flag with this letter.
pub(super) fn letter_key(letter: char) -> Result<&'static Key, String> {
    let found = KEYS.iter().find(|key| key.letter == letter && letter != ' ');
    found.ok_or_else(|| format!("flag `-{letter}` is unknown; --help lists the known ones"))
}

fn unknown(what: &str, name: &str, known: impl Iterator<Item = &'static str>) -> String {
    let bare = name.trim_start_matches('-');
    let dashes = &name[..name.len() - bare.len()];
    match nearest(bare, known) {
        Some(near) => format!("{what} `{name}` is unknown; did you mean `{dashes}{near}`?"),
        None => format!("{what} `{name}` is unknown to ghz; --help lists the known ones"),
    }
}

pub(super) fn usage() -> String {
    let mut out = String::from("Usage: tollhouse bench ghz [options] host\n  Options:\n");
    for key in KEYS.iter().filter(|key| key.is_of_lines()) {
        let letter = match key.letter {
            ' ' => "    ".to_owned(),
            letter => format!("-{letter}, "),
        };
        let value = if key.kind == Kind::Toggle { "" } else { " <V>" };
        let name = format!("{letter}--{}{value}", key.name);
        writeln!(out, "    {name:<38} {}", key.help).expect("a string takes any text");
    }
    out.push_str(
        "\n  Formats: summary, csv, json, html.\n  \
         Times have units (300ms, 10s, 1m30s). Data and metadata may hold {{…}}, such as\n  \
         {{.RequestNumber}}, {{.WorkerID}}, {{randomString 8}}, {{randomInt 1000 50000}}.\n",
    );
    out
}
