//! Access control in nginx's directives. Address lists are converted; other access control is
//! reported.

use serde_json::{Value, json};

use super::syntax::Directive;

/// Directives of nginx that refuse some requests.
const PROTECTING: &[&str] = &[
    "auth_basic",
    "auth_jwt",
    "auth_request",
    "internal",
    "limit_conn",
    "limit_except",
    "limit_req",
    "modsecurity",
    "modsecurity_rules",
    "modsecurity_rules_file",
    "satisfy",
    "secure_link",
    "ssl_verify_client",
    "valid_referers",
];

/// Prefixes of directives with Lua code that may refuse a request.
const PROGRAMS: &[&str] = &["access_by_lua", "rewrite_by_lua", "server_rewrite_by_lua"];

/// Returns the first directive that controls access: this directive, or one in its block.
pub(super) fn protection(directive: &Directive) -> Option<&Directive> {
    let name = directive.name.as_str();
    let refuses = |inner: &Directive| {
        let status = inner.argument().parse::<u16>().unwrap_or(0);
        inner.name == "deny" || (inner.name == "return" && status >= 400)
    };
    let is_off = directive.argument() == "off";
    let protects = (PROTECTING.contains(&name) && !is_off)
        || PROGRAMS.iter().any(|program| name.starts_with(program))
        || (name == "if" && directive.inner().iter().any(refuses));
    match protects {
        true => Some(directive),
        false => directive.inner().iter().find_map(protection),
    }
}

/// `allow` and `deny` directives of one level, in order; the first match decides.
#[derive(Debug, Clone, Default)]
pub(super) struct AddressRules(Vec<(Verdict, String)>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Allow,
    Deny,
}

/// Error for `allow` and `deny` directives in an order that no plugin can express.
#[derive(Debug)]
pub(super) struct MixedRules;

impl AddressRules {
    /// Adds the rule of an `allow` or `deny` directive. Returns false for other directives.
    pub(super) fn take(&mut self, directive: &Directive) -> bool {
        let verdict = match directive.name.as_str() {
            "allow" => Verdict::Allow,
            "deny" => Verdict::Deny,
            _ => return false,
        };
        self.0.push((verdict, directive.argument().to_owned()));
        true
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns an equivalent `ip-restriction` plugin; `None` if all addresses are allowed.
    pub(super) fn plugin(&self) -> Result<Option<Value>, MixedRules> {
        let end = self.0.iter().position(|(_, address)| address == "all");
        let (before, last) = match end {
            Some(at) => (&self.0[..at], self.0[at].0),
            None => (&self.0[..], Verdict::Allow),
        };
        if before.iter().any(|(verdict, address)| *verdict == last || address.starts_with("unix:"))
        {
            return Err(MixedRules);
        }
        let addresses: Vec<&str> = before.iter().map(|(_, address)| address.as_str()).collect();
        Ok(match (last, addresses.is_empty()) {
            (Verdict::Allow, true) => None,
            (Verdict::Allow, false) => Some(json!({"blacklist": addresses})),
            // The plugin does not accept an empty list.
            (Verdict::Deny, true) => Some(json!({"blacklist": ["0.0.0.0/0", "::/0"]})),
            (Verdict::Deny, false) => Some(json!({"whitelist": addresses})),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::syntax::parse;
    use super::*;

    #[test]
    fn lists_of_addresses_become_a_plugin_where_one_has_their_order() {
        let plugin = |text: &str| {
            let mut rules = AddressRules::default();
            let all = parse(text).expect("it is right");
            assert!(all.iter().all(|directive| rules.take(directive)), "{text}");
            rules.plugin()
        };
        for (text, expected) in [
            ("", None),
            ("allow all;", None),
            (
                "deny 10.0.0.1; deny 10.1.0.0/16;",
                Some(json!({"blacklist": ["10.0.0.1", "10.1.0.0/16"]})),
            ),
            ("allow 10.0.0.1; deny all; deny 10.0.0.2;", Some(json!({"whitelist": ["10.0.0.1"]}))),
            ("deny all;", Some(json!({"blacklist": ["0.0.0.0/0", "::/0"]}))),
        ] {
            assert_eq!(plugin(text).expect("it has an order"), expected, "{text}");
        }
        for text in ["deny 10.0.0.1; allow 10.0.0.0/8; deny all;", "allow unix:; deny all;"] {
            assert!(plugin(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_protects_is_found_within_blocks_too() {
        for (text, expected) in [
            ("if ($a) { access_by_lua_file x; }", Some("access_by_lua_file")),
            ("if ($a) { return 403; }", Some("if")),
            ("if ($a) { return 301 /b; }", None),
            ("auth_basic secret;", Some("auth_basic")),
            ("auth_basic off;", None),
            ("proxy_pass http://a;", None),
        ] {
            let all = parse(text).expect("it is right");
            let found = protection(&all[0]).map(|directive| directive.name.as_str());
            assert_eq!(found, expected, "{text}");
        }
    }
}
