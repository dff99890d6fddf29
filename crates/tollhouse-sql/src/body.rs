//! Encoding of commits in the bodies of the change log.
//!
//! A row holds the commits of a group. Numbers are big-endian; a length precedes texts and values.
//!
//! ```text
//! body   = format:u8 commit*          empty if the commits are too large
//! commit = revision:u64 events:u32 event*
//! event  = 1 key created:u64 expires_at_ms:u64 value   (0: never)
//!        | 2 key
//! ```

use bytes::{Buf, BufMut, Bytes};
use tollhouse_store::{Changes, Entry, Event, Revision};

/// Version of the encoding; the only one so far.
const FORMAT: u8 = 1;
const PUT: u8 = 1;
const DELETE: u8 = 2;

/// Encodes a group of commits as the body of one row in the commit log.
pub(crate) fn encode(commits: &[Changes]) -> Vec<u8> {
    let mut body = vec![FORMAT];
    for changes in commits {
        body.put_u64(changes.revision.0);
        put_length(&mut body, changes.events.len());
        for event in &changes.events {
            match event {
                Event::Put(entry) => {
                    body.put_u8(PUT);
                    put_bytes(&mut body, entry.key.as_bytes());
                    body.put_u64(entry.create_revision.0);
                    body.put_u64(entry.expires_at_ms.unwrap_or_default());
                    put_bytes(&mut body, &entry.value);
                }
                Event::Delete { key, .. } => {
                    body.put_u8(DELETE);
                    put_bytes(&mut body, key.as_bytes());
                }
            }
        }
    }
    body
}

fn put_bytes(body: &mut Vec<u8>, bytes: &[u8]) {
    put_length(body, bytes.len());
    body.put_slice(bytes);
}

fn put_length(body: &mut Vec<u8>, length: usize) {
    // Cannot overflow, because transactions have much lower limits.
    body.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
}

/// Decodes the commits of a body; `None` if the body is empty or has an unknown format.
pub(crate) fn decode(mut body: Bytes) -> Option<Vec<Changes>> {
    if body.try_get_u8().ok()? != FORMAT {
        return None;
    }
    let mut commits = Vec::new();
    while body.has_remaining() {
        let revision = Revision(body.try_get_u64().ok()?);
        let count = body.try_get_u32().ok()?;
        let mut events = Vec::new();
        for _ in 0..count {
            events.push(decode_event(&mut body, revision)?);
        }
        commits.push(Changes { revision, events });
    }
    Some(commits)
}

fn decode_event(body: &mut Bytes, revision: Revision) -> Option<Event> {
    let kind = body.try_get_u8().ok()?;
    let key = Box::from(std::str::from_utf8(&get_bytes(body)?).ok()?);
    match kind {
        PUT => {
            let create_revision = Revision(body.try_get_u64().ok()?);
            let expires_at_ms = Some(body.try_get_u64().ok()?).filter(|at_ms| *at_ms > 0);
            let value = get_bytes(body)?;
            let mod_revision = revision;
            Some(Event::Put(Entry { key, value, create_revision, mod_revision, expires_at_ms }))
        }
        DELETE => Some(Event::Delete { key, revision }),
        _ => None,
    }
}

fn get_bytes(body: &mut Bytes) -> Option<Bytes> {
    let length = usize::try_from(body.try_get_u32().ok()?).ok()?;
    (length <= body.remaining()).then(|| body.split_to(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commits() -> Vec<Changes> {
        let entry = Entry {
            key: "a".into(),
            value: Bytes::from_static(b"\0v"),
            create_revision: Revision(3),
            mod_revision: Revision(7),
            expires_at_ms: Some(99),
        };
        let forever =
            Entry { key: "b".into(), value: Bytes::new(), expires_at_ms: None, ..entry.clone() };
        let delete = Event::Delete { key: "ü".into(), revision: Revision(8) };
        vec![
            Changes { revision: Revision(7), events: vec![Event::Put(entry), Event::Put(forever)] },
            Changes { revision: Revision(8), events: vec![delete] },
        ]
    }

    #[test]
    fn what_is_written_is_read() {
        let body = encode(&commits());
        assert_eq!(decode(body.into()), Some(commits()));
        assert_eq!(decode(encode(&[]).into()), Some(Vec::new()));
    }

    #[test]
    fn what_is_cut_or_of_another_format_is_not_read() {
        let body = Bytes::from(encode(&commits()));
        let ends_of_commits = [1, body.len() - (8 + 4 + 1 + 4 + 2)];
        for length in 0..body.len() {
            let is_read = decode(body.slice(..length)).is_some();
            assert_eq!(is_read, ends_of_commits.contains(&length), "of {length} bytes");
        }
        assert_eq!(decode(Bytes::from_static(b"\x02")), None);
    }
}
