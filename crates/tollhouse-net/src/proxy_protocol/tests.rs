//! Headers of the PROXY protocol, versions 1 and 2: what is read, refused and written.

use super::*;

fn v2(command: u8, kind: u8, body: &[u8]) -> Vec<u8> {
    let mut header = V2_START.to_vec();
    header.extend([command, kind]);
    header.extend(u16::try_from(body.len()).expect("short").to_be_bytes());
    header.extend(body);
    header
}

const V4: [u8; 12] = [192, 0, 2, 1, 192, 0, 2, 2, 0x04, 0xd2, 0x01, 0xbb];

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn proxied(source: &str, destination: &str) -> Result<ProxyHeader, HeaderError> {
    Ok(ProxyHeader::Proxied { source: address(source), destination: address(destination) })
}

/// The verdict about whole bytes, checked against every shorter piece of them.
fn verdict(bytes: &[u8]) -> Result<ProxyHeader, HeaderError> {
    let whole = parse(bytes);
    for end in 0..bytes.len() {
        match parse(&bytes[..end]) {
            Ok(None) => {}
            early => assert_eq!(early, whole, "{end} of {bytes:?}"),
        }
    }
    whole.map(|header| header.expect("a whole header").said)
}

#[test]
fn lines_of_version_1_are_read_strictly() {
    let table: &[(&str, Result<ProxyHeader, HeaderError>)] = &[
        (
            "PROXY TCP4 192.0.2.1 192.0.2.2 1234 443\r\nGET",
            proxied("192.0.2.1:1234", "192.0.2.2:443"),
        ),
        ("PROXY TCP6 2001:db8::1 ::1 0 65535\r\n", proxied("[2001:db8::1]:0", "[::1]:65535")),
        ("PROXY UNKNOWN\r\n", Ok(ProxyHeader::Nothing)),
        ("PROXY UNKNOWN ff::1 whatever 1\r\n", Ok(ProxyHeader::Nothing)),
        ("PROXY TCP4 192.0.2.1 192.0.2.2 1234 443\n", Err(HeaderError::Malformed)),
        ("PROXY TCP4 192.0.2.1  192.0.2.2 1234 443\r\n", Err(HeaderError::Malformed)),
        ("PROXY TCP4 192.0.2.1 192.0.2.2 01234 443\r\n", Err(HeaderError::Malformed)),
        ("PROXY TCP4 192.0.2.1 192.0.2.2 +123 443\r\n", Err(HeaderError::Malformed)),
        ("PROXY TCP4 192.0.2.1 192.0.2.2 1234 65536\r\n", Err(HeaderError::Malformed)),
        ("PROXY TCP4 192.0.2.01 192.0.2.2 1234 443\r\n", Err(HeaderError::Malformed)),
        ("PROXY TCP4 ::1 ::1 1234 443\r\n", Err(HeaderError::Malformed)),
        ("PROXY TCP4 192.0.2.1 192.0.2.2 1234\r\n", Err(HeaderError::Malformed)),
        ("PROXY TCP4 192.0.2.1 192.0.2.2 1234 443 \r\n", Err(HeaderError::Malformed)),
        ("PROXY UDP4 192.0.2.1 192.0.2.2 1234 443\r\n", Err(HeaderError::UnknownKind)),
        ("PROXY  TCP4 192.0.2.1 192.0.2.2 1234 443\r\n", Err(HeaderError::Malformed)),
        ("PROXYTCP4", Err(HeaderError::Absent)),
        ("POST / HTTP/1.1\r\n", Err(HeaderError::Absent)),
        ("GET / HTTP/1.1\r\n", Err(HeaderError::Absent)),
        ("\x16\x03\x01", Err(HeaderError::Absent)),
    ];
    for (line, expected) in table {
        assert_eq!(verdict(line.as_bytes()), *expected, "{line:?}");
    }
}

#[test]
fn a_line_of_107_bytes_is_read_and_one_of_108_is_refused() {
    let line = |bytes: usize| {
        let start = "PROXY UNKNOWN ";
        format!("{start}{}\r\n", "x".repeat(bytes - start.len() - 2)).into_bytes()
    };
    assert_eq!(verdict(&line(107)), Ok(ProxyHeader::Nothing));
    assert_eq!(verdict(&line(108)), Err(HeaderError::TooLong));
}

