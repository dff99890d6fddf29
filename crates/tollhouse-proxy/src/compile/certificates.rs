//! Compiles certificate objects for the host names that they list.
//!
//! If several objects list a name, the object with the lowest id serves it, regardless of their
//! order of arrival.

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::HashMap;
use serde_json::json;
use tollhouse_model::certificate::check_chain;
use tollhouse_model::expr::Expr;
use tollhouse_model::ssl::{ClientVerification, Ssl, SslKind, TlsVersion};
use tollhouse_model::{Id, Problem, Problems};
use tollhouse_net::server_tls::{
    ClientVerifier, HostError, PemPair, ServerTerms, Strictness, Versions,
};

use crate::snapshot::certificates::{Answer, Certificates, ClientTerms, TlsHost, is_name};

/// Certificate objects of the configuration, by id and by host name.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    objects: HashMap<Id, CompiledCertificate>,
    /// Ids of the objects that list a name; the first of them serves it.
    owners: HashMap<String, BTreeSet<Id>>,
}

#[derive(Debug)]
struct CompiledCertificate {
    /// Server names; empty if the object is disabled or holds a client certificate for connections
    /// to nodes.
    names: Vec<String>,
    /// The host that serves the names, or the refusal of their handshakes.
    answer: Option<Answer>,
    /// Earliest expiry of the certificates: last valid second in Unix time.
    not_after_unix_s: i64,
}

impl CompiledCertificate {
    fn host(&self) -> Option<&Arc<TlsHost>> {
        self.answer.as_ref()?.host()
    }
}

impl Hosts {
    /// Compiles and publishes an object; after an error the previous version stays.
    pub(super) fn set(
        &mut self,
        ssl: Ssl,
        terms: &ServerTerms,
        certificates: &mut Certificates,
    ) -> Result<(), HostError> {
        let serves = ssl.enabled && ssl.kind == SslKind::Server;
        let host = if serves { Some(Arc::new(host(&ssl, terms)?)) } else { None };
        let ends = host.iter().flat_map(|host| &host.certificates);
        let ends = ends.map(|facts| facts.not_after_unix_s);
        let not_after_unix_s = ends.min().unwrap_or(i64::MAX);
        let names = if serves { ssl.snis } else { Vec::new() };
        let compiled =
            CompiledCertificate { names, answer: host.map(Answer::Host), not_after_unix_s };
        self.put(ssl.id, compiled, certificates);
        Ok(())
    }

    /// Refuses handshakes for the names of an invalid object that requires client certificates,
    /// because a broader object would admit clients without one. Returns `false` if a last good
    /// version stays in service.
    pub(super) fn refuse(
        &mut self,
        id: &Id,
        names: Vec<String>,
        certificates: &mut Certificates,
    ) -> bool {
        let is_last_good = |it: &CompiledCertificate| !matches!(it.answer, Some(Answer::Nobody));
        if self.objects.get(id).is_some_and(is_last_good) {
            return false;
        }
        let answer = Some(Answer::Nobody);
        let compiled = CompiledCertificate { names, answer, not_after_unix_s: i64::MAX };
        self.put(id.clone(), compiled, certificates);
        true
    }

    fn put(&mut self, id: Id, compiled: CompiledCertificate, certificates: &mut Certificates) {
        self.take_out(&id, certificates);
        let names = compiled.names.clone();
        for name in &names {
            self.owners.entry(name.clone()).or_default().insert(id.clone());
        }
        self.objects.insert(id, compiled);
        names.iter().for_each(|name| self.publish(name, certificates));
    }

    pub(super) fn remove(&mut self, id: &Id, certificates: &mut Certificates) {
        self.take_out(id, certificates);
    }

    /// Returns the expiry of the certificates in service: object id and last valid second in Unix
    /// time.
    pub(super) fn ends(&self) -> impl Iterator<Item = (&Id, i64)> {
        let serving = self.objects.iter().filter(|(_, compiled)| compiled.host().is_some());
        serving.map(|(id, compiled)| (id, compiled.not_after_unix_s))
    }

