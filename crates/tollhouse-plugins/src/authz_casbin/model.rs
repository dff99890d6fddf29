//! Casbin's model and policy, in the texts that Casbin defines: requests, policies, roles, an
//! effect and a matcher.

use std::collections::{HashMap, HashSet};

use tollhouse_plugin::ConfError;

use super::matcher::Matcher;

/// Largest number of roles between a user and a role; Casbin's own limit.
const ROLE_DEPTH_MAX: usize = 10;

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
        for line in policy.lines() {
            enforcer.add(line)?;
        }
        let Self { matcher, fields, policies, .. } = &mut enforcer;
        matcher.prepare(fields, policies)?;
        Ok(enforcer)
    }

    fn add(&mut self, line: &str) -> Result<(), ConfError> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
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
    pub(super) fn allows(&self, request: &[&str]) -> bool {
        let mut is_allowed = false;
        let mut is_denied = false;
        for policy in &self.policies {
            let scope = Bindings { enforcer: self, request, policy };
            if !self.matcher.matches(&scope) {
                continue;
            }
            let effect = scope.policy_value("eft").unwrap_or("allow");
            match (self.effect, effect) {
                (Effect::Priority, "allow") => return true,
                (Effect::Priority, "deny") => return false,
                (_, "allow") => is_allowed = true,
                (_, "deny") => is_denied = true,
                _ => {}
            }
        }
        match self.effect {
            Effect::AllowOverride => is_allowed,
            Effect::DenyOverride => !is_denied,
            Effect::AllowAndNotDeny => is_allowed && !is_denied,
            Effect::Priority => false,
        }
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

    /// Whether a user has a role, by the role definition `name`.
    pub(super) fn has_role(&self, name: &str, user: &str, role: &str, domain: &str) -> bool {
        if user == role {
            return true;
        }
        self.enforcer.roles.get(name).is_some_and(|roles| roles.reach(user, role, domain))
    }
}

impl Roles {
    pub(super) fn arity(&self) -> usize {
        self.arity
    }

    fn reach(&self, user: &str, role: &str, domain: &str) -> bool {
        let mut seen: HashSet<&str> = HashSet::new();
        let mut level: Vec<&str> = vec![user];
        for _ in 0..ROLE_DEPTH_MAX {
            let mut next: Vec<&str> = Vec::new();
            for name in level {
                let links = self.links.get(&(name.to_owned(), domain.to_owned()));
                next.extend(links.into_iter().flatten().map(String::as_str));
            }
            next.retain(|name| seen.insert(name));
            if next.contains(&role) {
                return true;
            }
            level = next;
        }
        false
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
