//! JSON report of ghz: keys, their order, and absent or `null` fields are as in ghz.

use std::collections::BTreeMap;

use serde::Serialize;

use super::figures::Figures;
use crate::ghz::Options;
use go_template::golang::date;

/// Go layout of the timestamps of requests.
const TIMESTAMP: &str = "2006-01-02T15:04:05.999999999Z07:00";

#[derive(Serialize)]
pub(super) struct Report<'a> {
    date: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(rename = "endReason")]
    end_reason: &'a str,
    options: &'a Options,
    count: u64,
    total: u64,
    average: u64,
    fastest: u64,
    slowest: u64,
    rps: f64,
    #[serde(rename = "errorDistribution")]
    errors: &'a BTreeMap<String, u64>,
    #[serde(rename = "statusCodeDistribution")]
    statuses: &'a BTreeMap<String, u64>,
    #[serde(rename = "latencyDistribution")]
    latencies: Option<Vec<Latency>>,
    histogram: Option<Vec<Step>>,
    details: Option<Vec<Request<'a>>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    tags: &'a BTreeMap<String, String>,
}

#[derive(Serialize)]
struct Latency {
    percentage: u32,
    latency: u64,
}

#[derive(Serialize)]
struct Step {
    mark: f64,
    count: u64,
    frequency: f64,
}

#[derive(Serialize)]
struct Request<'a> {
    timestamp: String,
    latency: u64,
    error: &'a str,
    status: &'a str,
}

impl<'a> Report<'a> {
    pub(super) fn from_figures(figures: &'a Figures<'a>) -> Self {
        let latencies = figures.latencies.iter();
        let steps = figures.histogram.iter();
        let requests = figures.details.iter();
        Self {
            date: figures.date(),
            name: &figures.options.name,
            end_reason: figures.end_reason,
            options: &figures.options.echo,
            count: figures.count,
            total: figures.total_ns,
            average: figures.average_ns,
            fastest: figures.fastest_ns,
            slowest: figures.slowest_ns,
            rps: figures.rate,
            errors: &figures.errors,
            statuses: &figures.statuses,
            // ghz writes an empty list as `null`, which its readers distinguish from an absent one.
            latencies: present(latencies.map(|(percentage, latency)| Latency {
                percentage: *percentage,
                latency: *latency,
            })),
            histogram: present(steps.map(|bucket| Step {
                mark: bucket.mark,
                count: bucket.count,
                frequency: bucket.frequency,
            })),
            details: present(requests.map(|detail| {
                let mut timestamp = String::new();
                date::format(detail.ended_ns, TIMESTAMP, &mut timestamp);
                Request {
                    timestamp,
                    latency: detail.latency_ns,
                    error: &detail.error,
                    status: &detail.status,
                }
            })),
            tags: &figures.options.tags,
        }
    }
}

/// Returns `None` for an empty list, which becomes `null`.
fn present<T>(elements: impl Iterator<Item = T>) -> Option<Vec<T>> {
    let list: Vec<T> = elements.collect();
    (!list.is_empty()).then_some(list)
}
