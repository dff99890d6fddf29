//! Way of the configuration from a feed's events to the published snapshot: diff, compile, publish,
//! report.
//!
//! An unreadable document changes nothing. An invalid object is set aside with its problem.

pub(crate) mod dangling;
pub mod drivers;
mod known_objects;
pub mod serving;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::watch;
use tollhouse_config::declarative::ShenyuItem;
use tollhouse_config::{Changes, Document, Fingerprints, diff};
use tollhouse_model::{Kind, Problem, Problems};
use tollhouse_net::resolve::Resolver;
use tollhouse_proxy::{Change, Compiler, Settings, ShenyuChange, Snapshot, SnapshotCell};
use tollhouse_stdx::LogLimit;
use tollhouse_telemetry::Metrics;

use self::dangling::Dangling;
use self::drivers::Drivers;
pub use self::known_objects::KnownObjects;
use self::serving::Serving;

use crate::certificate_ends::CertificateEnds;
use crate::configuration::{Configuration, ObjectSource, Status};
use crate::feed::objects::Objects;
use crate::feed::{Event, Reading};
use crate::plugins::PluginParts;
use crate::secret_managers::SecretManagers;

/// Limit of logged problems per change; the control API lists all.
const PROBLEMS_LOGGED_MAX: usize = 20;

/// State of the configuration between feed and data plane.
#[derive(Debug)]
pub struct Resources {
    fingerprints: Arc<Fingerprints>,
    compiler: Compiler,
    metrics: Arc<Metrics>,
    drivers: Drivers,
    configuration: Arc<Configuration>,
    /// ShenYu's objects in the current document.
    shenyu: Vec<ShenyuItem>,
    documents: Arc<watch::Sender<Arc<Fingerprints>>>,
    document_problems: Problems,
    /// All problems, as the control API shows them.
    listed: ProblemList,
    /// Problems of an unreadable last document; empty if it was readable.
    refused: Problems,
    in_service: InService,
    known: KnownObjects,
    dangling: Dangling,
    /// Secret managers, and their current problems.
    secret_managers: (Arc<SecretManagers>, Vec<Problem>),
    /// Problems of upstreams whose registry is not configured.
    unconfigured: Vec<Problem>,
    /// Expiry of certificates, with the compiler's version of it.
    certificates: (Arc<CertificateEnds>, u64),
    /// Limits log lines about problems of single changes.
    new_problems: LogLimit,
}

/// Size and revision of the snapshot in service.
#[derive(Debug, Clone, Copy, Default)]
struct InService {
    revision: u64,
    routes: usize,
}

/// Problems as JSON, rebuilt only when they change.
#[derive(Debug, Default)]
struct ProblemList {
    /// Versions of the problems of the compiler, of dangling references, and of secret managers.
    /// `None` forces a rebuild, because the document's problems have changed.
    version: Option<(u64, u64, u64)>,
    problems: Arc<[Value]>,
}

/// Inputs of [`Resources::new`].
pub struct ResourceInputs<'a> {
    pub plugins: PluginParts,
    pub serving: Serving,
    pub metrics: Arc<Metrics>,
    pub certificates: Arc<CertificateEnds>,
    pub settings: &'a Settings,
    pub resolver: Arc<Resolver>,
}

impl Resources {
    pub fn new(inputs: ResourceInputs<'_>) -> Self {
        let ResourceInputs { plugins, serving, metrics, certificates, settings, resolver } = inputs;
        let PluginParts { catalogue, services, secret_managers } = plugins;
        let Serving { drivers, configuration, documents } = serving;
        Self {
            fingerprints: Arc::default(),
            compiler: Compiler::new(settings, resolver, catalogue, services),
            metrics,
            drivers,
            configuration,
            shenyu: Vec::new(),
            documents,
            document_problems: Problems::new(),
            listed: ProblemList::default(),
            refused: Problems::new(),
            in_service: InService::default(),
            known: KnownObjects::default(),
            dangling: Dangling::default(),
            secret_managers: (secret_managers, Vec::new()),
            unconfigured: Vec::new(),
            certificates: (certificates, 0),
            new_problems: LogLimit::new(Duration::from_secs(1)),
        }
    }

    /// Numbers snapshots from `revision + 1` on, because a predecessor has served up to `revision`.
    pub fn continue_after(&mut self, revision: u64) {
        self.compiler.continue_after(revision);
    }

