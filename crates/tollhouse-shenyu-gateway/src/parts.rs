//! Objects that a chain is compiled from.

use std::sync::Arc;

use tollhouse_shenyu::model::{
    AppAuth, DiscoveryUpstreams, Metadata, Plugin, ProxySelector, Rule, Selector,
};

/// Objects of one namespace.
pub(crate) struct Parts {
    pub(crate) plugins: Vec<Arc<Plugin>>,
    pub(crate) selectors: Vec<Arc<Selector>>,
    pub(crate) rules: Vec<Arc<Rule>>,
    pub(crate) metadata: Vec<Arc<Metadata>>,
    pub(crate) app_auths: Vec<Arc<AppAuth>>,
    pub(crate) proxy_selectors: Vec<Arc<ProxySelector>>,
    pub(crate) discovery: Vec<Arc<DiscoveryUpstreams>>,
}
