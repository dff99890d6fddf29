//! `tollhouse certificates`: lists the certificates that a running gateway serves with their expiry
//! dates, those that ACME renews, and OCSP responses.

use std::process::ExitCode;
use tollhouse_control::terminal::printable_lines;

use anyhow::{Context, bail};
use bytes::Bytes;
use clap::Args;
use serde::Deserialize;
use tollhouse_model::certificate::format_date;
use tollhouse_stdx::civil::CivilTime;

use super::admin_client::refusal;
use super::gateway::Gateway;
use super::registry::table::{Align, Table};
use super::stdout;

/// Arguments of `certificates`.
#[derive(Debug, Args)]
pub struct CertificatesArguments {
    #[command(flatten)]
    gateway: Gateway,
    /// Print the unchanged answer of the Admin API.
    #[arg(long)]
    json: bool,
}

/// Answer of the Admin API about certificates.
#[derive(Debug, Deserialize)]
struct CertificateList {
    directory: Option<String>,
    list: Vec<Certificate>,
    /// OCSP responses by `ssl` object; empty if the gateway is too old to send them.
    #[serde(default)]
    staples: Vec<Staple>,
    /// Certificates in service with their expiry; empty if the gateway is too old to send them.
    #[serde(default)]
    served: Vec<ServedCertificate>,
}

#[derive(Debug, Deserialize)]
struct ServedCertificate {
    ssl: String,
    not_after: i64,
}

#[derive(Debug, Deserialize)]
struct Staple {
    ssl: String,
    names: Vec<String>,
    /// Whether the certificate requires a stapled OCSP response (must-staple, RFC 7633), without
    /// which clients that check revocation refuse it.
    #[serde(default)]
    required: bool,
    responder: Option<String>,
    state: String,
    until: Option<i64>,
    next_attempt: Option<i64>,
    last_error: Option<LastError>,
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

/// Prints the tables.
///
/// # Errors
/// If the gateway cannot be reached, or refuses.
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
    stdout::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn describe(answer: &CertificateList) -> String {
    let mut text = describe_served(answer);
    text.push('\n');
    text.push_str(&match &answer.directory {
        Some(directory) => describe_renewed(directory, &answer.list),
        None => "no certificate renews itself; to change that, set acme.directory, acme.hosts and \
                 acme.agree\n"
            .to_owned(),
    });
    text.push_str(&describe_staples(&answer.staples));
    // Names and texts from outside must not control the terminal.
    printable_lines(&text)
}

/// Formats the certificates in service, the first to expire on top.
fn describe_served(answer: &CertificateList) -> String {
    if answer.served.is_empty() {
        return "no certificate is in service\n".to_owned();
    }
    let mut table =
        Table::new(&[("SSL", Align::Left), ("NAMES", Align::Left), ("NOT AFTER", Align::Left)]);
    let mut served: Vec<&ServedCertificate> = answer.served.iter().collect();
    served.sort_by_key(|one| one.not_after);
    for one in served {
        let names = answer.staples.iter().filter(|staple| staple.ssl == one.ssl);
        let mut names: Vec<&str> = names.flat_map(|it| &it.names).map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        table.push([one.ssl.clone(), names.join(" "), format_date(one.not_after)]);
    }
    table.render()
}

/// Formats the OCSP responses of the certificates that name an OCSP responder, or that clients
/// accept only with a stapled response.
fn describe_staples(staples: &[Staple]) -> String {
    let is_shown = |staple: &&Staple| staple.state != "none" || staple.required;
    let asked: Vec<_> = staples.iter().filter(is_shown).collect();
    if asked.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[
        ("SSL", Align::Left),
        ("NAMES", Align::Left),
        ("OCSP", Align::Left),
        ("UNTIL", Align::Left),
        ("NEXT ATTEMPT", Align::Left),
        ("LAST ERROR", Align::Left),
    ]);
    for staple in &asked {
        table.push([
            staple.ssl.clone(),
            staple.names.join(" "),
            staple.state.clone(),
            staple.until.map(moment).unwrap_or_default(),
            staple.next_attempt.map(moment).unwrap_or_default(),
            staple.last_error.as_ref().map(|error| error.code.clone()).unwrap_or_default(),
        ]);
    }
    let mut text = format!("\n{}", table.render());
    // Errors follow the table, because a remedy is longer than a cell.
    for staple in asked {
        if staple.required && staple.until.is_none() {
            let ssl = &staple.ssl;
            text.push_str(&format!(
                "\nssl {ssl} requires a staple (must-staple) and has none: clients that check refuse it\n"
            ));
        }
        if let Some(error) = &staple.last_error {
            text.push_str(&describe_error(&format!("ssl {}", staple.ssl), error));
        }
        if let Some(responder) = staple.responder.as_ref().filter(|_| staple.last_error.is_some()) {
            text.push_str(&format!("  responder: {responder}\n"));
        }
    }
    text
}

