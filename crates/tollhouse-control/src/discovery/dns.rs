//! Nodes from DNS: each record of a name is a node. A name without records has no nodes.
//!
//! Look-ups, their times to live and their retries belong to the resolver in `tollhouse-net`.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;
use tollhouse_model::upstream::{Node, Scheme};
use tollhouse_net::resolve::{Question, Record, Resolution, ResolvedName};
use tollhouse_upstream::{DiscoveryContext, UpstreamState};

use super::{NodeSource, SourceSettings};

/// Upstreams whose nodes come from DNS.
#[derive(Debug, Default)]
pub struct Source {
    /// Tasks that publish records, by key of the upstream.
    followed: Mutex<HashMap<String, FollowTask>>,
}

/// A task that ends with the value.
#[derive(Debug)]
struct FollowTask(AbortHandle);

impl Drop for FollowTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl NodeSource for Source {
    fn open(_: &SourceSettings<'_>) -> Self {
        Self::default()
    }

    fn follow(&self, upstream: &Arc<UpstreamState>) {
        let Some(DiscoveryContext { service, scheme, resolver }) = upstream.discovery() else {
            return;
        };
        let (name, port) = split_service_name(&service.service);
        let name = resolver.watch(Question::Service(name.to_owned()));
        let port = port.unwrap_or(default_port(scheme));
        let task = resolver.runtime().spawn(publish(name, port, Arc::clone(upstream)));
        // The task of an earlier upstream ends only now, so that a name that both use stays known.
        self.lock().insert(upstream.key().to_owned(), FollowTask(task.abort_handle()));
    }

    fn leave(&self, key: &str) {
        self.lock().remove(key);
    }
}

impl Source {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, FollowTask>> {
        // A panic cannot leave the map inconsistent.
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Publishes every result of a name until the task is aborted.
async fn publish(name: Arc<ResolvedName>, port: u16, upstream: Arc<UpstreamState>) {
    let mut changes = name.changes();
    loop {
        changes.mark_unchanged();
        match &**name.resolution() {
            Resolution::Pending => {}
            Resolution::Known(records) => {
                let node = |record| node_of(record, port).into();
                upstream.publish_nodes(records.iter().map(node).collect());
            }
            Resolution::Failed => upstream.publish_nodes(Vec::new()),
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}

fn node_of(record: &Record, port: u16) -> Node {
    let address = SocketAddr::new(record.address, record.port.unwrap_or(port));
    Node {
        host: address.ip().to_string(),
        port: address.port(),
        socket: None,
        weight: u32::from(record.weight),
        // In DNS, a lower number is preferred.
        priority: -i32::from(record.priority),
    }
}

fn split_service_name(service_name: &str) -> (&str, Option<u16>) {
    match service_name.rsplit_once(':') {
        Some((name, port)) => match port.parse() {
            Ok(port) => (name, Some(port)),
            Err(_) => (service_name, None),
        },
        None => (service_name, None),
    }
}

fn default_port(scheme: Scheme) -> u16 {
    match scheme {
        Scheme::Http | Scheme::Grpc | Scheme::Tcp | Scheme::Udp => 80,
        Scheme::Https | Scheme::Grpcs | Scheme::Tls => 443,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use tokio::runtime::Handle;
    use tollhouse_model::Upstream;
    use tollhouse_net::resolve::{Answer, Lookup, ResolveError, Resolver, ResolverSettings};

    use super::*;

    /// Names and their records; every other name is denied.
    struct Table(Vec<(&'static str, Vec<Record>)>);

    impl tollhouse_net::resolve::Source for Table {
        fn lookup<'a>(&'a self, question: &'a Question) -> Lookup<'a> {
            let (Question::Host(name) | Question::Service(name)) = question;
            let entry = self.0.iter().find(|entry| entry.0 == name);
            let records = entry.map(|entry| entry.1.clone()).ok_or(ResolveError::Denied);
            Box::pin(async move {
                Ok(Answer { records: records?, time_to_live: Duration::from_secs(10) })
            })
        }
    }

    fn resolver(table: Vec<(&'static str, Vec<Record>)>) -> Arc<Resolver> {
        Resolver::with_source(
            Arc::new(Table(table)),
            ResolverSettings::default(),
            Handle::current(),
        )
    }

    fn upstream(service: &str, resolver: &Arc<Resolver>) -> Arc<UpstreamState> {
        let conf = json!({"discovery_type": "dns", "service_name": service});
        let (conf, problems) = Upstream::parse(None, &conf, "");
        assert_eq!(problems.to_string(), "");
        UpstreamState::build(&conf.expect("it is good"), "routes/1", None, resolver)
    }

    /// Addresses and weights of the nodes, in order.
    fn nodes(upstream: &UpstreamState) -> Vec<(String, u32)> {
        let mut nodes = Vec::new();
        upstream.each_node(|node| {
            nodes.push((format!("{}:{}", node.host(), node.port()), node.weight()));
        });
        nodes
    }

    #[tokio::test(start_paused = true)]
    async fn nodes_have_the_ports_and_weights_of_the_records_or_of_the_name() {
        let member = |address: &str, port, weight| Record {
            port: Some(port),
            weight,
            ..Record::plain(address.parse().unwrap())
        };
        let members = vec![member("10.0.0.1", 9001, 2), member("10.0.0.2", 9002, 1)];
        let plain = vec![Record::plain("10.0.1.1".parse().unwrap())];
        let resolver = resolver(vec![("_web.example", members), ("web.example", plain)]);
        let source = Source::default();
        let node = |address: &str, weight| (address.to_owned(), weight);
        for (service, expected) in [
            ("_web.example", vec![node("10.0.0.1:9001", 2), node("10.0.0.2:9002", 1)]),
            ("web.example:1980", vec![node("10.0.1.1:1980", 1)]),
            ("web.example", vec![node("10.0.1.1:80", 1)]),
            ("none.example", vec![]),
        ] {
            let upstream = upstream(service, &resolver);
            assert!(!upstream.is_ready(), "{service}");
            source.follow(&upstream);
            assert!(upstream.ready(Duration::from_secs(1)).await, "{service}");
            assert_eq!(nodes(&upstream), expected, "{service}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn names_are_given_up_with_their_upstream() {
        let resolver = resolver(vec![]);
        let source = Source::default();
        let first = upstream("a.example", &resolver);
        source.follow(&first);
        source.follow(&upstream("b.example", &resolver));
        first.ready(Duration::from_millis(10)).await;
        assert_eq!(resolver.names_in_use(), 1);
        source.leave("routes/2");
        assert_eq!(resolver.names_in_use(), 1);
        source.leave("routes/1");
        // An aborted task is dropped by the runtime.
        first.ready(Duration::from_millis(10)).await;
        assert_eq!(resolver.names_in_use(), 0);
    }

    #[test]
    fn a_service_name_may_carry_a_port() {
        for (text, expected) in [
            ("web.example", ("web.example", None)),
            ("web.example:1980", ("web.example", Some(1980))),
            ("web.example:x", ("web.example:x", None)),
        ] {
            assert_eq!(split_service_name(text), expected);
        }
    }

    #[test]
    fn a_record_keeps_its_port_weight_and_priority() {
        let plain = Record::plain("10.0.0.1".parse().unwrap());
        let full = Record { port: Some(9000), priority: 10, weight: 5, ..plain };
        for (record, expected) in
            [(plain, ("10.0.0.1", 80, 1, 0)), (full, ("10.0.0.1", 9000, 5, -10))]
        {
            let node = node_of(&record, 80);
            assert_eq!((node.host.as_str(), node.port, node.weight, node.priority), expected);
        }
    }
}
