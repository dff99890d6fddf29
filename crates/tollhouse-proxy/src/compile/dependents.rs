//! Which routes must be compiled anew when something they name changes.

use hashbrown::{HashMap, HashSet};
use tollhouse_model::{Id, Route};

/// Services and plugin configs, each with the routes that name it; known also while the named
/// object does not exist.
#[derive(Debug, Default)]
pub(super) struct Dependents {
    by_service: HashMap<Id, HashSet<Id>>,
    by_plugin_config: HashMap<Id, HashSet<Id>>,
    /// What each route named when it was last compiled.
    named: HashMap<Id, Named>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Named {
    service: Option<Id>,
    plugin_config: Option<Id>,
}

impl Dependents {
    /// Notes what `route` names now.
    pub(super) fn note(&mut self, route: &Route) {
        let named = Named {
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

    /// Forgets a route.
    pub(super) fn forget(&mut self, route: &Id) {
        let Some(named) = self.named.remove(route) else { return };
        unlink(&mut self.by_service, named.service.as_ref(), route);
        unlink(&mut self.by_plugin_config, named.plugin_config.as_ref(), route);
    }

    /// The routes that name the service.
    pub(super) fn routes_by_service(&self, service: &Id) -> impl Iterator<Item = Id> {
        self.by_service.get(service).into_iter().flatten().cloned()
    }

    /// The routes that name the plugin config.
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
