//! Invariants of one play.

use tollhouse_http::{BodyLength, ChunkedDecoder, HeadLimits, RequestHead, ResponseHead};

use super::client::{Heard, Victim};
use super::node::Seen;
use super::read_chunks;
use super::script::Script;

/// Limits for heads of the gateway's answers.
const ANSWER_LIMITS: HeadLimits =
    HeadLimits { line_bytes: 64 * 1024, fields_bytes: 256 * 1024, header_count: 400 };

/// A finished play.
pub struct Play<'p> {
    /// Description of the configuration, for reports.
    pub configuration: &'p str,
    /// Script that was played.
    pub script: &'p Script,
    /// Bytes and streams that the client read.
    pub heard: &'p Heard,
    /// Clients that came after it.
    pub victims: &'p [Victim],
    /// Requests that reached the node.
    pub seen: &'p Seen,
    /// Requests that reached mirrors and auth services.
    pub beside: &'p Seen,
}

/// Returns all violations of a play.
pub fn findings(play: &Play<'_>) -> Vec<String> {
    let Play { configuration, script, heard, victims, seen, beside } = play;
    let mut findings = seen.findings.clone();
    findings.extend(beside.findings.iter().map(|finding| format!("beside: {finding}")));
    match &heard.streams {
        Some(streams) => {
            findings.extend(streams.findings.iter().cloned());
            // A cache gives one client's answer to others.
            if !configuration.contains("proxy-cache") {
                findings.extend(streams.check_owners().err());
            }
        }
        None => {
            let asked = Asked::new(&script.sent());
            findings.extend(answers(&heard.bytes, &asked).err());
        }
    }
    findings.extend(super::paths::findings(play));
    for victim in *victims {
        findings.extend(check_victim(victim, script).err());
    }
    findings
}

/// Length of the empty lines before a request that are always accepted: four, as in the parser.
const EMPTY_BYTES_MAX: usize = 4 * b"\r\n".len();

/// The requests in a client's bytes, read strictly.
struct Asked {
    methods: Vec<Vec<u8>>,
    /// Whether further bytes follow that are not a complete request.
    has_rest: bool,
}

impl Asked {
    fn new(sent: &[u8]) -> Self {
        let mut asked = Self { methods: Vec::new(), has_rest: false };
        let mut rest = sent;
        while !rest.is_empty() {
            let empty = RequestHead::leading_empty_bytes(rest);
            // More empty lines than this may be refused or accepted, because that depends on how
            // they arrive.
            asked.has_rest |= empty > EMPTY_BYTES_MAX;
            rest = &rest[empty..];
            if rest.is_empty() {
                break;
            }
            let mut head = RequestHead::default();
            if head.parse(rest, &HeadLimits::default()) != Ok(true) {
                asked.has_rest = true;
                break;
            }
            asked.methods.push(head.method.bytes_in(rest).to_vec());
            rest = &rest[head.head_bytes..];
            let body = match head.body {
                BodyLength::None | BodyLength::UntilClose => Some(0),
                BodyLength::Known(bytes) => usize::try_from(bytes).ok(),
                BodyLength::Chunked => {
                    let mut decoder = ChunkedDecoder::new();
                    read_chunks(&mut decoder, rest).ok().filter(|_| decoder.is_done())
                }
            };
            let Some(body) = body.filter(|body| *body <= rest.len()) else { break };
            rest = &rest[body..];
        }
        asked
    }
}

