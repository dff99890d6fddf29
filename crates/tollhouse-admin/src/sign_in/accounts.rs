//! Users who log in at an identity provider, as users of the registry: admitted, created at their
//! first log-in, and put into groups and roles at every log-in.
//!
//! A user is known by issuer and subject, of which the id here is a digest. Names and mail
//! addresses identify no user, because a provider may give them to another one. The users have no
//! password, and their tokens, which are shown to no caller by default, only authenticate sessions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand;
use serde_json::{Map, Value};
use tollhouse_registry::identity::{
    AccessToken, IdentityCommand, IdentityHead, IdentityWrite, User,
};
use tollhouse_registry::{Command, Refusal, Registry, State};

use crate::log_in::AccountRules;
use crate::session::hex;

/// Origin of the users, in `source`.
const SOURCE: &str = "openid-connect";

/// Maximum length of a user's name in characters, as in Polaris.
const NAME_CHARS_MAX: usize = 64;

/// Maximum length of a stored mail address in characters.
const EMAIL_CHARS_MAX: usize = 128;

/// Maximum number of groups of a user that are read from a claim.
const GROUPS_MAX: usize = 10_000;

/// Number of digits of a user's id.
const ID_DIGITS: usize = 32;

/// Number of bytes of a token.
const TOKEN_BYTES: usize = 32;

/// Maximum number of attempts of a write that others overtake.
const TRIES_MAX: usize = 5;

/// Why a user of the provider is not admitted here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotAdmitted {
    #[error("the identity provider does not tell who the user is")]
    Unknown,
    #[error(
        "the user is in none of the groups that may log in; ask an administrator, who finds them in \
         admin.openid_connect.allowed_groups"
    )]
    Group,
    #[error(
        "the user has no confirmed mail address of a domain that may log in; ask an administrator, who finds the \
         domains in admin.openid_connect.allowed_domains"
    )]
    Domain,
    #[error("the user {0:?} is disabled here; ask an administrator to enable the user's token")]
    Disabled(Arc<str>),
    #[error("the registry refuses the user: {0}; ask an administrator")]
    Refused(Refusal),
}

/// User as the provider describes it.
#[derive(Debug)]
struct Profile<'c> {
    id: String,
    name: String,
    email: &'c str,
    groups: BTreeSet<&'c str>,
}

impl AccountRules {
    /// Admits the user with these claims: creates it if it is new, and sets its groups and roles.
    pub(super) async fn admit(
        &self,
        registry: &Registry,
        claims: &Map<String, Value>,
    ) -> Result<Arc<User>, NotAdmitted> {
        let profile = self.profile(claims)?;
        for _ in 0..TRIES_MAX {
            let state = registry.state_full();
            let stored = state.user(&profile.id).cloned();
            if let Some(user) = stored.as_ref().filter(|user| !user.token.is_enabled) {
                return Err(NotAdmitted::Disabled(Arc::clone(&user.head.name)));
            }
            let writes = self.writes(&state, stored.as_ref(), &profile)?;
            if writes.is_empty()
                && let Some(user) = stored
            {
                self.warn_of_missing(&state, &profile);
                return Ok(user);
            }
            let command = Command::Identity(Box::new(IdentityCommand::Write(writes)));
            match registry.submit(command).await {
                // Another log-in, here or at another gateway, or an administrator was faster.
                Ok(_) | Err(Refusal::Conflict | Refusal::Exists | Refusal::NoChange) => {}
                Err(refusal) => return Err(NotAdmitted::Refused(refusal)),
            }
        }
        Err(NotAdmitted::Refused(Refusal::Conflict))
    }

