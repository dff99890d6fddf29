//! Plugin `springCloud`: sends requests to the nodes of its selectors, or to the instances of a
//! service in the gateway's own registry.

use tollhouse_shenyu::matching::RpcType;
use tollhouse_shenyu::model::DiscoveryUpstreams;

use crate::plugin::prelude::*;
use crate::shared::forward;
use crate::shared::nodes::{DivideNode, DivideRule, HandleNode, discovered, gray_alone, in_handle};
use crate::target::Nodes;

#[derive(Debug)]
pub(crate) struct SpringCloud(DivideRule);

impl ShenyuPlugin for SpringCloud {
    const ROW: Row = Row::harmless("springCloud", 200)
        .at(Stage::Proxy(RpcType::SpringCloud))
        .with(Seed::new("8", "Proxy"));

    fn compile(place: &Place<'_>, resources: &mut Resources<'_>) -> CompileResult<Self> {
        // Calls are not retried.
        let rule = DivideRule { retries: 0, ..DivideRule::read(place.handle())? };
        let discovery = place.discovery.map(|discovery| &**discovery);
        let read = SpringCloudSelector::read(place.selector.handle.as_deref(), discovery)
            .map_err(|error| place.wrong_selector(error.into()))?;
        let nodes = match read.nodes.is_empty() {
            false => Nodes::Listed(read.nodes),
            true => {
                Nodes::registered(&read.service_id).map_err(|error| place.wrong_selector(error))?
            }
        };
        resources.add_target(place, RpcType::SpringCloud, &rule, &nodes)?;
        Ok(Self(rule).into())
    }

    fn check_handle(handle: &str) -> Result<(), BuildError> {
        Ok(DivideRule::read(Some(handle)).map(drop)?)
    }

    async fn act<'o>(self: &Arc<Self>, run: &mut Run<'_, '_>) -> Verdict<'o> {
        forward::forward(&self.0, run)
    }

    fn explain(&self, preview: &mut Preview<'_>) -> Prediction {
        forward::explain(&self.0, preview)
    }

    fn needs(&self) -> Needs<'_> {
        Needs::Path(&self.0)
    }
}

/// Handle of a `springCloud` selector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpringCloudSelector {
    /// Service whose instances are used if no nodes are known; empty if unset.
    pub service_id: String,
    /// Nodes that services registered themselves, or that the handle lists. They take precedence
    /// over the service's instances.
    pub nodes: Vec<DivideNode>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SpringCloudHandle {
    #[serde(deserialize_with = "lenient::or_default")]
    service_id: String,
    /// Whether gray nodes are preferred.
    #[serde(deserialize_with = "lenient::flag")]
    gray: Option<bool>,
    #[serde(deserialize_with = "lenient::or_default")]
    divide_upstreams: Vec<HandleNode>,
}

impl SpringCloudSelector {
    /// Reads a selector's handle together with its discovery data.
    ///
    /// # Errors
    ///
    /// If the handle or an enabled node cannot be read.
    pub fn read(
        handle: Option<&str>,
        discovery: Option<&DiscoveryUpstreams>,
    ) -> Result<Self, HandleError> {
        let written: SpringCloudHandle = handle::read(handle)?;
        let nodes = match discovery.filter(|found| !found.upstream_data_list.is_empty()) {
            Some(discovery) => discovered(discovery)?,
            None => in_handle(&written.divide_upstreams)?,
        };
        let nodes = if written.gray == Some(true) { gray_alone(nodes) } else { nodes };
        Ok(Self { service_id: written.service_id.trim().to_owned(), nodes })
    }
}
