//! What was sent and has come, and what must not have happened. Knows no sockets.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Instant;

use super::script::Filler;
use super::stage::{IDLE_TIME, SESSIONS_MAX, SESSIONS_PER_ADDRESS_MAX};

/// Something that must not have happened.
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

/// Whom a configuration lets in, and how nodes hear of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Let {
    /// Nobody else.
    pub(super) alone: Option<Ipv4Addr>,
    /// Everybody else.
    pub(super) barred: Option<Ipv4Addr>,
    /// Whether a PROXY header stands before each datagram.
    pub(super) has_header: bool,
}

impl Let {
    fn lets_in(self, address: IpAddr) -> bool {
        self.alone.is_none_or(|alone| address == alone)
            && self.barred.is_none_or(|barred| address != barred)
    }
}

/// What a node sees of a session: its number, and the address that the gateway sends from.
pub(super) type Peer = (usize, SocketAddr);

/// A session as its node knows it.
#[derive(Debug)]
struct Session {
    /// Whose it is; not known while nothing but empty datagrams has come.
    source: Option<usize>,
    /// What was in service when it began.
    lets: Let,
    /// The number of its last datagram.
    last: Option<u32>,
}

/// See the module.
pub(super) struct Ledger {
    sources: Vec<SocketAddr>,
    lets: Let,
    /// Sources that have sent since all sessions last ended.
    senders: BTreeSet<usize>,
    /// Sessions since all had ended last, in the order of their beginning.
    sessions: Vec<(Peer, Session)>,
    /// Datagrams that have not come yet, by source and number.
    awaited: BTreeMap<(usize, u32), Vec<u8>>,
    /// The same of answers.
    owed: BTreeMap<(usize, u32), Vec<u8>>,
    /// Answers to sessions that may have been over: they may come.
    possible: BTreeMap<(usize, u32), Vec<u8>>,
    next: u32,
    /// Since all sessions had ended last: datagrams that were sent, and that have come.
    sent: u64,
    come: u64,
    /// Datagrams, and bytes of them, sent since everything was accounted for.
    under_way: (usize, usize),
    empty_answers: usize,
    dropped_before: u64,
    began: Instant,
}

/// What a mark of a datagram begins with, and one of an answer.
const ASKS: u8 = b'Q';
const ANSWERS: u8 = b'A';
/// Bytes of a mark: one of these, the source, a number.
const MARK_BYTES: usize = 6;

/// What a PROXY header of version 2 for datagrams over IPv4 begins with, as the protocol's specification lays it out.
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

    /// Another configuration is in service; nothing is under way.
    pub(super) fn let_in(&mut self, lets: Let) {
        self.lets = lets;
    }

    /// All sessions have ended.
    pub(super) fn begin_anew(&mut self, dropped: u64) {
        self.senders.clear();
        self.sessions.clear();
        self.awaited.clear();
        self.possible.clear();
        (self.sent, self.come, self.empty_answers) = (0, 0, 0);
        self.dropped_before = dropped;
        self.began = Instant::now();
    }

    /// Whether no session that has begun since can have ended of silence yet, or made room for a newer one.
    fn all_stand(&self) -> bool {
        self.began.elapsed() < IDLE_TIME && !self.is_crowded()
    }

    /// Whether more sources have sent than there may be sessions, of all or of one address.
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

    /// An answer of a session's node; nothing where nobody knows whose session it is.
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

    /// One of the sessions that nodes know, by any number.
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
            // Those that were dropped never come.
            self.awaited.clear();
            self.under_way = (0, 0);
        }
        is_so
    }

    pub(super) fn owes_no_answer(&self) -> bool {
        self.owed.is_empty()
    }

    /// A datagram has come to a node.
    pub(super) fn take_datagram(&mut self, peer: Peer, bytes: &[u8]) -> Result<(), Finding> {
        self.come += 1;
        let stands = self.all_stand();
        let known = self.sessions.iter().position(|(known, _)| *known == peer);
        let of_known = known.map(|at| (at, self.whose(&self.sessions[at].1, bytes)));
        let (at, source) = match of_known {
            Some((at, Ok(source))) => (at, source),
            Some((_, Err(finding))) if stands => return Err(finding),
            // Or else of a later session, to which the kernel has given the port of one that has ended.
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

    /// Whose a session is that this datagram is of, where that can be told.
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

    /// The number of a datagram that was sent as it has come.
    fn take_awaited(&mut self, datagram: &[u8]) -> Result<u32, Finding> {
        let key = read_mark(ASKS, datagram)?;
        match self.awaited.remove(&key) {
            Some(sent) if sent == datagram => Ok(key.1),
            Some(sent) => finding!("{key:?} was sent as {sent:?} and has come as {datagram:?}"),
            None => finding!("{key:?} has come twice, or was counted as dropped"),
        }
    }

    /// A datagram has come to a client; whether from the gateway.
    pub(super) fn take_answer(
        &mut self,
        (source, is_from_gateway): (usize, bool),
        answer: &[u8],
    ) -> Result<(), Finding> {
        if !is_from_gateway {
            return finding!("{source} was sent {answer:?} by somebody else");
        }
        if answer.is_empty() {
            let left = self.empty_answers.checked_sub(1);
            self.empty_answers = left.ok_or(Finding("an empty answer nobody gave".to_owned()))?;
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

    /// There are no more sessions than there may be: `open` of them as the gateway counts.
    pub(super) fn check_bounds(&self, open: u64) -> Result<(), Finding> {
        if open > SESSIONS_MAX as u64 {
            return finding!("{open} sessions are open");
        }
        // Those that have ended may have made room.
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

    /// Something has not come about for long.
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

/// Who sends, by the header, and what follows it.
fn read_header(bytes: &[u8]) -> Result<(SocketAddr, &[u8]), Finding> {
    let no_header = || Finding(format!("{bytes:?} has no header of datagrams over IPv4"));
    let rest = bytes.strip_prefix(HEADER_START).ok_or_else(no_header)?;
    let (length, rest) = rest.split_first_chunk().ok_or_else(no_header)?;
    let length = usize::from(u16::from_be_bytes(*length));
    let (addresses, datagram) = rest.split_at_checked(length).ok_or_else(no_header)?;
    // Both addresses, both ports, and what else the gateway has to say.
    let [a, b, c, d, _, _, _, _, high, low, _, _, ..] = *addresses else {
        return Err(no_header());
    };
    let port = u16::from_be_bytes([high, low]);
    Ok((SocketAddr::from((Ipv4Addr::new(a, b, c, d), port)), datagram))
}
