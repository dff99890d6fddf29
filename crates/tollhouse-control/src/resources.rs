//! From the declarative file to the published snapshot: read, compare, compile, publish, report.
//!
//! The one code path for the start, for a change of the file and for SIGHUP. A file that cannot be
//! read at all changes nothing.

use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use serde_json::{Value, json};
use tollhouse_config::{Changes, Document, Fingerprints, Format, declarative, diff};
use tollhouse_model::{Kind, Problem, Problems};
use tollhouse_net::resolve::Resolver;
use tollhouse_plugin::{Catalogue, Services};
use tollhouse_proxy::{Change, Compiler, Settings, Snapshot, SnapshotCell};
use tollhouse_telemetry::Metrics;
use tollhouse_upstream::{HealthSupervisor, WarmUps};

use crate::configuration::{Configuration, ObjectSource, Status};
use crate::feed::stored::Known;
use crate::metrics::ModifyIndexes;
use crate::registry::RunningRegistry;
use crate::registry::nodes::RegistrySource;
use crate::settings::descriptors::Descriptors;
use crate::vitals::Vitals;

/// Problems written to the log after one change; the control API lists all of them.
const PROBLEMS_LOGGED_MAX: usize = 20;

/// Where resources come from.
#[derive(Debug, Clone)]
pub enum Source {
    /// A file, watched.
    File(PathBuf),
    /// The store in this folder, written by the Admin API.
    Store(PathBuf),
    /// Whole documents that the Admin API takes.
    Documents,
}

impl Source {
    /// What stands in the place of etcd, in one word or two.
    pub fn store_name(&self) -> &'static str {
        match self {
            Source::File(_) => "file",
            Source::Store(_) => "embedded store",
            Source::Documents => "memory",
        }
    }

    /// What people call it.
    pub fn name(&self) -> String {
        match self {
            Source::File(path) => path.display().to_string(),
            Source::Store(folder) => format!("the store in {}", folder.display()),
            Source::Documents => "documents put to /apisix/admin/configs".to_owned(),
        }
    }
}

/// The configuration's way into service.
#[derive(Debug)]
pub struct Resources {
    source: Source,
    fingerprints: Arc<Fingerprints>,
    compiler: Compiler,
    metrics: Arc<Metrics>,
    drivers: Drivers,
    configuration: Arc<Configuration>,
    document_problems: Problems,
    /// All problems, as the control API tells them.
    listed: Listed,
    /// The file as it was read last.
    seen: Option<FileMark>,
    /// Why the last document could not be read at all; empty when it could.
    refused: Problems,
    /// Revision and number of routes.
    in_service: (u64, usize),
    /// The objects of the store.
    known: Known,
}

/// Problems in the control API's words, made anew only where they differ.
#[derive(Debug, Default)]
struct Listed {
    /// The compiler's version of its problems; `None` when those of the document have changed.
    version: Option<u64>,
    problems: Arc<[Value]>,
}

/// Tells one text of a file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileMark {
    bytes: usize,
    hash: u64,
}

impl FileMark {
    fn of(text: &str) -> Self {
        static SEED: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        Self { bytes: text.len(), hash: SEED.hash_one(text) }
    }
}

/// What the control side shares with the resources.
#[derive(Debug, Clone)]
pub struct Shared {
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// What changes nodes beside requests.
    pub drivers: Drivers,
    /// What the control API tells.
    pub configuration: Arc<Configuration>,
    /// The plugins that exist.
    pub catalogue: Arc<Catalogue>,
    /// What the process offers them.
    pub services: Arc<Services>,
    /// Where the revisions of objects are noted, for the page of metrics.
    pub indexes: Arc<ModifyIndexes>,
    /// Which parts of the process are down.
    pub vitals: Arc<Vitals>,
    /// How many files each part may open.
    pub descriptors: Descriptors,
}

/// Who changes the nodes of upstreams beside requests; told about every snapshot.
#[derive(Debug, Clone)]
pub struct Drivers {
    /// Health checks.
    pub health: Arc<HealthSupervisor>,
    /// Slow start.
    pub warm_ups: Arc<WarmUps>,
    /// Instances of the registry.
    pub registry: Arc<RegistrySource>,
}

impl Drivers {
    /// Drivers that have nothing to drive yet.
    pub fn new(health: Arc<HealthSupervisor>) -> Self {
        Self { health, warm_ups: Arc::default(), registry: Arc::default() }
    }

    /// Brings the instances of this process' registry to the upstreams that name them, from now on.
    ///
    /// # Errors
    /// The thread for that cannot be started.
    pub fn follow(&self, registry: Option<&RunningRegistry>) -> std::io::Result<()> {
        let Some(registry) = registry else { return Ok(()) };
        self.registry.connect(Arc::new(registry.handle.clone()));
        self.registry.start()
    }

