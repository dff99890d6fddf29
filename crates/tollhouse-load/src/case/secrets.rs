//! Masks the credentials of a case in its echo, in the command that repeats it and in its plan,
//! because reports are meant to be shared.

use serde_json::Value;

use super::Case;

/// Text that replaces a secret in results.
const MASK: &str = "***";
/// Headers and metadata whose values are secrets.
const SECRET_HEADERS: [&str; 6] =
    ["authorization", "proxy-authorization", "cookie", "x-api-key", "apikey", "x-auth-token"];
/// Command-line options whose value is a secret.
const SECRET_OPTIONS: [&str; 4] = ["--basic", "-u", "--bearer", "-A"];

impl Case {
    /// Returns a copy with its secrets masked, for reports.
    #[must_use]
    pub fn without_secrets(&self) -> Self {
        let mut case = self.clone();
        case.target = without_credentials(&case.target);
        for (name, value) in &mut case.http.headers {
            if is_secret(name) {
                *value = MASK.to_owned();
            }
        }
        if let Some(call) = &mut case.grpc {
            call.metadata.iter_mut().for_each(mask_metadata);
            for (name, value) in &mut call.reflect_metadata {
                if is_secret(name) {
                    *value = MASK.to_owned();
                }
            }
        }
        case
    }

    /// Returns the secrets, so that they can be masked in other texts.
    pub fn secrets(&self) -> Vec<&str> {
        let headers = self.http.headers.iter().filter(|(name, _)| is_secret(name));
        let mut secrets: Vec<&str> = headers.map(|(_, value)| value.as_str()).collect();
        if let Some(call) = &self.grpc {
            call.metadata.iter().for_each(|metadata| collect_metadata(metadata, &mut secrets));
            let reflection = call.reflect_metadata.iter().filter(|(name, _)| is_secret(name));
            secrets.extend(reflection.map(|(_, value)| value.as_str()));
        }
        secrets.extend(credentials(&self.target));
        secrets.retain(|secret| !secret.is_empty());
        secrets
    }
}

/// Masks all these secrets in a text.
pub(crate) fn masked(text: &str, secrets: &[&str]) -> String {
    secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret, MASK))
}

/// Masks the values of secret options and headers in the words of a command line.
pub(crate) fn masked_command(words: &[String]) -> Vec<String> {
    let mut is_value = false;
    words
        .iter()
        .map(|word| {
            if std::mem::take(&mut is_value) {
                return MASK.to_owned();
            }
            is_value = SECRET_OPTIONS.contains(&word.as_str());
            if let Some((option, _)) = word.split_once('=')
                && SECRET_OPTIONS.contains(&option)
            {
                return format!("{option}={MASK}");
            }
            // The option stays when it is one word with its header: `-HCookie: a=1`.
            match word.split_once(':') {
                Some((name, _)) if SECRET_HEADERS.iter().any(|secret| ends_with(name, secret)) => {
                    format!("{name}: {MASK}")
                }
                _ => without_credentials(word),
            }
        })
        .collect()
}

fn is_secret(name: &str) -> bool {
    SECRET_HEADERS.iter().any(|secret| name.eq_ignore_ascii_case(secret))
}

fn ends_with(text: &str, ending: &str) -> bool {
    text.trim_end().to_ascii_lowercase().ends_with(ending)
}

/// Returns the `user:password` part of a URL.
fn credentials(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    authority.rsplit_once('@').map(|(credentials, _)| credentials)
}

fn without_credentials(url: &str) -> String {
    match credentials(url) {
        Some(credentials) => url.replacen(credentials, MASK, 1),
        None => url.to_owned(),
    }
}

fn mask_metadata(metadata: &mut Value) {
    match metadata {
        Value::Object(entries) => {
            let secret = entries.iter_mut().filter(|(name, _)| is_secret(name));
            secret.for_each(|(_, value)| *value = MASK.into());
        }
        Value::Array(items) => items.iter_mut().for_each(mask_metadata),
        _ => (),
    }
}

fn collect_metadata<'a>(metadata: &'a Value, secrets: &mut Vec<&'a str>) {
    match metadata {
        Value::Object(entries) => {
            let secret = entries.iter().filter(|(name, _)| is_secret(name));
            secrets.extend(secret.filter_map(|(_, value)| value.as_str()));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_metadata(item, secrets)),
        _ => (),
    }
}

#[cfg(test)]
mod tests {
    use super::super::GrpcCall;
    use super::*;

    #[test]
    fn a_case_is_shown_without_its_credentials() {
        let mut case = Case::new("http://me:secret@h/x@y");
        case.http.headers =
            vec![("Authorization".into(), "Bearer t0ken".into()), ("accept".into(), "a".into())];
        let metadata = serde_json::json!([{"authorization": "k3y", "tenant": "a"}]);
        case.grpc = Some(GrpcCall { metadata: Some(metadata), ..GrpcCall::default() });
        let shown = case.without_secrets();
        assert_eq!(shown.target, "http://***@h/x@y");
        assert_eq!(shown.http.headers[0].1, "***");
        assert_eq!(shown.http.headers[1].1, "a");
        let metadata = serde_json::json!([{"authorization": "***", "tenant": "a"}]);
        assert_eq!(shown.grpc.expect("a call").metadata, Some(metadata));
        let plan = "target: http://me:secret@h/\nheaders: {authorization: Bearer t0ken}\n# k3y";
        let shown = masked(plan, &case.secrets());
        assert_eq!(shown, "target: http://***@h/\nheaders: {authorization: ***}\n# ***");
    }

    #[test]
    fn a_command_is_shown_without_its_credentials() {
        let shown = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            masked_command(&words).join(" ")
        };
        assert_eq!(shown(&["-u", "me:secret", "http://a:b@h/"]), "-u *** http://***@h/");
        assert_eq!(shown(&["--bearer=t", "-H", "Cookie: a=1"]), "--bearer=*** -H Cookie: ***");
        assert_eq!(shown(&["-HX-API-Key:k", "-H", "accept: b"]), "-HX-API-Key: *** -H accept: b");
        assert_eq!(shown(&["http://h/?a@b", "-c", "5"]), "http://h/?a@b -c 5");
    }
}