fn describe_error(whose: &str, error: &LastError) -> String {
    let LastError { code, detail, remedy, at } = error;
    format!("\n{whose}  {}  {code}\n  {detail}\n  hint: {remedy}\n", moment(*at))
}

fn describe_renewed(directory: &str, list: &[Certificate]) -> String {
    let mut text = format!("authority  {directory}\n\n");
    let mut table = Table::new(&[
        ("NAMES", Align::Left),
        ("STATE", Align::Left),
        ("ISSUER", Align::Left),
        ("NOT AFTER", Align::Left),
        ("NEXT ATTEMPT", Align::Left),
        ("LAST ERROR", Align::Left),
    ]);
    for certificate in list {
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
    // Reasons and remedies follow the table, because sentences would widen every row.
    for certificate in list {
        if let Some(error) = &certificate.last_error {
            text.push_str(&describe_error(&certificate.names.join(" "), error));
        }
    }
    text
}

/// Formats a Unix time as `2026-11-21 09:30`, in UTC.
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
            lines[5].starts_with("a.example  valid    Test CA  2026-01-01  2025-12-17 19:33"),
            "{shown}"
        );
        assert!(lines[6].contains("acme_challenge_failed"), "{shown}");
        assert!(shown.contains("connection: refused?[2J\n  hint: check DNS\n"), "{shown}");
        let off = describe(&serde_json::from_str(r#"{"directory":null,"list":[]}"#).expect("one"));
        assert!(off.contains("acme.directory") && !off.contains("OCSP"), "{off}");
    }

    #[test]
    fn served_certificates_are_listed_with_their_ends_the_first_on_top() {
        let text = r#"{"directory":null,"list":[],"staples":[
            {"ssl":"2","names":["b.test"],"responder":null,"state":"none","until":null,"next_attempt":null,
             "last_error":null}],
            "served":[{"ssl":"1","not_after":1798761600},{"ssl":"2","not_after":1767225600}]}"#;
        let shown = describe(&serde_json::from_str(text).expect("an answer"));
        let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
        assert_eq!(lines[1], "2    b.test  2026-01-01", "{shown}");
        assert_eq!(lines[2], "1    -       2027-01-01", "{shown}");
    }

    #[test]
    fn what_responders_say_is_shown_where_anybody_is_asked() {
        let text = r#"{"directory":null,"list":[],"staples":[
            {"ssl":"1","names":["a.test"],"responder":"http://ocsp.test","state":"renewal_failing",
             "since":1766000000,"until":1767225600,"next_attempt":1766000060,"last_error":{"code":"ocsp_unreachable",
             "detail":"refused\u0007","remedy":"let it","at":1766000000}},
            {"ssl":"2","names":["b.test"],"responder":null,"state":"none","since":null,"until":null,
             "next_attempt":null,"last_error":null},
            {"ssl":"3","names":["c.test"],"required":true,"responder":null,"state":"none","since":null,
             "until":null,"next_attempt":null,"last_error":null}]}"#;
        let shown = describe(&serde_json::from_str(text).expect("an answer"));
        assert!(shown.contains("ssl 3 requires a staple"), "{shown}");
        assert!(shown.contains("1    a.test  renewal_failing  2026-01-01 00:00"), "{shown}");
        let error = "ocsp_unreachable\n  refused?\n  hint: let it\n  responder: http://ocsp.test\n";
        assert!(shown.contains(error), "{shown}");
        assert!(!shown.contains("b.test"), "{shown}");
    }
}
