//! Casbin's model and policy, in the texts that Casbin defines: requests, policies, roles, an
//! effect and a matcher.

use std::collections::{HashMap, HashSet};

use tollhouse_plugin::ConfError;

use super::matcher::Matcher;
use super::wildcard::{Search, Undecided};

/// Largest number of roles between a user and a role; Casbin's own limit.
const ROLE_DEPTH_MAX: usize = 10;

/// Maximum number of lines with a policy or role, because each request may compare all of them.
const RULES_MAX: usize = 10_000;

/// Longest user, path or method that is compared, in bytes; the longest that nginx accepts by
/// default.
const VALUE_BYTES_MAX: usize = 8192;

/// Model with its policy.
#[derive(Debug)]
pub(super) struct Enforcer {
    /// Names of the request's fields, such as `sub`.
    request: Vec<String>,
    /// Names of the policies' fields.
    fields: Vec<String>,
    effect: Effect,
    matcher: Matcher,
    policies: Vec<Vec<String>>,
    /// Role definitions by name (`g`, `g2`).
    roles: HashMap<String, Roles>,
}

/// Decision over all policies that match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    AllowOverride,
    DenyOverride,
    AllowAndNotDeny,
    /// The first policy that matches decides.
    Priority,
}

/// Roles of users, by user and domain.
#[derive(Debug, Default)]
pub(super) struct Roles {
    arity: usize,
    links: HashMap<(String, String), Vec<String>>,
}

impl Enforcer {
    /// Parses a model and its policy.
    ///
    /// # Errors
    /// If one of them is invalid, or uses a part of Casbin that is not supported.
    pub(super) fn parse(model: &str, policy: &str) -> Result<Self, ConfError> {
        let mut sections = Sections::parse(model)?;
        let request = names(&sections.take("request_definition", "r")?);
        let fields = names(&sections.take("policy_definition", "p")?);
        let effect = Effect::parse(&sections.take("policy_effect", "e")?)?;
        let matcher = sections.take("matchers", "m")?;
        let mut roles = HashMap::new();
        for (name, definition) in sections.all("role_definition") {
            let arity = definition.split(',').count();
            roles.insert(name, Roles { arity, links: HashMap::new() });
        }
        sections.finish()?;
        let mut enforcer = Self {
            matcher: Matcher::parse(&matcher)?,
            request,
            fields,
            effect,
            policies: Vec::new(),
            roles,
        };
        enforcer.matcher.check(&enforcer.request, &enforcer.fields, &enforcer.roles)?;
        let is_rule = |line: &&str| !line.is_empty() && !line.starts_with('#');
        let rules = || policy.lines().map(str::trim).filter(is_rule);
        let count = rules().count();
        if count > RULES_MAX {
            let text = format!("the policy has {count} lines: at most {RULES_MAX} are supported");
            return Err(text.into());
        }
        for line in rules() {
            enforcer.add(line)?;
        }
        let Self { matcher, fields, policies, .. } = &mut enforcer;
        matcher.prepare(fields, policies)?;
        Ok(enforcer)
    }

    fn add(&mut self, line: &str) -> Result<(), ConfError> {
        let mut values = line.split(',').map(|part| part.trim().to_owned());
        let kind = values.next().unwrap_or_default();
        let values: Vec<String> = values.collect();
        let wrong = || ConfError::from(format!("invalid policy line {line:?}"));
        if kind == "p" {
            // The effect at the end may be missing.
            let needed = self.fields.iter().filter(|name| *name != "eft").count();
            if values.len() < needed || values.len() > self.fields.len() {
                return Err(wrong());
            }
            let index = self.fields.iter().position(|name| name == "eft");
            let effect = index.and_then(|index| values.get(index));
            if let Some(effect) = effect.filter(|it| !matches!(it.as_str(), "allow" | "deny")) {
                let text = format!(
                    "invalid effect {effect:?} in policy line {line:?}: expected \"allow\" or \"deny\""
                );
                return Err(text.into());
            }
            self.policies.push(values);
            return Ok(());
        }
        let roles = self.roles.get_mut(&kind).ok_or_else(wrong)?;
        if values.len() != roles.arity || !(2..=3).contains(&roles.arity) {
            return Err(wrong());
        }
        let domain = values.get(2).cloned().unwrap_or_default();
        roles.links.entry((values[0].clone(), domain)).or_default().push(values[1].clone());
        Ok(())
    }

    /// Whether a request with these values may pass.
    ///
    /// # Errors
    /// If a value is too long or a search exceeds its limit. The caller must refuse the request.
    pub(super) fn allows(&self, request: &[&str]) -> Result<bool, Undecided> {
        if request.iter().any(|value| value.len() > VALUE_BYTES_MAX) {
            return Err(Undecided);
        }
        let mut search = Search::new();
        let mut is_allowed = false;
        for policy in &self.policies {
            let scope = Bindings { enforcer: self, request, policy };
            if !self.matcher.matches(&scope, &mut search)? {
                continue;
            }
            let is_denial = scope.policy_value("eft") == Some("deny");
            match (self.effect, is_denial) {
                (Effect::Priority, _) => return Ok(!is_denial),
                (Effect::AllowOverride, false) => return Ok(true),
                (Effect::AllowOverride, true) => {}
                (Effect::DenyOverride | Effect::AllowAndNotDeny, true) => return Ok(false),
                (Effect::DenyOverride | Effect::AllowAndNotDeny, false) => is_allowed = true,
            }
        }
        Ok(is_allowed || self.effect == Effect::DenyOverride)
    }

