//! Objects that one action is compiled from.

use std::sync::Arc;

use tollhouse_shenyu::Kind;
use tollhouse_shenyu::model::{DiscoveryUpstreams, Plugin, Rule, Selector};

use crate::error::{BuildError, NodesError};
use crate::shared::nodes::{DivideNode, divide_nodes};

/// Rule, or selector that applies without rules, together with the objects it depends on.
#[derive(Debug, Clone)]
pub(crate) struct Place<'a> {
    pub(crate) plugin: &'a Arc<Plugin>,
    pub(crate) selector: &'a Arc<Selector>,
    pub(crate) rule: Option<&'a Arc<Rule>>,
    pub(crate) discovery: Option<&'a Arc<DiscoveryUpstreams>>,
}

impl Place<'_> {
    pub(crate) fn handle(&self) -> Option<&str> {
        self.rule.and_then(|rule| rule.handle.as_deref())
    }

    /// Returns the plugin's configuration.
    pub(crate) fn config(&self) -> Option<&str> {
        self.plugin.config.as_deref()
    }

    pub(crate) fn id(&self) -> &str {
        self.rule.map_or(&self.selector.id, |rule| &rule.id)
    }

    pub(crate) fn kind(&self) -> Kind {
        if self.rule.is_some() { Kind::Rule } else { Kind::Selector }
    }

    pub(crate) fn wrong_selector(&self, reason: NodesError) -> BuildError {
        BuildError::Selector { id: self.selector.id.clone(), reason }
    }

    pub(crate) fn nodes(&self) -> Result<Vec<DivideNode>, BuildError> {
        let discovery = self.discovery.map(|discovery| &**discovery);
        divide_nodes(self.selector.handle.as_deref(), discovery)
            .map_err(|error| self.wrong_selector(error.into()))
    }
}
