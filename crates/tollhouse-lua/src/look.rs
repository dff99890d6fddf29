//! Static look at a text of Lua: names that scripts do not have are found when the object is
//! written, and not when a request comes.
//!
//! The look knows no scopes: a name that is local anywhere in the text counts as local everywhere.
//! What it misses, the environment of scripts refuses at run time.

use std::collections::BTreeSet;

use hashbrown::{HashMap, HashSet};

/// Token of Lua.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Name(String),
    Text(String),
    /// Number, or a symbol of up to three bytes.
    Symbol(String),
}

/// Names that a text uses and that are not its own.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Uses {
    /// Paths that begin with a global name or a module, such as `ngx.req.set_header`.
    pub(crate) paths: BTreeSet<Vec<String>>,
    /// Modules that the text requires by a literal name.
    pub(crate) modules: BTreeSet<String>,
}

const KEYWORDS: [&str; 22] = [
    "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if", "in",
    "local", "nil", "not", "or", "repeat", "return", "then", "true", "until", "while",
];

/// First element of a path that begins with a module; the second is the module's name.
pub(crate) const MODULE: &str = "require";

/// Finds the foreign names of a text. The text need not be valid; Lua itself checks that.
pub(crate) fn uses(text: &str) -> Uses {
    let tokens = tokens(text);
    let declared = declared(&tokens);
    let aliases = aliases(&tokens, &declared);
    let has_own_require = defines_require(&tokens);
    let mut found = Uses::default();
    let mut brackets: Vec<char> = Vec::new();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        match token {
            Token::Symbol(symbol) => match symbol.as_str() {
                "{" | "(" | "[" => brackets.extend(symbol.chars()),
                "}" | ")" | "]" => {
                    brackets.pop();
                }
                _ => {}
            },
            Token::Name(name) if is_reference(&tokens, at, brackets.last()) => {
                let (path, next) = path_at(&tokens, at);
                if name == MODULE
                    && !has_own_require
                    && let Some(module) = literal_argument(&tokens, at + 1)
                {
                    found.modules.insert(module);
                }
                if let Some(root) = aliases.get(name) {
                    let path = root.iter().cloned().chain(path.into_iter().skip(1));
                    found.paths.insert(path.collect());
                } else if !declared.contains(name) {
                    found.paths.insert(path);
                }
                at = next;
                continue;
            }
            Token::Name(_) | Token::Text(_) => {}
        }
        at += 1;
    }
    found
}

/// Returns whether a text defines a function `require` of its own, whose modules the gateway does not
/// know.
fn defines_require(tokens: &[Token]) -> bool {
    let is = |token: &Token, word: &str| matches!(token, Token::Name(name) if name == word);
    tokens
        .windows(3)
        .any(|three| ["local", "function", MODULE].iter().zip(three).all(|(word, it)| is(it, word)))
}

/// Names by which functions reach whatever waits.
const WAITING: [&str; 10] = [
    "sleep",
    "body",
    "post_args",
    "load",
    "coroutine",
    "thread",
    "_G",
    "on_abort",
    "timer",
    "setmetatable",
];

/// Names by which functions end a phase early.
const ENDING: [&str; 2] = ["exit", "redirect"];

/// Names by which functions reach the interface of the gateway beyond their context.
const INTERFACE: [&str; 4] = ["ngx", "require", "load", "_G"];

/// Whether a text may reach more of the gateway than its context.
pub(crate) fn may_reach_gateway(text: &str) -> bool {
    mentions(text, &INTERFACE)
}

/// Whether a text may wait or end a phase early. A text that reaches such a function by a name that
/// it makes at run time fails when it calls it.
pub(crate) fn may_wait(text: &str) -> bool {
    mentions(text, &ENDING) || waits(text)
}

fn waits(text: &str) -> bool {
    mentions(text, &WAITING) || requires_other_modules(text)
}

/// Whether the function of a text can be called directly: it does not wait, it uses nothing of its
/// context but the variables, and no `pcall` goes on after it has ended its phase.
pub(crate) fn is_direct(text: &str) -> bool {
    let may_go_on = mentions(text, &["pcall"]) && mentions(text, &ENDING);
    !waits(text) && !may_go_on && uses_only_variables(text)
}

/// Whether a text loads a module whose functions may wait, or one that it does not name.
fn requires_other_modules(text: &str) -> bool {
    let tokens = tokens(text);
    let is_harmless = |at: usize| {
        let module = literal_argument(&tokens, at + 1);
        module.is_some_and(|module| HARMLESS_MODULES.contains(&module.as_str()))
    };
    let mentions = |token: &Token| match token {
        Token::Name(name) | Token::Text(name) => name.contains(MODULE),
        Token::Symbol(_) => false,
    };
    let is_call = |token: &Token| matches!(token, Token::Name(name) if name == MODULE);
    let mut found = tokens.iter().enumerate().filter(|(_, token)| mentions(token));
    found.any(|(at, token)| !is_call(token) || !is_harmless(at))
}

