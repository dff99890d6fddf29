//! Identities under which a request was admitted, and other credentials that may identify its user.
//!
//! A plugin that admits a request records the identity here with [`RequestContext::note_identity`];
//! consumers are recorded with [`RequestContext::authenticate`]. Caches read the identities to keep
//! users apart.

use crate::context::RequestContext;

/// Identity under which a plugin admitted a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity<'a> {
    /// Plugin that found the identity, or `client-certificate`.
    pub by: &'static str,
    /// Name of the user, which may appear in logs; empty if only `grant` is known.
    pub name: &'a [u8],
    /// Digest of all data besides the name that decides what the user may see: scopes, or the
    /// credentials themselves.
    pub grant: &'a [u8],
}

/// Request header that may carry credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// Header `Authorization`, whatever its scheme.
    Authorization,
    /// Header `Cookie`, such as one with a session.
    Cookie,
}

/// Identities of one request besides its consumer, in the order in which plugins recorded them. An
/// empty list needs no allocation, and the memory is reused for later requests.
#[derive(Debug, Default)]
pub struct Identities {
    text: Vec<u8>,
    entries: Vec<Entry>,
    is_nameless: bool,
    explains_authorization: bool,
    explains_cookie: bool,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    by: &'static str,
    name_bytes: usize,
    grant_bytes: usize,
}

impl Identities {
    /// Removes all identities; keeps the allocated memory.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.entries.clear();
        self.is_nameless = false;
        self.explains_authorization = false;
        self.explains_cookie = false;
    }

    /// Records that a plugin identified the client.
    pub fn note(&mut self, identity: Identity<'_>) {
        let Identity { by, name, grant } = identity;
        self.text.extend_from_slice(name);
        self.text.extend_from_slice(grant);
        self.entries.push(Entry { by, name_bytes: name.len(), grant_bytes: grant.len() });
    }

    /// Records that a plugin admitted the request by a decision that names no user.
    pub fn note_nameless(&mut self) {
        self.is_nameless = true;
    }

    /// Records that the credentials in this header are covered by a recorded identity.
    #[inline]
    pub fn explain(&mut self, carrier: Carrier) {
        match carrier {
            Carrier::Authorization => self.explains_authorization = true,
            Carrier::Cookie => self.explains_cookie = true,
        }
    }

    /// Returns the recorded identities in the order of recording.
    pub fn iter(&self) -> impl Iterator<Item = Identity<'_>> {
        let mut rest = self.text.as_slice();
        self.entries.iter().map(move |entry| {
            let (name, behind) = rest.split_at(entry.name_bytes);
            let (grant, behind) = behind.split_at(entry.grant_bytes);
            rest = behind;
            Identity { by: entry.by, name, grant }
        })
    }

    /// Returns the number of recorded identities. If it has grown since a cache computed its key,
    /// the key lacks an identity and must not be used to store the answer.
    pub fn len(&self) -> usize {
        self.entries.len() + usize::from(self.is_nameless)
    }

    /// Whether no identity was recorded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Parts of a cache key that keep the answers of different users apart. A part is true if the key
/// contains it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyParts {
    /// Identities as [`RequestContext::write_identities`] writes them.
    pub identities: bool,
    /// Values of all lines of the header `Authorization`.
    pub authorization: bool,
    /// Values of `Cookie`, or of one of its cookies.
    pub cookie: bool,
}

/// Credentials of a request that its cache key does not contain. If any is missing, the answer is
/// for one user only, unless its headers allow sharing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unexplained {
    /// Whether credentials in `Authorization` are missing in the key.
    pub authorization: bool,
    /// Whether cookies are missing in the key.
    pub cookie: bool,
    /// Whether a plugin's decision about the whole request is missing in the key.
    pub decision: bool,
}

