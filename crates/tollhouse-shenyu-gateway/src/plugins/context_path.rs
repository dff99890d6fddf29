//! Plugin `contextPath`: removes the context path, and adds or replaces a prefix.

use tollhouse_shenyu::matching::Engine;

use crate::plugin::prelude::*;
use crate::shared::percentage::{Paths, percentage};
use crate::turn::Turn;

/// Rule of `contextPath`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContextPathRule {
    /// Prefix that is removed from the path.
    pub context_path: String,
    /// Prefix that is added to the rest.
    pub add_prefix: String,
    /// Context path that later selectors match instead of the original one; empty for no change.
    pub rewrite_context_path: String,
    /// Percentage of requests that `rewrite_context_path` applies to.
    pub percentage: u8,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContextPathHandle {
    #[serde(deserialize_with = "lenient::or_default")]
    context_path: String,
    #[serde(deserialize_with = "lenient::or_default")]
    add_prefix: String,
    #[serde(deserialize_with = "lenient::or_default")]
    rewrite_context_path: String,
    #[serde(deserialize_with = "lenient::integer")]
    percentage: Option<i64>,
}

impl ContextPathRule {
    /// Reads a rule's handle.
    ///
    /// # Errors
    ///
    /// If it is not a JSON object of this shape, or the percentage is out of range.
    pub fn read(handle: Option<&str>) -> Result<Self, HandleError> {
        let handle: ContextPathHandle = handle::read(handle)?;
        Ok(Self {
            context_path: handle.context_path.trim().to_owned(),
            add_prefix: handle.add_prefix.trim().to_owned(),
            rewrite_context_path: handle.rewrite_context_path.trim().to_owned(),
            percentage: percentage(handle.percentage)?,
        })
    }

    /// Returns the path without the context path; empty if the rule has none, `None` if the path
    /// does not begin with it. ShenYu does not compare: it removes as many characters as the
    /// context path has.
    pub fn rest<'a>(&self, path: &'a str) -> Option<&'a str> {
        if self.context_path.is_empty() {
            return Some("");
        }
        let rest = path.strip_prefix(&*self.context_path)?;
        let is_whole = self.context_path.ends_with('/') || rest.is_empty() || rest.starts_with('/');
        is_whole.then_some(rest)
    }

    /// Returns the path for nodes; `rest` is the part after the context path. If it is empty, a
    /// prefix is added to the whole path instead.
    pub fn real_path(&self, path: &str, rest: &str) -> String {
        let is_prefixed = !self.add_prefix.is_empty();
        let behind = if rest.is_empty() && is_prefixed { path } else { rest };
        format!("{}{behind}", self.add_prefix)
    }
}

impl ShenyuPlugin for ContextPathRule {
    const ROW: Row =
        Row::harmless("contextPath", 80).with(Seed::new("14", "HttpProcess").enabled());

    fn compile(place: &Place<'_>, _: &mut Resources<'_>) -> CompileResult<Self> {
        Ok(Self::read(place.handle())?.into())
    }

    fn check_handle(handle: &str) -> Result<(), BuildError> {
        Ok(Self::read(Some(handle)).map(drop)?)
    }

    async fn act<'o>(self: &Arc<Self>, run: &mut Run<'_, '_>) -> Verdict<'o> {
        take_off_context(self, run.cx.random() % 100, run.turn, run.engine).into()
    }

    fn explain(&self, preview: &mut Preview<'_>) -> Prediction {
        let before = Paths::new(preview.turn);
        // A draw of zero is below every percentage, so that optional changes apply.
        if let Err(answer) = take_off_context(self, 0, preview.turn, preview.engine) {
            return Prediction::Refused(answer);
        }
        // Without another context path, the rule applies to all requests.
        let is_moved = !self.rewrite_context_path.is_empty();
        let percentage = if is_moved { self.percentage } else { 100 };
        Prediction::Next(before.effect(preview.turn, percentage))
    }
}

/// Removes the context path. `draw` is a random number below 100, compared with the rule's
/// percentage.
///
/// # Errors
///
/// The answer if the path does not begin with the context path.
fn take_off_context(
    rule: &ContextPathRule,
    draw: u64,
    turn: &mut Turn,
    engine: &Engine,
) -> Result<(), Answer> {
    let Some(rest) = rule.rest(&turn.asked) else { return Err(Answer::ContextPathIllegal) };
    turn.facts.context_path.clone_from(&rule.context_path);
    turn.facts.module.clone_from(&rule.context_path);
    turn.context_path.clone_from(&rule.context_path);
    if !rule.rewrite_context_path.is_empty() && draw < rule.percentage.into() {
        turn.rewrite_context_path.clone_from(&rule.rewrite_context_path);
        let called = format!("{}{rest}", rule.rewrite_context_path);
        if engine.metadata(&called).is_some() {
            turn.metadata_path = Some(called);
        }
    }
    turn.real = Some(rule.real_path(&turn.asked, rest));
    turn.is_changed = true;
    turn.refresh_seen();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn context_paths_are_taken_off_and_prefixes_put_in_front() {
        let cases = [
            (r#"{"contextPath":"/order"}"#, "/order/findById", Some("/findById")),
            (r#"{"contextPath":"/order"}"#, "/order", Some("")),
            (r#"{"contextPath":"/order","addPrefix":"/v1"}"#, "/order/a", Some("/v1/a")),
            (r#"{"contextPath":"/order","addPrefix":"/v1"}"#, "/order", Some("/v1/order")),
            (r#"{"contextPath":"/order","addPrefixed":true}"#, "/order/a", Some("/a")),
            (r#"{"contextPath":"/order/","addPrefix":"/x"}"#, "/order/a", Some("/xa")),
            (r#"{"contextPath":"/order/","addPrefix":"/x"}"#, "/order/", Some("/x/order/")),
            (r#"{"contextPath":"/order/"}"#, "/order", None),
            (r#"{"contextPath":"/order"}"#, "/orders/a", None),
            (r#"{"contextPath":"/order"}"#, "/o", None),
            (r#"{"addPrefix":"/v1"}"#, "/a", Some("/v1/a")),
        ];
        for (handle, path, expected) in cases {
            let rule = ContextPathRule::read(Some(handle)).unwrap();
            let real = rule.rest(path).map(|rest| rule.real_path(path, rest));
            assert_eq!(real.as_deref(), expected, "{handle}");
        }
        assert!(ContextPathRule::read(Some(r#"{"percentage":101}"#)).is_err());
    }
}