    /// Compiles the first snapshot: the contents of the source, or an empty snapshot if there is
    /// none yet.
    ///
    /// # Errors
    /// If the document cannot be read at all. Invalid single objects are not an error.
    pub fn begin(&mut self, first: Option<Event>) -> Result<Arc<Snapshot>, Problems> {
        let is_ready = first.is_some();
        let snapshot = match first {
            Some(Event::Document(reading)) => self.compile_document(reading.document?),
            Some(Event::Everything(mut everything)) => {
                self.known.replace_by(&mut everything);
                Some(self.compile_objects(everything.into_changes_ahead()))
            }
            Some(Event::Changes(changes)) => {
                self.known.note(&changes);
                self.dangling.note(&changes);
                changes.iter().for_each(|change| self.secret_managers.0.note(change));
                Some(self.compiler.apply(changes))
            }
            None => None,
        };
        let snapshot = snapshot.unwrap_or_else(|| self.compiler.apply([]));
        self.drivers.take_changes(&mut self.compiler);
        self.report(&snapshot);
        self.log_problems();
        if is_ready {
            self.configuration.set_ready();
        }
        Ok(snapshot)
    }

    /// Puts an event's changes into service.
    pub fn put_into_service(&mut self, event: Event, cell: &SnapshotCell) {
        match event {
            Event::Changes(changes) => self.change(changes, cell),
            Event::Everything(everything) => self.replace_objects(everything, cell),
            Event::Document(reading) => self.replace_document(reading, cell),
        }
    }

    /// Logs the revision and size of the configuration in service.
    pub fn log_in_service(&self) {
        let InService { revision, routes } = self.in_service;
        let problems = self.listed.problems.len();
        tracing::info!(revision, routes, problems, "configuration in service");
    }

    fn change(&mut self, changes: Vec<Change>, cell: &SnapshotCell) {
        if changes.is_empty() {
            return;
        }
        let began = Instant::now();
        self.known.note(&changes);
        self.dangling.note(&changes);
        changes.iter().for_each(|change| self.secret_managers.0.note(change));
        let snapshot = self.compiler.apply(changes);
        let listed = Arc::clone(&self.listed.problems);
        // The new revision is not logged, because single writes may come by the thousand.
        self.publish(snapshot, began, cell);
        if !Arc::ptr_eq(&listed, &self.listed.problems) {
            self.log_new_problems(&listed);
        }
    }

    /// Logs new problems, because external writers of a store get no API answer that reports them.
    /// At most one change per second is examined.
    fn log_new_problems(&self, before: &[Value]) {
        let before: hashbrown::HashSet<_> = before.iter().map(text_of).collect();
        let is_new = |problem: &&Value| !before.contains(&text_of(problem));
        let mut new = self.listed.problems.iter().filter(is_new).peekable();
        if new.peek().is_none() || self.new_problems.admit(Instant::now()).is_none() {
            return;
        }
        for problem in new.take(PROBLEMS_LOGGED_MAX) {
            let (path, reason) = text_of(problem);
            tracing::warn!("{path}: {reason}");
        }
    }

    /// Compiles objects of a store while they are parsed.
    fn compile_objects(&mut self, changes: impl Iterator<Item = Change>) -> Arc<Snapshot> {
        let managers = Arc::clone(&self.secret_managers.0);
        let dangling = &mut self.dangling;
        let changes = changes.inspect(|change| {
            dangling.note_one(change);
            managers.note(change);
        });
        self.compiler.apply(changes)
    }

    fn replace_objects(&mut self, mut everything: Objects, cell: &SnapshotCell) {
        let began = Instant::now();
        self.known.replace_by(&mut everything);
        let snapshot = self.compile_objects(everything.into_changes());
        self.publish(snapshot, began, cell);
        self.configuration.set_ready();
        self.log_problems();
        self.log_in_service();
    }

