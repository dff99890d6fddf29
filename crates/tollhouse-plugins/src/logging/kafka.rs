//! Delivery to a Kafka topic: one record per entry, or one per batch.

use std::time::{SystemTime, UNIX_EPOCH};

use tollhouse_kafka::Record;
use tollhouse_kafka::batch::{BATCH_OVERHEAD, RECORD_OVERHEAD};

use super::batch::{Delivery, Failure};
use crate::kafka::{KafkaError, Producer};

/// Conversion of a batch to Kafka records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// A record for each entry, with at most this many per request.
    Each { requested_max: usize },
    /// A single record with a JSON array of all entries.
    Array,
}

/// Kafka topic that receives entries, with its producer.
#[derive(Debug)]
pub(crate) struct Topic {
    pub producer: Producer,
    /// Key of all records, which decides about the partition.
    pub key: Option<Vec<u8>>,
    pub form: Form,
    /// Maximum length of a produce request in bytes, unless a single entry is longer.
    pub request_bytes_max: usize,
}

impl Delivery for Topic {
    type Entry = String;

    async fn deliver(&self, batch: &[String]) -> Result<(), Failure> {
        let mut taken = 0;
        while let Some(left) = batch.get(taken..).filter(|left| !left.is_empty()) {
            let mut count = self.fitting(left);
            loop {
                let Err(error) = self.send(&left[..count]).await else { break };
                if error.is_too_large() && count > 1 {
                    // The topic accepts less than the conf allows.
                    count /= 2;
                    continue;
                }
                let lost = usize::from(error.is_too_large());
                return Err(Failure { taken: taken + lost, lost, error: error.into() });
            }
            taken += count;
        }
        Ok(())
    }
}

impl Topic {
    /// Returns the number of entries from the front that fit into one request.
    fn fitting(&self, entries: &[String]) -> usize {
        let key = self.key.as_ref().map_or(0, Vec::len);
        let (head, beside, entries_max) = match self.form {
            Form::Each { requested_max } => (0, RECORD_OVERHEAD + key, requested_max),
            // One comma per entry, and two brackets.
            Form::Array => (RECORD_OVERHEAD + key + 2, 1, usize::MAX),
        };
        let mut bytes = BATCH_OVERHEAD + head;
        let fit = entries.iter().take(entries_max).take_while(|entry| {
            bytes += entry.len() + beside;
            bytes <= self.request_bytes_max
        });
        fit.count().max(1)
    }

    async fn send(&self, entries: &[String]) -> Result<(), KafkaError> {
        let key = self.key.as_deref();
        let array = match self.form {
            Form::Array => Some(format!("[{}]", entries.join(","))),
            Form::Each { .. } => None,
        };
        let values: Vec<&str> = match &array {
            Some(array) => vec![array],
            None => entries.iter().map(String::as_str).collect(),
        };
        let records = values.iter().map(|value| Record { key, value: value.as_bytes() });
        let records: Vec<Record<'_>> = records.collect();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unix_ms = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
        self.producer.send(&records, key, unix_ms).await
    }
}
