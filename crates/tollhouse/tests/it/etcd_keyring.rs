//! The key that gateways of one etcd seal secrets with is changed while TLS connections come in at all of them: first
//! everybody learns the new key, then it is used, then the old one is forgotten. No handshake fails. What was sealed
//! before is sealed anew by a command.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::program::Running;
use tollhouse_testkit::{Etcd, Gateway, Origin};

use crate::etcd::{KEYRING, command, on, put, route, sharing};
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

/// Consumers, each with a secret: so many that sealing them takes several commits.
const CONSUMERS: usize = 300;

fn consumers() -> Value {
    let consumer = |number| {
        let conf = json!({"key-auth": {"key": format!("key-{number}")}});
        json!({"username": format!("c{number}"), "plugins": conf})
    };
    json!({"consumers": (0..CONSUMERS).map(consumer).collect::<Vec<_>>()})
}

/// Whether a gateway lets a consumer in.
fn lets_in(gateway: &Gateway, number: usize) -> bool {
    let request = format!("GET / HTTP/1.1\r\nHost: a\r\napikey: key-{number}\r\n\r\n");
    gateway.client().ask(request).status() == 200
}

#[test]
fn a_store_is_sealed_anew_by_one_command_that_may_be_killed() {
    let Some(etcd) = Etcd::start() else { return };
    let origin = Origin::named("hello");
    let both = format!("{NEW},{KEYRING}");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let line = |verb: &str, keys: &str| {
        let url = etcd.url();
        format!("{verb} --set encryption.keyring={keys} --set store.etcd.endpoints={url}")
    };
    let document = folder.path().join("all.json");
    std::fs::write(&document, consumers().to_string()).expect("it can be written");
    let import = format!("{} --yes all.json", line("import", KEYRING));
    let ran = command(folder.path(), &import);
    assert!(ran.status.success(), "{}", ran.text);
    let refused = command(folder.path(), &line("reseal", &both));
    assert!(!refused.status.success(), "nobody has the new key: {}", refused.text);
    assert!(refused.text.contains("put it behind the old one on all gateways"), "{}", refused.text);

    let gateways = [(); 2].map(|()| sharing(&etcd).set("encryption.keyring", &both).start());
    let mut protected = route(&origin);
    protected["plugins"] = json!({"key-auth": {}});
    put(&gateways[0], "/routes/1", &protected);
    wait_for("a consumer", || gateways.iter().all(|it| lets_in(it, 0)).then_some(()));
    let mut reseal = Command::new(env!("CARGO_BIN_EXE_tollhouse"));
    reseal.args(line("reseal", &both).split_whitespace()).current_dir(folder.path());
    let killed = Running::start(&mut reseal);
    wait_for("a part of it", || killed.output().text().contains("sealed anew: ").then_some(()));
    // SIGKILL.
    drop(killed);
    for number in [0, CONSUMERS / 2, CONSUMERS - 1] {
        assert!(gateways.iter().all(|it| lets_in(it, number)), "{number}");
    }
    let ran = wait_for("whoever was killed to be forgotten", || {
        let ran = command(folder.path(), &line("reseal", &both));
        (!ran.text.contains("another process is sealing the store again")).then_some(ran)
    });
    assert!(ran.status.success(), "{}", ran.text);
    assert!(ran.text.contains("nothing needs the older keys any more"), "{}", ran.text);
    drop(gateways);
    let late = sharing(&etcd).set("encryption.keyring", NEW).start();
    let problems = late.configuration()["problems"].clone();
    assert_eq!(problems, Value::Array(Vec::new()), "{problems}");
    for number in [0, CONSUMERS / 2, CONSUMERS - 1] {
        assert!(lets_in(&late, number), "{number}");
    }
    let refused = command(folder.path(), &line("reseal", KEYRING));
    assert!(!refused.status.success(), "it is forgotten: {}", refused.text);
}
