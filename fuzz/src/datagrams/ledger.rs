//! Record of the sent and received datagrams, and detection of violations. This module does not use
//! sockets.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Instant;

use super::script::Filler;
use super::stage::{IDLE_TIME, SESSIONS_MAX, SESSIONS_PER_ADDRESS_MAX};

/// Violation of an invariant.
#[derive(Debug)]
pub(super) struct Finding(String);

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

macro_rules! finding {
    ($($words:tt)*) => { Err(Finding(format!($($words)*))) };
}

/// Sources that a configuration admits, and the header that nodes get.
#[derive(Debug, Clone, Copy)]
pub(super) struct Let {
    /// The only source address that is admitted; all are if absent.
    pub(super) alone: Option<Ipv4Addr>,
    /// A source address that is refused.
    pub(super) barred: Option<Ipv4Addr>,
    /// Whether each datagram begins with a PROXY header.
    pub(super) has_header: bool,
}

impl Let {
    fn lets_in(self, address: IpAddr) -> bool {
        self.alone.is_none_or(|alone| address == alone)
            && self.barred.is_none_or(|barred| address != barred)
    }
}

/// A session as a node sees it: the number of the node, and the gateway's address.
pub(super) type Peer = (usize, SocketAddr);

/// A session as its node knows it.
#[derive(Debug)]
struct Session {
    /// Source of the session; unknown as long as only empty datagrams have arrived.
    source: Option<usize>,
    /// The configuration that was active when the session began.
    lets: Let,
    /// Number of the session's last datagram.
    last: Option<u32>,
}

/// Record of one play; see the module.
pub(super) struct Ledger {
    sources: Vec<SocketAddr>,
    lets: Let,
    /// Sources that have sent something since all sessions last ended.
    senders: BTreeSet<usize>,
    /// Sessions since all sessions last ended, in the order of their start.
    sessions: Vec<(Peer, Session)>,
    /// Datagrams that have not arrived yet, by source and number.
    awaited: BTreeMap<(usize, u32), Vec<u8>>,
    /// Answers that have not arrived yet, by source and number.
    owed: BTreeMap<(usize, u32), Vec<u8>>,
    /// Answers to sessions that may have ended; they may arrive or not.
    possible: BTreeMap<(usize, u32), Vec<u8>>,
    next: u32,
    /// Numbers of datagrams sent and received since all sessions last ended.
    sent: u64,
    come: u64,
    /// Number of datagrams, and of their bytes, sent since everything was last accounted for.
    under_way: (usize, usize),
    empty_answers: usize,
    dropped_before: u64,
    began: Instant,
}

/// First byte of a datagram's mark, and of an answer's.
const ASKS: u8 = b'Q';
const ANSWERS: u8 = b'A';
/// Length of a mark in bytes: the first byte, the source, and a number.
const MARK_BYTES: usize = 6;

/// Beginning of a PROXY header of version 2 for datagrams over IPv4, as specified by the protocol.
const HEADER_START: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x12";

impl Ledger {
    pub(super) fn new(sources: Vec<SocketAddr>) -> Self {
        Self {
            sources,
            lets: Let { alone: None, barred: None, has_header: false },
            senders: BTreeSet::new(),
            sessions: Vec::new(),
            awaited: BTreeMap::new(),
            owed: BTreeMap::new(),
            possible: BTreeMap::new(),
            next: 0,
            sent: 0,
            come: 0,
            under_way: (0, 0),
            empty_answers: 0,
            dropped_before: 0,
            began: Instant::now(),
        }
    }

    /// Records that another configuration is active; datagrams must not be pending.
    pub(super) fn let_in(&mut self, lets: Let) {
        self.lets = lets;
    }

    /// Records that all sessions have ended.
    pub(super) fn begin_anew(&mut self, dropped: u64) {
        self.senders.clear();
        self.sessions.clear();
        self.awaited.clear();
        self.possible.clear();
        (self.sent, self.come, self.empty_answers) = (0, 0, 0);
        self.dropped_before = dropped;
        self.began = Instant::now();
    }

    /// Checks that all sessions still exist: too little time has passed for one to expire, and
    /// there are too few for one to be replaced.
    fn all_stand(&self) -> bool {
        self.began.elapsed() < IDLE_TIME && !self.is_crowded()
    }

    /// Checks whether more sources have sent something than there may be sessions, in total or for
    /// one address.
    fn is_crowded(&self) -> bool {
        let of_one = |source: &usize| {
            let address = self.sources[*source].ip();
            self.senders.iter().filter(|other| self.sources[**other].ip() == address).count()
        };
        self.senders.len() > SESSIONS_MAX
            || self.senders.iter().any(|source| of_one(source) > SESSIONS_PER_ADDRESS_MAX)
    }

