//! Plugin `waf`: admits or refuses requests by the rules that match them, and by its configuration
//! those that match none.

use tollhouse_shenyu::answer::Statuses;
use tollhouse_shenyu::model::Plugin;

use crate::plugin::prelude::*;

/// Default code in the body of a refusal.
const FORBIDDEN_CODE: i32 = 403;

/// Treatment of requests that no selector or rule of `waf` matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WafModel {
    /// Requests pass.
    Black,
    /// Requests are refused.
    Mixed,
}

/// Treatment of requests that a rule of `waf` matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WafRule {
    /// Requests pass.
    Allow,
    /// Requests are refused, with this code in the body if it is set.
    Reject(Option<i32>),
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct WafHandle {
    #[serde(deserialize_with = "lenient::or_default")]
    model: String,
    #[serde(deserialize_with = "lenient::or_default")]
    permission: String,
    #[serde(deserialize_with = "lenient::text")]
    status_code: Option<String>,
}

impl WafModel {
    /// Reads the plugin's configuration.
    ///
    /// # Errors
    ///
    /// If it is not `{"model": "black"}` or `{"model": "mixed"}`.
    pub fn read(config: Option<&str>) -> Result<Self, HandleError> {
        let model = handle::read::<WafHandle>(config)?.model;
        match model.as_str() {
            "black" => Ok(Self::Black),
            "mixed" => Ok(Self::Mixed),
            _ => {
                Err(HandleError::Value { member: "model", value: model, possible: "black, mixed" })
            }
        }
    }

    /// Returns the answer to a request that no selector or rule matches; `None` lets it pass.
    pub const fn unmatched(self) -> Option<Answer> {
        match self {
            Self::Black => None,
            Self::Mixed => Some(Answer::Forbidden(FORBIDDEN_CODE)),
        }
    }
}

impl WafRule {
    /// Reads a rule's handle.
    ///
    /// # Errors
    ///
    /// If the permission is missing or unknown, or the code is not a whole number.
    pub fn read(handle: Option<&str>) -> Result<Self, HandleError> {
        let handle: WafHandle = handle::read(handle)?;
        match handle.permission.as_str() {
            "allow" => Ok(Self::Allow),
            "reject" => {
                let code = handle.status_code.unwrap_or_default();
                match code.trim() {
                    "" => Ok(Self::Reject(None)),
                    text => text.parse().map(|code| Self::Reject(Some(code))).map_err(|_| {
                        HandleError::Value {
                            member: "statusCode",
                            value: text.to_owned(),
                            possible: "whole numbers",
                        }
                    }),
                }
            }
            _ => Err(HandleError::Value {
                member: "permission",
                value: handle.permission,
                possible: "reject, allow",
            }),
        }
    }

    /// Returns the answer to a request that the rule matches; `None` lets it pass.
    pub const fn answer(self, statuses: Statuses) -> Option<Answer> {
        match (self, statuses) {
            (Self::Allow, _) => None,
            (Self::Reject(Some(code)), _) => Some(Answer::Forbidden(code)),
            (Self::Reject(None), Statuses::Honest) => Some(Answer::Forbidden(FORBIDDEN_CODE)),
            (Self::Reject(None), Statuses::Compatible) => Some(Answer::ForbiddenWithoutCode),
        }
    }
}

impl ShenyuPlugin for WafRule {
    const ROW: Row = Row::protecting("waf", 50)
        .with(Seed::new("2", "Authentication").config(r#"{"model":"black"}"#));

    fn compile(place: &Place<'_>, _: &mut Resources<'_>) -> CompileResult<Self> {
        Ok(Self::read(place.handle())?.into())
    }

    fn check_handle(handle: &str) -> Result<(), BuildError> {
        Ok(Self::read(Some(handle)).map(drop)?)
    }

    fn fallthrough(plugin: &Plugin) -> Fallthrough {
        match WafModel::read(plugin.config.as_deref()) {
            Ok(model) => Fallthrough { refusal: model.unmatched(), problem: None },
            Err(error) => Fallthrough {
                refusal: WafModel::Mixed.unmatched(),
                problem: Some(format!(
                    "{error}; until then, requests that match nothing are refused"
                )),
            },
        }
    }

    async fn act<'o>(self: &Arc<Self>, run: &mut Run<'_, '_>) -> Verdict<'o> {
        self.answer(run.terms.statuses).map_or(Verdict::Next, Verdict::Refused)
    }

    fn explain(&self, preview: &mut Preview<'_>) -> Prediction {
        self.answer(preview.terms.statuses)
            .map_or(Prediction::Next(Effect::Passes), Prediction::Refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waf_decides_by_model_and_rule() {
        let model = |text| WafModel::read(Some(text)).map(WafModel::unmatched);
        assert_eq!(model(r#"{"model":"black"}"#), Ok(None));
        assert_eq!(model(r#"{"model":"mixed"}"#), Ok(Some(Answer::Forbidden(403))));
        let answer = |rule: WafRule| rule.answer(Statuses::Honest);
        let rule = |text| WafRule::read(Some(text)).map(answer);
        assert_eq!(rule(r#"{"permission":"allow","statusCode":"403"}"#), Ok(None));
        let cases = [
            (r#"{"permission":"reject","statusCode":"405"}"#, 405),
            (r#"{"permission":"reject","statusCode":406}"#, 406),
            (r#"{"permission":"reject"}"#, 403),
        ];
        for (handle, code) in cases {
            assert_eq!(rule(handle), Ok(Some(Answer::Forbidden(code))), "{handle}");
        }
        let compatible = WafRule::Reject(None).answer(Statuses::Compatible);
        assert_eq!(compatible, Some(Answer::ForbiddenWithoutCode), "as in ShenYu");
    }

    #[test]
    fn a_waf_that_does_not_say_what_it_does_is_refused() {
        for text in ["", "{}", "[]", "no JSON", r#"{"model":"white"}"#, r#"{"permission":"maybe"}"#]
        {
            assert!(WafModel::read(Some(text)).is_err(), "{text}");
            assert!(WafRule::read(Some(text)).is_err(), "{text}");
        }
        let text = r#"{"permission":"reject","statusCode":"teapot"}"#;
        assert!(WafRule::read(Some(text)).is_err());
    }
}
