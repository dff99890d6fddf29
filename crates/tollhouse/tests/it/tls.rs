//! TLS towards clients: which certificate they are shown, and what becomes of their requests.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::{Gateway, Origin, RawClient};

use crate::support::{everything_to, gateway, with};
use crate::tls_support::{
    Answer, Authority, PATIENCE, Pair, TlsOptions, ask, der, get, read_answer, server_certificate,
    ssl,
};

/// A gateway with these ssl objects that leads everything to `origin`.
fn start(origin: &Origin, ssls: &[Value]) -> Gateway {
    gateway().tls().log_requests().resources(&resources(origin, ssls)).start()
}

fn resources(origin: &Origin, ssls: &[Value]) -> Value {
    with(everything_to(origin.address()), json!({ "ssls": ssls }))
}

/// Handshakes that have failed with a code.
fn failed(gateway: &Gateway, code: &str) -> f64 {
    let name = "tollhouse_downstream_tls_handshakes_failed_total";
    gateway.metric(&format!("{name}{{code=\"{code}\"}}"))
}

#[test]
fn a_client_is_shown_the_certificate_of_the_name_that_it_asks_for() {
    let authority = Authority::new("root");
    let all = ["a.example.com", "b.example.com", "other.test", "x.y.example.com"];
    let pair = || authority.server(&all);
    let (exact, wildcard, fallback) = (pair(), pair(), pair());
    let origin = Origin::named("hello");
    let gateway = start(
        &origin,
        &[
            ssl("1", &["A.Example.com"], &exact),
            ssl("2", &["*.example.com"], &wildcard),
            ssl("3", &["*"], &fallback),
            with(ssl("4", &["b.example.com"], &exact), json!({ "status": 0 })),
        ],
    );
    let client = TlsOptions::new(&authority).build();
    for (name, expected) in [
        ("a.example.com", &exact),
        ("A.EXAMPLE.com", &exact),
        ("b.example.com", &wildcard),
        ("x.y.example.com", &fallback),
        ("other.test", &fallback),
    ] {
        let mut stream = client.connect(gateway.tls_address(), name).expect("it is served");
        assert!(server_certificate(&stream) == der(expected), "{name}");
        assert_eq!(get(&mut stream, name, "/").status(), 200);
        assert_eq!(stream.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
    }
    let nameless = TlsOptions::new(&authority).nameless().build();
    let stream = nameless.connect(gateway.tls_address(), "other.test").expect("it is served");
    assert!(server_certificate(&stream) == der(&fallback), "without a name");
}

#[test]
fn a_client_that_offers_http2_speaks_it() {
    let authority = Authority::new("root");
    let pair = authority.server(&["a.example.com"]);
    let origin = Origin::named("hello");
    let gateway = start(&origin, &[ssl("1", &["a.example.com"], &pair)]);
    let chosen = |protocols: &[&str]| {
        let client = TlsOptions::new(&authority).offering(protocols).build();
        let stream = client.connect(gateway.tls_address(), "a.example.com").expect("it is served");
        stream.conn.alpn_protocol().map(<[u8]>::to_vec)
    };
    assert_eq!(chosen(&["http/1.1", "h2"]).as_deref(), Some(&b"h2"[..]));
    assert_eq!(chosen(&["http/1.1"]).as_deref(), Some(&b"http/1.1"[..]));
    assert_eq!(chosen(&[]), None);
}

#[test]
fn a_name_without_a_certificate_is_refused_by_an_alert_and_in_the_log() {
    let authority = Authority::new("root");
    let names = ["known.test", "fallback.test"];
    let pair = authority.server(&names);
    let origin = Origin::named("hello");
    let gateway = gateway()
        .tls()
        .set("tls.fallback_sni", "Fallback.test.")
        .resources(&resources(&origin, &[ssl("1", &names, &pair)]))
        .start();
    let client = TlsOptions::new(&authority).build();
    let answer = client.get(gateway.tls_address(), "unknown.test", "/");
    assert!(answer.text().contains("UnrecognisedName"), "{answer:?}");
    gateway.output().wait_line("the reason", |line| {
        (line.contains("tls_no_certificate") && line.contains("unknown.test")).then_some(())
    });
    let nameless = TlsOptions::new(&authority).nameless().build();
    assert_eq!(nameless.get(gateway.tls_address(), "fallback.test", "/").status(), 200);
    assert_eq!(failed(&gateway, "tls_no_certificate"), 1.0);
}

#[test]
fn alerts_name_what_client_and_host_do_not_have_in_common() {
    let authority = Authority::new("root");
    let origin = Origin::named("hello");
    let mutual = json!({ "client": { "ca": authority.pem } });
    let gateway = start(
        &origin,
        &[
            ssl("1", &["a.test"], &authority.server(&["a.test"])),
            with(ssl("2", &["mutual.test"], &authority.server(&["mutual.test"])), mutual),
        ],
    );
    for (client, name) in [
        // The host has no key of RSA.
        (TlsOptions::rsa_only(&authority).build(), "a.test"),
        // TLS 1.2 has no alert for a missing certificate.
        (TlsOptions::old(&authority).build(), "mutual.test"),
    ] {
        let answer = client.get(gateway.tls_address(), name, "/");
        assert!(answer.text().contains("HandshakeFailure"), "{name}: {answer:?}");
    }
    // TLS 1.1 with one suite; and TLS 1.2 with a message of 20,000 bytes, of which the first come.
    let mut old = vec![22, 3, 1, 0, 45, 1, 0, 0, 41, 3, 2];
    old.resize(43, 7);
    old.extend([0, 0, 2, 0, 0x2f, 1, 0]);
    let mut long = vec![22, 3, 1, 0x40, 0, 1, 0, 0x4e, 0x20, 3, 3];
    long.resize(12_000, 0);
    for (hello, alert) in [(old, 70), (long, 47)] {
        let mut stream = TcpStream::connect(gateway.tls_address()).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("an open socket");
        stream.write_all(&hello).expect("it is sent");
        let mut record = [0; 7];
        stream.read_exact(&mut record).expect("an alert");
        assert_eq!((record[0], record[5], record[6]), (21, 2, alert));
    }
}

#[test]
fn the_clients_hello_chooses_between_keys_of_two_types() {
    let authority = Authority::new("root");
    let (rsa, elliptic) = (authority.rsa_server(&["a.test"]), authority.server(&["a.test"]));
    let both = json!({ "certs": [elliptic.chain], "keys": [elliptic.key] });
    let origin = Origin::named("hello");
    let gateway = start(&origin, &[with(ssl("1", &["a.test"], &rsa), both)]);
    let modern = TlsOptions::new(&authority).build();
    let stream = modern.connect(gateway.tls_address(), "a.test").expect("it is served");
    assert!(server_certificate(&stream) == der(&elliptic));
    let rsa_only = TlsOptions::rsa_only(&authority).build();
    let stream = rsa_only.connect(gateway.tls_address(), "a.test").expect("it is served");
    assert!(server_certificate(&stream) == der(&rsa));
}

#[test]
fn versions_are_those_of_the_object() {
    let authority = Authority::new("root");
    let pair = authority.server(&["new.test", "old.test"]);
    let origin = Origin::named("hello");
    let versions = |names: &[&str]| json!({ "ssl_protocols": names });
    let gateway = start(
        &origin,
        &[
            with(ssl("1", &["new.test"], &pair), versions(&["TLSv1.3"])),
            with(ssl("2", &["old.test"], &pair), versions(&["TLSv1.2"])),
        ],
    );
    let old = TlsOptions::old(&authority).build();
    assert_eq!(old.get(gateway.tls_address(), "old.test", "/").status(), 200);
    let refused = old.get(gateway.tls_address(), "new.test", "/");
    assert!(refused.text().contains("ProtocolVersion"), "{refused:?}");
    let new = TlsOptions::new(&authority).build();
    let stream = new.connect(gateway.tls_address(), "old.test").expect("it is served");
    assert_eq!(stream.conn.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_2));
    assert_eq!(new.get(gateway.tls_address(), "new.test", "/").status(), 200);
}