impl Unexplained {
    /// Whether a cache may send the answer to other clients. `says` returns whether the answer's
    /// `Cache-Control` has a directive; `varies` returns whether the cache key contains a request
    /// header because the answer's `Vary` names it.
    ///
    /// For `Authorization`, the directives are those of RFC 9111 §3.5. `must-revalidate` is not
    /// enough for cookies: pages of one user often have it, and no standard makes such pages
    /// public.
    pub fn may_be_shared(self, says: impl Fn(&str) -> bool, varies: impl Fn(&str) -> bool) -> bool {
        if says("public") || says("s-maxage") {
            return true;
        }
        let authorization =
            self.authorization && !says("must-revalidate") && !varies("authorization");
        let cookie = self.cookie && !varies("cookie");
        !self.decision && !authorization && !cookie
    }
}

impl RequestContext<'_> {
    /// Records an identity under which the request is admitted.
    pub fn note_identity(&mut self, identity: Identity<'_>) {
        self.edits().identities.note(identity);
    }

    /// Appends the request's identities for use in a key. Each text is preceded by its length, so
    /// that the form is unambiguous. Appends nothing if the request has no identities.
    pub fn write_identities(&self, out: &mut Vec<u8>) {
        let mut part = |bytes: &[u8]| {
            out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
            out.extend_from_slice(bytes);
        };
        if let Some(consumer) = self.consumer() {
            part(b"consumer");
            part(consumer.username.as_bytes());
            part(b"");
        }
        for Identity { by, name, grant } in self.exchange().edits().identities.iter() {
            part(by.as_bytes());
            part(name);
            part(grant);
        }
    }

    /// Returns the credentials of this request that a cache key with these parts does not contain.
    pub fn unexplained(&self, key: KeyParts) -> Unexplained {
        let noted = &self.exchange().edits().identities;
        let is_explained = |is_noted: bool| key.identities && is_noted;
        let brings = |name: &str| self.header(name).is_some();
        Unexplained {
            authorization: !key.authorization
                && !is_explained(noted.explains_authorization)
                && brings("authorization"),
            cookie: !key.cookie && !is_explained(noted.explains_cookie) && brings("cookie"),
            decision: noted.is_nameless,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_told_apart_by_every_part() {
        let listed = |noted: &[(&'static str, &str, &str)]| {
            let mut identities = Identities::default();
            for (by, name, grant) in noted {
                let (name, grant) = (name.as_bytes(), grant.as_bytes());
                identities.note(Identity { by, name, grant });
            }
            let list = identities.iter().map(|it| (it.by, it.name.to_vec(), it.grant.to_vec()));
            let list: Vec<_> = list.collect();
            assert_eq!(list.len(), identities.len());
            list
        };
        assert_eq!(listed(&[("a", "bc", "d")])[0], ("a", b"bc".to_vec(), b"d".to_vec()));
        assert_ne!(listed(&[("a", "bc", "d")]), listed(&[("a", "b", "cd")]));
        assert_ne!(listed(&[("a", "b", ""), ("a", "", "c")]), listed(&[("a", "b", "c")]));
        let mut identities = Identities::default();
        assert!(identities.is_empty());
        identities.note_nameless();
        assert_eq!(identities.len(), 1);
        identities.clear();
        assert!(identities.is_empty());
    }

    #[test]
    fn answers_to_unexplained_credentials_are_shared_only_where_they_say_so() {
        let of = |authorization, cookie, decision| Unexplained { authorization, cookie, decision };
        for (unexplained, directives, vary, expected) in [
            (of(false, false, false), "", "", true),
            (of(true, false, false), "", "", false),
            (of(true, false, false), "must-revalidate", "", true),
            (of(true, false, false), "s-maxage", "", true),
            (of(true, false, false), "", "authorization", true),
            (of(false, true, false), "", "", false),
            (of(false, true, false), "must-revalidate", "", false),
            (of(false, true, false), "public", "", true),
            (of(false, true, false), "", "cookie", true),
            (of(true, true, false), "", "cookie", false),
            (of(false, false, true), "", "cookie", false),
            (of(false, false, true), "s-maxage", "", true),
        ] {
            let shared = unexplained.may_be_shared(|name| name == directives, |name| name == vary);
            assert_eq!(shared, expected, "{unexplained:?} {directives} {vary}");
        }
    }
}
