//! Vectors of RFC 7541 appendix C, what must be refused, and properties against the decoder of the
//! `h2` crate's kind: a naive table.

use super::*;
use crate::field::Field;
use proptest::prelude::*;

type Owned = (String, String);

/// Bytes of hexadecimal digits, white space ignored.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<Owned>, HpackError> {
    let mut fields = Vec::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut visit = |field: Field<'_>| fields.push((text(field.name), text(field.value)));
    decoder.decode(block, &mut visit).map(|()| fields)
}

fn owned(lines: &str) -> Vec<Owned> {
    let pair = |line: &str| {
        let (name, value) = line.trim().split_once(": ").unwrap();
        (name.to_owned(), value.to_owned())
    };
    lines.lines().filter(|line| !line.trim().is_empty()).map(pair).collect()
}

const REQUESTS: [&str; 3] = [
    ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com",
    ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\ncache-control: no-cache",
    ":method: GET\n:scheme: https\n:path: /index.html\n:authority: www.example.com\n\
     custom-key: custom-value",
];

const RESPONSES: [&str; 3] = [
    ":status: 302\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:21 GMT\n\
     location: https://www.example.com",
    ":status: 307\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:21 GMT\n\
     location: https://www.example.com",
    ":status: 200\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:22 GMT\n\
     location: https://www.example.com\ncontent-encoding: gzip\n\
     set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
];

#[test]
fn stories_of_the_rfc_are_decoded() {
    let stories: [(&[&str], [&str; 3], u32); 4] = [
        // C.3: requests without, C.4: with Huffman code.
        (
            &[
                "828684410f7777772e6578616d706c652e636f6d",
                "828684be58086e6f2d6361636865",
                "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
            ],
            REQUESTS,
            4096,
        ),
        (
            &[
                "828684418cf1e3c2e5f23a6ba0ab90f4ff",
                "828684be5886a8eb10649cbf",
                "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
            ],
            REQUESTS,
            4096,
        ),
        // C.5 and C.6: responses with a table of 256 bytes, so that entries are dropped.
        (
            &[
                "4803333032580770726976617465611d4d6f6e2c203231204f637420323031332032303a31333a3231\
                 20474d546e1768747470733a2f2f7777772e6578616d706c652e636f6d",
                "4803333037c1c0bf",
                "88c1611d4d6f6e2c203231204f637420323031332032303a31333a323220474d54c05a04677a6970\
                 7738666f6f3d4153444a4b48514b425a584f5157454f50495541585157454f49553b206d61782d6167\
                 653d333630303b2076657273696f6e3d31",
            ],
            RESPONSES,
            256,
        ),
        (
            &[
                "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad17\
                 1863c78f0b97c8e9ae82ae43d3",
                "4883640effc1c0bf",
                "88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6\
                 c7b335dfdfcd5b3960d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007",
            ],
            RESPONSES,
            256,
        ),
    ];
    for (blocks, expected, table_bytes) in stories {
        let mut decoder = Decoder::default();
        // The size is agreed on outside of the blocks there.
        decode(&mut decoder, &size_update(table_bytes)).unwrap();
        for (block, lines) in blocks.iter().zip(expected) {
            assert_eq!(decode(&mut decoder, &hex(block)), Ok(owned(lines)));
        }
    }
}

fn size_update(bytes: u32) -> Vec<u8> {
    let mut out = Vec::new();
    integer::encode(&mut out, 5, 0x20, bytes);
    out
}

#[test]
fn single_representations_of_the_rfc_are_decoded() {
    // C.2: with and without indexing, never indexed, indexed.
    for (block, line) in [
        ("400a637573746f6d2d6b65790d637573746f6d2d686561646572", "custom-key: custom-header"),
        ("040c2f73616d706c652f70617468", ":path: /sample/path"),
        ("100870617373776f726406736563726574", "password: secret"),
        ("82", ":method: GET"),
    ] {
        let mut decoder = Decoder::default();
        assert_eq!(decode(&mut decoder, &hex(block)), Ok(owned(line)));
    }
}