#[test]
fn nodes_and_log_learn_that_the_client_came_over_tls() {
    let authority = Authority::new("root");
    let pair = authority.server(&["a.test"]);
    let origin = Origin::named("hello");
    let gateway = gateway()
        .tls()
        .log_requests()
        .set("access_log.fields", "request_uri,scheme")
        .resources(&resources(&origin, &[ssl("1", &["a.test"], &pair)]))
        .start();
    let client = TlsOptions::new(&authority).build();
    assert_eq!(client.get(gateway.tls_address(), "a.test", "/seen").status(), 200);
    let request = origin.last_request();
    assert_eq!(request.all("x-forwarded-proto"), ["https"]);
    let port = gateway.tls_address().port().to_string();
    assert_eq!(request.all("x-forwarded-port"), [port.as_str()]);
    assert_eq!(gateway.log_line("/seen")["scheme"], json!("https"));
}

#[test]
fn bodies_of_any_length_pass_both_ways_on_one_connection() {
    let authority = Authority::new("root");
    let pair = authority.server(&["a.test"]);
    let body = vec![b'b'; 3_000_000];
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    let origin = Origin::answering([head.as_bytes(), &body].concat());
    let gateway = start(&origin, &[ssl("1", &["a.test"], &pair)]);
    let client = TlsOptions::new(&authority).build();
    let mut stream = client.connect(gateway.tls_address(), "a.test").expect("it is served");
    for length in [0, 1, 16_383, 16_384, 16_385, 100_000, 2_000_000] {
        let head = format!("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: {length}\r\n\r\n");
        let request = [head.into_bytes(), vec![b'u'; length]].concat();
        let answer = ask(&mut stream, &request).expect("an answer");
        assert_eq!(answer.status(), 200);
        assert!(answer.text().ends_with("bbbb"));
        assert_eq!(origin.last_request().body.len(), length);
    }
    // Many at once, in few records.
    let many = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n".repeat(5);
    stream.write_all(many.as_bytes()).expect("it takes them");
    for _ in 0..5 {
        assert_eq!(read_answer(&mut stream).expect("an answer").status(), 200);
    }
}

