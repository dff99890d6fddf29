//! Table of the functions that templates can call. Submodules implement the functions, grouped by
//! subject: texts, numbers and lists, comparison, randomness and time.

mod chance;
mod compare;
mod number;
mod text;

use tollhouse_stdx::{Random, nearest};

use super::fault::Fault;
use super::value::Value;

/// Data that functions may use besides their arguments.
pub(super) struct Context<'r> {
    pub(super) random: &'r mut Random,
    /// Time of the request, in nanoseconds of Unix time.
    pub(super) unix_ns: i64,
}

type Call = for<'v> fn(&mut Context<'_>, &[Value<'v>]) -> Result<Value<'v>, Fault>;

/// Origin of a function; [`Functions::Builtin`](crate::Functions::Builtin) excludes those of the
/// library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The template language itself defines the function.
    Builtin,
    /// Defined by ghz or sprig, not by the template language.
    Library,
}

pub(super) struct Function {
    name: &'static str,
    origin: Origin,
    count_min: usize,
    /// Maximum number of arguments; `None` for any number.
    count_max: Option<usize>,
    call: Call,
}

impl std::fmt::Debug for Function {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "function {}", self.name)
    }
}

impl Function {
    pub(super) fn is_builtin(&self) -> bool {
        self.origin == Origin::Builtin
    }

    /// Checks the number of arguments. The error text contains the accepted number.
    pub(super) fn check_count(&self, count: usize) -> Result<(), Fault> {
        let fits = count >= self.count_min && self.count_max.is_none_or(|max| count <= max);
        if fits {
            return Ok(());
        }
        let takes = match self.count_max {
            Some(max) if max == self.count_min => format!("{max}"),
            Some(max) => format!("{} to {max}", self.count_min),
            None => format!("{} or more", self.count_min),
        };
        Err(format!("`{}` takes {takes} values, not {count}", self.name).into())
    }

    /// Calls the function; an error is prefixed with its name.
    pub(super) fn call<'v>(
        &self,
        context: &mut Context<'_>,
        arguments: &[Value<'v>],
    ) -> Result<Value<'v>, Fault> {
        (self.call)(context, arguments).map_err(|fault| format!("`{}`: {fault}", self.name).into())
    }
}

const fn builtin(name: &'static str, min: usize, max: Option<usize>, call: Call) -> Function {
    Function { name, origin: Origin::Builtin, count_min: min, count_max: max, call }
}

/// Creates a function of ghz or sprig with a fixed number of arguments.
const fn fixed(name: &'static str, count: usize, call: Call) -> Function {
    library(name, count, Some(count), call)
}

const fn library(name: &'static str, min: usize, max: Option<usize>, call: Call) -> Function {
    Function { name, origin: Origin::Library, count_min: min, count_max: max, call }
}