/// Modules of which a text may load any without a wait: their functions that wait have names of
/// [`WAITING`].
const HARMLESS_MODULES: [&str; 12] = [
    "apisix.core",
    "apisix.core.json",
    "apisix.core.log",
    "apisix.core.request",
    "apisix.core.response",
    "apisix.core.string",
    "apisix.core.table",
    "apisix.core.utils",
    "bit",
    "cjson",
    "cjson.safe",
    "ngx.re",
];

/// Whether the second parameter of the function that a text returns is used for nothing but its
/// field `var`, so that all requests can share it.
fn uses_only_variables(text: &str) -> bool {
    let tokens = tokens(text);
    if tokens.iter().any(|token| is_symbol(token, "...")) {
        return false;
    }
    let Some(parameters) = returned_function(&tokens) else { return false };
    let Some(ctx) = list_at(&tokens, parameters).into_iter().nth(1) else { return true };
    // Behind the first parameter and a comma.
    let declaration = parameters + 2;
    let is_ctx = |token: &Token| matches!(token, Token::Name(name) if *name == ctx);
    let uses = tokens.iter().enumerate().filter(|(at, it)| is_ctx(it) && *at != declaration);
    uses.map(|(at, _)| &tokens[at + 1..]).all(|rest| match rest {
        [dot, Token::Name(field), rest @ ..] => {
            // All requests would have the variables that one of them assigns.
            let may_assign =
                rest.first().is_some_and(|it| is_symbol(it, "=") || is_symbol(it, ","));
            is_symbol(dot, ".") && field == "var" && !may_assign
        }
        _ => false,
    })
}

fn is_symbol(token: &Token, symbol: &str) -> bool {
    matches!(token, Token::Symbol(it) if it == symbol)
}

/// Returns the position of the parameters of the function after the `return` that ends a text.
fn returned_function(tokens: &[Token]) -> Option<usize> {
    let mut depth = 0_u32;
    for (at, token) in tokens.iter().enumerate() {
        let Token::Name(word) = token else { continue };
        match word.as_str() {
            "function" | "if" | "do" | "repeat" => depth += 1,
            "end" | "until" => depth = depth.checked_sub(1)?,
            "return" if depth == 0 => {
                let [Token::Name(next), open, ..] = &tokens[at + 1..] else { return None };
                return (next == "function" && is_symbol(open, "(")).then_some(at + 3);
            }
            _ => {}
        }
    }
    None
}

fn mentions(text: &str, words: &[&str]) -> bool {
    tokens(text).iter().any(|token| match token {
        Token::Name(name) | Token::Text(name) => words.iter().any(|word| name.contains(word)),
        Token::Symbol(_) => false,
    })
}

/// Whether the name at `at` is a variable, and not a field, a keyword or a label.
fn is_reference(tokens: &[Token], at: usize, bracket: Option<&char>) -> bool {
    let Some(Token::Name(name)) = tokens.get(at) else { return false };
    let symbol = |at: Option<usize>| match at.and_then(|at| tokens.get(at)) {
        Some(Token::Symbol(symbol)) => symbol.as_str(),
        _ => "",
    };
    let before = symbol(at.checked_sub(1));
    let is_member = matches!(before, "." | ":" | "::");
    let is_field =
        bracket == Some(&'{') && matches!(before, "{" | "," | ";") && symbol(Some(at + 1)) == "=";
    let is_label = matches!(at.checked_sub(1).and_then(|at| tokens.get(at)),
        Some(Token::Name(word)) if word == "goto");
    !KEYWORDS.contains(&name.as_str()) && !is_member && !is_field && !is_label
}

/// Returns the path of names that begins at `at`, and the position behind it.
fn path_at(tokens: &[Token], at: usize) -> (Vec<String>, usize) {
    let mut path = Vec::new();
    let mut at = at;
    while let Some(Token::Name(name)) = tokens.get(at) {
        path.push(name.clone());
        at += 1;
        match (tokens.get(at), tokens.get(at + 1)) {
            (Some(Token::Symbol(dot)), Some(Token::Name(next)))
                if dot == "." && !KEYWORDS.contains(&next.as_str()) =>
            {
                at += 1;
            }
            _ => break,
        }
    }
    (path, at)
}

