//! Plugin `redirect`: sends clients to another location, or the request through the chain again.

use crate::course::CourseEnd;
use crate::plugin::prelude::*;

/// Rule of `redirect`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RedirectRule {
    /// Requests pass unchanged.
    Pass,
    /// Requests run through the gateway again with this path.
    Inside(String),
    /// Clients are redirected.
    Elsewhere {
        /// Value of `Location`.
        location: String,
        /// HTTP status from 300 to 399.
        status: u16,
    },
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct RedirectHandle {
    #[serde(rename = "redirectURI", deserialize_with = "lenient::or_default")]
    redirect_uri: String,
    #[serde(rename = "httpStatusCode", deserialize_with = "lenient::integer")]
    http_status_code: Option<i64>,
}

/// Default HTTP status of `redirect`.
const REDIRECT_STATUS: i64 = 302;

impl RedirectRule {
    /// Reads a rule's handle.
    ///
    /// # Errors
    ///
    /// If it is not a JSON object of this shape, or the status is not a redirect.
    pub fn read(handle: Option<&str>) -> Result<Self, HandleError> {
        let handle: RedirectHandle = handle::read(handle)?;
        let uri = handle.redirect_uri.trim();
        if uri.is_empty() {
            return Ok(Self::Pass);
        }
        if uri.starts_with('/') {
            return Ok(Self::Inside(uri.to_owned()));
        }
        let status = handle.http_status_code.unwrap_or(REDIRECT_STATUS);
        let (least, most) = (300, 399);
        match u16::try_from(status) {
            Ok(status @ 300..=399) => Ok(Self::Elsewhere { location: uri.to_owned(), status }),
            _ => Err(HandleError::Bounds { member: "httpStatusCode", value: status, least, most }),
        }
    }
}

impl ShenyuPlugin for RedirectRule {
    const ROW: Row = Row::harmless("redirect", 110).with(Seed::new("16", "HttpProcess"));

    fn compile(place: &Place<'_>, _: &mut Resources<'_>) -> CompileResult<Self> {
        Ok(match Self::read(place.handle())? {
            Self::Pass => Compiled::Pass,
            rule => rule.into(),
        })
    }

    fn check_handle(handle: &str) -> Result<(), BuildError> {
        Ok(Self::read(Some(handle)).map(drop)?)
    }

    async fn act<'o>(self: &Arc<Self>, _: &mut Run<'_, '_>) -> Verdict<'o> {
        match &**self {
            Self::Pass => Verdict::Next,
            Self::Inside(path) => Verdict::Anew(path.clone()),
            Self::Elsewhere { location, status } => Verdict::redirect(*status, location.clone()),
        }
    }

    fn explain(&self, _: &mut Preview<'_>) -> Prediction {
        match self {
            Self::Pass => Prediction::Next(Effect::Passes),
            Self::Inside(path) => Prediction::Anew(path.clone()),
            Self::Elsewhere { location, status } => Prediction::End(CourseEnd::Elsewhere {
                status: *status,
                location: location.clone(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_stay_inside_or_lead_elsewhere() {
        let elsewhere = |status| RedirectRule::Elsewhere { location: "http://b/".into(), status };
        let cases = [
            (None, Ok(RedirectRule::Pass)),
            (Some(r#"{"redirectURI":" "}"#), Ok(RedirectRule::Pass)),
            (Some(r#"{"redirectURI":"/a"}"#), Ok(RedirectRule::Inside("/a".into()))),
            (Some(r#"{"redirectURI":"http://b/"}"#), Ok(elsewhere(302))),
            (Some(r#"{"redirectURI":"http://b/","httpStatusCode":"308"}"#), Ok(elsewhere(308))),
        ];
        for (handle, expected) in cases {
            assert_eq!(RedirectRule::read(handle), expected, "{handle:?}");
        }
        let bad = r#"{"redirectURI":"http://b/","httpStatusCode":200}"#;
        assert!(RedirectRule::read(Some(bad)).is_err());
    }
}
