//! Health of one node as a value: four states, four counters, and their transitions.
//!
//! Free of time and IO. Active and passive checks share the counters but have separate thresholds.

use serde::Serialize;
use tollhouse_model::upstream::Thresholds;

/// State of a node. Only `Healthy` and `MostlyHealthy` nodes receive requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The node receives requests and has no recent failures.
    #[default]
    Healthy,
    /// The node receives requests but has some recent failures.
    MostlyHealthy,
    /// The node receives no requests but has some recent successes.
    MostlyUnhealthy,
    /// The node receives no requests.
    Unhealthy,
}

impl Status {
    pub fn serves(self) -> bool {
        matches!(self, Self::Healthy | Self::MostlyHealthy)
    }
}

/// Result of a probe or a request, as a signal about the health of its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Signal {
    /// A healthy status, or a connection for tcp checks.
    Success,
    /// Response with a status that counts as unhealthy.
    HttpFailure,
    TcpFailure,
    TimeoutFailure,
}

impl Signal {
    /// Returns the signal of a status; `None` if it is in neither list.
    pub fn from_status(status: u16, thresholds: &Thresholds) -> Option<Self> {
        if thresholds.healthy_statuses.contains(&status) {
            return Some(Self::Success);
        }
        thresholds.unhealthy_statuses.contains(&status).then_some(Self::HttpFailure)
    }

    /// Returns the number of consecutive signals that flips a node; 0 ignores the signal.
    pub fn limit(self, thresholds: &Thresholds) -> u8 {
        match self {
            Self::Success => thresholds.successes,
            Self::HttpFailure => thresholds.http_failures,
            Self::TcpFailure => thresholds.tcp_failures,
            Self::TimeoutFailure => thresholds.timeouts,
        }
    }
}

/// Number of consecutive signals of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
pub struct Counters {
    pub success: u8,
    /// Number of consecutive responses with an unhealthy status.
    pub http_failure: u8,
    /// Number of consecutive refused or broken connections.
    pub tcp_failure: u8,
    pub timeout_failure: u8,
}

impl Counters {
    fn count(&mut self, signal: Signal) -> u8 {
        let counter = match signal {
            Signal::Success => &mut self.success,
            Signal::HttpFailure => &mut self.http_failure,
            Signal::TcpFailure => &mut self.tcp_failure,
            Signal::TimeoutFailure => &mut self.timeout_failure,
        };
        *counter = counter.saturating_add(1);
        *counter
    }
}

/// Health of one node; a new one is healthy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Health {
    pub status: Status,
    pub counters: Counters,
}

impl Health {
    /// Returns the health after a signal. The node flips at the `limit`th such signal in a row;
    /// with a limit of 0, the signal is ignored.
    #[must_use]
    pub fn after(self, signal: Signal, limit: u8) -> Self {
        let final_status = match signal {
            Signal::Success => Status::Healthy,
            _ => Status::Unhealthy,
        };
        if limit == 0 || self.status == final_status {
            return self;
        }
        let mut counters = match signal {
            Signal::Success => Counters { success: self.counters.success, ..Counters::default() },
            _ => Counters { success: 0, ..self.counters },
        };
        let status = match (counters.count(signal) >= limit, self.status) {
            (true, _) => final_status,
            (false, Status::Healthy) => Status::MostlyHealthy,
            (false, Status::Unhealthy) => Status::MostlyUnhealthy,
            (false, between) => between,
        };
        Self { status, counters }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Thresholds = Thresholds {
        healthy_statuses: Vec::new(),
        successes: 2,
        unhealthy_statuses: Vec::new(),
        http_failures: 3,
        tcp_failures: 2,
        timeouts: 3,
    };

    /// Returns the status and the counters after `signals`, given as letters: `s`uccess, `h`ttp,
    /// `t`cp, time`o`ut.
    fn run(signals: &str, limits: &Thresholds) -> String {
        let health = signals.chars().fold(Health::default(), |health, letter| {
            let signal = match letter {
                's' => Signal::Success,
                'h' => Signal::HttpFailure,
                't' => Signal::TcpFailure,
                _ => Signal::TimeoutFailure,
            };
            health.after(signal, signal.limit(limits))
        });
        let c = health.counters;
        let counters = [c.success, c.http_failure, c.tcp_failure, c.timeout_failure];
        format!("{:?} {counters:?}", health.status)
    }

    #[test]
    fn signals_move_a_node_through_its_states() {
        for (signals, expected) in [
            ("", "Healthy [0, 0, 0, 0]"),
            ("sss", "Healthy [0, 0, 0, 0]"),
            ("t", "MostlyHealthy [0, 0, 1, 0]"),
            ("tt", "Unhealthy [0, 0, 2, 0]"),
            ("ttt", "Unhealthy [0, 0, 2, 0]"),
            ("hho", "MostlyHealthy [0, 2, 0, 1]"),
            ("hhho", "Unhealthy [0, 3, 0, 0]"),
            ("ooo", "Unhealthy [0, 0, 0, 3]"),
            ("hhs", "MostlyHealthy [1, 0, 0, 0]"),
            ("hhsh", "MostlyHealthy [0, 1, 0, 0]"),
            ("hhss", "Healthy [2, 0, 0, 0]"),
            ("hhssh", "MostlyHealthy [0, 1, 0, 0]"),
            ("tts", "MostlyUnhealthy [1, 0, 0, 0]"),
            ("ttst", "MostlyUnhealthy [0, 0, 1, 0]"),
            ("ttstt", "Unhealthy [0, 0, 2, 0]"),
            ("ttsts", "MostlyUnhealthy [1, 0, 0, 0]"),
            ("ttss", "Healthy [2, 0, 0, 0]"),
        ] {
            assert_eq!(run(signals, &LIMITS), expected, "{signals}");
        }
    }

    #[test]
    fn a_threshold_of_zero_ignores_its_signal() {
        let blind = Thresholds { tcp_failures: 0, successes: 0, ..LIMITS };
        assert_eq!(run("tttttt", &blind), "Healthy [0, 0, 0, 0]");
        assert_eq!(run("hss", &blind), "MostlyHealthy [0, 1, 0, 0]");
        let high = Thresholds { http_failures: 255, ..LIMITS };
        assert_eq!(run(&"h".repeat(254), &high), "MostlyHealthy [0, 254, 0, 0]");
        assert_eq!(run(&"h".repeat(255), &high), "Unhealthy [0, 255, 0, 0]");
    }

    #[test]
    fn a_status_in_neither_list_means_nothing() {
        let limits = Thresholds {
            healthy_statuses: vec![200],
            unhealthy_statuses: vec![200, 500],
            ..LIMITS
        };
        for (status, expected) in
            [(200, Some(Signal::Success)), (500, Some(Signal::HttpFailure)), (404, None)]
        {
            assert_eq!(Signal::from_status(status, &limits), expected, "{status}");
        }
    }
}
