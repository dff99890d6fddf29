//! Resolves secrets in configurations. A secret without a value is an error, because neither the
//! text of its reference nor its sealed text may be used in its place.

use std::borrow::Cow;

use serde_json::Value;
use tollhouse_model::Problem;
use tollhouse_model::encryption;
use tollhouse_model::secret::{
    NoAnswer, SecretSource, UnresolvedReference, has_references, resolve_as,
};
use tollhouse_plugin::{Category, PluginType, validation};

/// Fields of a configuration that hold secrets.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fields<'a> {
    /// Every field, because the configuration identifies clients or protects a route.
    All,
    /// The named fields and the fields within them.
    Named(&'a [&'a str]),
}

impl Fields<'_> {
    /// Returns the secret fields of a plugin's configuration.
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

/// Treatment of the secret references in a configuration.
pub(super) struct References<'a> {
    pub source: Option<&'a dyn SecretSource>,
    pub fields: Fields<'a>,
    /// Schema of the configuration. A resolved value is read as the type that its field expects.
    pub schema: &'a Value,
}

/// A configuration with its references resolved.
pub(super) struct ResolvedConf<'c> {
    pub conf: Cow<'c, Value>,
    /// Unresolved references outside secret fields; their text stays in the configuration.
    pub unanswered: Vec<UnresolvedReference>,
}

impl<'c> ResolvedConf<'c> {
    fn unchanged(conf: &'c Value) -> Self {
        Self { conf: Cow::Borrowed(conf), unanswered: Vec::new() }
    }

    /// Returns the problem for the first unresolved reference, if the configuration was refused
    /// because of its text.
    pub(super) fn to_blame(&self, path: &str) -> Option<Problem> {
        let unanswered = self.unanswered.first()?;
        let problem = Problem::error(format!("{path}.{}", unanswered.field), unanswered.reason());
        Some(problem.with_hint("define a value: the text of the reference is invalid here"))
    }

    /// Returns the warnings for unresolved references in a configuration that is valid
    /// nevertheless.
    pub(super) fn warnings(&self, path: &str) -> impl Iterator<Item = Problem> {
        self.unanswered.iter().map(move |unanswered| {
            let path = format!("{path}.{}", unanswered.field);
            let problem = Problem::warning(path, unanswered.reason());
            problem.with_hint("the text of the reference is used as the value")
        })
    }
}

impl References<'_> {
    /// Replaces the references of a configuration by their values.
    ///
    /// # Errors
    /// If a secret has no value, or a value has another type than its field expects.
    pub(super) fn resolve<'c>(
        &self,
        conf: &'c Value,
        path: &str,
    ) -> Result<ResolvedConf<'c>, Problem> {
        // A plugin would take the sealed text for the secret itself.
        if let Some(field) = encryption::sealed_field(conf) {
            return Err(validation::unopened(format!("{path}.{field}")));
        }
        if !has_references(conf) {
            return Ok(ResolvedConf::unchanged(conf));
        }
        let mut resolved = conf.clone();
        let mut unanswered = resolve_as(&mut resolved, self.schema, self.source);
        for one in &unanswered {
            // The reference's text is easy to guess and must not become the password.
            let hint = match one.answer {
                _ if self.fields.contain(&one.field) => {
                    "the text of a reference is never used as a secret: define its value"
                }
                NoAnswer::NotA(_) => "define a value that is valid for this field",
                NoAnswer::Unknown | NoAnswer::Unlisted | NoAnswer::Empty => continue,
            };
            return Err(
                Problem::error(format!("{path}.{}", one.field), one.reason()).with_hint(hint)
            );
        }
        // Outside secret fields, an empty text is a valid value.
        unanswered.retain(|one| matches!(one.answer, NoAnswer::Unknown | NoAnswer::Unlisted));
        Ok(ResolvedConf { conf: Cow::Owned(resolved), unanswered })
    }
}
