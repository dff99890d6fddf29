//! Expiry of the certificates shown to clients: for the metrics page, and as log warnings while
//! there is time to renew.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tollhouse_model::certificate::format_date;
use tollhouse_telemetry::catalogue::render_certificates;
use tollhouse_telemetry::exposition::Exposition;

/// Interval between log warnings about one expiring certificate.
const LOG_INTERVAL: Duration = Duration::from_secs(12 * 3600);

/// Time before expiry, in seconds, from which a certificate is logged.
const RENEWAL_S: i64 = 14 * 24 * 3600;

/// Limit of log lines per interval; the metrics page lists all certificates.
const LINES_MAX: usize = 20;

/// Expiry times of all certificates, with the ids of their objects.
#[derive(Debug, Default)]
pub struct CertificateEnds {
    ends: Mutex<Arc<[(String, i64)]>>,
}

impl CertificateEnds {
    /// Replaces all expiry times, in seconds of Unix time.
    pub fn set<'a>(&self, ends: impl Iterator<Item = (&'a str, i64)>) {
        let mut ends: Vec<_> = ends.map(|(id, end)| (id.to_owned(), end)).collect();
        ends.sort();
        *self.ends.lock().unwrap_or_else(PoisonError::into_inner) = ends.into();
    }

    /// Returns all expiry times, sorted by object id.
    pub fn all(&self) -> Arc<[(String, i64)]> {
        Arc::clone(&self.ends.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns all expiry times, as a JSON array of `{"ssl", "not_after"}`.
    pub fn to_json(&self) -> Value {
        let end = |(ssl, end): &(String, i64)| json!({ "ssl": ssl, "not_after": end });
        self.all().iter().map(end).collect()
    }

    /// Writes the part of the metrics page.
    pub fn write(&self, page: &mut Exposition) {
        render_certificates(self.all().iter().map(|(id, end)| (id.as_str(), *end)), page);
    }

    /// Logs a warning for each certificate that has expired or expires soon.
    pub fn log_ending(&self, now: SystemTime) {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        let all = self.all();
        let ending = all.iter().filter(|(_, end)| *end < now.saturating_add(RENEWAL_S));
        for (ssl, end) in ending.take(LINES_MAX) {
            let ends = format_date(*end);
            tracing::warn!(ssl, ends, "a certificate must be renewed");
        }
    }

    /// Logs warnings every [`LOG_INTERVAL`]; never returns.
    pub async fn keep_logging(self: Arc<Self>) {
        let mut interval = tokio::time::interval(LOG_INTERVAL);
        loop {
            interval.tick().await;
            self.log_ending(SystemTime::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use tollhouse_telemetry::exposition::Format;

    use super::*;

    #[test]
    fn the_page_has_the_end_of_every_certificate() {
        let ends = CertificateEnds::default();
        ends.set([("b", 20), ("a", 10)].into_iter());
        let page = || {
            let mut page = Exposition::new(Format::Text);
            ends.write(&mut page);
            String::from_utf8(page.finish()).expect("text")
        };
        let name = "tollhouse_certificate_expiry_seconds";
        let expected = format!("{name}{{ssl=\"a\"}} 10\n{name}{{ssl=\"b\"}} 20\n");
        assert!(page().ends_with(&expected), "{}", page());
        ends.set(std::iter::empty());
        assert!(!page().contains("ssl="));
    }
}
