//! Conversion of nginx's cache directives to the plugin `proxy-cache`.

use super::carry::seconds;

/// Default time for which responses are cached, in seconds.
const DEFAULT_SECONDS: u64 = 300;

/// Statuses that a `proxy_cache_valid` directive without statuses applies to, as in nginx.
const DEFAULT_STATUSES: [u16; 3] = [200, 301, 302];

/// Statuses and times of `proxy_cache_valid`. The plugin supports one time for all statuses.
#[derive(Debug, Default)]
pub(super) struct CacheTimes {
    statuses: Vec<u16>,
    seconds: Option<u64>,
}

impl CacheTimes {
    /// Adds the statuses and the time of one `proxy_cache_valid` directive.
    ///
    /// # Errors
    /// The reason for which the directive is not carried over.
    pub(super) fn take(&mut self, arguments: &[String]) -> Result<(), String> {
        let (time, statuses) = arguments.split_last().ok_or("expected a time")?;
        let seconds = seconds(time).ok_or("expected a time such as 10m")?;
        let statuses: Vec<u16> = match statuses {
            [] => DEFAULT_STATUSES.into(),
            some => some
                .iter()
                .map(|status| status.parse())
                .collect::<Result<_, _>>()
                .map_err(|_| "only statuses such as 200 are carried".to_owned())?,
        };
        // The plugin takes whole seconds, at least one.
        let seconds = seconds.max(1.0) as u64;
        let kept = *self.seconds.get_or_insert(seconds);
        if kept != seconds {
            return Err(format!(
                "answers are kept for one time, here {kept} s; these statuses are not kept: {statuses:?}"
            ));
        }
        self.statuses.extend(statuses);
        Ok(())
    }

    /// Returns the cached statuses and the time to live in seconds.
    pub(super) fn settings(&self) -> (Vec<u16>, u64) {
        let mut statuses = self.statuses.clone();
        if statuses.is_empty() {
            statuses.push(200);
        }
        statuses.sort_unstable();
        statuses.dedup();
        (statuses, self.seconds.unwrap_or(DEFAULT_SECONDS))
    }
}

/// Splits `proxy_cache_key` into texts and variables; `None` if the plugin does not support a part.
pub(super) fn key(text: &str) -> Option<Vec<String>> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let Some(behind) = rest.strip_prefix('$') else {
            let end = rest.find('$').unwrap_or(rest.len());
            // The plugin does not accept shorter texts.
            if rest[..end].chars().count() < 2 {
                return None;
            }
            parts.push(rest[..end].to_owned());
            rest = &rest[end..];
            continue;
        };
        let (name, behind) = match behind.strip_prefix('{') {
            Some(braced) => braced.split_once('}')?,
            None => behind.split_at(behind.find(|letter| !is_name(letter)).unwrap_or(behind.len())),
        };
        if name.is_empty() || !name.chars().all(is_name) {
            return None;
        }
        // The plugin tells methods apart itself, and does not take this variable.
        if name != "request_method" {
            parts.push(format!("${name}"));
        }
        rest = behind;
    }
    (!parts.is_empty()).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_cache_are_taken_apart() {
        for (text, expected) in [
            (
                "$scheme$request_method$host$request_uri",
                Some(vec!["$scheme", "$host", "$request_uri"]),
            ),
            ("v1:${host}$uri", Some(vec!["v1:", "$host", "$uri"])),
            ("$host/$uri", None),
            ("$", None),
            ("", None),
        ] {
            let expected = expected.map(|parts| parts.into_iter().map(str::to_owned).collect());
            assert_eq!(key(text), expected, "{text}");
        }
    }

    #[test]
    fn one_time_is_carried_for_all_statuses_that_have_it() {
        let take = |times: &mut CacheTimes, text: &str| {
            times.take(&text.split(' ').map(str::to_owned).collect::<Vec<_>>())
        };
        let mut times = CacheTimes::default();
        assert_eq!(times.settings(), (vec![200], DEFAULT_SECONDS));
        assert_eq!(take(&mut times, "200 302 100m"), Ok(()));
        assert!(take(&mut times, "404 1m").is_err_and(|reason| reason.contains("[404]")));
        assert!(take(&mut times, "any 100m").is_err());
        assert_eq!(times.settings(), (vec![200, 302], 6000));
        let mut times = CacheTimes::default();
        assert_eq!(take(&mut times, "10s"), Ok(()));
        assert_eq!(times.settings(), (vec![200, 301, 302], 10));
    }
}
