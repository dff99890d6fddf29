//! From the bytes of an input to steps: two bytes each, so that a mutation changes a step and not all that follow.

use super::stage::{CONFIGURATIONS, SOURCES};

/// Longest script that is played.
const STEPS_MAX: usize = 120;

/// Silences in one script: each takes as long as a session may be silent.
const SILENCES_MAX: usize = 2;

/// Lengths of what follows the mark of a datagram; one is what a path of 1,500 bytes takes, one is longer.
const LENGTHS: [usize; 8] = [0, 1, 7, 40, 333, 1_400, 1_472, 9_000];

/// The first bytes of PROXY headers and of QUIC, which a datagram may carry as anything else.
const BEGINNINGS: [&[u8]; 4] =
    [b"", b"\r\n\r\n\0\r\nQUIT\n\x21\x12\0\x0c", b"PROXY UDP4 ", b"\xc3\0\0\0\x01"];

/// What one input plays.
#[derive(Debug)]
pub(super) struct Script {
    /// Which configuration is there from the beginning.
    pub(super) configuration: usize,
    /// What happens, in this order.
    pub(super) steps: Vec<Step>,
}

/// One of the things that happen.
#[derive(Debug)]
pub(super) enum Step {
    /// A source sends so many datagrams, each of its mark and this.
    Send { source: usize, count: usize, filler: Filler },
    /// The node of a session answers so many times.
    Answer { session: usize, count: usize, filler: Filler },
    /// Another configuration is published.
    Configure(usize),
    /// Nobody sends anything until all sessions have ended.
    Silence,
}

/// What a datagram carries behind its mark.
#[derive(Debug, Clone, Copy)]
pub(super) enum Filler {
    /// Nothing, nor a mark.
    Empty,
    /// One of the beginnings, and a byte again and again.
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

    /// The datagram with this mark; one without anything has none.
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
