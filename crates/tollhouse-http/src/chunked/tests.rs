//! Tables of chunked bodies, fed in every possible split to both decoding methods, and properties
//! that hold for any bytes.

use proptest::prelude::*;

use super::*;
use crate::testing::printable;

/// Outcome of decoding a body: its data, the number of bytes read, and whether it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Body {
    data: Vec<u8>,
    consumed: usize,
    is_done: bool,
}

/// Decodes the `pieces` of a request body one after another.
fn decode(pieces: &[&[u8]]) -> Result<Body, ChunkError> {
    decode_by(ChunkedDecoder::new(), pieces)
}

fn decode_by(mut decoder: ChunkedDecoder, pieces: &[&[u8]]) -> Result<Body, ChunkError> {
    let mut body = Body { data: Vec::new(), consumed: 0, is_done: false };
    for piece in pieces {
        let mut rest = *piece;
        while !rest.is_empty() && !decoder.is_done() {
            let found = decoder.step(rest)?;
            assert!(found.consumed > 0 && found.consumed <= rest.len(), "every step gets on");
            assert!(found.data.end <= found.consumed, "data lies in what was read");
            body.data.extend_from_slice(&rest[found.data]);
            body.consumed += found.consumed;
            rest = &rest[found.consumed..];
        }
    }
    body.is_done = decoder.is_done();
    Ok(body)
}

/// Decodes `pieces` in place. Returns the body and its trailer section.
fn undo_with_trailers(pieces: &[&[u8]]) -> Result<(Body, Vec<u8>), ChunkError> {
    let (mut decoder, mut trailers) = (ChunkedDecoder::new(), Vec::new());
    let mut body = Body { data: Vec::new(), consumed: 0, is_done: false };
    for piece in pieces {
        let mut bytes = piece.to_vec();
        let undone = decoder.undo(&mut bytes, |lines| trailers.extend_from_slice(lines))?;
        assert!(undone.data <= undone.consumed && undone.consumed <= bytes.len());
        assert_eq!(bytes[undone.consumed..], piece[undone.consumed..], "what follows is untouched");
        body.data.extend_from_slice(&bytes[..undone.data]);
        body.consumed += undone.consumed;
    }
    body.is_done = decoder.is_done();
    Ok((body, trailers))
}

fn undo(pieces: &[&[u8]]) -> Result<Body, ChunkError> {
    undo_with_trailers(pieces).map(|(body, _)| body)
}

/// Decodes `bytes` whole, cut in two at every position, and byte by byte, and asserts that all
/// results are equal.
fn decode_in_every_split(bytes: &[u8]) -> Result<Body, ChunkError> {
    let whole = decode(&[bytes]);
    for cut in 0..=bytes.len() {
        let (head, tail) = bytes.split_at(cut);
        assert_eq!(decode(&[head, tail]), whole, "cut at {cut}: {}", printable(bytes));
        assert_eq!(undo(&[head, tail]), whole, "in place, cut at {cut}: {}", printable(bytes));
    }
    let pieces: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(decode(&pieces), whole, "byte by byte: {}", printable(bytes));
    assert_eq!(undo(&pieces), whole, "in place, byte by byte: {}", printable(bytes));
    whole
}

