//! The key that gateways of one etcd seal secrets with is changed while TLS connections come in at all of them: first
//! everybody learns the new key, then it is used, then the old one is forgotten. No handshake fails.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::{Etcd, Gateway, Origin};

use crate::etcd::{KEYRING, on, put, route, sharing};
use crate::support::Over;
use crate::tls_support::{
    Answer, Authority, Pair, TlsClient, TlsOptions, der, server_certificate, ssl,
};

const HOST: &str = "a.test";
const NEW: &str = "fedcba9876543210";

/// Handshakes at each gateway between two changes.
const HANDSHAKES: usize = 5;

/// Between two of them: the machine has more to do.
const PAUSE: Duration = Duration::from_millis(10);

/// Clients who connect anew for each request.
struct Load {
    client: TlsClient,
    gateways: [SocketAddr; 2],
    answered: [AtomicUsize; 2],
    failed: Mutex<Vec<String>>,
    is_over: AtomicBool,
}

impl Load {
    fn run(&self, place: usize) {
        while !self.is_over.load(Ordering::Relaxed) {
            match self.client.get(self.gateways[place], HOST, "/") {
                Answer::Http(200, _) => {
                    self.answered[place].fetch_add(1, Ordering::Relaxed);
                }
                other => self.failed.lock().expect("no panic").push(format!("{other:?}")),
            }
            std::thread::park_timeout(PAUSE);
        }
    }

    fn wait_more(&self) {
        let count = |place: usize| self.answered[place].load(Ordering::Relaxed);
        let wanted = [0, 1].map(|place| count(place) + HANDSHAKES);
        wait_for("handshakes", || (0..2).all(|place| count(place) >= wanted[place]).then_some(()));
    }

    /// Has one gateway write a certificate, and waits until both show it.
    fn change(&self, gateway: &Gateway, pair: &Pair) {
        let object = ssl("1", &[HOST], pair);
        wait_for("the write", || {
            (gateway.admin("PUT", "/ssls/1", &object).status() < 300).then_some(())
        });
        for address in self.gateways {
            wait_for("the new certificate", || {
                let stream = self.client.connect(address, HOST).ok()?;
                (server_certificate(&stream) == der(pair)).then_some(())
            });
        }
        self.wait_more();
    }
}

/// Replaces a gateway by one with these keys, which takes its sockets over.
fn give_keys(etcd: &Etcd, gateway: &mut Gateway, keys: &str) {
    let successor = on(etcd, gateway.successor()).set("encryption.keyring", keys);
    let successor = successor.flag("--upgrade").start();
    let mut old = std::mem::replace(gateway, successor);
    old.wait_exit();
    wait_for("etcd to serve", || {
        (gateway.metric("tollhouse_store_copy_in_service") < 1.0).then_some(())
    });
}

#[test]
fn a_key_is_changed_under_load_without_a_failed_handshake() {
    let Some(etcd) = Etcd::start() else { return };
    let origin = Origin::named("hello");
    let authority = Authority::new("servers");
    let mut gateways = [(); 2].map(|()| sharing(&etcd).tls().start());
    put(&gateways[0], "/routes/1", &route(&origin));
    let load = Load {
        client: TlsOptions::new(&authority).forgetful().build(),
        gateways: gateways.each_ref().map(Gateway::tls_address),
        answered: Default::default(),
        failed: Mutex::default(),
        is_over: AtomicBool::new(false),
    };
    let first = authority.server(&[HOST]);
    put(&gateways[0], "/ssls/1", &ssl("1", &[HOST], &first));
    for address in load.gateways {
        wait_for("the first certificate", || {
            matches!(load.client.get(address, HOST, "/"), Answer::Http(200, _)).then_some(())
        });
    }
    std::thread::scope(|scope| {
        let over = Over(&load.is_over);
        for place in 0..2 {
            let load = &load;
            scope.spawn(move || load.run(place));
        }
        load.wait_more();
        for keys in [format!("{KEYRING},{NEW}"), format!("{NEW},{KEYRING}"), NEW.to_owned()] {
            for place in 0..2 {
                give_keys(&etcd, &mut gateways[place], &keys);
                // Whoever has learned the key writes, and whoever has not yet.
                for writer in &gateways {
                    load.change(writer, &authority.server(&[HOST]));
                }
            }
        }
        drop(over);
    });
    let failed = load.failed.into_inner().expect("no panic");
    assert!(failed.is_empty(), "{} of {:?}: {failed:?}", failed.len(), load.answered);
    // Nobody needs the old one any more.
    let late = sharing(&etcd).set("encryption.keyring", NEW).start();
    let problems = late.configuration()["problems"].clone();
    assert_eq!(problems, Value::Array(Vec::new()), "{problems}");
}
