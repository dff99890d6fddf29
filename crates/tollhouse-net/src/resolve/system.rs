//! The system's resolver as a source of answers: the hosts file first, then the name servers.
//!
//! Caching, retries and stale results are handled by the caller; every look-up asks again.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::RData;

use super::{
    Answer, Lookup, Question, RECORDS_PER_NAME_MAX, Record, ResolveError, ResolverSettings, Source,
};

/// Attempts per look-up; the caller limits their total time.
const ATTEMPTS: usize = 2;

/// Maximum number of SRV targets resolved per answer, one after the other, because more would
/// exceed the timeout.
const SRV_TARGETS_MAX: usize = 64;

/// Resolver with the system's configuration or given servers.
pub struct SystemSource {
    resolver: TokioResolver,
}

impl SystemSource {
    /// Reads the system's configuration, unless servers are given.
    ///
    /// # Errors
    /// If the configuration cannot be read.
    pub fn open(settings: &ResolverSettings) -> Result<Self, ResolveError> {
        let setup = |error: NetError| ResolveError::Setup(error.to_string());
        let mut builder = if settings.servers.is_empty() {
            TokioResolver::builder_tokio().map_err(setup)?
        } else {
            let servers = settings.servers.iter().copied().map(name_server);
            let config = ResolverConfig::from_name_servers(servers.collect());
            TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
        };
        tune(builder.options_mut(), settings.timeout);
        Ok(Self { resolver: builder.build().map_err(setup)? })
    }

    async fn addresses(&self, name: &str) -> Result<Answer, ResolveError> {
        let found = self.resolver.lookup_ip(name).await.map_err(reason)?;
        let time_to_live = remaining(found.valid_until());
        let records = found.iter().map(Record::plain).collect();
        Ok(Answer { records, time_to_live })
    }

    async fn service(&self, name: &str) -> Result<Answer, ResolveError> {
        let found = match self.resolver.srv_lookup(name).await {
            Ok(found) => found,
            Err(error) => match reason(error) {
                ResolveError::Denied => return self.addresses(name).await,
                // A failed look-up is not a denial: falling back to plain addresses would replace
                // the members.
                failure => return Err(failure),
            },
        };
        let mut records = Vec::new();
        let mut time_to_live = remaining(found.valid_until());
        let mut failure = ResolveError::Denied;
        let members = found.answers().iter().filter_map(|record| match &record.data {
            RData::SRV(member) => Some(member),
            _ => None,
        });
        for member in members.take(SRV_TARGETS_MAX) {
            let target = match self.addresses(&member.target.to_string()).await {
                Ok(target) => target,
                Err(error) => {
                    failure = error;
                    continue;
                }
            };
            time_to_live = time_to_live.min(target.time_to_live);
            let room = RECORDS_PER_NAME_MAX.saturating_sub(records.len());
            records.extend(target.records.iter().take(room).map(|record| Record {
                address: record.address,
                port: (member.port != 0).then_some(member.port),
                priority: member.priority,
                // Weight 0 still receives a small share (RFC 2782).
                weight: member.weight.max(1),
            }));
        }
        if records.is_empty() { Err(failure) } else { Ok(Answer { records, time_to_live }) }
    }
}

impl Source for SystemSource {
    fn lookup<'a>(&'a self, question: &'a Question) -> Lookup<'a> {
        Box::pin(async move {
            match question {
                Question::Host(name) => match name.parse::<IpAddr>() {
                    Ok(address) => Ok(literal(address)),
                    Err(_) => self.addresses(name).await,
                },
                Question::Service(name) => self.service(name).await,
            }
        })
    }
}

fn tune(options: &mut ResolverOpts, timeout: Duration) {
    // The cells are the cache; a second one would only serve older answers.
    options.cache_size = 0;
    options.use_hosts_file = ResolveHosts::Always;
    // IPv6 addresses are used only without IPv4 addresses, because many hosts have no IPv6 route.
    options.ip_strategy = LookupIpStrategy::Ipv4thenIpv6;
    options.attempts = ATTEMPTS;
    options.timeout = timeout / u32::try_from(ATTEMPTS + 1).unwrap_or(u32::MAX);
}

/// Returns a name server with a given port.
fn name_server(address: SocketAddr) -> NameServerConfig {
    let mut server = NameServerConfig::udp_and_tcp(address.ip());
    for connection in &mut server.connections {
        connection.port = address.port();
    }
    server
}

fn literal(address: IpAddr) -> Answer {
    Answer { records: vec![Record::plain(address)], time_to_live: super::REFRESH_MAX }
}

fn remaining(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

fn reason(error: NetError) -> ResolveError {
    if error.is_nx_domain() || error.is_no_records_found() {
        return ResolveError::Denied;
    }
    ResolveError::Unreachable(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn names_of_the_hosts_file_and_literals_need_no_server() {
        // A server that cannot reply: the documentation network of RFC 5737.
        let servers = vec!["192.0.2.1:53".parse().unwrap()];
        let settings = ResolverSettings { servers, ..ResolverSettings::default() };
        let source = SystemSource::open(&settings).unwrap();
        for (name, expected) in [("localhost", "127.0.0.1"), ("10.1.2.3", "10.1.2.3")] {
            let answer = source.lookup(&Question::Host(name.into())).await.unwrap();
            let addresses: Vec<_> = answer.records.iter().map(|r| r.address.to_string()).collect();
            assert!(addresses.contains(&expected.to_owned()), "{name}: {addresses:?}");
        }
    }
}