/// Returns the text of a call such as `require("x")` or `require "x"`.
fn literal_argument(tokens: &[Token], at: usize) -> Option<String> {
    match (tokens.get(at)?, tokens.get(at + 1)) {
        (Token::Text(text), _) => Some(text.clone()),
        (Token::Symbol(open), Some(Token::Text(text))) if open == "(" => Some(text.clone()),
        _ => None,
    }
}

/// Returns names that the text declares as locals, parameters or loop variables, and globals that
/// it assigns.
fn declared(tokens: &[Token]) -> HashSet<String> {
    let mut names = HashSet::new();
    let mut brackets: Vec<char> = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Symbol(symbol) => match symbol.as_str() {
                "{" | "(" | "[" => brackets.extend(symbol.chars()),
                "}" | ")" | "]" => {
                    brackets.pop();
                }
                _ => {}
            },
            Token::Name(word) if word == "local" || word == "for" => {
                names.extend(list_at(tokens, at + 1));
            }
            Token::Name(word) if word == "function" => {
                let mut open = at + 1;
                if let Some(Token::Name(name)) = tokens.get(open) {
                    let is_plain =
                        matches!(tokens.get(open + 1), Some(Token::Symbol(it)) if it == "(");
                    if is_plain {
                        names.insert(name.clone());
                    }
                }
                while !matches!(tokens.get(open), None | Some(Token::Symbol(_)))
                    || matches!(tokens.get(open), Some(Token::Symbol(it)) if it == "." || it == ":")
                {
                    open += 1;
                }
                names.extend(list_at(tokens, open + 1));
            }
            // An assignment: the name is a global of the text.
            Token::Name(name) if is_reference(tokens, at, brackets.last()) => {
                let next = tokens.get(at + 1);
                if matches!(next, Some(Token::Symbol(it)) if it == "=") {
                    names.insert(name.clone());
                }
            }
            Token::Name(_) | Token::Text(_) => {}
        }
    }
    names
}

/// Returns the names of a list such as `a, b` that begins at `at`.
fn list_at(tokens: &[Token], at: usize) -> Vec<String> {
    let mut names = Vec::new();
    let mut at = at;
    while let Some(Token::Name(name)) = tokens.get(at) {
        if KEYWORDS.contains(&name.as_str()) {
            break;
        }
        names.push(name.clone());
        match tokens.get(at + 1) {
            Some(Token::Symbol(comma)) if comma == "," => at += 2,
            _ => break,
        }
    }
    names
}

/// Returns locals that stand for a library or a module, with the path that they stand for. A name
/// that has two values stands for none.
fn aliases(tokens: &[Token], declared: &HashSet<String>) -> HashMap<String, Vec<String>> {
    let mut aliases: HashMap<String, Option<Vec<String>>> = HashMap::new();
    for at in 0..tokens.len() {
        let (Some(Token::Name(name)), Some(Token::Symbol(equals))) =
            (tokens.get(at), tokens.get(at + 1))
        else {
            continue;
        };
        if equals != "=" || !declared.contains(name) {
            continue;
        }
        let is_local = matches!(at.checked_sub(1).and_then(|at| tokens.get(at)),
            Some(Token::Name(word)) if word == "local");
        let value = value_at(tokens, at + 2).filter(|_| is_local);
        let root = value.map(|path| match path.first().and_then(|first| aliases.get(first)) {
            Some(Some(root)) => root.iter().cloned().chain(path.into_iter().skip(1)).collect(),
            _ => path,
        });
        let is_own = |path: &Vec<String>| {
            path[0] != MODULE && path[0] != *name && declared.contains(&path[0])
        };
        let root = root.filter(|path| !is_own(path));
        match aliases.get(name) {
            None => aliases.insert(name.clone(), root),
            Some(other) if *other == root => None,
            Some(_) => aliases.insert(name.clone(), None),
        };
    }
    // Parameters and loop variables of the same name hide the alias somewhere.
    for at in 0..tokens.len() {
        if matches!(tokens.get(at), Some(Token::Name(word)) if word == "function" || word == "for")
        {
            let open = (at..at + 8)
                .find(|at| matches!(tokens.get(*at), Some(Token::Symbol(it)) if it == "("));
            let first = if matches!(&tokens[at], Token::Name(word) if word == "for") {
                Some(at)
            } else {
                open
            };
            for name in first.map(|first| list_at(tokens, first + 1)).unwrap_or_default() {
                aliases.insert(name, None);
            }
        }
    }
    aliases.into_iter().filter_map(|(name, root)| Some((name, root?))).collect()
}

