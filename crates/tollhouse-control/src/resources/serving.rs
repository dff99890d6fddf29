//! State of the configuration in service: what drives it, and what is reported about it.

use std::sync::Arc;

use tokio::sync::watch;
use tollhouse_config::Fingerprints;

use super::drivers::Drivers;
use crate::configuration::Configuration;

/// State of the configuration in service. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Serving {
    /// Parts that change nodes independently of requests, such as health checks.
    pub drivers: Drivers,
    /// State of the configuration, for the control API.
    pub configuration: Arc<Configuration>,
    /// Channel of the fingerprints of the objects in service, sent for each document that comes
    /// from a file or the Admin API. Stays empty if the source is a store.
    pub documents: Arc<watch::Sender<Arc<Fingerprints>>>,
}

impl Serving {
    /// Returns the state before the first configuration.
    pub fn new(drivers: Drivers) -> Self {
        let documents = Arc::new(watch::Sender::new(Arc::default()));
        Self { drivers, configuration: Arc::default(), documents }
    }
}