#[test]
fn whole_bodies_are_decoded_and_nothing_behind_them_is_read() {
    let rows: &[(&[u8], &[u8])] = &[
        (b"0\r\n\r\n", b""),
        (b"000\r\n\r\n", b""),
        (b"5\r\nhello\r\n0\r\n\r\n", b"hello"),
        (b"00005\r\nhello\r\n0\r\n\r\n", b"hello"),
        (b"1\r\na\r\n2\r\nbc\r\n0\r\n\r\n", b"abc"),
        (b"A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n", b"01234567890123456789"),
        (b"4\r\n\r\n0\r\r\n0\r\n\r\n", b"\r\n0\r"),
        (b"2\r\n\0\xff\r\n0\r\n\r\n", b"\0\xff"),
        // Extensions.
        (b"1;a\r\nx\r\n0\r\n\r\n", b"x"),
        (b"1;a=b;c=\"d e\\\"\"\r\nx\r\n0;z\r\n\r\n", b"x"),
        (b"1; a =\tb\r\nx\r\n0\r\n\r\n", b"x"),
        (b"1 ;a\r\nx\r\n0\t \t;a=b\r\n\r\n", b"x"),
        // Trailers.
        (b"0\r\nA: b\r\n\r\n", b""),
        (b"0\r\nA:\r\nB:\tc \xff\r\n\r\n", b""),
        (b"1\r\nx\r\n0\r\nGrpc-Status: 0\r\n\r\n", b"x"),
    ];
    for (bytes, data) in rows {
        let expected = Body { data: data.to_vec(), consumed: bytes.len(), is_done: true };
        assert_eq!(decode_in_every_split(bytes), Ok(expected.clone()), "{}", printable(bytes));
        for rest in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\r\n", b"\n", b"\0"] {
            let longer = [*bytes, rest].concat();
            assert_eq!(
                decode_in_every_split(&longer),
                Ok(expected.clone()),
                "{}",
                printable(&longer)
            );
        }
        for end in 0..bytes.len() {
            let part =
                decode(&[&bytes[..end]]).expect("a part of a well-formed body is well-formed");
            assert!(!part.is_done && part.consumed == end, "{}", printable(&bytes[..end]));
        }
    }
}

#[test]
fn malformed_bodies_are_refused() {
    use ChunkError::{BadEnd, BadSize, BadTrailer};
    let rows: &[(&[u8], ChunkError)] = &[
        // Sizes.
        (b"\r\n", BadSize),
        (b"\n", BadSize),
        (b";a\r\n", BadSize),
        (b" 5\r\n", BadSize),
        (b"5 \r\n", BadSize),
        (b"5\t\r\n", BadSize),
        (b"5 \n", BadSize),
        (b"5 5\r\n", BadSize),
        (b"5 a;b\r\n", BadSize),
        (b" ;a\r\n", BadSize),
        (b"5 \x0b;a\r\n", BadSize),
        (b"+5\r\n", BadSize),
        (b"-5\r\n", BadSize),
        (b"0x5\r\n", BadSize),
        (b"5h\r\n", BadSize),
        (b"5_0\r\n", BadSize),
        (b"5,\r\n", BadSize),
        (b"\xef\xbc\x95\r\n", BadSize),
        (b"5\0\r\n", BadSize),
        (b"G\r\n", BadSize),
        (b"10000000000000000\r\n", BadSize),
        (b"fffffffffffffffff\r\n", BadSize),
        // Line ends of sizes.
        (b"5\nhello\r\n0\r\n\r\n", BadSize),
        (b"5\rhello\r\n0\r\n\r\n", BadSize),
        (b"5\r\r\nhello\r\n0\r\n\r\n", BadSize),
        // Extensions: the line feed that hides a second chunk line from some readers.
        (b"5;a\nhello\r\n0\r\n\r\n", BadSize),
        (b"5;a\r\r\nhello\r\n", BadSize),
        (b"5;a\rb\r\nhello\r\n", BadSize),
        (b"5;a\0\r\n", BadSize),
        (b"5;a\x7f\r\n", BadSize),
        (b"5;\xc3\xa9\r\n", BadSize),
        (b"5;a=\"\n\"\r\n", BadSize),
        // Ends of data.
        (b"5\r\nhello0\r\n\r\n", BadEnd),
        (b"5\r\nhello\n0\r\n\r\n", BadEnd),
        (b"5\r\nhello\r0\r\n\r\n", BadEnd),
        (b"5\r\nhello!\r\n0\r\n\r\n", BadEnd),
        (b"4\r\nhello\r\n0\r\n\r\n", BadEnd),
        (b"5\r\nhello\r\r\n0\r\n\r\n", BadEnd),
        (b"6\r\nhello\r\n0\r\n\r\n", BadEnd),
        (b"5\r\nhello\r\n\r\n", BadSize),
        // Trailers.
        (b"0\r\n\n", BadTrailer),
        (b"0\r\n\r\r\n", BadTrailer),
        (b"0\r\nA\r\n\r\n", BadTrailer),
        (b"0\r\n: b\r\n\r\n", BadTrailer),
        (b"0\r\nA : b\r\n\r\n", BadTrailer),
        (b"0\r\n A: b\r\n\r\n", BadTrailer),
        (b"0\r\nA: b\r\n c\r\n\r\n", BadTrailer),
        (b"0\r\nA: b\nC: d\r\n\r\n", BadTrailer),
        (b"0\r\nA: b\r\r\n\r\n", BadTrailer),
        (b"0\r\nA: b\0\r\n\r\n", BadTrailer),
        (b"0\r\nA: \x7f\r\n\r\n", BadTrailer),
        (b"0\r\nGET / HTTP/1.1\r\n\r\n", BadTrailer),
    ];
    for (bytes, expected) in rows {
        assert_eq!(decode_in_every_split(bytes), Err(*expected), "{}", printable(bytes));
    }
}