    /// Returns the TLS hosts in service, each with the server names that it serves.
    pub(super) fn served(&self) -> impl Iterator<Item = (&Arc<TlsHost>, &[String])> {
        self.objects.values().filter_map(|compiled| Some((compiled.host()?, &*compiled.names)))
    }

    /// Warns of names that another object serves already, or that a client cannot ask for.
    pub(super) fn warn_of_names(&self, ssl: &Ssl, path: &str, problems: &mut Problems) {
        if !ssl.enabled || ssl.kind == SslKind::Client {
            return;
        }
        for name in &ssl.snis {
            if !is_name(name) {
                let problem = Problem::warning(
                    format!("{path}.snis"),
                    format!("no client can ask for {name}"),
                );
                let hint = "use a whole name, \"*.\" before one, or \"*\"";
                problems.push(problem.with_hint(hint));
            }
            let owners = self.owners.get(name).into_iter().flatten();
            let Some(other) = owners.into_iter().find(|owner| **owner != ssl.id) else { continue };
            let reason = format!("{name} stands in ssl {other} too");
            let problem = Problem::warning(format!("{path}.snis"), reason);
            problems.push(problem.with_hint("clients get the one with the lowest id"));
        }
    }

    fn take_out(&mut self, id: &Id, certificates: &mut Certificates) {
        let Some(gone) = self.objects.remove(id) else { return };
        for name in &gone.names {
            if let Some(owners) = self.owners.get_mut(name) {
                owners.remove(id);
                if owners.is_empty() {
                    self.owners.remove(name);
                }
            }
            self.publish(name, certificates);
        }
    }

    fn publish(&self, name: &str, certificates: &mut Certificates) {
        let owner = self.owners.get(name).and_then(BTreeSet::first);
        let answer = owner.and_then(|owner| self.objects.get(owner)?.answer.clone());
        certificates.set(name, answer);
    }
}

fn host(ssl: &Ssl, terms: &ServerTerms) -> Result<TlsHost, HostError> {
    let pairs = ssl.certificates.iter();
    let pairs: Vec<_> =
        pairs.map(|pair| PemPair { chain: &pair.cert, key: pair.key.expose() }).collect();
    let versions = (!ssl.protocols.is_empty()).then(|| Versions {
        v1_2: ssl.protocols.contains(&TlsVersion::V1_2),
        v1_3: ssl.protocols.contains(&TlsVersion::V1_3),
    });
    let clients = ssl.client.as_ref().map(client_terms).transpose()?;
    let verifier = clients.as_ref().map(|clients| Arc::clone(&clients.verifier));
    let certificates = ssl.certificates.iter().map(|pair| {
        check_chain(&pair.cert).map_err(|error| HostError::Certificate(error.to_string()))
    });
    Ok(TlsHost {
        id: ssl.id.clone(),
        terms: terms.host(&pairs, verifier, versions)?,
        certificates: certificates.collect::<Result<_, _>>()?,
        staples: ssl.staples.clone(),
        clients,
    })
}

fn client_terms(client: &ClientVerification) -> Result<ClientTerms, HostError> {
    // If some paths are exempt from client certificates, the handshake cannot require one, because
    // the path is not known yet.
    let strictness = match client.skip_mtls_uri_regex.is_empty() {
        true => Strictness::Required,
        false => Strictness::Asked,
    };
    let verifier = ClientVerifier::new(&client.ca, client.depth, strictness)?;
    let patterns = client.skip_mtls_uri_regex.iter();
    // Every pattern was validated when the object was parsed; one that failed here would exempt no
    // path.
    let exempt = patterns
        .filter_map(|pattern| {
            Expr::parse(&json!([["uri", "~~", pattern]]), "", &mut Problems::new())
        })
        .collect();
    Ok(ClientTerms { verifier: Arc::new(verifier), exempt })
}