    fn mark(&mut self, what: u8, source: usize) -> ((usize, u32), [u8; MARK_BYTES]) {
        let number = self.next;
        self.next = number.wrapping_add(1);
        let [a, b, c, d] = number.to_le_bytes();
        ((source, number), [what, source as u8, a, b, c, d])
    }

    pub(super) fn write_datagram(&mut self, source: usize, filler: Filler) -> Vec<u8> {
        let (key, mark) = self.mark(ASKS, source);
        let datagram = filler.datagram(&mark);
        self.sent += 1;
        self.senders.insert(source);
        self.under_way.0 += 1;
        self.under_way.1 += datagram.len();
        if !datagram.is_empty() {
            self.awaited.insert(key, datagram.clone());
        }
        datagram
    }

    /// Creates an answer from a session's node, or returns `None` if the session's source is
    /// unknown.
    pub(super) fn write_answer(&mut self, peer: Peer, filler: Filler) -> Option<Vec<u8>> {
        let (_, session) = self.sessions.iter().find(|(known, _)| *known == peer)?;
        let source = session.source?;
        let stands = self.all_stand();
        let (key, mark) = self.mark(ANSWERS, source);
        let answer = filler.datagram(&mark);
        if answer.is_empty() {
            self.empty_answers += 1;
        } else if stands {
            self.owed.insert(key, answer.clone());
        } else {
            self.possible.insert(key, answer.clone());
        }
        Some(answer)
    }

    /// Returns one of the sessions that nodes know; `number` may be any number.
    pub(super) fn session(&self, number: usize) -> Option<Peer> {
        let count = self.sessions.len();
        (count > 0).then(|| self.sessions[number % count].0)
    }

    pub(super) fn is_under_way(&self, datagrams_max: usize, bytes_max: usize) -> bool {
        self.under_way.0 >= datagrams_max || self.under_way.1 >= bytes_max
    }

    pub(super) fn is_accounted_for(&mut self, dropped: u64) -> bool {
        let is_so = self.sent == self.come + (dropped - self.dropped_before);
        if is_so {
            // Dropped datagrams never arrive.
            self.awaited.clear();
            self.under_way = (0, 0);
        }
        is_so
    }

    pub(super) fn owes_no_answer(&self) -> bool {
        self.owed.is_empty()
    }

    /// Records and checks a datagram that arrived at a node.
    pub(super) fn take_datagram(&mut self, peer: Peer, bytes: &[u8]) -> Result<(), Finding> {
        self.come += 1;
        let stands = self.all_stand();
        let known = self.sessions.iter().position(|(known, _)| *known == peer);
        let of_known = known.map(|at| (at, self.whose(&self.sessions[at].1, bytes)));
        let (at, source) = match of_known {
            Some((at, Ok(source))) => (at, source),
            Some((_, Err(finding))) if stands => return Err(finding),
            // The datagram may also belong to a later session that got the port of one that has
            // ended.
            later => {
                if let Some((at, _)) = later {
                    self.sessions.remove(at);
                }
                let session = Session { source: None, lets: self.lets, last: None };
                let source = self.whose(&session, bytes)?;
                self.sessions.push((peer, session));
                (self.sessions.len() - 1, source)
            }
        };
        let lets = self.sessions[at].1.lets;
        let datagram = if lets.has_header { read_header(bytes)?.1 } else { bytes };
        let number = match datagram {
            [] => None,
            datagram => Some(self.take_awaited(datagram)?),
        };
        let Some(source) = source else { return Ok(()) };
        if !lets.lets_in(self.sources[source].ip()) {
            return finding!("{} was let in by {lets:?}", self.sources[source]);
        }
        let is_other =
            |(other, session): &(Peer, Session)| *other != peer && session.source == Some(source);
        if stands && self.sessions.iter().any(is_other) {
            return finding!("{source} has two sessions: {:?}", self.sessions);
        }
        let session = &mut self.sessions[at].1;
        session.source = Some(source);
        match (number, session.last) {
            (Some(number), Some(last)) if number <= last => {
                finding!("{number} of {source} has overtaken {last}")
            }
            (number, last) => {
                session.last = number.or(last);
                Ok(())
            }
        }
    }

    /// Returns the source of the session that this datagram belongs to, if it can be determined.
    ///
    /// # Errors
    /// If the session, the PROXY header and the mark name different sources.
    fn whose(&self, session: &Session, bytes: &[u8]) -> Result<Option<usize>, Finding> {
        let (named, datagram) = match session.lets.has_header {
            true => {
                let (from, datagram) = read_header(bytes)?;
                (Some(self.source_at(from)?), datagram)
            }
            false => (None, bytes),
        };
        let marked = match datagram {
            [] => None,
            datagram => Some(read_mark(ASKS, datagram)?.0),
        };
        let mut all = [session.source, named, marked].into_iter().flatten();
        let first = all.next();
        if all.any(|other| Some(other) != first) {
            return finding!("{session:?} has a header of {named:?} and carries {marked:?}");
        }
        Ok(first)
    }