/// Checks that a client reads whole answers, and at most one per request.
fn answers(heard: &[u8], asked: &Asked) -> Result<(), String> {
    let most = asked.methods.len() + usize::from(asked.has_rest);
    let mut rest = heard;
    let mut count = 0;
    while !rest.is_empty() {
        let method = asked.methods.get(count).map_or(&b"GET"[..], Vec::as_slice);
        let mut head = ResponseHead::default();
        match head.parse(rest, &ANSWER_LIMITS, method) {
            Ok(true) => {}
            Ok(false) => return Err(format!("the head of answer {count} breaks off")),
            Err(error) => return Err(format!("answer {count} is invalid: {error:?}")),
        }
        // The number of accepted empty lines before a request depends on how they arrive. Bytes
        // that are read as a HEAD request here may have been refused before their method was known.
        if method == b"HEAD" && head.status == 400 && !head.keep_alive {
            head.reset();
            head.parse(rest, &ANSWER_LIMITS, b"GET").map_err(|error| format!("{error:?}"))?;
        }
        rest = &rest[head.head_bytes..];
        if head.is_interim() {
            continue;
        }
        count += 1;
        if count > most {
            return Err(format!("{count} answers to {most} requests"));
        }
        if head.status == 101 {
            return Ok(());
        }
        match head.body {
            BodyLength::None => {}
            BodyLength::UntilClose => return Ok(()),
            BodyLength::Known(bytes) => {
                // A node may break its answer off; then nothing follows.
                let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
                rest = rest.get(bytes..).unwrap_or_default();
            }
            BodyLength::Chunked => {
                let mut decoder = ChunkedDecoder::new();
                let read = read_chunks(&mut decoder, rest)
                    .map_err(|error| format!("the body of answer {count} is bad: {error:?}"))?;
                rest = &rest[read..];
            }
        }
    }
    Ok(())
}

/// Checks that a client after the attack gets its own answer, and nothing after it.
fn check_victim(victim: &Victim, script: &Script) -> Result<(), String> {
    let Victim { token, heard } = victim;
    if let Some(streams) = &heard.streams {
        if let Some(finding) = streams.findings.first() {
            return Err(format!("a client after the attack: {finding}"));
        }
        let (status, body) = streams.only()?;
        return check_answer(token, &status.to_string(), &String::from_utf8_lossy(body), script);
    }
    if heard.bytes.is_empty() || !heard.ended {
        return Err(format!("a client after the attack is left without an answer: {heard:?}"));
    }
    let asked = Asked { methods: vec![b"GET".to_vec()], has_rest: false };
    answers(&heard.bytes, &asked).map_err(|error| format!("a client after the attack: {error}"))?;
    let text = String::from_utf8_lossy(&heard.bytes);
    check_answer(token, text.get(9..12).unwrap_or_default(), &text, script)
}

/// Checks that an answer is not a failure, and belongs to this client.
fn check_answer(token: &str, status: &str, text: &str, script: &Script) -> Result<(), String> {
    if text.contains("forged") {
        return Err("a client after the attack reads what the attack's answer held".to_owned());
    }
    // A node that breaks an HTTP/2 connection also breaks the other requests on it.
    let is_excused =
        script.answers.iter().flat_map(|answer| &answer.frames).any(|frame| !frame.is_honest)
            || script.answers.iter().any(|answer| answer.closes && !answer.frames.is_empty());
    if matches!(status, "500" | "502" | "504") && !is_excused {
        return Err(format!("a client after the attack is answered {status}"));
    }
    match text.split("token:").nth(1) {
        Some(rest) if !rest.starts_with(token) => {
            Err("a client after the attack reads the answer of another client".to_owned())
        }
        _ => Ok(()),
    }
}

/// Describes a failed play for its reader.
pub fn report(play: &Play<'_>, findings: &[String]) -> String {
    let Play { configuration, script, heard, seen, .. } = play;
    let mut report = format!("{}\n\nplugins: {configuration}\n", findings.join("\n"));
    if let Some(attack) = &script.attack {
        for piece in &attack.pieces {
            report.push_str(&format!("client sends frames {}\n", piece.escape_ascii()));
        }
        report.push_str(&format!("client reads  {:?}\n", heard.streams));
    }
    for piece in &script.pieces {
        report.push_str(&format!("client sends  {}\n", piece.escape_ascii()));
    }
    report.push_str(&format!("client        {:?}\n", script.leaving));
    for head in &seen.heads {
        report.push_str(&format!("node reads    {}\n", head.escape_ascii()));
    }
    for answer in &script.answers {
        report.push_str(&format!("node answers  {}  {answer:?}\n", answer.bytes.escape_ascii()));
    }
    report.push_str(&format!("client reads  {}\n", heard.bytes.escape_ascii()));
    report
}
