//! Section with everything needed to repeat the measurement: command, machine, versions, limits,
//! configurations.

use std::collections::BTreeMap;

use time::OffsetDateTime;
use time::macros::format_description;

use super::figure;
use super::markup::Html;
use crate::report::Report;

/// Writes the section about machine, versions and command.
pub(super) fn write(html: &mut Html, report: &Report) {
    html.fold("environment", "Environment and how to repeat it");
    if !report.command.is_empty() {
        html.open("div", &[("class", "command")]).open("pre", &[("tabindex", "0")]);
        html.element("code", &[("id", "command")], &shell_line(&report.command)).close("pre");
        html.raw("<button type=\"button\" data-copy=\"command\" hidden>Copy</button>");
        html.close("div");
    }
    html.open("div", &[("class", "facts")]);
    write_facts(html, "Machine", &machine(report));
    write_facts(html, "Versions", &named(&report.environment.versions));
    write_facts(html, "Limits and settings", &named(&report.environment.limits));
    html.close("div");
    for (name, text) in &report.configurations {
        html.open("details", &[]).open("summary", &[]).raw("Configuration ");
        html.element("code", &[], name).close("summary");
        html.open("pre", &[("tabindex", "0")]).element("code", &[], text).close("pre");
        html.close("details");
    }
    html.end_fold();
}

/// Returns the creation time of the report in UTC; empty if unknown.
pub(super) fn created(report: &Report) -> String {
    let format = format_description!("[year]-[month]-[day] [hour]:[minute] UTC");
    let seconds = i64::try_from(report.created_at_ms / 1_000).unwrap_or(0);
    if seconds == 0 {
        return String::new();
    }
    let moment = OffsetDateTime::from_unix_timestamp(seconds).ok();
    moment.and_then(|moment| moment.format(&format).ok()).unwrap_or_default()
}

fn machine(report: &Report) -> Vec<(&str, String)> {
    let environment = &report.environment;
    let counted = |value: u64, text: fn(u64) -> String| match value {
        0 => String::new(),
        value => text(value),
    };
    let mut facts = vec![
        ("label", environment.label.clone()),
        ("CPU", environment.cpu.clone()),
        ("cores", counted(environment.cores, figure::count)),
        ("memory", counted(environment.memory_bytes, figure::memory)),
        ("kernel", environment.kernel.clone()),
        ("measured", created(report)),
    ];
    facts.retain(|(_, value)| !value.is_empty());
    facts
}

fn named(facts: &BTreeMap<String, String>) -> Vec<(&str, String)> {
    facts.iter().map(|(name, value)| (name.as_str(), value.clone())).collect()
}

fn write_facts(html: &mut Html, heading: &str, facts: &[(&str, String)]) {
    if facts.is_empty() {
        return;
    }
    html.open("div", &[]).element("h3", &[], heading).open("dl", &[]);
    for (name, value) in facts {
        html.element("dt", &[], name).element("dd", &[], value);
    }
    html.close("dl").close("div");
}

/// Joins words to a command line, quoted for a shell.
fn shell_line(words: &[String]) -> String {
    let is_plain = |word: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=,@%+".contains(&byte);
        !word.is_empty() && word.bytes().all(plain)
    };
    let quoted = words.iter().map(|word| match is_plain(word) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    });
    quoted.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_can_be_pasted_into_a_shell() {
        let words = ["tollhouse", "bench", "http", "http://a/?b=c&d", "it's", ""];
        let line = shell_line(&words.map(str::to_owned));
        assert_eq!(line, r"tollhouse bench http 'http://a/?b=c&d' 'it'\''s' ''");
    }

    #[test]
    fn the_time_is_utc_and_absent_when_unknown() {
        let mut report = Report::default();
        assert_eq!(created(&report), "");
        report.created_at_ms = 1_790_000_000_000;
        assert_eq!(created(&report), "2026-09-21 14:13 UTC");
    }
}