/// Returns the path that an expression at `at` stands for, if it is only that: `ngx.req` or
/// `require("apisix.core").log`.
fn value_at(tokens: &[Token], at: usize) -> Option<Vec<String>> {
    let Token::Name(first) = tokens.get(at)? else { return None };
    if first == MODULE {
        let module = literal_argument(tokens, at + 1)?;
        let is_call = matches!(tokens.get(at + 1), Some(Token::Symbol(_)));
        let mut next = at + if is_call { 4 } else { 2 };
        let mut path = vec![MODULE.to_owned(), module];
        while let (Some(Token::Symbol(dot)), Some(Token::Name(name))) =
            (tokens.get(next), tokens.get(next + 1))
        {
            if dot != "." {
                break;
            }
            path.push(name.clone());
            next += 2;
        }
        return is_end(tokens.get(next)).then_some(path);
    }
    if KEYWORDS.contains(&first.as_str()) {
        return None;
    }
    let (path, next) = path_at(tokens, at);
    is_end(tokens.get(next)).then_some(path)
}

/// Whether a token cannot continue an expression.
fn is_end(token: Option<&Token>) -> bool {
    match token {
        None => true,
        Some(Token::Name(word)) => !matches!(word.as_str(), "and" | "or"),
        Some(Token::Symbol(symbol)) => matches!(symbol.as_str(), ";" | ")" | "}"),
        Some(Token::Text(_)) => false,
    }
}

/// Splits a text into tokens; comments are left out.
fn tokens(text: &str) -> Vec<Token> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        if byte.is_ascii_whitespace() {
            at += 1;
        } else if bytes[at..].starts_with(b"--") {
            at += 2;
            at = match long_bracket(bytes, at) {
                Some((_, end)) => end,
                None => {
                    bytes[at..].iter().position(|it| *it == b'\n').map_or(bytes.len(), |it| at + it)
                }
            };
        } else if byte == b'_' || byte.is_ascii_alphabetic() {
            let end = end_of(bytes, at, |it| it == b'_' || it.is_ascii_alphanumeric());
            tokens.push(Token::Name(text[at..end].to_owned()));
            at = end;
        } else if byte.is_ascii_digit() {
            let end = end_of(bytes, at, |it| it == b'.' || it.is_ascii_alphanumeric());
            tokens.push(Token::Symbol(text[at..end].to_owned()));
            at = end;
        } else if byte == b'"' || byte == b'\'' {
            let end = end_of_quoted(bytes, at);
            let inner = text.get(at + 1..end.saturating_sub(1)).unwrap_or_default();
            tokens.push(Token::Text(inner.to_owned()));
            at = end;
        } else if let Some((inner, end)) = long_bracket(bytes, at) {
            tokens.push(Token::Text(text.get(inner).unwrap_or_default().to_owned()));
            at = end;
        } else {
            let symbols = ["...", "..", "==", "~=", "<=", ">=", "::"];
            let found = symbols.iter().find(|it| bytes[at..].starts_with(it.as_bytes()));
            let symbol = found.map_or_else(|| char::from(byte).to_string(), |it| (*it).to_owned());
            at += found.map_or(1, |it| it.len());
            tokens.push(Token::Symbol(symbol));
        }
    }
    tokens
}

fn end_of(bytes: &[u8], from: usize, belongs: impl Fn(u8) -> bool) -> usize {
    bytes[from..].iter().position(|it| !belongs(*it)).map_or(bytes.len(), |it| from + it)
}

