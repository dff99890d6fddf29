//! Parser of expressions, which reports every problem.
//!
//! The grammar is that of APISIX. A valid condition that can never hold causes a warning.

use ipnet::IpNet;
use serde_json::Value;

use super::condition::{Condition, Order, Right, Sense, Test};
use super::number::number_of;
use super::pattern::{Case, Pattern};
use super::{Logic, Node};
use crate::Problems;
use crate::limits::EXPRESSION_DEPTH_MAX;
use crate::network;
use crate::reader::{Reader, type_name};
use crate::variable::Variable;

/// Prefix of the reasons of all problems about expressions.
const PREFIX: &str = "failed to validate the 'vars' expression: ";

const OPERATOR_HINT: &str = "operators: == ~= > >= < <= ~~ ~* in has ipmatch, each after \"!\" too";

const UNEQUAL: &str = "nothing equals this";

const UNEQUAL_HINT: &str =
    "compare with a string, number or null; booleans are found in JSON bodies (post_arg.field)";

const SHAPE_HINT: &str = "write [[\"arg_name\", \"==\", \"value\"], …]";

pub(super) fn parse(value: &Value, path: &str, problems: &mut Problems) -> Option<Node> {
    let mut parser = Parser { reader: Reader::new(path, problems), depth: 0 };
    let items = parser.list(value)?;
    match items.first() {
        None => Some(Node::Group(Logic::All, Box::default())),
        Some(first) if first.is_array() || logic_of(first).is_some() => parser.node(value),
        Some(_) => {
            parser.error(value, "rule should be wrapped inside brackets", SHAPE_HINT);
            None
        }
    }
}

struct Parser<'p> {
    reader: Reader<'p>,
    /// Nesting depth of the list being read.
    depth: usize,
}

