//! Compilation of a configuration to a snapshot, as for serving, without a data plane.

use std::sync::Arc;

use serde_json::Value;
use tokio::runtime::Handle;
use tollhouse_config::declarative::ShenyuItem;
use tollhouse_config::{Fingerprints, diff};
use tollhouse_control::explain::text::Nearby;
use tollhouse_control::resources::{expand, replace_shenyu};
use tollhouse_control::trial;
use tollhouse_model::stream_route::ListenedPorts;
use tollhouse_model::{Id, Kind, Problems};
use tollhouse_proxy::{Change, Compiler, Settings, Snapshot};
use tollhouse_router::Mode;

use super::ExplainInput;

/// Variant of the configuration that is evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    /// The configuration exactly as the data plane would serve it.
    AsServed,
    /// A variant that shows why a route does not match: disabled routes are enabled, and the host
    /// is checked as an ordinary condition.
    Revealing,
}

#[derive(Debug)]
pub(super) struct Offline {
    /// Compiler, which holds the global rules and the problems of objects.
    pub(super) compiler: Compiler,
    /// Snapshot that a core of the data plane would serve.
    pub(super) snapshot: Arc<Snapshot>,
    /// Ports with a listener for stream routes.
    pub(super) listened: ListenedPorts,
    /// Disabled routes that are enabled in this view only.
    switched_off: Vec<Id>,
    /// All routes of the document, in its order.
    routes: Vec<Id>,
}

impl Offline {
    /// Compiles a document without resolving the names of nodes.
    pub(super) fn compile(loaded: &ExplainInput, runtime: &Handle, view: View) -> Self {
        let document = &loaded.document;
        let mut settings = loaded.settings.clone();
        // Without hosts in the index, routes of other hosts become candidates too.
        if view == View::Revealing && settings.router_mode == Mode::HostUri {
            settings.router_mode = Mode::Uri;
        }
        let services = tollhouse_control::plugins::bare_services(&loaded.skipped_plugins);
        let mut compiler = trial::compiler(&settings, services, runtime);
        let mut switched_off = Vec::new();
        let changes = diff(&Fingerprints::new(), document);
        let changes = expand(&changes, document).map(|mut change| {
            if view == View::Revealing {
                switched_off.extend(switch_on(&mut change));
            }
            change
        });
        let shenyu = document.shenyu.iter().flat_map(|items| replace_shenyu(items));
        let snapshot = compiler.apply(changes.chain(shenyu));
        let items = document.items.iter().map(|item| (item.kind, &item.id));
        let withheld = document.withheld.iter().map(|it| (it.kind, &it.id));
        let routes = items.chain(withheld).filter(|(kind, _)| *kind == Kind::Route);
        let routes = routes.map(|(_, id)| id.clone()).collect();
        let listened = settings.streams.listened.clone();
        Self { compiler, snapshot, listened, switched_off, routes }
    }

    /// Routes among which the nearest to a request is sought.
    pub(super) fn nearby(&self) -> Nearby<'_> {
        let Self { snapshot, routes, switched_off, .. } = self;
        Nearby { snapshot, routes, switched_off }
    }
}

/// Returns the problems that a gateway with these settings would find in objects of ShenYu.
///
/// # Errors
/// If no runtime can be created.
pub fn problems_of_shenyu(
    items: &[ShenyuItem],
    settings: &Settings,
    skipped_plugins: &[String],
) -> std::io::Result<Problems> {
    // Compiling nodes needs a runtime for name resolution, but no task of this runtime is ever run.
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let services = tollhouse_control::plugins::bare_services(skipped_plugins);
    let mut compiler = trial::compiler(settings, services, runtime.handle());
    compiler.apply(replace_shenyu(items));
    Ok(compiler.shenyu_problems().clone())
}

/// Enables a route with `status: 0`; returns its id if it was disabled.
fn switch_on(change: &mut Change) -> Option<Id> {
    let Change::Upsert { kind: Kind::Route, id, value: Ok(value), .. } = change else {
        return None;
    };
    let status = value.get_mut("status").filter(|status| status.as_i64() == Some(0))?;
    *status = Value::from(1);
    Some(id.clone())
}