/// Table of all functions, looked up by name. Random functions (`newUUID`, `uuidv4`, `random…`,
/// `rand…`) return a different value at every call.
static FUNCTIONS: &[Function] = &[
    builtin("and", 1, None, compare::and),
    builtin("or", 1, None, compare::or),
    builtin("not", 1, Some(1), compare::not),
    builtin("eq", 2, None, compare::eq),
    builtin("ne", 2, Some(2), compare::ne),
    builtin("lt", 2, Some(2), compare::lt),
    builtin("le", 2, Some(2), compare::le),
    builtin("gt", 2, Some(2), compare::gt),
    builtin("ge", 2, Some(2), compare::ge),
    builtin("len", 1, Some(1), number::len),
    builtin("index", 2, Some(2), number::index),
    builtin("print", 0, None, text::print),
    builtin("println", 0, None, text::println),
    builtin("printf", 1, None, text::printf),
    builtin("html", 1, None, text::html),
    builtin("urlquery", 1, None, text::urlquery),
    fixed("newUUID", 0, chance::uuid),
    fixed("randomString", 1, chance::random_string),
    fixed("randomInt", 2, chance::random_int),
    fixed("uuidv4", 0, chance::uuid),
    fixed("randAlphaNum", 1, chance::rand_alpha_num),
    fixed("randAlpha", 1, chance::rand_alpha),
    fixed("randNumeric", 1, chance::rand_numeric),
    fixed("randAscii", 1, chance::rand_ascii),
    fixed("randInt", 2, chance::rand_int),
    fixed("now", 0, chance::now),
    fixed("date", 2, chance::date),
    fixed("dateInZone", 3, chance::date_in_zone),
    fixed("date_in_zone", 3, chance::date_in_zone),
    fixed("htmlDate", 1, chance::html_date),
    fixed("dateModify", 2, chance::date_modify),
    fixed("date_modify", 2, chance::date_modify),
    fixed("unixEpoch", 1, chance::unix_epoch),
    fixed("upper", 1, text::upper),
    fixed("lower", 1, text::lower),
    fixed("title", 1, text::title),
    fixed("untitle", 1, text::untitle),
    fixed("trim", 1, text::trim),
    fixed("trimAll", 2, text::trim_all),
    fixed("trimPrefix", 2, text::trim_prefix),
    fixed("trimSuffix", 2, text::trim_suffix),
    fixed("nospace", 1, text::nospace),
    fixed("repeat", 2, text::repeat),
    fixed("trunc", 2, text::trunc),
    fixed("substr", 3, text::substr),
    fixed("replace", 3, text::replace),
    fixed("contains", 2, text::contains),
    fixed("hasPrefix", 2, text::has_prefix),
    fixed("hasSuffix", 2, text::has_suffix),
    library("quote", 1, None, text::quote),
    library("squote", 1, None, text::squote),
    library("cat", 1, None, text::cat),
    fixed("join", 2, text::join),
    fixed("splitList", 2, text::split_list),
    fixed("toString", 1, text::to_string),
    fixed("toJson", 1, text::to_json),
    fixed("b64enc", 1, text::b64enc),
    fixed("b64dec", 1, text::b64dec),
    fixed("int", 1, number::int),
    fixed("int64", 1, number::int),
    fixed("atoi", 1, number::int),
    fixed("float64", 1, number::float),
    library("add", 1, None, number::add),
    fixed("add1", 1, number::add1),
    fixed("sub", 2, number::sub),
    library("mul", 1, None, number::mul),
    fixed("div", 2, number::div),
    fixed("mod", 2, number::modulo),
    library("max", 1, None, number::max),
    library("min", 1, None, number::min),
    fixed("floor", 1, number::floor),
    fixed("ceil", 1, number::ceil),
    library("round", 2, Some(3), number::round),
    library("list", 0, None, number::list),
    fixed("first", 1, number::first),
    fixed("last", 1, number::last),
    fixed("has", 2, number::has),
    fixed("until", 1, number::until),
    fixed("untilStep", 3, number::until_step),
    fixed("default", 2, compare::default),
    fixed("empty", 1, compare::empty),
    library("coalesce", 1, None, compare::coalesce),
    fixed("ternary", 3, compare::ternary),
    fixed("fail", 1, text::fail),
];

/// Functions of sprig that are rejected because they read the machine's state. The content of
/// requests must depend only on the plan of the load test.
const REFUSED: [&str; 3] = ["env", "expandenv", "getHostByName"];

/// Looks up a function by name.
pub(super) fn find(name: &str) -> Result<&'static Function, Fault> {
    if let Some(function) = FUNCTIONS.iter().find(|function| function.name == name) {
        return Ok(function);
    }
    if REFUSED.contains(&name) {
        return Err(format!(
            "function `{name}` is refused: it would take what this machine knows into requests; \
             write the value itself"
        )
        .into());
    }
    let names = || FUNCTIONS.iter().map(|function| function.name);
    let hint = match nearest(name, names()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "of sprig, those for texts, numbers, lists, choices and dates are offered".into(),
    };
    Err(format!("function `{name}` is unknown; {hint}").into())
}