impl Parser<'_> {
    /// Parses a list of conditions, a logic node or a condition.
    fn node(&mut self, value: &Value) -> Option<Node> {
        let items = self.list(value)?;
        if self.depth == EXPRESSION_DEPTH_MAX {
            let reason = format!("nested more than {EXPRESSION_DEPTH_MAX} levels deep");
            self.error(value, &reason, "");
            return None;
        }
        let Some(first) = items.first() else {
            self.error(value, "rule too short", SHAPE_HINT);
            return None;
        };
        if first.is_array() {
            return self.members(items, 0).map(|members| Node::Group(Logic::All, members));
        }
        let Some(logic) = logic_of(first) else {
            return self.condition(value, items).map(Node::Condition);
        };
        if items.len() <= 2 {
            self.error(value, "rule too short", "a logic operator takes two conditions or more");
            return None;
        }
        self.members(items, 1).map(|members| Node::Group(logic, members))
    }

    /// Parses the nodes of a list from `start` on. All are parsed, so that every problem is
    /// reported.
    fn members(&mut self, items: &[Value], start: usize) -> Option<Box<[Node]>> {
        let depth = self.depth + 1;
        let mut members = Vec::with_capacity(items.len() - start);
        for (index, item) in items.iter().enumerate().skip(start) {
            members.extend(self.reader.in_item(index, |reader| {
                let (path, problems) = reader.parts();
                Parser { reader: Reader::new(path, problems), depth }.node(item)
            }));
        }
        (members.len() == items.len() - start).then(|| members.into())
    }

    fn condition(&mut self, value: &Value, items: &[Value]) -> Option<Condition> {
        let Value::String(name) = &items[0] else {
            let reason = format!("wrong type: expected string, got {}", type_name(&items[0]));
            self.error(value, &reason, "a condition begins with a variable's name");
            return None;
        };
        let (sense, operator, right) = match items {
            [_, negation, operator, right] => {
                if negation != "!" {
                    self.error(value, "bad 'not' expression", "write [variable, \"!\", op, value]");
                    return None;
                }
                (Sense::Negated, operator, Some(right))
            }
            [_, operator, right, extra @ ..] => {
                self.warn_extra(value, extra);
                (Sense::Plain, operator, Some(right))
            }
            [_, operator] if operator_name(operator).is_some() => (Sense::Plain, operator, None),
            // Two items are an equality unless the second is an operator, as in the library that
            // APISIX uses.
            [_, right] => {
                let test = Test::Equal(self.right(right));
                let variable = self.variable(value, name)?;
                return Some(self.settled(Condition { variable, sense: Sense::Plain, test }));
            }
            _ => {
                self.error(value, "invalid expression", SHAPE_HINT);
                return None;
            }
        };
        let test = self.test(operator, right.unwrap_or(&Value::Null), value)?;
        let variable = self.variable(value, name)?;
        Some(self.settled(Condition { variable, sense, test }))
    }

    /// Converts a comparison with a boolean: for a JSON body it is compared as text; for any other
    /// variable it never holds, which causes a warning.
    fn settled(&mut self, mut condition: Condition) -> Condition {
        let (Test::Equal(right) | Test::NotEqual(right)) = &mut condition.test else {
            return condition;
        };
        let Right::Boolean(boolean) = *right else { return condition };
        match &condition.variable {
            Variable::PostJson(path) => {
                *right = Right::Text(boolean.to_string().into());
                condition.variable = Variable::PostBoolean(path.clone());
            }
            _ => self.warn(&Value::Bool(boolean), UNEQUAL, UNEQUAL_HINT),
        }
        condition
    }

    fn variable(&mut self, condition: &Value, name: &str) -> Option<Variable> {
        let variable = Variable::parse(name);
        if let Some(problem) = variable.problem() {
            let reason = format!("invalid expression: bad path in '{name}': {problem}");
            self.error(condition, &reason, "write post_arg.a.b[0].c");
            return None;
        }
        Some(variable)
    }

    fn test(&mut self, operator: &Value, right: &Value, condition: &Value) -> Option<Test> {
        let Some(name) = operator_name(operator) else {
            let shown = operator.as_str().map_or_else(|| operator.to_string(), str::to_owned);
            self.error(condition, &format!("invalid operator '{shown}'"), OPERATOR_HINT);
            return None;
        };
        match name {
            "==" => Some(Test::Equal(self.right(right))),
            "~=" => Some(Test::NotEqual(self.right(right))),
            ">" => Some(self.order(Order::Above, right)),
            ">=" => Some(self.order(Order::AtLeast, right)),
            "<" => Some(self.order(Order::Below, right)),
            "<=" => Some(self.order(Order::AtMost, right)),
            "~~" => self.pattern(right, Case::Sensitive),
            "~*" => self.pattern(right, Case::Ignored),
            "in" => Some(self.one_of(right)),
            "has" => Some(Test::Holds(self.right(right))),
            _ => self.networks(right),
        }
    }

    fn right(&mut self, value: &Value) -> Right {
        match value {
            Value::Null => Right::Absent,
            Value::String(text) => Right::Text(text.as_str().into()),
            Value::Number(number) => number.as_f64().map_or(Right::Unequal, Right::Number),
            Value::Bool(boolean) => Right::Boolean(*boolean),
            Value::Array(_) | Value::Object(_) => {
                self.warn(value, UNEQUAL, UNEQUAL_HINT);
                Right::Unequal
            }
        }
    }

    fn order(&mut self, order: Order, value: &Value) -> Test {
        let number = match value {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => number_of(text.as_bytes()),
            _ => None,
        };
        number.map_or_else(
            || {
                self.warn(value, "a comparison with a value that is not a number never holds", "");
                Test::Never
            },
            |number| Test::Order(order, number),
        )
    }

    fn pattern(&mut self, value: &Value, case: Case) -> Option<Test> {
        let Value::String(text) = value else {
            let reason = format!("wrong type: expected string, got {}", type_name(value));
            self.error(value, &reason, "a regular expression is a string");
            return None;
        };
        match Pattern::compile(text, case) {
            Ok(pattern) => Some(Test::Pattern(pattern)),
            Err(reason) => {
                self.error(value, &format!("invalid regular expression: {reason}"), "");
                None
            }
        }
    }

    fn one_of(&mut self, value: &Value) -> Test {
        let Value::Array(items) = value else {
            self.warn(value, "\"in\" never holds without an array", "write a list of strings");
            return Test::Never;
        };
        if items.iter().any(|item| !item.is_string()) {
            self.warn(value, "only strings can be found by \"in\"", "put quotes around the rest");
        }
        let texts = items.iter().filter_map(Value::as_str);
        let mut elements: Vec<Box<[u8]>> = texts.map(|text| text.as_bytes().into()).collect();
        elements.sort_unstable();
        elements.dedup();
        Test::OneOf(elements.into())
    }

    fn networks(&mut self, value: &Value) -> Option<Test> {
        let items = match value {
            Value::Array(items) => items.as_slice(),
            single => std::slice::from_ref(single),
        };
        let mut networks: Vec<IpNet> = Vec::with_capacity(items.len());
        for item in items {
            let Some(network) = item.as_str().and_then(network::parse) else {
                let shown = item.as_str().map_or_else(|| item.to_string(), str::to_owned);
                let hint = "write an address such as 10.0.0.1 or a network such as 10.0.0.0/8";
                self.error(item, &format!("invalid ip address: {shown}"), hint);
                continue;
            };
            networks.push(network);
        }
        (networks.len() == items.len()).then(|| Test::Networks(networks.into()))
    }

    fn list<'v>(&mut self, value: &'v Value) -> Option<&'v [Value]> {
        let Value::Array(items) = value else {
            let reason = format!("wrong type: expected array, got {}", type_name(value));
            self.error(value, &reason, SHAPE_HINT);
            return None;
        };
        Some(items)
    }

    fn warn_extra(&mut self, value: &Value, extra: &[Value]) {
        if !extra.is_empty() {
            self.warn(value, "elements after the third have no effect", "remove them");
        }
    }

    fn error(&mut self, value: &Value, reason: &str, hint: &str) {
        self.reader.error(value, format!("{PREFIX}{reason}"), hint);
    }

    fn warn(&mut self, value: &Value, reason: &str, hint: &str) {
        self.reader.warning(value, reason, hint);
    }
}

fn logic_of(value: &Value) -> Option<Logic> {
    let names =
        [("AND", Logic::All), ("OR", Logic::Any), ("!AND", Logic::NotAll), ("!OR", Logic::NotAny)];
    let text = value.as_str()?;
    names.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|(_, logic)| logic)
}

/// Returns the operator in lower case, because operators are not case-sensitive.
fn operator_name(value: &Value) -> Option<&'static str> {
    let names = ["==", "~=", ">", ">=", "<", "<=", "~~", "~*", "in", "has", "ipmatch"];
    let text = value.as_str()?;
    names.into_iter().find(|name| name.eq_ignore_ascii_case(text))
}