    /// Reads the claims, and checks that the user may log in.
    fn profile<'c>(&self, claims: &'c Map<String, Value>) -> Result<Profile<'c>, NotAdmitted> {
        let text = |name: &str| claims.get(name).and_then(Value::as_str).unwrap_or_default();
        let (issuer, subject) = (text("iss"), text("sub"));
        if issuer.is_empty() || subject.is_empty() {
            return Err(NotAdmitted::Unknown);
        }
        let groups = groups_of(claims, &self.groups_claim);
        let is_member = |group: &String| groups.contains(group.as_str());
        if !self.allowed_groups.is_empty() && !self.allowed_groups.iter().any(is_member) {
            return Err(NotAdmitted::Group);
        }
        let email = text("email");
        let is_confirmed = match claims.get("email_verified") {
            Some(Value::Bool(is_confirmed)) => *is_confirmed,
            // Some providers write it as a text.
            Some(Value::String(text)) => text == "true",
            _ => false,
        };
        let domain = email.rsplit_once('@').map(|(_, domain)| domain);
        let is_domain = |allowed: &String| {
            domain.is_some_and(|domain| is_confirmed && domain.eq_ignore_ascii_case(allowed))
        };
        if !self.allowed_domains.is_empty() && !self.allowed_domains.iter().any(is_domain) {
            return Err(NotAdmitted::Domain);
        }
        let names = [text("preferred_username"), email, text("name"), subject];
        let name = names.into_iter().map(clean).find(|name| !name.is_empty());
        let id = id_of(issuer, subject);
        let name = name.unwrap_or_else(|| id.clone());
        let is_short = email.chars().count() <= EMAIL_CHARS_MAX;
        let email = if is_short && !email.chars().any(char::is_control) { email } else { "" };
        Ok(Profile { id, name, email, groups })
    }

    /// Returns the writes that a log-in needs; none if everything is as it should be.
    fn writes(
        &self,
        state: &State,
        stored: Option<&Arc<User>>,
        profile: &Profile<'_>,
    ) -> Result<Vec<IdentityWrite>, NotAdmitted> {
        let mut writes = Vec::new();
        let id: Arc<str> = profile.id.as_str().into();
        match stored {
            None => {
                let user = self.new_user(state, profile).ok_or(NotAdmitted::Unknown)?;
                writes.push(IdentityWrite::Create(user.into()));
            }
            Some(user) if *user.email != *profile.email => {
                let user = User { email: profile.email.into(), ..User::clone(user) };
                writes.push(IdentityWrite::Replace(user.into()));
            }
            Some(_) => {}
        }
        let wanted = |table| wanted_names(table, &profile.groups);
        let (groups, roles) = (wanted(&self.groups), wanted(&self.roles));
        for group in state.user_groups() {
            let Some(is_member) = groups.get(&*group.head.name) else { continue };
            if group.users.contains(&id) != *is_member {
                let mut group = (**group).clone();
                toggle(&mut group.users, &id);
                writes.push(IdentityWrite::Replace(group.into()));
            }
        }
        for role in state.access_roles() {
            let Some(is_member) = roles.get(&*role.head.name) else { continue };
            if role.users.contains(&id) != *is_member {
                let mut role = (**role).clone();
                toggle(&mut role.users, &id);
                writes.push(IdentityWrite::Replace(role.into()));
            }
        }
        Ok(writes)
    }

    /// Warns of groups and roles that the user would get and that do not exist, so that they give no
    /// rights.
    fn warn_of_missing(&self, state: &State, profile: &Profile<'_>) {
        let is_group = |name: &str| state.user_groups().any(|group| &*group.head.name == name);
        let is_role = |name: &str| state.access_roles().any(|role| &*role.head.name == name);
        for (name, is_given) in wanted_names(&self.groups, &profile.groups) {
            if is_given && !is_group(name) {
                tracing::warn!(
                    name,
                    "admin.openid_connect.groups names a group that does not exist"
                );
            }
        }
        for (name, is_given) in wanted_names(&self.roles, &profile.groups) {
            if is_given && !is_role(name) {
                tracing::warn!(name, "admin.openid_connect.roles names a role that does not exist");
            }
        }
    }

    /// Returns a new user, whose name no other caller has; `None` without random numbers.
    fn new_user(&self, state: &State, profile: &Profile<'_>) -> Option<User> {
        let is_taken = |name: &str| {
            state.user_named(name).is_some() || self.reserved_names.iter().any(|it| it == name)
        };
        let name = match is_taken(&profile.name) {
            false => profile.name.clone(),
            // The id is unique, and its first digits are enough to tell two users apart.
            true => format!("{}-{}", profile.name, &profile.id[..8]),
        };
        let name = if is_taken(&name) { profile.id.clone() } else { name };
        let mut token = [0; TOKEN_BYTES];
        rand::fill(&mut token).ok()?;
        let head = IdentityHead {
            id: profile.id.as_str().into(),
            name: name.into(),
            owner: self.owner.as_str().into(),
            source: SOURCE.into(),
            ..IdentityHead::default()
        };
        let token = AccessToken { text: hex(&token).into(), is_enabled: true };
        Some(User { head, email: profile.email.into(), token, ..User::default() })
    }
}

/// Returns the id of a user: a digest of issuer and subject, and of the issuer's length, so that no
/// two pairs have the same text.
fn id_of(issuer: &str, subject: &str) -> String {
    let text = format!("{}:{issuer}\0{subject}", issuer.len());
    let mut id = hex(digest(&SHA256, text.as_bytes()).as_ref());
    id.truncate(ID_DIGITS);
    id
}

/// Returns the names in a claim, which is a list or one text.
fn groups_of<'c>(claims: &'c Map<String, Value>, path: &str) -> BTreeSet<&'c str> {
    let claim = claims.get(path).or_else(|| {
        let mut segments = path.split('.');
        let outer = claims.get(segments.next()?)?;
        segments.try_fold(outer, |value, segment| value.get(segment))
    });
    match claim {
        Some(Value::String(group)) => [group.as_str()].into(),
        Some(Value::Array(groups)) => {
            groups.iter().take(GROUPS_MAX).filter_map(Value::as_str).collect()
        }
        _ => BTreeSet::new(),
    }
}

