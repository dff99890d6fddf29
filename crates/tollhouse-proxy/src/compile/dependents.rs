//! Index of the routes that must be recompiled when a referenced object changes.

use hashbrown::{HashMap, HashSet};
use tollhouse_model::{Id, Route};

/// Routes by the service and plugin config that they reference. Missing objects are indexed too.
#[derive(Debug, Default)]
pub(super) struct Dependents {
    by_service: HashMap<Id, HashSet<Id>>,
    by_plugin_config: HashMap<Id, HashSet<Id>>,
    /// References of each route when it was last compiled.
    named: HashMap<Id, RouteReferences>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct RouteReferences {
    service: Option<Id>,
    plugin_config: Option<Id>,
}

impl Dependents {
    /// Records the current references of `route`.
    pub(super) fn note(&mut self, route: &Route) {
        let named = RouteReferences {
            service: route.service_id.clone(),
            plugin_config: route.plugin_config_id.clone(),
        };
        if self.named.get(&route.id) == Some(&named) {
            return;
        }
        self.forget(&route.id);
        link(&mut self.by_service, named.service.as_ref(), &route.id);
        link(&mut self.by_plugin_config, named.plugin_config.as_ref(), &route.id);
        self.named.insert(route.id.clone(), named);
    }

    pub(super) fn forget(&mut self, route: &Id) {
        let Some(named) = self.named.remove(route) else { return };
        unlink(&mut self.by_service, named.service.as_ref(), route);
        unlink(&mut self.by_plugin_config, named.plugin_config.as_ref(), route);
    }

    pub(super) fn routes_by_service(&self, service: &Id) -> impl Iterator<Item = Id> {
        self.by_service.get(service).into_iter().flatten().cloned()
    }

    pub(super) fn routes_by_plugin_config(&self, config: &Id) -> impl Iterator<Item = Id> {
        self.by_plugin_config.get(config).into_iter().flatten().cloned()
    }
}

fn link(index: &mut HashMap<Id, HashSet<Id>>, named: Option<&Id>, route: &Id) {
    if let Some(named) = named {
        index.entry(named.clone()).or_default().insert(route.clone());
    }
}

fn unlink(index: &mut HashMap<Id, HashSet<Id>>, named: Option<&Id>, route: &Id) {
    let Some(named) = named else { return };
    if let Some(routes) = index.get_mut(named) {
        routes.remove(route);
        if routes.is_empty() {
            index.remove(named);
        }
    }
}
