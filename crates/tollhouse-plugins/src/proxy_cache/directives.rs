//! `Cache-Control`, and how long an answer says that it may be kept.

use tollhouse_plugin::ResponseContext;

use crate::shared::messages::http_date::parse_http_date;

/// Directives of a `Cache-Control` header.
#[derive(Debug, Default)]
pub(super) struct Directives(Vec<(String, String)>);

impl Directives {
    /// Of all lines of the header, joined: a second line counts as much as the first.
    pub fn parse(header: Option<&[u8]>) -> Self {
        let text = String::from_utf8_lossy(header.unwrap_or_default()).to_ascii_lowercase();
        let directives = text.split(',').map(str::trim).filter(|text| !text.is_empty());
        let pair = |text: &str| {
            let (name, value) = text.split_once('=').unwrap_or((text, ""));
            (name.trim().to_owned(), value.trim().trim_matches('"').to_owned())
        };
        Self(directives.map(pair).collect())
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(other, _)| other == name)
    }

    /// The number that a directive gives.
    pub fn seconds(&self, name: &str) -> Option<u64> {
        self.0.iter().find(|(other, _)| other == name)?.1.parse().ok()
    }
}

/// How long an answer says that it may be kept; `None` when it does not say.
pub(super) fn lifetime_ms(cx: &ResponseContext<'_>, directives: &Directives) -> Option<u64> {
    if let Some(seconds) = accel_seconds(cx) {
        return Some(seconds.saturating_mul(1_000));
    }
    let seconds = directives.seconds("s-maxage").or_else(|| directives.seconds("max-age"));
    if let Some(seconds) = seconds {
        return Some(seconds.saturating_mul(1_000));
    }
    let expires = cx.header("expires")?;
    // A date that cannot be read is in the past (RFC 9111 §5.3).
    let until_ms = parse_http_date(expires).and_then(|seconds| u64::try_from(seconds).ok());
    let until_ms = until_ms.unwrap_or(0).saturating_mul(1_000);
    Some(until_ms.saturating_sub(cx.now().unix_ms))
}

/// `X-Accel-Expires`: seconds, or `@` and a Unix time.
fn accel_seconds(cx: &ResponseContext<'_>) -> Option<u64> {
    let text = std::str::from_utf8(cx.header("x-accel-expires")?).ok()?.trim();
    match text.strip_prefix('@') {
        Some(moment) => Some(moment.parse::<u64>().ok()?.saturating_sub(cx.now().unix_ms / 1_000)),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_have_names_in_any_case_and_numbers() {
        let directives = Directives::parse(Some(b"Private, Max-Age=60 , x=\"7\",,no-store"));
        assert!(directives.has("private") && directives.has("no-store"));
        assert!(!directives.has("no-cache"));
        assert_eq!(directives.seconds("max-age"), Some(60));
        assert_eq!(directives.seconds("x"), Some(7));
        assert_eq!(directives.seconds("private"), None);
        assert!(!Directives::parse(None).has(""));
    }
}
