//! Says what a case says, and compares.

use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};

use flate2::read::GzDecoder;
use tollhouse_testkit::{Message, RawClient};

use super::Bench;
use super::script::{Exchange, Line, Side};

/// Tries all exchanges on one connection; what differs. The connection is opened again where an
/// answer ends it.
pub(super) fn all(bench: &Bench, host: &str, exchanges: &[Exchange]) -> Vec<String> {
    let mut failures = Vec::new();
    let mut client = bench.gateway.client();
    for (index, exchange) in exchanges.iter().enumerate() {
        bench.node.forget();
        let bytes = request(host, exchange);
        let Some(answer) = ask(&mut client, exchange, &bytes) else {
            failures.push(format!("exchange {}: no whole answer", index + 1));
            client = bench.gateway.client();
            continue;
        };
        let found = differences(bench, host, exchange, &answer);
        failures.extend(found.into_iter().map(|text| format!("exchange {}: {text}", index + 1)));
        if answer.field("connection").is_some_and(|value| value.eq_ignore_ascii_case("close")) {
            client = bench.gateway.client();
        }
    }
    failures
}

/// `None` when no whole answer comes; the panic has been printed.
fn ask(client: &mut RawClient, exchange: &Exchange, bytes: &str) -> Option<Message> {
    let is_head = exchange.request[0].starts_with("HEAD ");
    catch_unwind(AssertUnwindSafe(|| {
        client.send(bytes);
        if is_head { client.answer_to_head() } else { client.answer() }
    }))
    .ok()
}

fn request(host: &str, exchange: &Exchange) -> String {
    let (first, lines) = exchange.request.split_first().expect("a request has a first line");
    let version = if first.contains(" HTTP/") { "" } else { " HTTP/1.1" };
    let mut text = format!("{first}{version}\r\n");
    let has = |name: &str| lines.iter().any(|line| line.to_ascii_lowercase().starts_with(name));
    if !has("host:") {
        text.push_str(&format!("Host: {host}\r\n"));
    }
    for line in lines {
        text.push_str(line);
        text.push_str("\r\n");
    }
    let body = exchange.body.as_deref();
    if let Some(body) = body.filter(|_| !has("transfer-encoding:") && !has("content-length:")) {
        text.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    format!("{text}\r\n{}", body.unwrap_or_default())
}

fn differences(bench: &Bench, host: &str, exchange: &Exchange, answer: &Message) -> Vec<String> {
    let status = answer.status().to_string();
    let mut failures = compare("answer", host, &exchange.answer, &status, answer);
    let seen = bench.node.requests();
    let node = &exchange.node;
    let expects_request = node.first.is_some() || !node.lines.is_empty() || node.body.is_some();
    match seen.last() {
        Some(request) if exchange.is_kept_from_node => {
            failures.push(format!("the node saw {}", request.start_line));
        }
        Some(request) => {
            let line = format!("{} {}", request.method(), request.target());
            failures.extend(compare("node", host, node, &line, request));
        }
        None if expects_request => failures.push("the node saw nothing".to_owned()),
        None => {}
    }
    if !failures.is_empty() {
        failures.push(format!("  (it was {} {:?})", answer.start_line, shorten(&answer.text())));
    }
    failures
}

fn compare(who: &str, host: &str, wanted: &Side, first: &str, found: &Message) -> Vec<String> {
    let mut failures = Vec::new();
    let line = wanted.first.as_ref().map(|line| line.replace("{host}", host));
    if let Some(wanted) = line.filter(|wanted| wanted != first) {
        failures.push(format!("{who}: {first} instead of {wanted}"));
    }
    for line in &wanted.lines {
        failures.extend(compare_line(who, host, line, found));
    }
    let text = found.text();
    if let Some(body) = wanted.body.as_ref().filter(|body| **body != text) {
        let (text, body) = (shorten(&text), shorten(body));
        failures.push(format!("{who}: body {text:?} instead of {body:?}"));
    }
    if let Some(plain) = &wanted.plain {
        let found = decompressed(found);
        if found != *plain {
            let (found, plain) = (shorten(&found), shorten(plain));
            failures.push(format!("{who}: decompressed body {found:?} instead of {plain:?}"));
        }
    }
    for part in wanted.parts.iter().filter(|part| !text.contains(*part)) {
        failures.push(format!("{who}: body {:?} without {part:?}", shorten(&text)));
    }
    failures
}

fn compare_line(who: &str, host: &str, line: &Line, found: &Message) -> Option<String> {
    match line {
        Line::Absent(name) => {
            let values = found.all(name);
            (!values.is_empty()).then(|| format!("{who}: {name}: {values:?} instead of none"))
        }
        Line::Present(name) => found.field(name).is_none().then(|| format!("{who}: no {name}")),
        Line::Is(name, value) => {
            let (value, values) = (value.replace("{host}", host), found.all(name));
            let is_there = values == [value.as_str()] || values.join(", ") == value;
            (!is_there).then(|| format!("{who}: {name}: {values:?} instead of {value:?}"))
        }
    }
}

/// The body without the coding of its content.
fn decompressed(message: &Message) -> String {
    let mut plain = Vec::new();
    let read = match message.field("content-encoding") {
        Some("gzip") => GzDecoder::new(&*message.body).read_to_end(&mut plain),
        Some("br") => {
            let mut body = &*message.body;
            brotli::BrotliDecompress(&mut body, &mut plain).map(|()| 0)
        }
        _ => return message.text(),
    };
    match read {
        Ok(_) => String::from_utf8_lossy(&plain).into_owned(),
        Err(error) => format!("({error})"),
    }
}

/// The beginning of a text, as much as helps.
fn shorten(text: &str) -> String {
    text.chars().take(300).collect()
}
