//! `tollhouse certificates`: certificates that renew themselves, as a running gateway keeps them.

use std::process::ExitCode;

use anyhow::{Context, bail};
use bytes::Bytes;
use clap::Args;
use serde::Deserialize;
use tollhouse_model::certificate::format_date;
use tollhouse_stdx::civil::CivilTime;

use super::admin_client::refusal;
use super::reference;
use super::registry::Gateway;
use super::registry::table::{Align, Table};

/// Arguments of `certificates`.
#[derive(Debug, Args)]
pub struct CertificatesArguments {
    #[command(flatten)]
    gateway: Gateway,
    /// Print the answer of the Admin API.
    #[arg(long)]
    json: bool,
}

/// What the Admin API says.
#[derive(Debug, Deserialize)]
struct Answer {
    directory: Option<String>,
    list: Vec<Certificate>,
}

#[derive(Debug, Deserialize)]
struct Certificate {
    names: Vec<String>,
    state: String,
    issuer: Option<String>,
    not_after: Option<i64>,
    next_attempt: Option<i64>,
    last_error: Option<LastError>,
}

#[derive(Debug, Deserialize)]
struct LastError {
    code: String,
    detail: String,
    remedy: String,
    at: i64,
}

/// Prints the table.
///
/// # Errors
/// The gateway cannot be reached, or refuses.
pub fn run(arguments: &CertificatesArguments) -> anyhow::Result<ExitCode> {
    let bootstrap = match arguments.gateway.load() {
        Ok(bootstrap) => bootstrap,
        Err(code) => return Ok(code),
    };
    let mut client = arguments.gateway.client(&bootstrap)?;
    let (status, body) = client.ask("GET", "/tollhouse/v1/certificates", Bytes::new())?;
    if !status.is_success() {
        bail!("{}", refusal(status, &body));
    }
    let text = if arguments.json {
        String::from_utf8_lossy(&body).into_owned()
    } else {
        let answer = serde_json::from_slice(&body);
        describe(&answer.context("the answer is not understood; is that a Tollhouse?")?)
    };
    reference::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn describe(answer: &Answer) -> String {
    let Some(directory) = &answer.directory else {
        return "no authority is configured; set acme.directory, acme.hosts and acme.agree\n"
            .to_owned();
    };
    let mut text = format!("authority  {directory}\n\n");
    let mut table = Table::new(&[
        ("NAMES", Align::Left),
        ("STATE", Align::Left),
        ("ISSUER", Align::Left),
        ("NOT AFTER", Align::Left),
        ("NEXT ATTEMPT", Align::Left),
        ("LAST ERROR", Align::Left),
    ]);
    for certificate in &answer.list {
        table.push([
            certificate.names.join(" "),
            certificate.state.clone(),
            certificate.issuer.clone().unwrap_or_default(),
            certificate.not_after.map(format_date).unwrap_or_default(),
            certificate.next_attempt.map(moment).unwrap_or_default(),
            certificate.last_error.as_ref().map(|error| error.code.clone()).unwrap_or_default(),
        ]);
    }
    text.push_str(&table.render());
    for certificate in &answer.list {
        let Some(LastError { code, detail, remedy, at }) = &certificate.last_error else {
            continue;
        };
        let names = certificate.names.join(" ");
        let at = moment(*at);
        text.push_str(&format!("\n{names}  {at}  {code}\n  {detail}\n  hint: {remedy}\n"));
    }
    // Names and words of others must not reach a terminal as they are.
    text.replace(|letter: char| letter.is_control() && letter != '\n', "?")
}

/// A Unix time as `2026-11-21 09:30`, in UTC.
fn moment(unix_s: i64) -> String {
    let time = CivilTime::from_unix_seconds(unix_s);
    format!("{} {:02}:{:02}", format_date(unix_s), time.hour, time.minute)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_shown_with_its_remedy() {
        let text = r#"{"directory":"https://ca.test/dir","list":[
            {"id":"acme-a.example","names":["a.example"],"state":"valid","issuer":"Test CA","not_after":1767225600,
             "next_attempt":1766000000,"suggested_window":null,"last_error":null},
            {"id":"acme-b.example","names":["b.example"],"state":"failing","issuer":null,"not_after":null,
             "next_attempt":1766000000,"suggested_window":null,"last_error":{"code":"acme_challenge_failed",
             "detail":"connection: refused\u001b[2J","remedy":"check DNS","at":1765990000}}]}"#;
        let shown = describe(&serde_json::from_str(text).expect("an answer"));
        let lines: Vec<&str> = shown.lines().collect();
        assert!(
            lines[3].starts_with("a.example  valid    Test CA  2026-01-01  2025-12-17 19:33"),
            "{shown}"
        );
        assert!(lines[4].contains("acme_challenge_failed"), "{shown}");
        assert!(shown.contains("connection: refused?[2J\n  hint: check DNS\n"), "{shown}");
        let off = describe(&Answer { directory: None, list: Vec::new() });
        assert!(off.contains("acme.directory"), "{off}");
    }
}