#[test]
fn what_leads_nowhere_is_refused() {
    for (block, expected) in [
        ("80", HpackError::BadIndex),
        ("be", HpackError::BadIndex),
        ("7f00", HpackError::BadIndex),
        ("ff80808080808080808001", HpackError::IntegerOverflow),
        ("40", HpackError::Truncated),
        ("400161", HpackError::Truncated),
        ("40016105", HpackError::Truncated),
        // Huffman: eight bits of padding, padding of zeros, EOS.
        ("00816107", HpackError::Huffman),
        ("0082ffff0161", HpackError::Huffman),
        ("0084ffffffff0161", HpackError::Huffman),
        // Sizes: 5,000 of 4,096, behind a field, three of them.
        ("3f8927", HpackError::BadTableSize),
        ("8220", HpackError::BadTableSize),
        ("202020", HpackError::BadTableSize),
    ] {
        assert_eq!(decode(&mut Decoder::default(), &hex(block)), Err(expected), "{block}");
    }
}

#[test]
fn a_lowered_limit_must_be_followed() {
    let mut decoder = Decoder::default();
    decoder.set_limit(100);
    assert_eq!(decode(&mut decoder, &[0x82]), Err(HpackError::BadTableSize));
    let mut decoder = Decoder::default();
    decoder.set_limit(100);
    let block = [size_update(100), vec![0x82]].concat();
    assert!(decode(&mut decoder, &block).is_ok());
    assert!(decode(&mut decoder, &[0x82]).is_ok());
}

#[test]
fn an_entry_larger_than_the_table_is_delivered_and_empties_it() {
    let mut decoder = Decoder::default();
    let block = [size_update(64), hex("4001610162"), hex("4001631f"), vec![b'x'; 31]].concat();
    let fields = decode(&mut decoder, &block).unwrap();
    assert_eq!(fields[1], ("c".to_owned(), "x".repeat(31)));
    assert_eq!(decode(&mut decoder, &[0xbe]).unwrap().len(), 1);
    let block = [hex("40016322"), vec![b'x'; 34]].concat();
    assert_eq!(decode(&mut decoder, &block).unwrap().len(), 1);
    assert_eq!(decode(&mut decoder, &[0xbe]), Err(HpackError::BadIndex));
}

#[test]
fn the_name_of_an_entry_outlives_the_entry_that_it_pushes_out() {
    let mut decoder = Decoder::default();
    let first = [size_update(70), hex("4003616263"), hex("0564656667 68")].concat();
    decode(&mut decoder, &first).unwrap();
    // The name of the only entry, and a value that leaves no room for it.
    let second = [hex("7e14"), vec![b'v'; 20]].concat();
    let expected = vec![("abc".to_owned(), "v".repeat(20))];
    assert_eq!(decode(&mut decoder, &second), Ok(expected.clone()));
    assert_eq!(decode(&mut decoder, &[0xbe]), Ok(expected));
}

/// Encodes without checks.
fn encode(encoder: &mut Encoder, fields: &[(String, String, bool)]) -> Vec<u8> {
    let mut out = Vec::new();
    encoder.begin(&mut out);
    for (name, value, is_sensitive) in fields {
        let check = |_: &[u8], _: &[u8]| Ok::<(), ()>(());
        let field = Field::new(name.as_bytes(), value.as_bytes());
        let field = Field { is_sensitive: *is_sensitive, ..field };
        encoder.field(field, &mut out, check).unwrap();
    }
    out
}

fn plain(lines: &str) -> Vec<(String, String, bool)> {
    owned(lines).into_iter().map(|(name, value)| (name, value, false)).collect()
}

#[test]
fn what_repeats_is_one_byte_from_the_third_time_on() {
    let mut encoder = Encoder::new(4096, HuffmanUse::Never);
    let fields = plain(REQUESTS[2]);
    let lengths: Vec<usize> = (0..4).map(|_| encode(&mut encoder, &fields).len()).collect();
    assert_eq!(lengths[2..], [fields.len(), fields.len()]);
}

