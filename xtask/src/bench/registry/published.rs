//! What others say their registries do, beside what was measured here: Polaris' published report by size of
//! machine, and what Polaris cost on a machine like this one.

use super::calls::Call;
use super::generator::Sample;
use crate::bench::budget::{self, Budget, Figure};
use crate::bench::report::Table;
use serde_json::{Value, json};

/// The sizes of machines in the report, cores and GiB.
const MACHINES: [&str; 5] = ["1C2G", "2C4G", "4C8G", "8C16G", "8C32G"];

/// Calls a second, mean and p99 in milliseconds.
type Published = (u32, f64, f64);

/// What is published, by size of machine; MySQL and Redis have machines of
/// their own. How many calls were in flight is not said; ghz generated them.
const PUBLISHED: [(Call, [Published; MACHINES.len()]); 4] = [
    (
        Call::Register,
        [
            (2_144, 354.75, 379.92),
            (4_563, 448.183, 492.31),
            (13_608, 187.22, 210.53),
            (29_457, 79.01, 83.03),
            (35_912, 67.89, 75.35),
        ],
    ),
    (
        Call::Discover,
        [
            (12_194, 214.75, 248.64),
            (27_331, 17.183, 18.58),
            (46_118, 38.63, 45.47),
            (80_277, 47.81, 59.03),
            (116_021, 298.05, 372.28),
        ],
    ),
    (
        Call::Heartbeat,
        [
            (5_094, 155.31, 161.84),
            (6_419, 421.73, 492.31),
            (10_417, 41.47, 50.96),
            (32_092, 70.83, 77.83),
            (78_077, 219.42, 242.79),
        ],
    ),
    (
        Call::Deregister,
        [
            (903, 573.75, 682.78),
            (1_485, 448.18, 391.07),
            (2_959, 57.59, 88.25),
            (8_694, 61.7, 123.03),
            (14_356, 61.7, 323.95),
        ],
    ),
];

/// CPU of Polaris 1.19-alpha a call in microseconds, 64 in flight, the cheaper of its two ways to store;
/// measured on a machine of the same kind, in another run.
const POLARIS: [(Call, f64, &str, Budget); 5] = [
    (Call::Register, 361.0, "MariaDB, whose own 140 µs are not counted", budget::REGISTER_CPU),
    (Call::Deregister, 410.0, "MariaDB, whose own 215 µs are not counted", budget::REGISTER_CPU),
    (Call::Heartbeat, 41.0, "in memory", budget::HEARTBEAT_CPU),
    (Call::DiscoverHundred, 91.0, "a new stream each", budget::DISCOVER_CPU),
    (Call::DiscoverUnchanged, 56.0, "on open streams", budget::DISCOVER_CPU),
];

fn of(samples: &[(Call, Sample)], call: Call) -> Option<&Sample> {
    samples.iter().find(|(found, _)| *found == call).map(|(_, sample)| sample)
}

/// CPU of ours over that of Polaris.
pub(super) fn ratios(samples: &[(Call, Sample)]) -> Vec<Figure> {
    let figure = |(call, theirs, _, budget): &(Call, f64, &str, Budget)| {
        let ours = of(samples, *call)?.server_cpu;
        let what = format!("CPU against Polaris 1.19-alpha of another run, {}", call.name());
        Some(Figure::judged(what, ours / theirs, *budget))
    };
    POLARIS.iter().filter_map(figure).collect()
}

/// Both as tables.
pub(super) fn tables(samples: &[(Call, Sample)]) -> Vec<Table> {
    vec![report(samples), costs(samples)]
}

fn report(samples: &[(Call, Sample)]) -> Table {
    let mut cells = Vec::new();
    for (call, figures) in PUBLISHED {
        for (machine, (rate, mean, p99)) in MACHINES.iter().zip(figures) {
            let server = format!("Polaris, published, {machine}");
            cells.push(row(call, &server, [f64::from(rate), mean, p99]));
        }
        if let Some(ours) = of(samples, call) {
            let figures = [ours.calls_per_second, ours.mean / 1e3, ours.p99 / 1e3];
            cells.push(row(call, "tollhouse, one core, 64 in flight", figures));
        }
    }
    Table {
        caption:
            "Beside Polaris' published report: other machines, an unknown number in flight, a \
                  database and Redis apart from the server. Orders of magnitude, not a comparison."
                .to_owned(),
        columns: vec!["call", "server", "calls/s", "mean ms", "p99 ms"],
        cells,
    }
}

fn row(call: Call, server: &str, figures: [f64; 3]) -> Vec<Value> {
    let numbers = figures.map(|figure| json!(figure));
    [json!(call.name()), json!(server)].into_iter().chain(numbers).collect()
}

fn costs(samples: &[(Call, Sample)]) -> Table {
    let line = |(call, theirs, how, _): &(Call, f64, &str, Budget)| {
        let ours = of(samples, *call).map(|sample| sample.server_cpu);
        vec![json!(call.name()), json!(theirs), json!(ours), json!(how)]
    };
    Table {
        caption:
            "CPU of the server a call, µs, 64 in flight. Polaris 1.19-alpha was measured on a \
                  machine of the same kind, in another run."
                .to_owned(),
        columns: vec!["call", "Polaris", "tollhouse", "Polaris' store"],
        cells: POLARIS.iter().map(line).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(server_cpu: f64) -> Sample {
        Sample {
            calls: 1.0,
            calls_per_second: 50_000.0,
            seconds: 1.0,
            mean: 1_000.0,
            p50: 900.0,
            p99: 2_000.0,
            max: 3_000.0,
            server_cpu,
            generator_cpu: 5.0,
            errors: 0.0,
        }
    }

    #[test]
    fn a_ratio_is_ours_over_theirs_and_judged() {
        let figures = ratios(&[(Call::Heartbeat, sample(20.5))]);
        assert_eq!(figures.len(), 1);
        assert_eq!((figures[0].value, figures[0].verdict()), (0.5, "met"));
    }

    #[test]
    fn the_published_report_has_five_machines_for_each_call() {
        let tables = tables(&[(Call::Register, sample(20.0))]);
        assert_eq!(tables[0].cells.len(), 4 * MACHINES.len() + 1);
        assert!(
            tables
                .iter()
                .all(|table| { table.cells.iter().all(|line| line.len() == table.columns.len()) })
        );
    }
}
