//! The kinds of objects that a configuration holds.

use std::fmt;

/// What an object is; ordered as a configuration is best read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A route.
    Route,
    /// A service.
    Service,
    /// An upstream.
    Upstream,
    /// A plugin config.
    PluginConfig,
    /// A global rule.
    GlobalRule,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 5] =
        [Kind::Route, Kind::Service, Kind::Upstream, Kind::PluginConfig, Kind::GlobalRule];

    /// The name of its collection, as in documents and paths: `routes`, `plugin_configs`, ….
    pub fn plural(self) -> &'static str {
        match self {
            Kind::Route => "routes",
            Kind::Service => "services",
            Kind::Upstream => "upstreams",
            Kind::PluginConfig => "plugin_configs",
            Kind::GlobalRule => "global_rules",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.plural())
    }
}