    /// Returns the number of a datagram that arrived unchanged.
    fn take_awaited(&mut self, datagram: &[u8]) -> Result<u32, Finding> {
        let key = read_mark(ASKS, datagram)?;
        match self.awaited.remove(&key) {
            Some(sent) if sent == datagram => Ok(key.1),
            Some(sent) => finding!("{key:?} was sent as {sent:?} and has come as {datagram:?}"),
            None => finding!("{key:?} has come twice, or was counted as dropped"),
        }
    }

    /// Records and checks an answer that arrived at a client, with the client's number and whether
    /// it came from the gateway.
    pub(super) fn take_answer(
        &mut self,
        (source, is_from_gateway): (usize, bool),
        answer: &[u8],
    ) -> Result<(), Finding> {
        if !is_from_gateway {
            return finding!("{source} was sent {answer:?} by another sender");
        }
        if answer.is_empty() {
            let left = self.empty_answers.checked_sub(1);
            self.empty_answers =
                left.ok_or(Finding("an empty answer that was not sent".to_owned()))?;
            return Ok(());
        }
        let key = read_mark(ANSWERS, answer)?;
        if key.0 != source {
            return finding!("{source} has got an answer for {}", key.0);
        }
        match self.owed.remove(&key).or_else(|| self.possible.remove(&key)) {
            Some(given) if given == answer => Ok(()),
            given => finding!("{key:?} was given as {given:?} and has come as {answer:?}"),
        }
    }

    fn source_at(&self, address: SocketAddr) -> Result<usize, Finding> {
        let found = self.sources.iter().position(|source| *source == address);
        found.ok_or_else(|| Finding(format!("a header names {address}, which has sent nothing")))
    }

    /// Checks that the number of sessions is within the limits; `open` is the number that the
    /// gateway counts.
    pub(super) fn check_bounds(&self, open: u64) -> Result<(), Finding> {
        if open > SESSIONS_MAX as u64 {
            return finding!("{open} sessions are open");
        }
        // Sessions that have ended may have been replaced.
        if !self.all_stand() {
            return Ok(());
        }
        if self.sessions.len() > SESSIONS_MAX {
            return finding!("nodes know {} sessions", self.sessions.len());
        }
        let known = self.sessions.iter().filter_map(|(_, session)| session.source);
        let addresses: Vec<IpAddr> = known.map(|source| self.sources[source].ip()).collect();
        let fullest = BTreeSet::from_iter(&addresses)
            .into_iter()
            .map(|address| addresses.iter().filter(|other| *other == address).count())
            .max();
        if fullest.is_some_and(|fullest| fullest > SESSIONS_PER_ADDRESS_MAX) {
            return finding!("one address has too many sessions: {addresses:?}");
        }
        Ok(())
    }

    /// Describes a state that was not reached in time.
    pub(super) fn overdue(&self, dropped: u64, open: u64) -> Finding {
        Finding(format!(
            "{} datagrams were sent, {} have come and {} were counted as dropped; {} answers are owed; {open} \
             sessions are open",
            self.sent,
            self.come,
            dropped - self.dropped_before,
            self.owed.len()
        ))
    }
}

fn read_mark(what: u8, datagram: &[u8]) -> Result<(usize, u32), Finding> {
    match datagram.first_chunk::<MARK_BYTES>() {
        Some([first, source, number @ ..]) if *first == what => {
            Ok((usize::from(*source), u32::from_le_bytes(*number)))
        }
        _ => finding!("{datagram:?} was never sent"),
    }
}

/// Returns the source address in the header, and the bytes after the header.
fn read_header(bytes: &[u8]) -> Result<(SocketAddr, &[u8]), Finding> {
    let no_header = || Finding(format!("{bytes:?} has no header of datagrams over IPv4"));
    let rest = bytes.strip_prefix(HEADER_START).ok_or_else(no_header)?;
    let (length, rest) = rest.split_first_chunk().ok_or_else(no_header)?;
    let length = usize::from(u16::from_be_bytes(*length));
    let (addresses, datagram) = rest.split_at_checked(length).ok_or_else(no_header)?;
    // Both addresses and both ports; the gateway may append further fields.
    let [a, b, c, d, _, _, _, _, high, low, _, _, ..] = *addresses else {
        return Err(no_header());
    };
    let port = u16::from_be_bytes([high, low]);
    Ok((SocketAddr::from((Ipv4Addr::new(a, b, c, d), port)), datagram))
}