#[test]
fn a_value_that_is_remembered_lends_its_name_to_no_other() {
    let mut encoder = Encoder::new(4096, HuffmanUse::Never);
    let mut decoder = Decoder::default();
    let (first, other) = ("x-trace-bin: !!!", "x-trace-bin: AAAA");
    for expected in [true, true, false] {
        let block = encode(&mut encoder, &plain(first));
        assert_eq!(block.windows(11).any(|part| part == b"x-trace-bin"), expected);
        assert_eq!(decode(&mut decoder, &block), Ok(owned(first)));
    }
    // The first stands in the table now: a peer that could not read it takes what refers to it, be it for its
    // name alone, for unreadable.
    let block = encode(&mut encoder, &plain(other));
    assert!(block.windows(11).any(|part| part == b"x-trace-bin"), "{block:02x?}");
    assert_eq!(decode(&mut decoder, &block), Ok(owned(other)));
}

#[test]
fn what_differs_in_every_message_is_not_remembered() {
    let mut encoder = Encoder::new(4096, HuffmanUse::Never);
    for number in 0..100 {
        let block = encode(&mut encoder, &plain(&format!("x-request-id: {number:032}")));
        assert_eq!(block[0] & 0xf0, 0, "a literal without indexing");
    }
}

#[test]
fn secrets_are_never_remembered() {
    for (name, value, is_sensitive) in [
        ("authorization", "Bearer abc", false),
        ("proxy-authorization", "Basic abc", false),
        ("cookie", "a=b", false),
        ("x-key", "secret", true),
    ] {
        let mut encoder = Encoder::new(4096, HuffmanUse::Never);
        let field = [(name.to_owned(), value.to_owned(), is_sensitive)];
        for _ in 0..3 {
            let block = encode(&mut encoder, &field);
            assert_eq!(block[0] & 0xf0, 0x10, "{name}");
            let mut was_sensitive = false;
            Decoder::default().decode(&block, &mut |f| was_sensitive = f.is_sensitive).unwrap();
            assert!(was_sensitive);
        }
    }
}

#[test]
fn a_smaller_table_of_the_peer_is_announced_with_the_least_size_in_between() {
    let mut encoder = Encoder::new(4096, HuffmanUse::Never);
    encoder.set_peer_limit(0);
    encoder.set_peer_limit(100);
    let block = encode(&mut encoder, &[]);
    assert_eq!(block, [size_update(0), size_update(100)].concat());
    assert_eq!(encode(&mut encoder, &[]), []);
    encoder.set_peer_limit(65_536);
    assert_eq!(encode(&mut encoder, &[]), size_update(4096));
}

fn any_field() -> impl Strategy<Value = (String, String, bool)> {
    let name = prop_oneof![
        Just(":path".to_owned()),
        Just("content-type".to_owned()),
        Just("cookie".to_owned()),
        "[a-f]{1,3}",
        "[a-z0-9-]{1,40}",
    ];
    let value =
        prop_oneof![Just(String::new()), "[a-c]{0,2}", "[ -~]{0,60}", Just("x".repeat(4060))];
    (name, value, proptest::bool::weighted(0.1))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_encoded_is_decoded(
        blocks in proptest::collection::vec(
            (proptest::collection::vec(any_field(), 0..20), proptest::option::of(0..5000_u32)),
            1..20,
        ),
        huffman in prop_oneof![Just(HuffmanUse::Never), Just(HuffmanUse::IfShorter)],
    ) {
        let mut encoder = Encoder::new(4096, huffman);
        let mut decoder = Decoder::default();
        for (fields, limit) in blocks {
            if let Some(limit) = limit {
                encoder.set_peer_limit(limit);
                decoder.set_limit(limit);
            }
            let expected: Vec<Owned> =
                fields.iter().map(|(n, v, _)| (n.clone(), v.clone())).collect();
            prop_assert_eq!(decode(&mut decoder, &encode(&mut encoder, &fields)), Ok(expected));
        }
    }

    #[test]
    fn no_block_makes_the_decoder_panic_or_grow(
        blocks in proptest::collection::vec(
            proptest::collection::vec(any::<u8>(), 0..200), 1..10,
        ),
    ) {
        let mut decoder = Decoder::default();
        for block in blocks {
            let _ = decode(&mut decoder, &block);
            prop_assert!(decoder.memory_bytes() < 32 * 1024);
        }
    }
}
