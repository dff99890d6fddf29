//! Block of figures above the table of times, as names with values.

use crate::ab::options::AbCommand;
use tollhouse_load::failure::FailureClass;
use tollhouse_load::result::CaseResult;

/// Block of figures for one result.
pub(super) struct Summary<'a> {
    command: &'a AbCommand,
    result: &'a CaseResult,
    seconds: f64,
}

impl<'a> Summary<'a> {
    pub(super) fn new(command: &'a AbCommand, result: &'a CaseResult) -> Self {
        Self { command, result, seconds: result.elapsed_ns as f64 / 1e9 }
    }

    /// Returns the value of the `Server` header, up to its first blank.
    fn server_software(&self) -> &'a str {
        let head = self.result.first_head.iter();
        let server = head.filter(|(name, _)| name.eq_ignore_ascii_case("server")).map(|(_, v)| v);
        server.flat_map(|value| value.split_whitespace()).next().unwrap_or_default()
    }

    /// Returns the length of the document, or `Variable` with `-l`.
    fn document_length(&self) -> String {
        if self.command.sheet.variable_length {
            return "Variable".into();
        }
        format!("{} bytes", self.result.counts.first_body_bytes)
    }

    /// Returns the failures of connecting, receiving, length, and exceptions.
    fn failures(&self) -> [u64; 4] {
        use FailureClass::{Check, Closed, Connect, Malformed, Reset, Status, Timeout, Tls};
        let of = |classes: &[FailureClass]| -> u64 {
            let counts =
                classes.iter().map(|class| self.result.counts.failures.get(class.as_str()));
            counts.flatten().sum()
        };
        [of(&[Connect]), of(&[Reset, Closed, Timeout]), of(&[Check, Status]), of(&[Tls, Malformed])]
    }

    fn write_errors(&self) -> u64 {
        self.result.counts.failures.get(FailureClass::Write.as_str()).copied().unwrap_or(0)
    }

    fn non_2xx(&self) -> u64 {
        let statuses = self.result.counts.statuses.iter();
        statuses.filter(|(status, _)| !status.starts_with('2')).map(|(_, count)| count).sum()
    }

    /// Returns the number of requests on connections that were kept open.
    fn kept_alive(&self) -> u64 {
        let counts = &self.result.counts;
        // ab also counts the first request of a connection if the server agreed to keep it open.
        let first = counts.connections_opened.min(self.result.concurrency);
        if counts.reused == 0 { 0 } else { (counts.reused + first).min(counts.completed) }
    }

    fn per_second(&self, amount: u64) -> f64 {
        if self.seconds > 0.0 { amount as f64 / self.seconds } else { 0.0 }
    }

    fn kilobytes_per_second(&self, bytes: u64) -> f64 {
        self.per_second(bytes) / 1024.0
    }

    pub(super) fn text(&self) -> String {
        let address = &self.command.address;
        let mut out = String::new();
        let mut line = |name: &str, value: &str| out.push_str(&format!("{name:<23} {value}\n"));
        line("Server Software:", self.server_software());
        line("Server Hostname:", &address.host);
        line("Server Port:", &address.port.to_string());
        if address.is_tls {
            line("TLS Server Name:", &address.host);
        }
        line("\nDocument Path:         ", &address.path);
        line("Document Length:", &self.document_length());
        out.push('\n');
        out.push_str(&self.counts());
        out.push_str(&self.rates());
        out
    }

    fn counts(&self) -> String {
        let counts = &self.result.counts;
        let mut out = String::new();
        let mut line = |name: &str, value: String| out.push_str(&format!("{name:<23} {value}\n"));
        line("Concurrency Level:", self.command.concurrency.to_string());
        line("Time taken for tests:", format!("{:.3} seconds", self.seconds));
        line("Complete requests:", counts.completed.to_string());
        line("Failed requests:", counts.failed.to_string());
        if counts.failed > 0 {
            let [connect, receive, length, exceptions] = self.failures();
            line(
                "   (Connect:",
                format!(
                    "{connect}, Receive: {receive}, Length: {length}, Exceptions: {exceptions})"
                ),
            );
        }
        let optional =
            [("Write errors:", self.write_errors()), ("Non-2xx responses:", self.non_2xx())];
        for (name, count) in optional.into_iter().filter(|(_, count)| *count > 0) {
            line(name, count.to_string());
        }
        if self.command.case.load.keep_alive {
            line("Keep-Alive requests:", self.kept_alive().to_string());
        }
        line("Total transferred:", format!("{} bytes", counts.received_bytes));
        if self.command.sheet.sends_body {
            line("Total body sent:", counts.sent_bytes.to_string());
        }
        line("HTML transferred:", format!("{} bytes", counts.body_bytes));
        // The only line without padding after its name.
        out.replace("   (Connect:            ", "   (Connect: ")
    }

    fn rates(&self) -> String {
        let counts = &self.result.counts;
        let rate = self.per_second(counts.completed);
        let mean_ms = if rate > 0.0 { 1e3 / rate } else { 0.0 };
        let concurrent_ms = mean_ms * self.command.concurrency as f64;
        let mut out = format!(
            "Requests per second:    {rate:.2} [#/sec] (mean)\n\
             Time per request:       {concurrent_ms:.3} [ms] (mean)\n\
             Time per request:       {mean_ms:.3} [ms] (mean, across all concurrent requests)\n\
             Transfer rate:          {:.2} [Kbytes/sec] received\n",
            self.kilobytes_per_second(counts.received_bytes)
        );
        if self.command.sheet.sends_body {
            let sent = self.kilobytes_per_second(counts.sent_bytes);
            let both = self.kilobytes_per_second(counts.sent_bytes + counts.received_bytes);
            out.push_str(&format!("{:24}{sent:.2} kb/s sent\n", ""));
            out.push_str(&format!("{:24}{both:.2} kb/s total\n", ""));
        }
        out
    }
}