#[test]
fn sizes_padded_with_blanks_are_taken_in_answers_only() {
    let padded = |line: &str| format!("{line}\r\nhello\r\n0{}\r\n\r\n", &line[1..]).into_bytes();
    for line in ["5 ", "5   ", "5\t", "5 \t ;a", "5 ;a ", "5"] {
        let bytes = padded(line);
        let expected = Body { data: b"hello".to_vec(), consumed: bytes.len(), is_done: true };
        for cut in 0..=bytes.len() {
            let (head, tail) = bytes.split_at(cut);
            let decoded = decode_by(ChunkedDecoder::for_answer(), &[head, tail]);
            assert_eq!(decoded, Ok(expected.clone()), "cut at {cut}: {line:?}");
        }
        let is_padded = matches!(line, "5 " | "5   " | "5\t");
        assert_eq!(decode_in_every_split(&bytes).is_err(), is_padded, "{line:?}");
    }
    for line in [" 5", "5 5", "5 \n", "5 \r", "5\x0b", "5 x"] {
        let bytes = [line.as_bytes(), b"\r\nhello\r\n0\r\n\r\n"].concat();
        let decoded = decode_by(ChunkedDecoder::for_answer(), &[&bytes]);
        assert_eq!(decoded, Err(ChunkError::BadSize), "{line:?}");
    }
}

#[test]
fn sizes_reach_to_64_bits() {
    let mut decoder = ChunkedDecoder::new();
    let line = b"ffffffffffffffff\r\n";
    assert_eq!(decoder.step(line).map(|step| step.consumed), Ok(line.len()));
    assert_eq!(decoder.step(b"data"), Ok(Decoded { consumed: 4, data: 0..4 }));
    assert_eq!(decoder.remaining, u64::MAX - 4);
}

#[test]
fn lengths_of_lines_and_trailers_are_limited_exactly() {
    let size_line = |bytes: u32| {
        let extension = "x".repeat(bytes as usize - "0;\r".len());
        format!("0;{extension}\r\n\r\n").into_bytes()
    };
    assert!(decode_in_every_split(&size_line(CHUNK_LINE_BYTES_MAX)).is_ok());
    assert_eq!(
        decode_in_every_split(&size_line(CHUNK_LINE_BYTES_MAX + 1)),
        Err(ChunkError::BadSize)
    );
    let zeros = "0".repeat(CHUNK_LINE_BYTES_MAX as usize);
    assert_eq!(decode_in_every_split(zeros.as_bytes()).map(|body| body.is_done), Ok(false));
    assert_eq!(decode_in_every_split((zeros + "0").as_bytes()), Err(ChunkError::BadSize));
    // The last line feed is not counted, because the bytes before it decide.
    let trailers = |bytes: u32| {
        let value = "x".repeat(bytes as usize - "A:\r\n\r".len());
        format!("0\r\nA:{value}\r\n\r\n").into_bytes()
    };
    let longest = trailers(TRAILER_BYTES_MAX);
    assert_eq!(decode(&[&longest]).map(|body| body.is_done), Ok(true));
    assert_eq!(decode(&[&trailers(TRAILER_BYTES_MAX + 1)]), Err(ChunkError::BadTrailer));
}

