//! Command line parser compatible with `getopt`: `-c10`, `-c 10`, `-kc 10`, `--connections=10`, and
//! unique prefixes of long names. The imitated tools and the scripts that call them rely on these
//! forms. The meaning of options is defined elsewhere.

/// Options that a tool knows.
pub(super) struct Grammar {
    /// Name of the tool in messages.
    pub(super) tool: &'static str,
    /// Letters of options without a value.
    pub(super) flags: &'static str,
    /// Letters of options with a value.
    pub(super) valued: &'static str,
    /// Long names of options, with their letters.
    pub(super) long: &'static [(&'static str, char)],
    /// Positions in which options are allowed.
    pub(super) order: Order,
}

/// Positions in which options may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Options may follow operands, as in GNU tools.
    Anywhere,
    /// Options are accepted only before the first operand, as in Apache's runtime.
    First,
}

/// Options and operands of a command line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    /// Options in their order: the letter, and the value or an empty text.
    pub(super) options: Vec<(char, String)>,
    /// Arguments that are not options, in order.
    pub(super) operands: Vec<String>,
}

/// Parses a command line, without the tool's name.
///
/// # Errors
/// If the command line is invalid; the text is that of `getopt`.
pub(super) fn parse(grammar: &Grammar, arguments: &[String]) -> Result<Line, String> {
    let mut line = Line::default();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if argument == "--" {
            line.operands.extend(rest.cloned());
            break;
        }
        if let Some(long) = argument.strip_prefix("--").filter(|_| !grammar.long.is_empty()) {
            line.options.push(long_option(grammar, long, &mut rest)?);
            continue;
        }
        match argument.strip_prefix('-').filter(|letters| !letters.is_empty()) {
            Some(letters) => short_options(grammar, letters, &mut rest, &mut line.options)?,
            None => {
                line.operands.push(argument.clone());
                if grammar.order == Order::First {
                    line.operands.extend(rest.cloned());
                    break;
                }
            }
        }
    }
    Ok(line)
}

fn short_options(
    grammar: &Grammar,
    letters: &str,
    rest: &mut std::slice::Iter<'_, String>,
    options: &mut Vec<(char, String)>,
) -> Result<(), String> {
    for (at, letter) in letters.char_indices() {
        if grammar.flags.contains(letter) {
            options.push((letter, String::new()));
            continue;
        }
        if !grammar.valued.contains(letter) {
            return Err(format!("invalid option -- '{letter}'"));
        }
        let attached = &letters[at + letter.len_utf8()..];
        let value = match attached {
            "" => rest.next().cloned(),
            attached => Some(attached.to_owned()),
        };
        let value = value.ok_or_else(|| format!("option requires an argument -- '{letter}'"))?;
        options.push((letter, value));
        break;
    }
    Ok(())
}

fn long_option(
    grammar: &Grammar,
    text: &str,
    rest: &mut std::slice::Iter<'_, String>,
) -> Result<(char, String), String> {
    let (written, attached) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (text, None),
    };
    let (name, letter) = long_name(grammar, written)?;
    if grammar.flags.contains(letter) {
        return match attached {
            Some(_) => Err(format!("option '--{name}' doesn't allow an argument")),
            None => Ok((letter, String::new())),
        };
    }
    let value = attached.or_else(|| rest.next().cloned());
    match value {
        Some(value) => Ok((letter, value)),
        None => Err(format!("option '--{name}' requires an argument")),
    }
}

fn long_name(grammar: &Grammar, written: &str) -> Result<(&'static str, char), String> {
    if let Some(exact) = grammar.long.iter().find(|(name, _)| *name == written) {
        return Ok(*exact);
    }
    let meant: Vec<_> = grammar.long.iter().filter(|(name, _)| name.starts_with(written)).collect();
    match meant.as_slice() {
        [] => Err(format!("unrecognized option '--{written}'")),
        [only] => Ok(**only),
        several => {
            let names: Vec<String> =
                several.iter().map(|(name, _)| format!("'--{name}'")).collect();
            let names = names.join(" ");
            Err(format!("option '--{written}' is ambiguous; possibilities: {names}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GNU: Grammar = Grammar {
        tool: "tool",
        flags: "Lv",
        valued: "ctT",
        long: &[("connections", 'c'), ("latency", 'L'), ("threads", 't'), ("timeout", 'T')],
        order: Order::Anywhere,
    };
    const APACHE: Grammar =
        Grammar { tool: "tool", flags: "kq", valued: "nc", long: &[], order: Order::First };

    fn line(grammar: &Grammar, text: &str) -> Result<String, String> {
        let arguments: Vec<String> = text.split_whitespace().map(ToOwned::to_owned).collect();
        parse(grammar, &arguments).map(|line| {
            let options = line.options.iter().map(|(letter, value)| format!("{letter}={value}"));
            let operands = line.operands.iter().map(|operand| format!("[{operand}]"));
            options.chain(operands).collect::<Vec<_>>().join(" ")
        })
    }

    #[test]
    fn options_are_taken_in_every_way_they_are_written() {
        for (grammar, text, expected) in [
            (&GNU, "-c10 -t 2 u", "c=10 t=2 [u]"),
            (&GNU, "u -Lc 10", "L= c=10 [u]"),
            (&GNU, "--connections=10 --lat u --thr 3", "c=10 L= t=3 [u]"),
            (&GNU, "-c -1 u -- -x", "c=-1 [u] [-x]"),
            (&GNU, "-", "[-]"),
            (&APACHE, "-kn10 -c 2 u", "k= n=10 c=2 [u]"),
            (&APACHE, "u -k", "[u] [-k]"),
            (&APACHE, "-q -- -u", "q= [-u]"),
        ] {
            assert_eq!(line(grammar, text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_option_is_named() {
        for (grammar, text, expected) in [
            (&GNU, "-z", "invalid option -- 'z'"),
            (&GNU, "-Lc", "option requires an argument -- 'c'"),
            (&GNU, "--foo", "unrecognized option '--foo'"),
            (&GNU, "--t 1", "option '--t' is ambiguous; possibilities: '--threads' '--timeout'"),
            (&GNU, "--threads", "option '--threads' requires an argument"),
            (&GNU, "--latency=1", "option '--latency' doesn't allow an argument"),
            (&APACHE, "--n 1", "invalid option -- '-'"),
        ] {
            assert_eq!(line(grammar, text), Err(expected.to_owned()), "{text}");
        }
    }
}
