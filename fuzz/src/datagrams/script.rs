//! Steps from the bytes of an input. A step takes two bytes, so that a mutation changes one step
//! and not all that follow.

use super::stage::{CONFIGURATIONS, SOURCES};

/// Limit for the number of steps.
const STEPS_MAX: usize = 120;

/// Limit for the silences in one script, because each takes the whole idle time.
const SILENCES_MAX: usize = 2;

/// Numbers of bytes after the mark of a datagram: 1,472 fills a packet on a path of 1,500 bytes,
/// and 9,000 is longer.
const LENGTHS: [usize; 8] = [0, 1, 7, 40, 333, 1_400, 1_472, 9_000];

/// First bytes of PROXY headers and of QUIC, which a datagram may contain as ordinary data.
const BEGINNINGS: [&[u8]; 4] =
    [b"", b"\r\n\r\n\0\r\nQUIT\n\x21\x12\0\x0c", b"PROXY UDP4 ", b"\xc3\0\0\0\x01"];

/// Content of one input.
#[derive(Debug)]
pub(super) struct Script {
    /// Number of the initial configuration.
    pub(super) configuration: usize,
    /// Steps in their order.
    pub(super) steps: Vec<Step>,
}

/// A step of a script.
#[derive(Debug)]
pub(super) enum Step {
    /// A source sends `count` datagrams, each with a mark and this filler.
    Send { source: usize, count: usize, filler: Filler },
    /// The node of a session answers `count` times.
    Answer { session: usize, count: usize, filler: Filler },
    /// Another configuration is published.
    Configure(usize),
    /// All sources wait until every session has ended.
    Silence,
}

/// Bytes of a datagram after its mark.
#[derive(Debug, Clone, Copy)]
pub(super) enum Filler {
    /// An empty datagram without a mark.
    Empty,
    /// A beginning from the list, followed by `length` times the same byte.
    Bytes { beginning: usize, length: usize, byte: u8 },
}

impl Filler {
    fn decode(byte: u8) -> Self {
        if byte == 0 {
            return Self::Empty;
        }
        let length = LENGTHS[usize::from(byte) % LENGTHS.len()];
        Self::Bytes { beginning: usize::from(byte >> 3) % BEGINNINGS.len(), length, byte }
    }

    /// Returns the datagram with this mark; an empty one has no mark.
    pub(super) fn datagram(self, mark: &[u8]) -> Vec<u8> {
        let Self::Bytes { beginning, length, byte } = self else { return Vec::new() };
        let mut datagram = [mark, BEGINNINGS[beginning]].concat();
        datagram.resize(datagram.len() + length, byte);
        datagram
    }
}

impl Script {
    pub(super) fn decode(input: &[u8]) -> Self {
        let (first, rest) = input.split_first().map_or((0, input), |(first, rest)| (*first, rest));
        let configuration = usize::from(first) % CONFIGURATIONS;
        let mut silences = 0;
        let steps = rest.as_chunks::<2>().0.iter().take(STEPS_MAX).map(|[what, how]| {
            let number = usize::from(*what);
            let (count, filler) = (1 + (number / SOURCES) % 4, Filler::decode(*how));
            match *what {
                ..0xb0 => Step::Send { source: number % SOURCES, count, filler },
                0xb0..0xec => Step::Answer { session: number - 0xb0, count, filler },
                0xec..0xfa => Step::Configure(usize::from(*how) % CONFIGURATIONS),
                0xfa.. => Step::Silence,
            }
        });
        let steps = steps.filter(|step| {
            silences += usize::from(matches!(step, Step::Silence));
            !matches!(step, Step::Silence) || silences <= SILENCES_MAX
        });
        Self { configuration, steps: steps.collect() }
    }
}
