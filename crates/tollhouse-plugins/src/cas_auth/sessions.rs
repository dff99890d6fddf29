//! Sessions of the users of one CAS server, by the browser's id and by the server's ticket.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Milliseconds from the last request to the end of a session.
const LIFETIME_MS: u64 = 3_600_000;

/// Largest number of sessions, and of those of one user.
const SESSIONS_MAX: usize = 100_000;
const SESSIONS_OF_USER_MAX: usize = 50;

/// Longest ticket, user name and service, in bytes (CAS 3.0 §3.1 has tickets of up to 256).
const NAME_BYTES_MAX: usize = 1_024;

/// Sessions of users.
#[derive(Default)]
pub(super) struct Sessions(Mutex<State>);

/// Prints no ids and tickets, with which others could use or end a session.
impl std::fmt::Debug for Sessions {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Sessions({})", self.state().by_id.len())
    }
}

/// Login that the server has confirmed.
#[derive(Clone, Copy)]
pub(super) struct Login<'l> {
    pub ticket: &'l str,
    pub user: &'l str,
    /// Address of the service for which the ticket was issued.
    pub service: &'l str,
}

#[derive(Default)]
struct State {
    by_id: HashMap<String, Session>,
    ids_by_ticket: HashMap<String, String>,
    /// Ids of a user's sessions, the oldest first.
    ids_by_user: HashMap<String, Vec<String>>,
}

struct Session {
    user: String,
    ticket: String,
    service: String,
    end_ms: u64,
}

impl Sessions {
    /// Returns the user of a session and extends it; `None` if it has ended or is for another service.
    pub(super) fn user(&self, id: &str, service: &str, now_ms: u64) -> Option<String> {
        let mut state = self.state();
        let session = state.by_id.get_mut(id)?;
        if session.end_ms <= now_ms {
            state.remove(id);
            return None;
        }
        if session.service != service {
            return None;
        }
        session.end_ms = now_ms.saturating_add(LIFETIME_MS);
        Some(session.user.clone())
    }

    /// Begins a session; returns `false` if the memory is full, or the ticket has a session already.
    pub(super) fn begin(&self, id: &str, login: Login<'_>, now_ms: u64) -> bool {
        let Login { ticket, user, service } = login;
        let mut state = self.state();
        let is_long = [ticket, user, service].iter().any(|it| it.len() > NAME_BYTES_MAX);
        if is_long || state.ids_by_ticket.contains_key(ticket) {
            return false;
        }
        let of_user = state.ids_by_user.get(user).map_or(0, Vec::len);
        if of_user >= SESSIONS_OF_USER_MAX {
            let oldest = state.ids_by_user.get(user).and_then(|ids| ids.first()).cloned();
            oldest.iter().for_each(|id| state.remove(id));
        }
        if state.by_id.len() >= SESSIONS_MAX {
            state.remove_ended(now_ms);
        }
        if state.by_id.len() >= SESSIONS_MAX {
            return false;
        }
        let end_ms = now_ms.saturating_add(LIFETIME_MS);
        let session = Session {
            user: user.to_owned(),
            ticket: ticket.to_owned(),
            service: service.to_owned(),
            end_ms,
        };
        state.by_id.insert(id.to_owned(), session);
        state.ids_by_ticket.insert(ticket.to_owned(), id.to_owned());
        state.ids_by_user.entry(user.to_owned()).or_default().push(id.to_owned());
        true
    }

    /// Ends the session with this id.
    pub(super) fn end(&self, id: &str) {
        self.state().remove(id);
    }

    /// Ends the session that began with this ticket.
    pub(super) fn end_ticket(&self, ticket: &str) {
        let mut state = self.state();
        if let Some(id) = state.ids_by_ticket.get(ticket).cloned() {
            state.remove(&id);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn remove(&mut self, id: &str) {
        let Some(session) = self.by_id.remove(id) else { return };
        self.ids_by_ticket.remove(&session.ticket);
        if let Some(ids) = self.ids_by_user.get_mut(&session.user) {
            ids.retain(|other| other != id);
            if ids.is_empty() {
                self.ids_by_user.remove(&session.user);
            }
        }
    }

    fn remove_ended(&mut self, now_ms: u64) {
        let ended = self.by_id.iter().filter(|(_, session)| session.end_ms <= now_ms);
        let ended: Vec<String> = ended.map(|(id, _)| id.clone()).collect();
        ended.iter().for_each(|id| self.remove(id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVICE: &str = "https://app.test/back";

    fn login(ticket: &str) -> Login<'_> {
        Login { ticket, user: "jack", service: SERVICE }
    }

    #[test]
    fn sessions_last_while_they_are_used() {
        let sessions = Sessions::default();
        assert!(sessions.begin("a", login("ticket"), 0));
        assert!(!sessions.begin("b", login("ticket"), 0), "a ticket counts once");
        assert_eq!(sessions.user("a", SERVICE, LIFETIME_MS - 1).as_deref(), Some("jack"));
        assert_eq!(sessions.user("a", SERVICE, 2 * LIFETIME_MS - 2).as_deref(), Some("jack"));
        assert_eq!(sessions.user("a", SERVICE, 3 * LIFETIME_MS - 2), None);
        assert!(sessions.begin("b", login("ticket"), 0));
        sessions.end_ticket("ticket");
        assert_eq!(sessions.user("b", SERVICE, 0), None);
    }

    #[test]
    fn a_user_has_a_bounded_number_of_sessions() {
        let sessions = Sessions::default();
        for number in 0..=SESSIONS_OF_USER_MAX {
            let name = number.to_string();
            assert!(sessions.begin(&name, login(&name), 0));
        }
        assert_eq!((sessions.user("0", SERVICE, 0), sessions.user("1", SERVICE, 0).is_some()), (None, true));
        assert_eq!(sessions.state().by_id.len(), SESSIONS_OF_USER_MAX);
        assert!(!sessions.begin("x", login(&"t".repeat(NAME_BYTES_MAX + 1)), 0));
    }

    #[test]
    fn a_session_counts_for_its_service_alone_and_is_not_printed() {
        let sessions = Sessions::default();
        assert!(sessions.begin("secret id", login("secret ticket"), 0));
        assert_eq!(sessions.user("secret id", "https://other.test/back", 0), None);
        assert_eq!(sessions.user("secret id", SERVICE, 0).as_deref(), Some("jack"));
        assert_eq!(format!("{sessions:?}"), "Sessions(1)");
    }
}