    /// Puts a document into service. An unreadable document changes nothing.
    fn replace_document(&mut self, reading: Reading, cell: &SnapshotCell) {
        let document = match reading.document {
            Ok(document) => document,
            Err(problems) => return self.refuse(problems),
        };
        let was_refused = !std::mem::take(&mut self.refused).is_empty();
        match self.compile_document(document) {
            Some(snapshot) => {
                self.publish(snapshot, reading.began, cell);
                self.log_problems();
                self.log_in_service();
            }
            None if was_refused => {
                tracing::info!(
                    "resources can be read again, and equal the configuration in service"
                );
                self.update_status();
            }
            None => {}
        }
        // An empty document is a configuration too.
        self.configuration.set_ready();
    }

    /// Waits until a secret manager's value or failure has changed.
    pub async fn secrets_changed(&self) {
        self.secret_managers.0.changed().await;
    }

    /// Recompiles objects whose secrets have changed, and puts them into service.
    pub fn put_secrets_into_service(&mut self, cell: &SnapshotCell) {
        let began = Instant::now();
        let changes = self.secret_managers.0.take_changes();
        if changes.is_empty() {
            self.update_status();
            return;
        }
        let snapshot = self.compiler.apply(changes);
        self.publish(snapshot, began, cell);
    }

    fn publish(&mut self, snapshot: Arc<Snapshot>, began: Instant, cell: &SnapshotCell) {
        // Done before publishing, so that an upstream with registry nodes has them from the first
        // request.
        self.drivers.take_changes(&mut self.compiler);
        cell.publish(Arc::clone(&snapshot));
        let elapsed_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.metrics.process().snapshot_compile_duration.observe_us(elapsed_us);
        self.report(&snapshot);
    }

    /// Reports an unreadable document, once per reason, because a file that is being written is
    /// read repeatedly.
    fn refuse(&mut self, problems: Problems) {
        if problems == self.refused {
            return;
        }
        for problem in problems.iter() {
            tracing::error!("resources not changed: {problem}");
        }
        self.refused = problems;
        self.update_status();
    }

    /// Compiles the differences from the last document; `None` if nothing differs.
    fn compile_document(&mut self, document: Document) -> Option<Arc<Snapshot>> {
        let changes = diff(&self.fingerprints, &document);
        let problems_changed = self.document_problems != document.problems;
        if problems_changed {
            self.document_problems = document.problems.clone();
            self.listed.version = None;
        }
        let shenyu = document.shenyu.as_ref().filter(|items| **items != self.shenyu);
        if changes.is_empty() && !problems_changed && shenyu.is_none() {
            return None;
        }
        let mut of_shenyu = Vec::new();
        if let Some(items) = shenyu {
            of_shenyu.extend(replace_shenyu(items));
            self.shenyu.clone_from(items);
        }
        self.fingerprints = Arc::new(self.fingerprints.followed_by(&document));
        self.configuration.set_objects(ObjectSource::Document(Arc::clone(&self.fingerprints)));
        self.documents.send_replace(Arc::clone(&self.fingerprints));
        let managers = Arc::clone(&self.secret_managers.0);
        let dangling = &mut self.dangling;
        let changes = expand(&changes, &document).inspect(|change| {
            managers.note(change);
            dangling.note_of_document(change);
        });
        Some(self.compiler.apply(changes.chain(of_shenyu)))
    }

    /// Updates the metrics and the control API for a new snapshot.
    fn report(&mut self, snapshot: &Snapshot) {
        let version = self.compiler.certificates_version();
        if std::mem::replace(&mut self.certificates.1, version) != version {
            let ends = self.compiler.certificate_ends();
            self.certificates.0.set(ends.map(|(id, end)| (id.as_str(), end)));
        }
        self.in_service = InService { revision: snapshot.revision, routes: snapshot.router.len() };
        self.update_status();
        let process = self.metrics.process();
        process.snapshots_published.increment();
        process.config_revision.set(i64::try_from(snapshot.revision).unwrap_or(i64::MAX));
        let problems = self.listed.problems.len();
        process.config_problems.set(i64::try_from(problems).unwrap_or(i64::MAX));
    }

    fn log_problems(&self) {
        for problem in self.all_problems().take(PROBLEMS_LOGGED_MAX) {
            tracing::warn!("{problem}");
        }
        let more = self.listed.problems.len().saturating_sub(PROBLEMS_LOGGED_MAX);
        if more > 0 {
            tracing::warn!(more, "further problems are listed by the control API");
        }
    }