fn end_of_quoted(bytes: &[u8], from: usize) -> usize {
    let mut at = from + 1;
    while at < bytes.len() && bytes[at] != bytes[from] {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

/// Returns the inner range and the end of a text in long brackets that begins at `at`.
fn long_bracket(bytes: &[u8], at: usize) -> Option<(std::ops::Range<usize>, usize)> {
    let level = bytes.get(at + 1..)?.iter().take_while(|it| **it == b'=').count();
    if bytes.get(at) != Some(&b'[') || bytes.get(at + 1 + level) != Some(&b'[') {
        return None;
    }
    let start = at + level + 2;
    let close: Vec<u8> = [b"]".to_vec(), vec![b'='; level], b"]".to_vec()].concat();
    let found = memchr::memmem::find(&bytes[start..], &close);
    let end = found.map_or(bytes.len(), |it| start + it);
    Some((start..end, (end + close.len()).min(bytes.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> String {
        let uses = uses(text);
        let paths = uses.paths.iter().map(|path| path.join("."));
        let modules = uses.modules.iter().map(|name| format!("<{name}>"));
        paths.chain(modules).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn foreign_names_are_found_and_own_ones_are_not() {
        for (text, expected) in [
            ("return function(conf, ctx) ngx.say(conf.a) end", "ngx.say"),
            ("local a, b = 1, 2; return a + b + c", "c"),
            ("for k, v in pairs(t) do print(k, v) end", "pairs print t"),
            ("local t = { os = 1, x = os.time() } return t.os", "os.time"),
            ("count = 1; return count", ""),
            ("function f(x) return x end f()", ""),
            ("local function f(...) return ... end", ""),
            ("-- os.exit()\n--[==[ io.open ]==] return 'io.popen' .. [[io]]", ""),
            ("goto done ::done::", ""),
            (
                "local core = require('apisix.core') core.log.warn('x') core.nothing()",
                "require require.apisix.core require.apisix.core.log.warn require.apisix.core.nothing <apisix.core>",
            ),
            (
                "local log = require \"apisix.core\".log; return function() log.warn(1) end",
                "require require.apisix.core.log require.apisix.core.log.warn <apisix.core>",
            ),
            (
                "local req = ngx.req return function() req.read_body() end",
                "ngx.req ngx.req.read_body",
            ),
            ("local ngx = ngx return function() ngx.say() end", "ngx ngx.say"),
            ("local s = ('x'):rep(3) s:upper()", ""),
            ("return function(core) core.anything() end", ""),
        ] {
            assert_eq!(paths(text), expected, "{text}");
        }
    }

    #[test]
    fn functions_that_use_only_variables_are_told_from_the_rest() {
        for (text, expected) in [
            ("return function() end", true),
            ("return function(conf) return conf.a end", true),
            ("return function(conf, ctx) if ctx.var.arg_a == 'b' then return 403 end end", true),
            (
                "local n = 0 return function(_, ctx) n = n + 1 ctx.var.x = n return ctx.var['y'] end",
                true,
            ),
            ("return function(conf, ctx) local var = ctx.var return var.uri end", true),
            (
                "if a then f() end for i = 1, 2 do end repeat until c return function(a, b) end",
                true,
            ),
            ("return function(conf, ctx) ctx.user = 1 end", false),
            ("return function(conf, ctx) f(ctx) end", false),
            ("return function(conf, ctx) local c = ctx return c.var.x end", false),
            ("return function(conf, ctx) ctx['var'] = 1 end", false),
            ("return function(conf, ctx) ctx.variable = 1 end", false),
            ("return function(conf, ctx) ctx.var = {} end", false),
            ("return function(conf, ctx) local a a, ctx.var = 1, {} end", false),
            ("return function(conf, ctx) ctx.var, conf.a = {}, 1 end", false),
            ("return function(conf, ctx) return ctx end", false),
            ("return function(...) local conf, ctx = ... end", false),
            ("local function f(conf, ctx) ctx.a = 1 end return f", false),
            ("local function f(a, b) return function(c, d) end end return f", false),
            ("local t = {function(a, b) return function(a, b) end end} return t[1]", false),
            ("return function(conf, ctx) end, 1", true),
        ] {
            assert_eq!(uses_only_variables(text), expected, "{text}");
        }
    }

    #[test]
    fn functions_that_end_their_phase_are_direct_without_pcall() {
        for (text, expected) in [
            ("return function(conf, ctx) ngx.exit(403) end", true),
            ("return function() ngx.redirect('/') end", true),
            ("return function() pcall(f) end", true),
            ("return function() pcall(function() ngx.exit(403) end) end", false),
            ("return function() ngx.sleep(1) end", false),
            ("return function(conf, ctx) return ctx end", false),
        ] {
            assert_eq!(is_direct(text), expected, "{text}");
        }
    }

    #[test]
    fn texts_that_may_wait_are_told_from_the_rest() {
        for (text, expected) in [
            ("return function(conf, ctx) if ctx.var.arg_a then return 403 end end", false),
            ("return function() ngx.sleep(1) end", true),
            ("return function() ngx['sleep'](1) end", true),
            ("local core = require('apisix.core') return function() end", false),
            ("local core = require 'apisix.core' return function() core.sleep(1) end", true),
            (
                "local core = require('apisix.core') return function() core.response.exit(1) end",
                true,
            ),
            ("local http = require('resty.http') return function() end", true),
            ("local load = require return function() load('resty.http') end", true),
            ("return function() require('apisix.' .. 'core') end", true),
            ("return function() local e = ngx['ex' .. 'it'] end", false),
            ("return function() ngx.exit(403) end", true),
            ("-- sleep\nreturn function() end", false),
        ] {
            assert_eq!(may_wait(text), expected, "{text}");
        }
    }
}