    /// Starts health checks and slow start, for as long as the runtime lasts.
    pub fn start(&self) {
        let Self { health, warm_ups, .. } = self.clone();
        tokio::spawn(async move { health.run().await });
        tokio::spawn(async move { warm_ups.run().await });
    }

    /// Takes what the snapshot that is about to serve changes.
    fn take(&self, compiler: &mut Compiler) {
        let changes = compiler.take_driven_changes();
        self.registry.change_upstreams(&changes);
        self.warm_ups.change_upstreams(&changes);
        self.health.change_upstreams(&changes);
    }
}

impl Resources {
    /// Nothing in service yet.
    pub fn new(
        source: Source,
        settings: &Settings,
        resolver: Arc<Resolver>,
        shared: Shared,
    ) -> Self {
        Self {
            source,
            fingerprints: Arc::default(),
            compiler: Compiler::new(settings, resolver, shared.catalogue, shared.services),
            metrics: shared.metrics,
            drivers: shared.drivers,
            configuration: shared.configuration,
            document_problems: Problems::new(),
            listed: Listed::default(),
            seen: None,
            refused: Problems::new(),
            in_service: (0, 0),
            known: Known::default(),
        }
    }

    /// Reads the file for the first time, if there is one.
    ///
    /// # Errors
    /// The document cannot be read at all; single bad objects are no error.
    pub fn load(&mut self) -> Result<Arc<Snapshot>, Problems> {
        let Source::File(path) = &self.source else { return Ok(self.start_with(Vec::new())) };
        let text = declarative::read_text(path)?;
        self.seen = Some(FileMark::of(&text));
        let document = declarative::parse(&text, Format::of(path), &environment)?;
        let snapshot = self.apply(document).unwrap_or_else(|| self.compiler.apply([]));
        self.drivers.take(&mut self.compiler);
        self.report(&snapshot, Telling::Aloud);
        self.configuration.set_ready();
        Ok(snapshot)
    }

    /// Begins with these objects, or begins anew with them: what was there beside them goes.
    pub fn start_with(&mut self, mut everything: Vec<Change>) -> Arc<Snapshot> {
        self.known.replace_by(&mut everything);
        let snapshot = self.compiler.apply(everything);
        self.drivers.take(&mut self.compiler);
        self.report(&snapshot, Telling::Aloud);
        if !matches!(self.source, Source::Documents) {
            self.configuration.set_ready();
        }
        snapshot
    }

    /// The document in service.
    pub fn document(&self) -> Arc<Fingerprints> {
        Arc::clone(&self.fingerprints)
    }

    /// The file to watch, if there is one.
    pub fn file(&self) -> Option<&Path> {
        match &self.source {
            Source::File(path) => Some(path),
            Source::Store(_) | Source::Documents => None,
        }
    }

    /// Puts changed objects into service.
    pub fn follow(&mut self, changes: Vec<Change>, cell: &SnapshotCell) {
        if changes.is_empty() {
            return;
        }
        let started = Instant::now();
        self.known.note(&changes);
        let snapshot = self.compiler.apply(changes);
        self.publish(snapshot, started, cell, Telling::Quietly);
    }

    /// Puts all objects of the store into service, after a gap.
    pub fn follow_all(&mut self, mut everything: Vec<Change>, cell: &SnapshotCell) {
        let started = Instant::now();
        self.known.replace_by(&mut everything);
        let snapshot = self.compiler.apply(everything);
        self.publish(snapshot, started, cell, Telling::Aloud);
    }

    /// Puts a whole document into service, instead of the one before.
    pub fn replace(&mut self, text: &str, cell: &SnapshotCell) {
        let started = Instant::now();
        // Whoever may put documents may not read what the process was started with.
        match declarative::parse_literal(text) {
            Ok(document) => {
                if let Some(snapshot) = self.apply(document) {
                    self.publish(snapshot, started, cell, Telling::Aloud);
                }
                // A document that says nothing is a configuration too.
                self.configuration.set_ready();
            }
            Err(problems) => self.refuse(problems),
        }
    }

    /// Reads the source again and publishes what changed. When it cannot be read at all, everything
    /// keeps serving as it was. A file that says what it said is not taken apart.
    pub fn reload(&mut self, cell: &SnapshotCell) {
        let started = Instant::now();
        let Some(path) = self.file() else { return };
        let format = Format::of(path);
        let text = match declarative::read_text(path) {
            Ok(text) => text,
            Err(problems) => {
                self.seen = None;
                return self.refuse(problems);
            }
        };
        if self.seen.replace(FileMark::of(&text)) == Some(FileMark::of(&text)) {
            return;
        }
        let document = match declarative::parse(&text, format, &environment) {
            Ok(document) => document,
            Err(problems) => return self.refuse(problems),
        };
        let was_refused = !std::mem::take(&mut self.refused).is_empty();
        let Some(snapshot) = self.apply(document) else {
            if was_refused {
                tracing::info!("resources can be read again, and say what is in service");
                self.tell();
            }
            return;
        };
        self.publish(snapshot, started, cell, Telling::Aloud);
    }