/// Returns every name of a table, with whether one of the user's groups gives it.
fn wanted_names<'t>(
    table: &'t BTreeMap<String, Vec<String>>,
    groups: &BTreeSet<&str>,
) -> BTreeMap<&'t str, bool> {
    let mut wanted = BTreeMap::new();
    for (group, names) in table {
        for name in names {
            *wanted.entry(name.as_str()).or_insert(false) |= groups.contains(group.as_str());
        }
    }
    wanted
}

/// Adds a user, or removes it if it is a member.
fn toggle(users: &mut BTreeSet<Arc<str>>, id: &Arc<str>) {
    if !users.remove(id) {
        users.insert(Arc::clone(id));
    }
}

/// Returns a name without control characters, as long as a name may be.
fn clean(name: &str) -> String {
    let name: String = name.chars().filter(|it| !it.is_control()).take(NAME_CHARS_MAX).collect();
    name.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: &Value) -> &Map<String, Value> {
        value.as_object().expect("an object")
    }

    #[test]
    fn users_are_told_apart_by_issuer_and_subject() {
        let ids: BTreeSet<String> =
            [("a", "b"), ("a", "c"), ("b", "a"), ("ab", ""), ("", "ab"), ("a", "b ")]
                .into_iter()
                .map(|(issuer, subject)| id_of(issuer, subject))
                .collect();
        assert_eq!(ids.len(), 6);
        assert!(ids.iter().all(|id| id.len() == ID_DIGITS));
    }

    #[test]
    fn groups_are_read_from_claims_of_every_form() {
        let claims = json!({"groups": ["a", 7, "b"], "role": "c", "d.e": ["f"],
            "realm_access": {"roles": ["g"]}, "flag": true});
        for (path, expected) in [
            ("groups", vec!["a", "b"]),
            ("role", vec!["c"]),
            ("d.e", vec!["f"]),
            ("realm_access.roles", vec!["g"]),
            ("realm_access.more", vec![]),
            ("realm_access", vec![]),
            ("flag", vec![]),
            ("flag.x", vec![]),
            ("absent", vec![]),
        ] {
            let groups: Vec<&str> = groups_of(object(&claims), path).into_iter().collect();
            assert_eq!(groups, expected, "{path}");
        }
    }

    #[test]
    fn rules_decide_who_may_log_in() {
        let groups = ["ops".to_owned(), "dev".to_owned()].to_vec();
        let domains = ["Example.com".to_owned()].to_vec();
        let rules = |allowed_groups: &[String], allowed_domains: &[String]| AccountRules {
            groups_claim: "groups".to_owned(),
            allowed_groups: allowed_groups.to_vec(),
            allowed_domains: allowed_domains.to_vec(),
            ..AccountRules::default()
        };
        let (by_group, by_domain, all) =
            (rules(&groups, &[]), rules(&[], &domains), rules(&[], &[]));
        let verified = |email: &str, verified: Value| json!({"iss": "i", "sub": "s", "email": email, "email_verified": verified});
        for (rules, claims, expected) in [
            (&all, json!({"iss": "i", "sub": "s"}), None),
            (&all, json!({"iss": "i"}), Some(NotAdmitted::Unknown)),
            (&all, json!({"sub": "s"}), Some(NotAdmitted::Unknown)),
            (&by_group, json!({"iss": "i", "sub": "s", "groups": ["x", "dev"]}), None),
            (&by_group, json!({"iss": "i", "sub": "s", "groups": ["x"]}), Some(NotAdmitted::Group)),
            (&by_group, json!({"iss": "i", "sub": "s"}), Some(NotAdmitted::Group)),
            (&by_domain, verified("a@example.com", json!(true)), None),
            (&by_domain, verified("a@example.com", json!("true")), None),
            (&by_domain, verified("a@example.com", json!(false)), Some(NotAdmitted::Domain)),
            (&by_domain, verified("a@example.com", json!(null)), Some(NotAdmitted::Domain)),
            (&by_domain, verified("a@b.example.com", json!(true)), Some(NotAdmitted::Domain)),
            (&by_domain, verified("example.com", json!(true)), Some(NotAdmitted::Domain)),
        ] {
            let refused = rules.profile(object(&claims)).err();
            assert_eq!(refused, expected, "{claims}");
        }
    }

    #[test]
    fn names_are_those_that_people_know() {
        for (claims, expected) in [
            (json!({"preferred_username": "ann", "email": "a@b.c", "name": "Ann"}), "ann"),
            (json!({"preferred_username": "", "email": "a@b.c", "name": "Ann"}), "a@b.c"),
            (json!({"preferred_username": 7, "name": " A\r\nnn "}), "Ann"),
            (json!({}), "s"),
        ] {
            let mut claims = claims;
            (claims["iss"], claims["sub"]) = ("i".into(), "s".into());
            let rules = AccountRules::default();
            let profile = rules.profile(object(&claims)).expect("admitted");
            assert_eq!(profile.name, expected, "{claims}");
        }
    }
}
