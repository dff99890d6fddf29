//! ab's `-w`: the same figures as HTML tables, with the attributes that the command line gives.

use super::summary::Summary;
use super::times::{Row, Times, ms};
use crate::ab::options::HtmlAttributes;

/// The tables.
pub(super) fn text(
    attributes: &HtmlAttributes,
    banner: &str,
    summary: &Summary<'_>,
    times: &Times,
) -> String {
    let mut out = format!("<p>\n {}<br>\n</p>\n<p>\n\n\n", escaped(banner));
    out.push_str(&format!("<table {}>\n", attributes.table));
    for (name, value) in figures(summary) {
        let HtmlAttributes { row, cell, .. } = attributes;
        let value = escaped(&value);
        out.push_str(&format!(
            "<tr {row}><th colspan=2 {cell}>{name}</th><td colspan=2 {cell}>{value}</td></tr>\n"
        ));
    }
    if times.count() > 0 {
        out.push_str(&times_table(attributes, times));
    }
    out.push_str("</table>\n");
    out
}

fn figures(summary: &Summary<'_>) -> Vec<(&'static str, String)> {
    let (command, counts) = (summary.command(), &summary.result().counts);
    let mut figures = vec![
        ("Server Software:", summary.server_software().to_owned()),
        ("Server Hostname:", command.address.host.clone()),
        ("Server Port:", command.address.port.to_string()),
        ("Document Path:", command.address.path.clone()),
        ("Document Length:", summary.document_length()),
        ("Concurrency Level:", command.concurrency.to_string()),
        ("Time taken for tests:", format!("{:.3} seconds", summary.seconds())),
        ("Complete requests:", counts.completed.to_string()),
        ("Failed requests:", counts.failed.to_string()),
    ];
    if counts.failed > 0 {
        let [connect, receive, length, exceptions] = summary.failures();
        let split = format!(
            "(Connect: {connect}, Receive: {receive}, Length: {length}, Exceptions: {exceptions})"
        );
        figures.push(("&nbsp;", split));
    }
    if summary.non_2xx() > 0 {
        figures.push(("Non-2xx responses:", summary.non_2xx().to_string()));
    }
    if command.case.load.keep_alive {
        figures.push(("Keep-Alive requests:", summary.kept_alive().to_string()));
    }
    figures.push(("Total transferred:", format!("{} bytes", counts.received_bytes)));
    if command.sheet.sends_body {
        figures.push(("Total body sent:", counts.sent_bytes.to_string()));
    }
    figures.push(("HTML transferred:", format!("{} bytes", counts.body_bytes)));
    figures.push(("Requests per second:", format!("{:.2}", summary.per_second(counts.completed))));
    let received = summary.kilobytes_per_second(counts.received_bytes);
    figures.push(("Transfer rate:", format!("{received:.2} kb/s received")));
    if command.sheet.sends_body {
        let sent = summary.kilobytes_per_second(counts.sent_bytes);
        figures.push(("&nbsp;", format!("{sent:.2} kb/s sent")));
    }
    figures
}

fn times_table(attributes: &HtmlAttributes, times: &Times) -> String {
    let HtmlAttributes { row, cell, .. } = attributes;
    let mut out = format!(
        "<tr {row}><th {cell} colspan=4>Connection Times (ms)</th></tr>\n\
         <tr {row}><th {cell}>&nbsp;</th> <th {cell}>min</th>   <th {cell}>avg</th>   \
         <th {cell}>max</th></tr>\n"
    );
    for (name, Row { min, mean, max, .. }) in times.rows() {
        // ab has no row for waiting here.
        if name == "Waiting:" {
            continue;
        }
        let (min, mean, max) = (ms(min), ms(mean), ms(max));
        out.push_str(&format!(
            "<tr {row}><th {cell}>{name}</th><td {cell}>{min:5}</td><td {cell}>{mean:5}</td>\
             <td {cell}>{max:5}</td></tr>\n"
        ));
    }
    out
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
