//! Counters of clients' calls: by method and code, with a latency histogram.
//!
//! Each thread has separate counters; a reader adds them up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::CallReply;
use crate::code::Code;

/// Upper bounds of the latency classes in microseconds, from a look-up in memory to a slow disk. A
/// last class without bound follows.
pub const LATENCY_BOUNDS_US: [u64; 12] =
    [10, 25, 50, 100, 250, 500, 1_000, 2_500, 10_000, 50_000, 250_000, 1_000_000];

const LATENCY_CLASSES: usize = LATENCY_BOUNDS_US.len() + 1;

/// Methods of the protocol that are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    ReportClient,
    Register,
    Deregister,
    Heartbeat,
    Discover,
    BatchHeartbeat,
    BatchGetHeartbeat,
    BatchDeleteHeartbeat,
    ReportContract,
    GetContract,
    GetConfigFile,
    WriteConfigFile,
    PublishConfigFile,
    ListConfigFiles,
    DiscoverConfig,
}

impl Method {
    const ALL: [Self; 15] = [
        Self::ReportClient,
        Self::Register,
        Self::Deregister,
        Self::Heartbeat,
        Self::Discover,
        Self::BatchHeartbeat,
        Self::BatchGetHeartbeat,
        Self::BatchDeleteHeartbeat,
        Self::ReportContract,
        Self::GetContract,
        Self::GetConfigFile,
        Self::WriteConfigFile,
        Self::PublishConfigFile,
        Self::ListConfigFiles,
        Self::DiscoverConfig,
    ];

    /// Returns the method's name in the protocol.
    fn name(self) -> &'static str {
        match self {
            Self::ReportClient => "ReportClient",
            Self::Register => "RegisterInstance",
            Self::Deregister => "DeregisterInstance",
            Self::Heartbeat => "Heartbeat",
            Self::Discover => "Discover",
            Self::BatchHeartbeat => "BatchHeartbeat",
            Self::BatchGetHeartbeat => "BatchGetHeartbeat",
            Self::BatchDeleteHeartbeat => "BatchDelHeartbeat",
            Self::ReportContract => "ReportServiceContract",
            Self::GetContract => "GetServiceContract",
            Self::GetConfigFile => "GetConfigFile",
            Self::WriteConfigFile => "WriteConfigFile",
            Self::PublishConfigFile => "PublishConfigFile",
            Self::ListConfigFiles => "GetConfigFileMetadataList",
            Self::DiscoverConfig => "DiscoverConfig",
        }
    }

    /// Returns the full name of its service in the protocol.
    fn service(self) -> &'static str {
        match self {
            Self::ReportClient
            | Self::Register
            | Self::Deregister
            | Self::Heartbeat
            | Self::Discover => "v1.PolarisGRPC",
            Self::BatchHeartbeat | Self::BatchGetHeartbeat | Self::BatchDeleteHeartbeat => {
                "v1.PolarisHeartbeatGRPC"
            }
            Self::ReportContract | Self::GetContract => "v1.PolarisServiceContractGRPC",
            Self::GetConfigFile
            | Self::WriteConfigFile
            | Self::PublishConfigFile
            | Self::ListConfigFiles
            | Self::DiscoverConfig => "v1.PolarisConfigGRPC",
        }
    }
}

#[derive(Debug)]
pub(super) struct Meter {
    methods: [MethodMeter; Method::ALL.len()],
}

#[derive(Debug)]
struct MethodMeter {
    /// Calls by index of their code in [`Code::ALL`].
    calls: Box<[AtomicU64]>,
    classes: [AtomicU64; LATENCY_CLASSES],
    total_us: AtomicU64,
    /// Duration of the fastest call since the last [`take_extremes`]; `u64::MAX` if no call has
    /// ended.
    fastest_us: AtomicU64,
    slowest_us: AtomicU64,
}

/// Durations of the fastest and of the slowest call of a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extremes {
    /// Duration of the fastest call in microseconds.
    pub fastest_us: u64,
    /// Duration of the slowest call in microseconds.
    pub slowest_us: u64,
}

/// Counters of one method, over all threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MethodReading {
    /// Name of the method in the protocol.
    pub method: &'static str,
    /// Full name of the method's service in the protocol.
    pub service: &'static str,
    /// Number of calls by code; codes that did not occur are left out.
    pub calls: Vec<(Code, u64)>,
    /// Number of calls by latency class: those of [`LATENCY_BOUNDS_US`], then one for longer calls.
    pub classes: Vec<u64>,
    /// Duration of all calls, in microseconds.
    pub total_us: u64,
}

/// A call in progress.
pub(super) struct CallTimer<'a> {
    meter: &'a MethodMeter,
    began: Instant,
}

