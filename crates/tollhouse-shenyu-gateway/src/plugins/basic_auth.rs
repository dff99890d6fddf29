//! Plugin `basicAuth`: admits requests with a user name and a password.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tollhouse_plugin::Identity;

use crate::plugin::prelude::*;
use crate::shared::secret::equal;

/// Credentials that requests must present: `user:password`.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BasicAuthRule {
    #[serde(deserialize_with = "lenient::or_default")]
    authorization: String,
}

impl fmt::Debug for BasicAuthRule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("BasicAuthRule(***)")
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct BasicAuthConfig {
    default_handle_json: Option<String>,
}

impl BasicAuthRule {
    /// Reads a rule's handle, or if that has no credentials, the default handle in the plugin's
    /// configuration.
    pub fn read(handle: Option<&str>, config: Option<&str>) -> Result<Self, HandleError> {
        let rule: Self = handle::read(handle)?;
        if !rule.authorization.trim().is_empty() {
            return Ok(rule);
        }
        handle::read(handle::read::<BasicAuthConfig>(config)?.default_handle_json.as_deref())
    }

    /// Returns the user name of the credentials.
    pub fn user(&self) -> &str {
        self.authorization.split(':').next().unwrap_or_default()
    }

    /// Checks the header `Authorization`: either `Basic` with base64 (RFC 7617 §2), or the
    /// credentials as plain text, the only form that ShenYu accepts. Refuses every request if no
    /// credentials are configured.
    pub fn check(&self, header: Option<&str>) -> Result<(), Answer> {
        let header = header.map(str::trim).unwrap_or_default();
        let decoded = header
            .split_once(' ')
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("basic"))
            .and_then(|(_, encoded)| STANDARD.decode(encoded.trim()).ok())
            .and_then(|decoded| String::from_utf8(decoded).ok());
        let matches = decoded.as_deref().is_some_and(|decoded| equal(decoded, &self.authorization))
            || equal(header, &self.authorization);
        match matches && !self.authorization.trim().is_empty() {
            true => Ok(()),
            false => Err(Answer::IllegalAuthorization),
        }
    }
}

impl ShenyuPlugin for BasicAuthRule {
    // ShenYu's gateways read the configuration even if the plugin is disabled, and fail without it.
    const ROW: Row = Row::protecting("basicAuth", 150)
        .with(Seed::new("44", "Authentication").config(r#"{"defaultHandleJson":""}"#));

    fn compile(place: &Place<'_>, _: &mut Resources<'_>) -> CompileResult<Self> {
        Ok(Self::read(place.handle(), place.config())?.into())
    }

    async fn act<'o>(self: &Arc<Self>, run: &mut Run<'_, '_>) -> Verdict<'o> {
        let header = run.cx.header("authorization");
        let header = header.as_ref().map(|value| String::from_utf8_lossy(value));
        let checked = self.check(header.as_deref());
        if checked.is_ok() {
            let name = self.user().to_owned();
            let identity = Identity { by: "basicAuth", name: name.as_bytes(), grant: b"" };
            run.cx.note_identity(identity);
        }
        match checked {
            Err(answer) if run.cx.header("authorization").is_none() => {
                Verdict::Unauthenticated(answer)
            }
            checked => checked.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn basic_auth_takes_base64_and_the_literal_text() {
        let config = r#"{"defaultHandleJson":"{\"authorization\":\"test:test123\"}"}"#;
        let of_rule = BasicAuthRule::read(Some(r#"{"authorization":"a:b"}"#), Some(config));
        let of_config = BasicAuthRule::read(None, Some(config));
        let refused = Err(Answer::IllegalAuthorization);
        let cases = [
            (&of_rule, Some("a:b"), Ok(())),
            (&of_rule, Some("Basic YTpi"), Ok(())),
            (&of_rule, Some("basic  YTpi"), Ok(())),
            (&of_rule, Some("Bearer YTpi"), refused),
            (&of_rule, Some("Basic a:b"), refused),
            (&of_rule, Some("Basic YTpj"), refused),
            (&of_rule, Some("test:test123"), refused),
            (&of_rule, None, refused),
            (&of_config, Some("test:test123"), Ok(())),
        ];
        for (rule, header, expected) in cases {
            let checked = rule.as_ref().map(|rule| rule.check(header)).ok();
            assert_eq!(checked, Some(expected), "{header:?}");
        }
        for header in [None, Some(""), Some("Basic "), Some("Basic =")] {
            let checked = BasicAuthRule::read(None, None).map(|rule| rule.check(header));
            assert_eq!(checked, Ok(refused), "{header:?}");
        }
    }
}
