//! The watched file as a source: read after it changes or on request. Also the Admin API's
//! read-only view of the file.

use std::hash::BuildHasher;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use hashbrown::DefaultHashBuilder;
use tollhouse_admin::Mode;
use tollhouse_config::bootstrap::Secret;
use tollhouse_config::{Format, declarative};
use tollhouse_model::encryption::Keyring;
use tollhouse_store::{Location, Store};

use super::event::{AdminAccess, Event, Reading};
use super::mirror::Mirror;
use super::watch::WatchedFile;
use crate::context::ControlContext;
use crate::secrets;

/// Feed of a watched configuration file.
pub struct FileFeed {
    path: PathBuf,
    watched: WatchedFile,
    /// Mark of the text that was last read; `None` if reading failed.
    seen: Option<FileMark>,
    /// The Admin API's view; `None` if its listener is off.
    view: Option<View>,
}

/// The file's objects, mirrored into an in-memory store for the Admin API.
struct View {
    store: Arc<dyn Store>,
    keyring: Arc<Keyring>,
    key: Secret,
}

/// Length and hash of a file's text, to detect changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileMark {
    bytes: usize,
    hash: u64,
}

impl FileMark {
    fn new(text: &str) -> Self {
        static SEED: LazyLock<DefaultHashBuilder> = LazyLock::new(DefaultHashBuilder::default);
        Self { bytes: text.len(), hash: SEED.hash_one(text) }
    }
}

impl FileFeed {
    /// Reads the file and starts watching it.
    pub fn open(path: &Path, cx: &ControlContext) -> anyhow::Result<(Self, Event)> {
        // Watched before reading, so that a change in between is read twice rather than missed.
        let watched = WatchedFile::new(path.to_owned());
        let has_view = !cx.bootstrap.listen.admin.is_empty();
        let view = has_view.then(|| View::start(path, cx)).transpose()?;
        let mut feed = Self { path: path.to_owned(), watched, seen: None, view };
        let first = feed.look().expect("no text has been seen yet");
        Ok((feed, first))
    }

    /// Waits for the next content of the file.
    pub async fn next(&mut self) -> Event {
        loop {
            self.watched.changed().await;
            if let Some(event) = self.look() {
                return event;
            }
        }
    }

    /// Reads the file; `None` if its text is unchanged.
    pub fn look(&mut self) -> Option<Event> {
        let began = Instant::now();
        let document = match declarative::read_text(&self.path) {
            Ok(text) => {
                let mark = FileMark::new(&text);
                if self.seen.replace(mark) == Some(mark) {
                    return None;
                }
                declarative::parse(&text, Format::from_path(&self.path), &environment)
            }
            Err(problems) => {
                self.seen = None;
                Err(problems)
            }
        };
        Some(Event::Document(Reading { document, began }))
    }

    /// Returns the read-only data access for the Admin API; `None` if its listener is off.
    pub fn admin_access(&self) -> Option<AdminAccess> {
        let view = self.view.as_ref()?;
        Some(AdminAccess {
            store: Arc::clone(&view.store),
            keyring: Arc::clone(&view.keyring),
            key: view.key.clone(),
            mode: Mode::ReadOnly(self.path.display().to_string()),
            in_service: None,
            shenyu_in_service: None,
        })
    }
}

impl View {
    fn start(file: &Path, cx: &ControlContext) -> anyhow::Result<Self> {
        let store = tollhouse_store::open(&Location::Memory)?;
        let keyring = Arc::new(Keyring::generate()?);
        let mirror = Mirror {
            store: Arc::clone(&store),
            keyring: Arc::clone(&keyring),
            catalogue: Arc::clone(&cx.plugins.catalogue),
            prefix: cx.store_prefix().to_owned(),
            file: file.display().to_string(),
        };
        // The task lives as long as the process, like the feed.
        tokio::spawn(mirror.follow(cx.serving.documents.subscribe()));
        Ok(Self { store, keyring, key: secrets::admin_key(&cx.bootstrap)? })
    }
}

fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
