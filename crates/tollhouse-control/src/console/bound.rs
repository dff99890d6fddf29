//! Actual listening addresses of the process. A port 0 in the settings appears here as the port
//! that the kernel chose.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use tollhouse_stdx::UnixPath;

/// Addresses by the name of their setting under `listen`.
#[derive(Debug, Default)]
pub struct BoundAddresses {
    addresses: Mutex<BTreeMap<&'static str, Vec<SocketAddr>>>,
    unix: Mutex<Vec<UnixPath>>,
}

impl BoundAddresses {
    /// Sets the addresses of a listener; an empty list removes it.
    pub fn set(&self, name: &'static str, addresses: impl IntoIterator<Item = SocketAddr>) {
        let addresses: Vec<SocketAddr> = addresses.into_iter().collect();
        let mut all = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        if addresses.is_empty() {
            all.remove(name);
        } else {
            all.insert(name, addresses);
        }
    }

    /// Notes the Unix sockets of the data plane.
    pub fn set_unix(&self, paths: &[UnixPath]) {
        paths.clone_into(&mut self.unix.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Returns the addresses of all listeners but those of the data plane.
    pub fn for_operators(&self) -> Vec<SocketAddr> {
        const FOR_CLIENTS: [&str; 3] = ["http", "https", "stream"];
        let all = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let others = all.iter().filter(|(name, _)| !FOR_CLIENTS.contains(name));
        others.flat_map(|(_, addresses)| addresses).copied().collect()
    }

    pub fn to_json(&self) -> Value {
        let all = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let texts = |addresses: &Vec<SocketAddr>| {
            addresses.iter().map(ToString::to_string).collect::<Value>()
        };
        let addresses = all.iter().map(|(name, it)| ((*name).to_owned(), texts(it)));
        let unix = self.unix.lock().unwrap_or_else(PoisonError::into_inner);
        let paths = unix.iter().map(ToString::to_string).collect::<Value>();
        let paths = (!unix.is_empty()).then(|| ("unix".to_owned(), paths));
        addresses.chain(paths).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_listens_nowhere_is_not_named() {
        let bound = BoundAddresses::default();
        bound.set("admin", Some(SocketAddr::from(([127, 0, 0, 1], 9180))));
        bound.set("http", [SocketAddr::from(([0, 0, 0, 0], 80)), SocketAddr::from(([0; 8], 80))]);
        bound.set("admin", None);
        assert_eq!(bound.to_json(), json!({"http": ["0.0.0.0:80", "[::]:80"]}));
    }
}