#[test]
fn every_chunk_has_its_own_line_limit() {
    let line = format!("1;{}\r\nx\r\n", "y".repeat(200));
    let bytes = line.repeat(5) + "0\r\n\r\n";
    assert_eq!(decode(&[bytes.as_bytes()]).map(|body| body.data), Ok(b"xxxxx".to_vec()));
}

#[test]
fn chunk_sizes_are_written_in_lower_case_without_leading_zeros() {
    for (bytes, expected) in [
        (0, "0\r\n"),
        (1, "1\r\n"),
        (15, "f\r\n"),
        (16, "10\r\n"),
        (255, "ff\r\n"),
        (0x1000, "1000\r\n"),
        (0xabc_def0, "abcdef0\r\n"),
    ] {
        assert_eq!(SizeLine::new(bytes).as_bytes(), expected.as_bytes());
    }
    let mut line = SizeLine::new(usize::MAX);
    assert_eq!(line.as_bytes(), format!("{:x}\r\n", usize::MAX).as_bytes());
    line.consume(17);
    assert_eq!(line.as_bytes(), b"\n");
    assert_eq!(SizeLine::default().as_bytes(), b"");
}

#[test]
fn trailers_are_given_out_as_they_stand_in_any_split() {
    let section = b"A: b\r\nC:d\r\n\r\n";
    let bytes = [b"1;x\r\na\r\n0\r\n".as_slice(), section, b"GET /"].concat();
    for cut in 0..=bytes.len() {
        let (head, tail) = bytes.split_at(cut);
        let (body, trailers) = undo_with_trailers(&[head, tail]).expect("well-formed");
        assert_eq!((body.data.as_slice(), trailers.as_slice()), (&b"a"[..], &section[..]));
        assert!(body.is_done);
    }
}

fn encode(chunks: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    for chunk in chunks.iter().filter(|chunk| !chunk.is_empty()) {
        out.extend_from_slice(SizeLine::new(chunk.len()).as_bytes());
        out.extend_from_slice(chunk);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(LAST_CHUNK);
    out
}

/// Cuts `bytes` at the given positions, which need not be sorted.
fn pieces<'a>(bytes: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places.windows(2).map(|ends| &bytes[ends[0]..ends[1]]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_encoded_is_decoded_in_any_split(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..8),
        behind in prop::collection::vec(any::<u8>(), 0..8),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let encoded = encode(&chunks);
        let stream = [encoded.clone(), behind].concat();
        let expected = Body { data: chunks.concat(), consumed: encoded.len(), is_done: true };
        prop_assert_eq!(decode(&pieces(&stream, &cuts)), Ok(expected.clone()));
        prop_assert_eq!(undo(&pieces(&stream, &cuts)), Ok(expected));
    }

    #[test]
    fn mutated_bodies_never_panic_and_splits_never_matter(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..4),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let mut stream = encode(&chunks);
        for (place, byte) in changes {
            let place = place.index(stream.len());
            stream[place] = byte;
        }
        let whole = decode(&[&stream]);
        prop_assert_eq!(&decode(&pieces(&stream, &cuts)), &whole);
        prop_assert_eq!(undo(&pieces(&stream, &cuts)), whole);
    }
}
