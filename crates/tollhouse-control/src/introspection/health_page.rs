//! Health of nodes as an HTML table.

use std::fmt::Write;

use tollhouse_upstream::health::state::Status;
use tollhouse_upstream::{HealthReport, NodeHealth};

const HEAD: &str = "<!DOCTYPE html>\n<html>\n<head>\n<meta charset=\"utf-8\">\n\
    <title>APISIX upstream check status</title>\n</head>\n<body>\n\
    <h1>APISIX upstream check status</h1>\n\
    <table style=\"background-color:white\" cellspacing=\"0\" cellpadding=\"3\" border=\"1\">\n\
    <tr bgcolor=\"#C0C0C0\"><th>Index</th><th>Upstream</th><th>Check type</th><th>Host</th>\
    <th>Status</th><th>Success counts</th><th>TCP Failures</th><th>HTTP Failures</th>\
    <th>TIMEOUT Failures</th></tr>\n";

const FOOT: &str = "</table>\n</body>\n</html>\n";

/// Row background of a node that gets no requests.
const NOT_SERVING: &str = " bgcolor=\"#FF0000\"";

/// Returns the page, with one row per node.
pub(super) fn render(reports: &[HealthReport]) -> String {
    let mut page = HEAD.to_owned();
    let nodes = reports.iter().flat_map(|report| report.nodes.iter().map(move |it| (report, it)));
    for (index, (report, node)) in nodes.enumerate() {
        line(index + 1, report, node, &mut page);
    }
    page.push_str(FOOT);
    page
}

fn line(index: usize, report: &HealthReport, node: &NodeHealth, page: &mut String) {
    let colour = if node.status.serves() { "" } else { NOT_SERVING };
    let counter = &node.counter;
    let (name, ip) = (escaped(&report.name), escaped(&node.ip));
    // Writing to a string cannot fail.
    let _ = writeln!(
        page,
        "<tr{colour}><td>{index}</td><td>{name}</td><td>{}</td><td>{ip}:{}</td><td>{}</td>\
         <td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
        report.kind,
        node.port,
        word(node.status),
        counter.success,
        counter.tcp_failure,
        counter.http_failure,
        counter.timeout_failure,
    );
}

fn word(status: Status) -> &'static str {
    match status {
        Status::Healthy => "healthy",
        Status::MostlyHealthy => "mostly_healthy",
        Status::MostlyUnhealthy => "mostly_unhealthy",
        Status::Unhealthy => "unhealthy",
    }
}

/// Returns the text, escaped for HTML, because users choose the names of objects and hosts.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use tollhouse_upstream::health::state::Counters;

    use super::*;

    #[test]
    fn each_node_has_a_line_and_what_users_wrote_is_harmless() {
        let node = |ip: &str, status| NodeHealth {
            ip: ip.to_owned(),
            port: 80,
            hostname: ip.to_owned(),
            status,
            counter: Counters { success: 1, tcp_failure: 2, http_failure: 3, timeout_failure: 4 },
        };
        let nodes = vec![node("127.0.0.1", Status::Healthy), node("<b>", Status::Unhealthy)];
        let name = "/apisix/routes/1".to_owned();
        let page = render(&[HealthReport { name, kind: "http", nodes }]);
        let lines: Vec<&str> = page.lines().filter(|line| line.contains("<td>")).collect();
        assert_eq!(
            lines,
            [
                "<tr><td>1</td><td>/apisix/routes/1</td><td>http</td><td>127.0.0.1:80</td>\
                 <td>healthy</td><td>1</td><td>2</td><td>3</td><td>4</td></tr>",
                "<tr bgcolor=\"#FF0000\"><td>2</td><td>/apisix/routes/1</td><td>http</td>\
                 <td>&lt;b&gt;:80</td><td>unhealthy</td><td>1</td><td>2</td><td>3</td><td>4</td></tr>",
            ]
        );
        assert!(render(&[]).ends_with(FOOT));
    }
}
