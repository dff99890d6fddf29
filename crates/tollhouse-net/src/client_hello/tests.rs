//! Names in hellos of TLS: split into records, left out, broken, endless.

use std::sync::Arc;

use rustls_pki_types::ServerName;

use super::*;

fn with_length(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).expect("short");
    [&length.to_be_bytes()[..], bytes].concat()
}

/// A handshake message with these extensions.
fn message(extensions: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.push(0);
    body.extend(with_length(&[0x13, 0x01]));
    body.extend([1, 0]);
    let list: Vec<u8> = extensions
        .iter()
        .flat_map(|(kind, content)| [&kind.to_be_bytes()[..], &with_length(content)].concat())
        .collect();
    body.extend(with_length(&list));
    let length = u32::try_from(body.len()).expect("short").to_be_bytes();
    [&[1], &length[1..], &body].concat()
}

/// Puts a message into records of at most `payload` bytes.
fn records(message: &[u8], payload: usize) -> Vec<u8> {
    let record = |part: &[u8]| [&[22, 3, 1][..], &with_length(part)].concat();
    message.chunks(payload).flat_map(record).collect()
}

fn names(entries: &[(u8, &[u8])]) -> (u16, Vec<u8>) {
    let list: Vec<u8> = entries
        .iter()
        .flat_map(|(kind, name)| [&[*kind][..], &with_length(name)].concat())
        .collect();
    (EXTENSION_SERVER_NAME, with_length(&list))
}

fn name_of(bytes: &[u8]) -> Result<Option<String>, HelloError> {
    let whole = parse(bytes);
    for end in 0..bytes.len() {
        let early = parse(&bytes[..end]);
        assert!(early == Ok(None) || early == whole, "{end}: {early:?}, then {whole:?}");
    }
    whole.map(|hello| hello.expect("a whole hello").server_name)
}

#[test]
fn a_name_is_found_however_the_hello_is_split_into_records() {
    let big = (51, vec![9; 1500]);
    let message = message(&[big, names(&[(0, b"Edge.Example.COM.")]), (16, vec![1, 2])]);
    for payload in [1 << 14, 700, 100, 1] {
        let bytes = records(&message, payload);
        assert_eq!(name_of(&bytes), Ok(Some("edge.example.com".into())), "{payload}");
    }
}

#[test]
fn hellos_without_a_name_that_counts_have_none() {
    for extensions in [
        vec![],
        vec![(16, vec![0, 0])],
        vec![names(&[(1, b"x")])],
        vec![names(&[(0, b"192.0.2.1")])],
        vec![names(&[(0, b"::1")])],
    ] {
        let bytes = records(&message(&extensions), 1 << 14);
        assert_eq!(name_of(&bytes), Ok(None), "{extensions:?}");
    }
}

#[test]
fn what_is_no_hello_is_refused() {
    let bare = |extensions: &[(u16, Vec<u8>)]| records(&message(extensions), 1 << 14);
    let mut cut = bare(&[names(&[(0, b"a.b")])]);
    // A length inside leads beyond the end.
    let at = cut.len() - 5;
    cut[at] = 0xff;
    let long = message(&[(51, vec![9; 20_000])]);
    let table: &[(&str, Vec<u8>, HelloError)] = &[
        ("HTTP", b"GET / HTTP/1.1\r\n\r\n".to_vec(), HelloError::NotTls),
        ("an alert", vec![21, 3, 1, 0, 2, 1, 0], HelloError::NotTls),
        ("SSL 2", vec![22, 2, 0, 0, 1, 1], HelloError::NotTls),
        ("a server's hello", vec![22, 3, 1, 0, 1, 2], HelloError::NotTls),
        ("an empty record", vec![22, 3, 1, 0, 0], HelloError::Malformed),
        ("a record too long", vec![22, 3, 1, 0x40, 1], HelloError::Malformed),
        ("a wrong length", cut, HelloError::Malformed),
        ("two names", bare(&[names(&[(0, b"a"), (0, b"b")])]), HelloError::Malformed),
        ("two lists", bare(&[names(&[(0, b"a")]), names(&[(0, b"b")])]), HelloError::Malformed),
        ("an empty name", bare(&[names(&[(0, b"")])]), HelloError::Malformed),
        ("no name", bare(&[names(&[(0, b"a b\r\n")])]), HelloError::Malformed),
        ("a long hello", records(&long, 1 << 14), HelloError::TooLong),
    ];
    for (what, bytes, expected) in table {
        assert_eq!(parse(bytes).err(), Some(*expected), "{what}");
    }
}

#[test]
fn a_hello_that_never_ends_is_refused_at_the_bound() {
    let message = message(&[(51, vec![9; 12_000])]);
    // Six bytes for each one of the message: more than is waited for.
    let bytes = records(&message, 1);
    let bound = &bytes[..HELLO_BYTES_MAX];
    assert_eq!(parse(&bytes[..HELLO_BYTES_MAX - 1]), Ok(None));
    assert_eq!(parse(bound), Err(HelloError::TooLong));
}

#[test]
fn the_hello_of_a_real_client_is_read() {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let name = ServerName::try_from("node.example.com").expect("a name");
    let mut client = rustls::ClientConnection::new(Arc::new(config), name).expect("a client");
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).expect("written to memory");
    assert_eq!(name_of(&bytes), Ok(Some("node.example.com".into())));
}
