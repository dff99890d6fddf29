//! Ports of the stream listeners, and the warning about a stream route whose port has no listener.

use std::sync::Arc;

use crate::Problem;

/// Ports of `listen.stream`. The default is unknown, for callers without a bootstrap configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListenedPorts(Option<Arc<[u16]>>);

impl ListenedPorts {
    /// Returns the set of exactly these ports. Port 0 is chosen by the kernel, so it counts as
    /// every port.
    pub fn only(ports: impl IntoIterator<Item = u16>) -> Self {
        Self(Some(ports.into_iter().collect()))
    }

    /// Returns a warning if no connection can reach a stream route with this `server_port`. `path`
    /// is the path of the route in its document.
    pub fn warning(&self, server_port: Option<u16>, path: &str) -> Option<Problem> {
        let ports = self.0.as_deref()?;
        let is_reachable = |port: u16| ports.contains(&port) || ports.contains(&0);
        let problem = match server_port {
            Some(port) if !is_reachable(port) => {
                let reason = format!("nothing listens on port {port}, so no connection arrives");
                let hint = format!("add {{address: 0.0.0.0:{port}}} to listen.stream and restart");
                Problem::warning(format!("{path}.server_port"), reason).with_hint(hint)
            }
            None if ports.is_empty() => {
                let reason = "listen.stream is empty, so no connection arrives";
                let hint =
                    "add a listener such as {address: 0.0.0.0:9100} to listen.stream and restart";
                Problem::warning(path, reason).with_hint(hint)
            }
            Some(_) | None => return None,
        };
        Some(problem)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_without_a_listener_is_named_with_the_key_that_opens_it() {
        let listened = ListenedPorts::only([9100]);
        let warning = listened.warning(Some(9101), "stream_routes/1").expect("a warning");
        assert_eq!(warning.path, "stream_routes/1.server_port");
        assert!(warning.reason.contains("port 9101"), "{warning}");
        assert!(warning.hint.contains("listen.stream"), "{warning}");
        assert_eq!(listened.warning(Some(9100), ""), None);
        assert_eq!(listened.warning(None, ""), None, "the one listener takes it");
    }

    #[test]
    fn without_any_listener_every_stream_route_is_warned_about() {
        let listened = ListenedPorts::only([]);
        assert!(listened.warning(None, "stream_routes/1").is_some());
        assert!(listened.warning(Some(9100), "stream_routes/1").is_some());
    }

    #[test]
    fn unknown_ports_and_ports_of_the_kernels_choice_are_not_judged() {
        assert_eq!(ListenedPorts::default().warning(Some(9100), ""), None);
        assert_eq!(ListenedPorts::only([0]).warning(Some(9100), ""), None);
    }
}