#[test]
fn what_speaks_the_other_protocol_is_told_so() {
    let authority = Authority::new("root");
    let pair = authority.server(&["a.test"]);
    let origin = Origin::named("hello");
    let gateway = start(&origin, &[ssl("1", &["a.test"], &pair)]);
    let answer = RawClient::connect(gateway.tls_address()).get("/");
    assert_eq!(answer.status(), 400);
    assert!(answer.text().contains("The plain HTTP request was sent to HTTPS port"));
    gateway.output().wait_line("the log", |line| line.contains("plain_http_on_tls").then_some(()));
    let client = TlsOptions::new(&authority).build();
    assert!(matches!(client.get(gateway.address(), "a.test", "/"), Answer::Broken(_)));
    gateway.output().wait_line("the log", |line| line.contains("bad_request_line").then_some(()));
}

/// Passes bytes on one by one, so that each arrives in a segment of its own.
struct Dripping(TcpStream);

impl Write for Dripping {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(&bytes[..bytes.len().min(1)])
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_handshake_in_segments_of_one_octet_ends_well() {
    let authority = Authority::new("root");
    let pair = authority.server(&["a.test"]);
    let origin = Origin::named("hello");
    let gateway = start(&origin, &[ssl("1", &["a.test"], &pair)]);
    let client = TlsOptions::new(&authority).build();
    let name = "a.test".try_into().expect("a name");
    let mut session = rustls::ClientConnection::new(client.0, name).expect("a session");
    let tcp = TcpStream::connect(gateway.tls_address()).expect("it listens");
    tcp.set_nodelay(true).expect("an open socket");
    tcp.set_read_timeout(Some(PATIENCE)).expect("an open socket");
    let mut slow = Dripping(tcp.try_clone().expect("a descriptor"));
    let mut reading = tcp;
    while session.is_handshaking() || session.wants_write() {
        while session.wants_write() {
            session.write_tls(&mut slow).expect("it goes on");
        }
        if session.is_handshaking() {
            assert_ne!(session.read_tls(&mut reading).expect("it goes on"), 0);
            session.process_new_packets().expect("a good handshake");
        }
    }
    let request = b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";
    session.writer().write_all(request).expect("it takes them");
    while session.wants_write() {
        session.write_tls(&mut slow).expect("it goes on");
    }
    let mut stream = rustls::StreamOwned::new(session, reading);
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an end that is no cut");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[test]
fn half_open_handshakes_end_at_the_deadline_and_others_are_served() {
    let authority = Authority::new("root");
    let pair = authority.server(&["a.test"]);
    let origin = Origin::named("hello");
    let gateway = gateway()
        .tls()
        .set("workers", "1")
        .set("limits.handshake_time", "5s")
        .set("limits.silent_connections_per_address", "600")
        .resources(&resources(&origin, &[ssl("1", &["a.test"], &pair)]))
        .start();
    let client = TlsOptions::new(&authority).build();
    let open = || TcpStream::connect(gateway.tls_address()).expect("the kernel queues it");
    let mut waiting: Vec<TcpStream> = (0..500).map(|_| open()).collect();
    for stream in &mut waiting {
        // The first bytes of a record that never comes to its end.
        stream.write_all(&[22, 3, 1, 2, 0, 1]).expect("it takes them");
    }
    assert_eq!(client.get(gateway.tls_address(), "a.test", "/").status(), 200);
    // Beyond the bound the oldest are closed at once.
    waiting.extend((0..500).map(|_| open()));
    for stream in &mut waiting {
        stream.set_read_timeout(Some(PATIENCE)).expect("an open socket");
        let read = stream.read(&mut [0; 8]);
        assert!(matches!(read, Ok(0) | Err(_)), "it is closed without a word: {read:?}");
    }
    assert_eq!(client.get(gateway.tls_address(), "a.test", "/").status(), 200);
    let counts = ["tls_handshake_timeout", "tls_client_silent"].map(|code| failed(&gateway, code));
    assert!(counts[0] >= 500.0 && counts[1] >= 400.0, "{counts:?}");
    wait_for("the handshakes to end", || {
        (gateway.metric("tollhouse_downstream_tls_handshakes_open") == 0.0).then_some(())
    });
}

#[test]
fn silent_connections_of_one_address_keep_nobody_out() {
    let authority = Authority::new("root");
    let pair = authority.server(&["a.test"]);
    let origin = Origin::named("hello");
    let gateway = gateway()
        .tls()
        .set("workers", "1")
        .set("limits.silent_connections_per_worker", "20")
        .set("limits.silent_connections_per_address", "8")
        .set("limits.handshakes_per_worker", "1")
        .resources(&resources(&origin, &[ssl("1", &["a.test"], &pair)]))
        .start();
    let client = TlsOptions::new(&authority).build();
    let open = || TcpStream::connect(gateway.tls_address()).expect("the kernel queues it");
    // One that began its hello long before, and goes on with it byte by byte, is as silent as the others.
    let mut silent = vec![open()];
    silent[0].write_all(&[22, 3, 1, 2, 0, 1]).expect("it takes them");
    for _ in 0..40 {
        silent.extend((0..10).map(|_| open()));
        assert_eq!(client.get(gateway.tls_address(), "a.test", "/").status(), 200);
    }
    let left = wait_for("the older ones to be closed", || {
        let open = gateway.metric("tollhouse_downstream_connections_open");
        (open <= 8.0).then_some(open)
    });
    assert!(left >= 1.0, "the newest ones may still speak");
    assert!(failed(&gateway, "tls_client_silent") >= 300.0);
    let mut byte = [0];
    silent[0].set_read_timeout(Some(PATIENCE)).expect("an open socket");
    let read = silent[0].read(&mut byte);
    assert!(matches!(read, Ok(0) | Err(_)), "the oldest is closed: {read:?}");
}

#[test]
fn hostile_bytes_end_a_handshake_and_nothing_else() {
    let authority = Authority::new("root");
    let pair = authority.server(&["a.test"]);
    let origin = Origin::named("hello");
    let gateway = start(&origin, &[ssl("1", &["a.test"], &pair)]);
    let mut long = vec![22, 3, 1, 0x40, 0, 1, 0, 0xff, 0xff];
    long.resize(70_000, 0);
    for bytes in [
        &b"\x16\x03\x01\x00\x00"[..],
        b"\x16\x03\x01\xff\xff\x01\x00\x00\x00",
        b"\x16\x03\x01\x00\x05\x02\x00\x00\x01\x00",
        b"\x16",
        b"\x80\x2e\x01\x00\x02",
        b"\x15\x03\x01\x00\x02\x02\x28",
        &long,
        &[0; 1],
        &[0xff; 40_000],
    ] {
        let mut stream = TcpStream::connect(gateway.tls_address()).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("an open socket");
        // Part of it may come too late for a gateway that has seen enough.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.len() < 1000, "{rest:?}");
    }
    let client = TlsOptions::new(&authority).build();
    assert_eq!(client.get(gateway.tls_address(), "a.test", "/").status(), 200);
}

#[test]
fn a_certificate_that_changes_fails_no_handshake_and_serves_at_once() {
    let authority = Authority::new("root");
    let pairs: Vec<Pair> = (0..4).map(|_| authority.server(&["a.test"])).collect();
    let origin = Origin::named("hello");
    let gateway = start(&origin, &[ssl("1", &["a.test"], &pairs[0])]);
    let client = TlsOptions::new(&authority).forgetful().build();
    let address = gateway.tls_address();
    let mut kept = client.connect(address, "a.test").expect("it is served");
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let shaking = scope.spawn(|| {
            let mut count = 0;
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                client.connect(address, "a.test").expect("none fails");
                count += 1;
            }
            count
        });
        for pair in pairs.iter().cycle().skip(1).take(11) {
            gateway.reload(&resources(&origin, &[ssl("1", &["a.test"], pair)]));
            let stream = client.connect(address, "a.test").expect("none fails");
            assert!(server_certificate(&stream) == der(pair));
        }
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(shaking.join().expect("no handshake fails") > 0);
    });
    assert_eq!(get(&mut kept, "a.test", "/").status(), 200, "a connection keeps its certificate");
}

