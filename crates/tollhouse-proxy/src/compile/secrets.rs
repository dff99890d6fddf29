//! Puts the values of secrets into confs. A secret without a value is none: its text, a reference
//! or what is sealed, must never be taken for it.

use std::borrow::Cow;

use serde_json::Value;
use tollhouse_model::encryption;
use tollhouse_model::secret::{NoAnswer, SecretSource, Unanswered, has_references, resolve_in};
use tollhouse_model::{Problem, Problems};
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
}

impl References<'_> {
    /// The conf with what it refers to.
    ///
    /// # Errors
    /// A secret has no value.
    pub(super) fn resolve<'c>(
        &self,
        conf: &'c Value,
        path: &str,
        problems: &mut Problems,
    ) -> Result<Cow<'c, Value>, Problem> {
        // What nothing opens would be taken for the secret itself, by whoever reads it.
        if let Some(field) = encryption::sealed_field(conf) {
            return Err(validation::unopened(format!("{path}.{field}")));
        }
        if !has_references(conf) {
            return Ok(Cow::Borrowed(conf));
        }
        let mut resolved = conf.clone();
        for unanswered in resolve_in(&mut resolved, self.source) {
            let Unanswered { field, reference, answer } = &unanswered;
            let reason = match answer {
                NoAnswer::Unknown => format!("nothing answers for {reference}"),
                NoAnswer::Empty => format!("what {reference} stands for is empty"),
            };
            if self.fields.contain(field) {
                // A reference that anybody can guess must not become the password.
                let hint = "it is never taken for the secret itself: give it a value";
                return Err(Problem::error(format!("{path}.{field}"), reason).with_hint(hint));
            }
            if *answer == NoAnswer::Unknown {
                let problem = Problem::warning(format!("{path}.{field}"), reason);
                problems.push(problem.with_hint("the text itself is taken as the value"));
            }
        }
        Ok(Cow::Owned(resolved))
    }
}
