//! Puts the values of secrets into confs. A secret without a value is none: its text, a reference
//! or what is sealed, must never be taken for it.

use std::borrow::Cow;

use serde_json::Value;
use tollhouse_model::Problem;
use tollhouse_model::encryption;
use tollhouse_model::secret::{NoAnswer, SecretSource, Unanswered, has_references, resolve_as};
use tollhouse_plugin::{Category, PluginType, validation};

/// Which fields of a conf are secrets.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fields<'a> {
    /// Every one: the conf says who somebody is, or protects.
    All,
    /// These.
    Named(&'a [&'a str]),
}

impl Fields<'_> {
    /// Those of a plugin's conf.
    pub(super) fn for_plugin(plugin: &PluginType) -> Self {
        match plugin.category {
            Category::Authentication | Category::Security => Fields::All,
            _ => Fields::Named(plugin.encrypted),
        }
    }

    fn contain(self, field: &str) -> bool {
        let is_within = |name: &&str| {
            field.strip_prefix(*name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        match self {
            Fields::All => true,
            Fields::Named(names) => names.iter().any(is_within),
        }
    }
}

/// How what a conf refers to is found.
pub(super) struct References<'a> {
    /// Where secrets are kept.
    pub source: Option<&'a dyn SecretSource>,
    /// The fields that hold secrets.
    pub fields: Fields<'a>,
    /// What the conf is judged by: what a reference stands for is read as what its place expects.
    pub schema: &'a Value,
}

/// A conf with what it refers to.
pub(super) struct Resolved<'c> {
    pub conf: Cow<'c, Value>,
    /// What nothing answers for, and is no secret: the text of the reference stands there.
    pub unanswered: Vec<Unanswered>,
}

impl<'c> Resolved<'c> {
    fn unchanged(conf: &'c Value) -> Self {
        Self { conf: Cow::Borrowed(conf), unanswered: Vec::new() }
    }

    /// The first reference whose text stands in the conf, where that is why the conf is refused.
    pub(super) fn to_blame(&self, path: &str) -> Option<Problem> {
        let unanswered = self.unanswered.first()?;
        let problem = Problem::error(format!("{path}.{}", unanswered.field), unanswered.reason());
        Some(problem.with_hint("the text of the reference is no value here: give it one"))
    }

    /// What a reader is told where the conf is good all the same.
    pub(super) fn warnings(&self, path: &str) -> impl Iterator<Item = Problem> {
        self.unanswered.iter().map(move |unanswered| {
            let path = format!("{path}.{}", unanswered.field);
            let problem = Problem::warning(path, unanswered.reason());
            problem.with_hint("the text itself is taken as the value")
        })
    }
}

impl References<'_> {
    /// The conf with what it refers to.
    ///
    /// # Errors
    /// A secret has no value, or a value is not what its place expects.
    pub(super) fn resolve<'c>(&self, conf: &'c Value, path: &str) -> Result<Resolved<'c>, Problem> {
        // What nothing opens would be taken for the secret itself, by whoever reads it.
        if let Some(field) = encryption::sealed_field(conf) {
            return Err(validation::unopened(format!("{path}.{field}")));
        }
        if !has_references(conf) {
            return Ok(Resolved::unchanged(conf));
        }
        let mut resolved = conf.clone();
        let mut unanswered = resolve_as(&mut resolved, self.schema, self.source);
        for one in &unanswered {
            // A reference that anybody can guess must not become the password.
            let hint = match one.answer {
                _ if self.fields.contain(&one.field) => {
                    "it is never taken for the secret itself: give it a value"
                }
                NoAnswer::NotA(_) => "give it a value that can stand in this field",
                NoAnswer::Unknown | NoAnswer::Unlisted | NoAnswer::Empty => continue,
            };
            return Err(
                Problem::error(format!("{path}.{}", one.field), one.reason()).with_hint(hint)
            );
        }
        // An empty text is a value where it is no secret.
        unanswered.retain(|one| matches!(one.answer, NoAnswer::Unknown | NoAnswer::Unlisted));
        Ok(Resolved { conf: Cow::Owned(resolved), unanswered })
    }
}
