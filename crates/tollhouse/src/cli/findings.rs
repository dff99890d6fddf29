//! Findings as text, for all commands that print them.

use serde_json::Value;
use tollhouse_control::terminal::printable_lines;
use tollhouse_stdx::civil::CivilTime;
use tollhouse_stdx::plural::counted;

/// Formats findings, each with its start, the change before it, what helps, and the command that
/// prints its requests. Control characters from outside are made harmless.
pub(super) fn render(findings: &[Value]) -> String {
    let text: String = findings.iter().map(one).collect();
    printable_lines(&text)
}

/// Counts findings by severity, such as `2 problems, 1 warning`; empty without any but notes.
pub(super) fn summary(findings: &[Value]) -> String {
    let count = |name| findings.iter().filter(|finding| finding["severity"] == name).count();
    let counts = [("problem", count("problem")), ("warning", count("warning"))];
    let counts = counts.iter().filter(|(_, count)| *count > 0);
    let counts = counts.map(|(name, count)| counted(*count, name));
    counts.collect::<Vec<_>>().join(", ")
}

/// Whether the findings are notes at most.
pub(super) fn are_notes(findings: &[Value]) -> bool {
    findings.iter().all(|finding| finding["severity"] == "note")
}

fn one(finding: &Value) -> String {
    let text = |name: &str| finding[name].as_str().unwrap_or_default();
    let mut lines = format!("{}: {}\n", text("severity"), text("what"));
    let mut add = |line: &str| {
        if !line.is_empty() {
            lines.push_str(&format!("    {line}\n"));
        }
    };
    if let Some(since_ms) = finding["since_ms"].as_u64() {
        add(&format!("since {}{}", date(since_ms), after(&finding["change"], since_ms)));
    }
    add(text("remedy"));
    add(finding["requests"]["command"].as_str().unwrap_or_default());
    lines
}

/// Returns the change before a finding, such as `, 4 s after routes/1 was changed (replace) by
/// admin`.
fn after(change: &Value, since_ms: u64) -> String {
    let (Some(at_ms), Some(path)) = (change["at_ms"].as_u64(), change["path"].as_str()) else {
        return String::new();
    };
    let deed = change["deed"].as_str().unwrap_or_default();
    let by = change["actor"].as_str().map(|actor| format!(" by {actor}")).unwrap_or_default();
    format!(", {} after {deed} of {path}{by}", span(since_ms.saturating_sub(at_ms) / 1000))
}

/// Returns the date and time in UTC, to the second.
pub(super) fn date(unix_ms: u64) -> String {
    let time = CivilTime::from_unix_seconds(i64::try_from(unix_ms / 1000).unwrap_or(i64::MAX));
    let CivilTime { year, month, day, hour, minute, second, .. } = time;
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}Z")
}

/// Returns a duration in its largest useful unit.
pub(super) fn span(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_finding_tells_since_when_after_what_and_what_helps() {
        let findings = [
            json!({
                "severity": "problem", "what": "node a:1 fails", "remedy": "start it",
                "since_ms": 784_111_777_042_u64,
                "change": {"at_ms": 784_111_773_000_u64, "path": "routes/1", "deed": "replace", "actor": "admin"},
                "requests": {"command": "tollhouse requests a:1"},
            }),
            json!({"severity": "note", "what": "nothing listens", "remedy": ""}),
        ];
        let expected = "\
problem: node a:1 fails
    since 1994-11-06 08:49:37Z, 4 s after replace of routes/1 by admin
    start it
    tollhouse requests a:1
note: nothing listens
";
        assert_eq!(render(&findings), expected);
        assert_eq!(summary(&findings), "1 problem");
        assert!(!are_notes(&findings) && are_notes(&findings[1..]));
    }
}