    /// Updates the state that the control API shows.
    fn update_status(&mut self) {
        let managers = &self.secret_managers.0;
        let version =
            (self.compiler.problems_version(), self.dangling.version(), managers.version());
        let version = Some(version);
        let unconfigured = self.drivers.sources.problems();
        let is_same = unconfigured == self.unconfigured;
        self.unconfigured = unconfigured;
        if self.listed.version != version || !is_same {
            self.secret_managers.1 = managers.problems();
            let problems = problems_to_json(self.all_problems());
            self.listed = ProblemList { version, problems };
        }
        let InService { revision, routes } = self.in_service;
        self.configuration.set(Status {
            revision,
            routes,
            problems: Arc::clone(&self.listed.problems),
            refused: problems_to_json(self.refused.iter()),
            unused: self.dangling.unused(),
        });
    }

    fn all_problems(&self) -> impl Iterator<Item = &Problem> {
        let of_objects = self.compiler.problems().flat_map(|(_, problems)| problems.iter());
        let of_shenyu = self.compiler.shenyu_problems().iter();
        let dangling = self.dangling.problems();
        let all = self.document_problems.iter().chain(of_objects).chain(of_shenyu);
        all.chain(dangling).chain(&self.secret_managers.1).chain(&self.unconfigured)
    }
}

/// Returns the path and reason of a problem in JSON form.
fn text_of(problem: &Value) -> (&str, &str) {
    let text = |field: &str| problem[field].as_str().unwrap_or_default();
    (text("path"), text("reason"))
}

/// Returns the problems in the words of the control API.
pub(crate) fn problems_to_json<'a>(problems: impl Iterator<Item = &'a Problem>) -> Arc<[Value]> {
    let object = |problem: &Problem| {
        json!({
            "severity": problem.severity.name(), "path": problem.path, "value": problem.value,
            "reason": problem.reason, "hint": problem.hint,
        })
    };
    problems.map(object).collect()
}

/// Returns the changes that replace all of ShenYu's objects by `items`.
pub fn replace_shenyu(items: &[ShenyuItem]) -> impl Iterator<Item = Change> {
    let put = |item: &ShenyuItem| ShenyuChange::Put {
        kind: item.kind,
        id: item.id.clone(),
        text: Arc::clone(&item.text),
        path: item.path.clone(),
    };
    std::iter::once(ShenyuChange::Clear).chain(items.iter().map(put)).map(Change::Shenyu)
}

/// Returns the compiler changes for a diff. A kind whose order changed is moved completely, because
/// insertion order decides between otherwise equal routes.
///
/// Values are parsed lazily while the compiler takes them, because all values of a large document
/// at once would dominate the memory of a start.
pub fn expand<'d>(
    changes: &'d Changes,
    document: &'d Document,
) -> impl Iterator<Item = Change> + 'd {
    let deletes = changes.deletes.iter();
    let deletes = deletes.map(|(kind, id)| Change::Delete { kind: *kind, id: id.clone() });
    let upserts = changes.upserts.iter().map(|item| Change::Upsert {
        kind: item.kind,
        id: item.id.clone(),
        value: item.value(),
        path: item.path.clone(),
    });
    let withheld = changes.withheld.iter().map(|withheld| Change::Withheld {
        kind: withheld.kind,
        id: withheld.id.clone(),
        rest: withheld.rest(),
        path: withheld.path.clone(),
    });
    deletes.chain(moves(changes, document)).chain(upserts).chain(withheld)
}

/// Returns the move changes for all objects of reordered kinds, in the order of the document,
/// including withheld objects.
fn moves<'d>(changes: &'d Changes, document: &'d Document) -> impl Iterator<Item = Change> + 'd {
    let is_rearranged = |kind: &Kind| changes.rearranged.contains(kind);
    let mut withheld = document.withheld.iter().peekable();
    let end = document.items.len();
    let items = document.items.iter().map(|item| (item.kind, &item.id));
    let places = items.map(Some).chain([None]).enumerate().flat_map(move |(at, item)| {
        let mut here = Vec::new();
        while let Some(it) = withheld.next_if(|it| it.position <= at || at == end) {
            here.push((it.kind, &it.id));
        }
        here.into_iter().chain(item)
    });
    let places = places.filter(move |(kind, _)| is_rearranged(kind));
    places.map(|(kind, id)| Change::Move { kind, id: id.clone() })
}