#[test]
fn a_bad_object_leaves_its_last_good_version_in_service() {
    let authority = Authority::new("root");
    let (good, other) = (authority.server(&["a.test"]), authority.server(&["a.test"]));
    let origin = Origin::named("hello");
    let gateway = start(&origin, &[ssl("1", &["a.test"], &good)]);
    let mixed = Pair { chain: good.chain.clone(), key: other.key };
    gateway.reload(&resources(&origin, &[ssl("1", &["a.test"], &mixed)]));
    gateway.output().wait_line("the problem", |line| {
        line.contains("the key does not belong to the certificate").then_some(())
    });
    let client = TlsOptions::new(&authority).build();
    let stream = client.connect(gateway.tls_address(), "a.test").expect("it is served");
    assert!(server_certificate(&stream) == der(&good));
    gateway.reload(&resources(&origin, &[]));
    let refused = client.get(gateway.tls_address(), "a.test", "/");
    assert!(matches!(refused, Answer::Broken(_)), "{refused:?}");
}

#[test]
fn keys_come_out_of_the_environment() {
    let authority = Authority::new("root");
    let pair = authority.server(&["a.test"]);
    let origin = Origin::named("hello");
    let named = Pair { chain: "$env://THE_CERT".to_owned(), key: "$ENV://THE_KEY".to_owned() };
    let gateway = gateway()
        .tls()
        .set("secrets.env", "THE_*")
        .variable("THE_CERT", &pair.chain)
        .variable("THE_KEY", &pair.key)
        .resources(&resources(&origin, &[ssl("1", &["a.test"], &named)]))
        .start();
    let client = TlsOptions::new(&authority).build();
    assert_eq!(client.get(gateway.tls_address(), "a.test", "/").status(), 200);
}

