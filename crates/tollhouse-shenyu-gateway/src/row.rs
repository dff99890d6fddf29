//! Facts about a plugin of ShenYu that follow from its name: its place in the chain, its role in
//! matching, and its row in a new admin.

use tollhouse_shenyu::matching::{OnFault, Role, RpcType};

/// Plugin of ShenYu, served by this gateway or not.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    pub name: &'static str,
    /// Order as of ShenYu 2.7.2, and treatment of faulty objects.
    pub role: Role,
    /// Row of a new admin; `None` if ShenYu's admin does not list the plugin.
    pub seed: Option<Seed>,
    pub(crate) stage: Stage,
}

/// Row of a plugin in a new admin.
#[derive(Debug, Clone, Copy)]
pub struct Seed {
    /// Id in ShenYu's admin, a number; scripts use it.
    pub id: &'static str,
    /// Category in the menu.
    pub category: &'static str,
    pub enabled: bool,
    pub config: &'static str,
    /// Order in the row, if it differs from that of the plugin.
    pub sort: Option<i64>,
}

/// Position of a plugin relative to the proxies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Position by the order alone.
    InOrder,
    /// Position directly before the proxies, whatever the order.
    BeforeProxies,
    /// Position directly before the proxies, unless the order is lower.
    BeforeProxiesAtLatest,
    /// The plugin is a proxy, which sends requests of this type to nodes.
    Proxy(RpcType),
    /// Position after the proxies, because the plugin changes the node's response.
    Response,
}

impl Row {
    /// Describes a plugin that protects nodes: its faulty objects refuse requests.
    pub(crate) const fn protecting(name: &'static str, order: i64) -> Self {
        let role = Role { order, on_fault: OnFault::Refuse };
        Self { name, role, seed: None, stage: Stage::InOrder }
    }

    /// Describes a plugin that only modifies, records or forwards requests: its faulty objects are
    /// skipped.
    pub(crate) const fn harmless(name: &'static str, order: i64) -> Self {
        let role = Role { order, on_fault: OnFault::Skip };
        Self { role, ..Self::protecting(name, order) }
    }

    pub(crate) const fn at(self, stage: Stage) -> Self {
        Self { stage, ..self }
    }

    pub(crate) const fn with(self, seed: Seed) -> Self {
        Self { seed: Some(seed), ..self }
    }
}

impl Seed {
    /// Describes a row that is disabled and has no configuration.
    pub(crate) const fn new(id: &'static str, category: &'static str) -> Self {
        Self { id, category, enabled: false, config: "", sort: None }
    }

    pub(crate) const fn enabled(self) -> Self {
        Self { enabled: true, ..self }
    }

    pub(crate) const fn config(self, config: &'static str) -> Self {
        Self { config, ..self }
    }

    pub(crate) const fn sort(self, sort: i64) -> Self {
        Self { sort: Some(sort), ..self }
    }
}