impl Default for Meter {
    fn default() -> Self {
        Self { methods: std::array::from_fn(|_| MethodMeter::default()) }
    }
}

impl Default for MethodMeter {
    fn default() -> Self {
        Self {
            calls: Code::ALL.iter().map(|_| AtomicU64::new(0)).collect(),
            classes: Default::default(),
            total_us: AtomicU64::new(0),
            fastest_us: AtomicU64::new(u64::MAX),
            slowest_us: AtomicU64::new(0),
        }
    }
}

impl Meter {
    /// Starts the timer of a call.
    pub(super) fn start(&self, method: Method) -> CallTimer<'_> {
        CallTimer { meter: &self.methods[method as usize], began: Instant::now() }
    }
}

impl CallTimer<'_> {
    /// Counts the call by its answer, which is passed through.
    pub(super) fn end(self, replied: CallReply) -> CallReply {
        let elapsed_us = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        if let Ok(place) = Code::ALL.binary_search(&replied.code) {
            self.meter.calls[place].fetch_add(1, Ordering::Relaxed);
        }
        let class = LATENCY_BOUNDS_US.partition_point(|bound| *bound < elapsed_us);
        self.meter.classes[class].fetch_add(1, Ordering::Relaxed);
        self.meter.total_us.fetch_add(elapsed_us, Ordering::Relaxed);
        self.meter.fastest_us.fetch_min(elapsed_us, Ordering::Relaxed);
        self.meter.slowest_us.fetch_max(elapsed_us, Ordering::Relaxed);
        replied
    }
}

/// Adds up the counters of all threads.
pub(super) fn sum(meters: &[Arc<Meter>]) -> Vec<MethodReading> {
    Method::ALL.iter().map(|method| sum_of(*method, meters)).collect()
}

/// Returns the extremes of each method since the last look, in the order of [`sum`]; `None` where
/// no call has ended.
pub(super) fn take_extremes(meters: &[Arc<Meter>]) -> Vec<Option<Extremes>> {
    let of_method = |method: &Method| {
        let all = || meters.iter().map(|meter| &meter.methods[*method as usize]);
        let fastest = all().map(|meter| meter.fastest_us.swap(u64::MAX, Ordering::Relaxed)).min();
        let slowest = all().map(|meter| meter.slowest_us.swap(0, Ordering::Relaxed)).max();
        let (fastest_us, slowest_us) = (fastest.unwrap_or(u64::MAX), slowest.unwrap_or(0));
        (fastest_us <= slowest_us).then_some(Extremes { fastest_us, slowest_us })
    };
    Method::ALL.iter().map(of_method).collect()
}

fn sum_of(method: Method, meters: &[Arc<Meter>]) -> MethodReading {
    let all = || meters.iter().map(|meter| &meter.methods[method as usize]);
    let add = |number: fn(&MethodMeter, usize) -> &AtomicU64, place: usize| -> u64 {
        all().map(|meter| number(meter, place).load(Ordering::Relaxed)).sum()
    };
    let calls = Code::ALL.iter().enumerate();
    let calls = calls.map(|(place, code)| (*code, add(|meter, place| &meter.calls[place], place)));
    let class = |place| add(|meter, place| &meter.classes[place], place);
    MethodReading {
        method: method.name(),
        service: method.service(),
        calls: calls.filter(|(_, count)| *count > 0).collect(),
        classes: (0..LATENCY_CLASSES).map(class).collect(),
        total_us: add(|meter, _| &meter.total_us, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_added_up() {
        let meters: Vec<Arc<Meter>> = vec![Arc::default(), Arc::default()];
        for (meter, code) in
            [(0, Code::ExecuteSuccess), (1, Code::ExecuteSuccess), (1, Code::DataNoChange)]
        {
            meters[meter].start(Method::Discover).end(CallReply::made(code, Vec::new()));
        }
        let readings = sum(&meters);
        let discover = readings.iter().find(|reading| reading.method == "Discover");
        let discover = discover.expect("every method is read");
        assert_eq!(discover.calls, [(Code::ExecuteSuccess, 2), (Code::DataNoChange, 1)]);
        assert_eq!(discover.classes.iter().sum::<u64>(), 3);
        let extremes = take_extremes(&meters);
        assert_eq!(extremes.iter().flatten().count(), 1, "of the method that was called");
        assert!(extremes.iter().flatten().all(|it| it.fastest_us <= it.slowest_us));
        assert!(take_extremes(&meters).iter().all(Option::is_none), "of the next look's own");
        let others = readings.iter().filter(|reading| reading.method != "Discover");
        assert!(others.clone().all(|reading| reading.calls.is_empty()));
        assert_eq!(others.count(), Method::ALL.len() - 1);
    }
}