#[test]
fn binary_headers_are_read_by_family_and_command() {
    let v6: Vec<u8> = [[0x20; 16], [0x30; 16]].concat().into_iter().chain([0, 1, 0, 2]).collect();
    let with = |field: &[u8]| [&V4, field].concat();
    let table: &[(Vec<u8>, Result<ProxyHeader, HeaderError>)] = &[
        (v2(0x21, 0x11, &V4), proxied("192.0.2.1:1234", "192.0.2.2:443")),
        (v2(0x21, 0x12, &V4), proxied("192.0.2.1:1234", "192.0.2.2:443")),
        (
            v2(0x21, 0x21, &v6),
            proxied(
                "[2020:2020:2020:2020:2020:2020:2020:2020]:1",
                "[3030:3030:3030:3030:3030:3030:3030:3030]:2",
            ),
        ),
        (v2(0x21, 0x31, &[0; 216]), Ok(ProxyHeader::Nothing)),
        (v2(0x21, 0x00, &[]), Ok(ProxyHeader::Nothing)),
        (v2(0x21, 0x00, &[9; 30]), Ok(ProxyHeader::Nothing)),
        (v2(0x20, 0x11, &[9; 5]), Ok(ProxyHeader::Nothing)),
        (v2(0x21, 0x11, &with(&[0x04, 0, 2, 9, 9])), proxied("192.0.2.1:1234", "192.0.2.2:443")),
        (v2(0x21, 0x11, &with(&[0x04, 0, 3, 9, 9])), Err(HeaderError::Malformed)),
        (v2(0x21, 0x11, &with(&[0x04, 0])), Err(HeaderError::Malformed)),
        (v2(0x21, 0x11, &with(&[0x03, 0, 4, 1, 2, 3, 4])), Err(HeaderError::Checksum)),
        (v2(0x21, 0x11, &with(&[0x03, 0, 3, 1, 2, 3])), Err(HeaderError::Malformed)),
        (
            v2(0x21, 0x11, &with(&[&[0x05, 0, 129][..], &[0; 129]].concat())),
            Err(HeaderError::Malformed),
        ),
        (v2(0x21, 0x11, &V4[..11]), Err(HeaderError::Malformed)),
        (v2(0x21, 0x21, &V4), Err(HeaderError::Malformed)),
        (v2(0x22, 0x11, &V4), Err(HeaderError::UnknownKind)),
        (v2(0x11, 0x11, &V4), Err(HeaderError::UnknownKind)),
        (v2(0x21, 0x13, &V4), Err(HeaderError::UnknownKind)),
        (v2(0x21, 0x41, &V4), Err(HeaderError::UnknownKind)),
        (v2(0x21, 0x10, &V4), Err(HeaderError::UnknownKind)),
        (v2(0x21, 0x11, &[0; HEADER_BYTES_MAX]), Err(HeaderError::TooLong)),
        (b"\r\n\r\nGET / HTTP/1.1".to_vec(), Err(HeaderError::Absent)),
    ];
    for (bytes, expected) in table {
        assert_eq!(verdict(bytes), *expected, "{bytes:?}");
    }
}

#[test]
fn what_is_written_is_read_again_and_its_length_is_known() {
    let table = [
        (Version::V1, "192.0.2.1:1", "192.0.2.2:2", "192.0.2.1:1", "192.0.2.2:2"),
        (Version::V1, "[2001:db8::1]:1", "[::1]:2", "[2001:db8::1]:1", "[::1]:2"),
        (Version::V2, "192.0.2.1:1", "192.0.2.2:2", "192.0.2.1:1", "192.0.2.2:2"),
        (Version::V2, "[2001:db8::1]:1", "[::1]:2", "[2001:db8::1]:1", "[::1]:2"),
        (Version::V2Datagram, "192.0.2.1:1", "192.0.2.2:2", "192.0.2.1:1", "192.0.2.2:2"),
        (Version::V2, "192.0.2.1:1", "[::1]:2", "[::ffff:192.0.2.1]:1", "[::1]:2"),
        (Version::V2, "[::ffff:192.0.2.1]:1", "192.0.2.2:2", "192.0.2.1:1", "192.0.2.2:2"),
    ];
    for (version, source, destination, source_read, destination_read) in table {
        let mut bytes = Vec::new();
        write(version, address(source), address(destination), &mut bytes);
        let length = bytes.len();
        assert_eq!(verdict(&bytes), proxied(source_read, destination_read), "{version:?}");
        bytes.extend(b"payload");
        let header = parse(&bytes).expect("well-formed").expect("whole");
        assert_eq!(header.length, length, "{version:?}");
    }
}