#[test]
fn an_object_of_the_admin_api_serves_without_a_restart() {
    let authority = Authority::new("root");
    let pair = authority.server(&["a.test"]);
    let origin = Origin::named("hello");
    let gateway = gateway().tls().without_resources().start();
    let route =
        json!({ "uri": "/*", "upstream": { "nodes": { origin.address().to_string(): 1 } } });
    assert_eq!(gateway.admin("PUT", "/routes/1", &route).status(), 201);
    let client = TlsOptions::new(&authority).build();
    let refused = client.get(gateway.tls_address(), "a.test", "/");
    assert!(matches!(refused, Answer::Broken(_)), "{refused:?}");
    let object = json!({ "sni": "a.test", "cert": pair.chain, "key": pair.key });
    assert_eq!(gateway.admin("PUT", "/ssls/1", &object).status(), 201);
    wait_for("the certificate", || match client.get(gateway.tls_address(), "a.test", "/") {
        Answer::Http(200, _) => Some(()),
        _ => None,
    });
}

#[test]
fn the_end_of_a_certificate_is_on_the_page_of_metrics() {
    let authority = Authority::new("root");
    let pair = authority.server(&["a.test"]);
    let origin = Origin::named("hello");
    let gateway = start(&origin, &[ssl("one", &["a.test"], &pair)]);
    let end = || gateway.metric("tollhouse_certificate_expiry_seconds{ssl=\"one\"}");
    assert!(end() > 1_800_000_000.0, "{}", end());
    gateway.reload(&resources(&origin, &[]));
    wait_for("the certificate to go", || (end() == 0.0).then_some(()));
}