    /// Returns the number of fields of requests.
    pub(super) fn request_fields(&self) -> usize {
        self.request.len()
    }
}

/// Values of one request and one policy.
pub(super) struct Bindings<'a> {
    enforcer: &'a Enforcer,
    request: &'a [&'a str],
    policy: &'a [String],
}

impl<'a> Bindings<'a> {
    pub(super) fn request_value(&self, name: &str) -> Option<&'a str> {
        let index = self.enforcer.request.iter().position(|other| other == name)?;
        self.request.get(index).copied()
    }

    pub(super) fn policy_value(&self, name: &str) -> Option<&'a str> {
        let index = self.enforcer.fields.iter().position(|other| other == name)?;
        self.policy.get(index).map(String::as_str)
    }

    /// Returns whether a user has a role in a domain by the role definition `name`. The values are user,
    /// role and domain.
    ///
    /// # Errors
    /// If the work of the decision is used up.
    pub(super) fn has_role(
        &self,
        name: &str,
        [user, role, domain]: [&str; 3],
        search: &mut Search,
    ) -> Result<bool, Undecided> {
        if user == role {
            return Ok(true);
        }
        let Some(roles) = self.enforcer.roles.get(name) else { return Ok(false) };
        roles.reach([user, role, domain], search)
    }
}

impl Roles {
    pub(super) fn arity(&self) -> usize {
        self.arity
    }

    fn reach(
        &self,
        [user, role, domain]: [&str; 3],
        search: &mut Search,
    ) -> Result<bool, Undecided> {
        let mut seen: HashSet<&str> = HashSet::new();
        let mut level: Vec<&str> = vec![user];
        for _ in 0..ROLE_DEPTH_MAX {
            let mut next: Vec<&str> = Vec::new();
            for name in level {
                let links = self.links.get(&(name.to_owned(), domain.to_owned()));
                // One for the look-up, and one for each link.
                search.charge(1 + links.map_or(0, Vec::len))?;
                next.extend(links.into_iter().flatten().map(String::as_str));
            }
            next.retain(|name| seen.insert(name));
            if next.contains(&role) {
                return Ok(true);
            }
            level = next;
        }
        Ok(false)
    }
}

impl Effect {
    fn parse(text: &str) -> Result<Self, ConfError> {
        let compact: String = text.chars().filter(|letter| !letter.is_whitespace()).collect();
        match compact.as_str() {
            "some(where(p.eft==allow))" => Ok(Effect::AllowOverride),
            "!some(where(p.eft==deny))" => Ok(Effect::DenyOverride),
            "some(where(p.eft==allow))&&!some(where(p.eft==deny))" => Ok(Effect::AllowAndNotDeny),
            "priority(p.eft)||deny" => Ok(Effect::Priority),
            _ => Err(format!("unsupported policy effect {text:?}").into()),
        }
    }
}

fn names(text: &str) -> Vec<String> {
    text.split(',').map(|name| name.trim().to_owned()).collect()
}

/// Assignments of a model: section, name and value.
struct Sections(Vec<(String, String, String)>);

impl Sections {
    fn parse(model: &str) -> Result<Self, ConfError> {
        let mut found = Vec::new();
        let mut section = String::new();
        let joined = model.replace("\\\n", " ");
        for line in joined.lines() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                section = name.trim().to_owned();
                continue;
            }
            let (name, value) = line
                .split_once('=')
                .ok_or_else(|| ConfError::from(format!("invalid model line {line:?}")))?;
            found.push((section.clone(), name.trim().to_owned(), value.trim().to_owned()));
        }
        Ok(Self(found))
    }

    fn take(&mut self, section: &str, name: &str) -> Result<String, ConfError> {
        let is_meant = |(of, other, _): &(String, String, String)| of == section && other == name;
        let index = self.0.iter().position(is_meant);
        let index =
            index.ok_or_else(|| ConfError::from(format!("the model lacks \"{name}\" in [{section}]")))?;
        Ok(self.0.remove(index).2)
    }

    fn all(&mut self, section: &str) -> Vec<(String, String)> {
        let (meant, others) =
            std::mem::take(&mut self.0).into_iter().partition(|(of, ..)| of == section);
        self.0 = others;
        let meant: Vec<(String, String, String)> = meant;
        meant.into_iter().map(|(_, name, value)| (name, value)).collect()
    }

    /// Refuses assignments that would have no effect.
    fn finish(self) -> Result<(), ConfError> {
        match self.0.first() {
            None => Ok(()),
            Some((section, name, _)) => {
                Err(format!("unsupported \"{name}\" in [{section}] of the model").into())
            }
        }
    }
}