    fn publish(
        &mut self,
        snapshot: Arc<Snapshot>,
        started: Instant,
        cell: &SnapshotCell,
        telling: Telling,
    ) {
        // Before it serves: an upstream of the registry then has its nodes from the first request.
        self.drivers.take(&mut self.compiler);
        cell.publish(Arc::clone(&snapshot));
        let elapsed_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.metrics.process().snapshot_compile_duration.observe_us(elapsed_us);
        self.report(&snapshot, telling);
    }

    /// Tells about a document that cannot be read at all, once for each reason.
    fn refuse(&mut self, problems: Problems) {
        if problems == self.refused {
            return;
        }
        for problem in problems.iter() {
            tracing::error!("resources not changed: {problem}");
        }
        self.refused = problems;
        self.tell();
    }

    /// Compiles what differs from the last document; `None` when nothing does.
    fn apply(&mut self, document: Document) -> Option<Arc<Snapshot>> {
        let changes = diff(&self.fingerprints, &document);
        let problems_changed = self.document_problems != document.problems;
        if problems_changed {
            self.document_problems = document.problems.clone();
            self.listed.version = None;
        }
        if changes.is_empty() && !problems_changed {
            return None;
        }
        let changes = expand(changes, &document);
        self.fingerprints = Arc::new(self.fingerprints.followed_by(&document));
        self.configuration.set_objects(ObjectSource::Document(Arc::clone(&self.fingerprints)));
        Some(self.compiler.apply(changes))
    }

    /// Tells log, metrics and control API about a new snapshot.
    fn report(&mut self, snapshot: &Snapshot, telling: Telling) {
        self.in_service = (snapshot.revision, snapshot.router.len());
        self.tell();
        let problems = self.listed.problems.len();
        if telling == Telling::Aloud {
            for problem in self.all_problems().take(PROBLEMS_LOGGED_MAX) {
                tracing::warn!("{problem}");
            }
            let more = problems.saturating_sub(PROBLEMS_LOGGED_MAX);
            if more > 0 {
                tracing::warn!(more, "further problems are listed by the control API");
            }
            tracing::info!(
                revision = snapshot.revision,
                routes = snapshot.router.len(),
                problems,
                "configuration in service"
            );
        }
        let process = self.metrics.process();
        process.snapshots_published.increment();
        process.config_revision.set(i64::try_from(snapshot.revision).unwrap_or(i64::MAX));
        process.config_problems.set(i64::try_from(problems).unwrap_or(i64::MAX));
    }

    /// Brings what the control API tells up to date.
    fn tell(&mut self) {
        let version = Some(self.compiler.problems_version());
        if self.listed.version != version {
            let problems = listed(self.all_problems());
            self.listed = Listed { version, problems };
        }
        let (revision, routes) = self.in_service;
        self.configuration.set(Status {
            revision,
            routes,
            problems: Arc::clone(&self.listed.problems),
            refused: listed(self.refused.iter()),
        });
    }

    fn all_problems(&self) -> impl Iterator<Item = &Problem> {
        let of_objects = self.compiler.problems().flat_map(|(_, problems)| problems.iter());
        self.document_problems.iter().chain(of_objects)
    }
}

fn listed<'a>(problems: impl Iterator<Item = &'a Problem>) -> Arc<[Value]> {
    let object = |problem: &Problem| {
        json!({
            "path": problem.path, "value": problem.value,
            "reason": problem.reason, "hint": problem.hint,
        })
    };
    problems.map(object).collect()
}

fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Whether the log tells about a change: single writes come by the thousand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Telling {
    Aloud,
    Quietly,
}

/// The compiler's changes. A kind whose order changed is taken out and put in anew, since the order
/// of insertion decides between routes that are otherwise alike.
fn expand(changes: Changes, document: &Document) -> Vec<Change> {
    let is_rearranged = |kind: Kind| changes.rearranged.contains(&kind);
    let mut expanded: Vec<Change> = Vec::new();
    for (kind, id) in &changes.deletes {
        expanded.push(Change::Delete { kind: *kind, id: id.clone() });
    }
    let rearranged = document.items.iter().filter(|item| is_rearranged(item.kind));
    expanded.extend(
        rearranged.clone().map(|item| Change::Move { kind: item.kind, id: item.id.clone() }),
    );
    for item in &changes.upserts {
        expanded.push(Change::Upsert {
            kind: item.kind,
            id: item.id.clone(),
            value: item.value(),
            path: item.path.clone(),
        });
    }
    expanded
}
