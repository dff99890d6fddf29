//! Evaluation of templates. Values are those of Lua: tables are JSON objects and lists, and `null`
//! is nil.

use std::borrow::Cow;
use std::ops::Deref;
use std::rc::Rc;

use serde_json::{Number, Value};

use super::expression::{Expression, Function, Operator};
use super::template::{Escape, Loop, Node, Template};
use crate::shared::confs::lua_number::lua_number;

/// Longest output, and longest text that an expression makes, in bytes.
pub(super) const OUTPUT_BYTES_MAX: usize = 8 << 20;

/// Largest number of steps: nodes, rounds of loops, and kilobytes of texts that are written, made or
/// compared.
const STEPS_MAX: usize = 500_000;

/// Largest number of steps on the core, which other requests wait for, and the longest body that is
/// rendered there. Each byte of the body allows one more step, so that loops over its values fit.
const STEPS_ON_CORE_MAX: usize = 20_000;
pub(super) const BYTES_ON_CORE_MAX: usize = 32 << 10;

/// Longest text that counts as a number, in bytes.
const NUMBER_BYTES_MAX: usize = 64;

/// Reason why a template cannot be rendered, in Lua's words.
pub(super) type Failure = String;

/// Values that a template refers to.
#[derive(Debug)]
pub(super) struct Scene<'d> {
    /// Decoded body.
    pub document: &'d Value,
    /// Body as text; `None` without one.
    pub body: Option<&'d str>,
    /// `_ctx`.
    pub context: &'d Value,
}

/// Value of an expression.
#[derive(Debug, Clone)]
enum Lua<'d> {
    Nil,
    Bool(bool),
    Number(f64),
    /// Number of a document, which is written as it was read.
    Exact(&'d Number),
    Text(Text<'d>),
    Table(&'d Value),
    /// Names of the template.
    Context,
}

/// Text of a value. Clones share it.
#[derive(Debug, Clone)]
enum Text<'d> {
    /// Part of the template or of the document.
    Borrowed(&'d str),
    /// Text that an expression has made.
    Owned(Rc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Owned(text) => text,
        }
    }
}

struct Renderer<'d> {
    scene: &'d Scene<'d>,
    locals: Vec<(&'d str, Lua<'d>)>,
    out: String,
    steps_left: usize,
}

impl Template {
    /// Renders the template. `core_bytes` is the length of a body that is rendered on the core; `None`
    /// on another thread.
    ///
    /// # Errors
    /// If an expression has no value, the output is too long, or there are too many steps.
    pub(super) fn render(
        &self,
        scene: &Scene<'_>,
        core_bytes: Option<usize>,
    ) -> Result<String, Failure> {
        let steps_left = core_bytes.map_or(STEPS_MAX, |bytes| STEPS_ON_CORE_MAX + bytes);
        let mut renderer = Renderer { scene, locals: Vec::new(), out: String::new(), steps_left };
        renderer.nodes(&self.nodes)?;
        Ok(renderer.out)
    }
}

impl<'d> Renderer<'d> {
    fn step(&mut self) -> Result<(), Failure> {
        let left = self.steps_left.checked_sub(1);
        self.steps_left = left.ok_or_else(|| "too many steps".to_owned())?;
        Ok(())
    }

    /// Counts the work on a text.
    fn steps_of(&mut self, bytes: usize) -> Result<(), Failure> {
        (0..bytes / 1_024).try_for_each(|_| self.step())
    }

    fn nodes(&mut self, nodes: &'d [Node]) -> Result<(), Failure> {
        let outer = self.locals.len();
        for node in nodes {
            self.step()?;
            self.node(node)?;
        }
        self.locals.truncate(outer);
        Ok(())
    }

    fn node(&mut self, node: &'d Node) -> Result<(), Failure> {
        match node {
            Node::Text(text) => self.write(text),
            Node::Output(value, escape) => {
                let value = self.value(value)?;
                let text = match &value {
                    Lua::Nil => return Ok(()),
                    value => text_of(value).ok_or_else(|| cannot("write", value))?,
                };
                match (escape, &value) {
                    (Escape::Html, Lua::Text(_)) => self.write(&escape_html(&text)),
                    _ => self.write(&text),
                }
            }
            Node::Local(name, value) => {
                let value = self.value(value)?;
                self.locals.push((name, value));
                Ok(())
            }
            Node::If(branches) => {
                for (condition, nodes) in branches {
                    let is_met = match condition {
                        Some(condition) => self.value(condition)?.is_true(),
                        None => true,
                    };
                    if is_met {
                        return self.nodes(nodes);
                    }
                }
                Ok(())
            }
            Node::For(each, nodes) => self.each(each, nodes),
        }
    }

    fn each(&mut self, each: &'d Loop, nodes: &'d [Node]) -> Result<(), Failure> {
        match each {
            Loop::Pairs(key, value, table) => match self.value(table)? {
                Lua::Table(Value::Array(items)) => {
                    items.iter().enumerate().try_for_each(|(index, item)| {
                        self.locals.push((key, Lua::Number(index as f64 + 1.0)));
                        self.round(value.as_deref(), item, nodes)
                    })
                }
                Lua::Table(Value::Object(fields)) => fields.iter().try_for_each(|(name, item)| {
                    self.locals.push((key, Lua::Text(Text::Borrowed(name))));
                    self.round(value.as_deref(), item, nodes)
                }),
                other => Err(cannot("iterate over", &other)),
            },
            Loop::Range(name, first, last, step) => {
                let mut bounds = [0.0; 3];
                for (bound, value) in bounds.iter_mut().zip([first, last, step]) {
                    let value = self.value(value)?;
                    *bound = number_of(&value).ok_or("'for' bounds must be numbers")?;
                }
                let [mut at, last, step] = bounds;
                if step == 0.0 || step.is_nan() {
                    return Err("'for' step is zero".into());
                }
                while if step > 0.0 { at <= last } else { at >= last } {
                    self.step()?;
                    self.locals.push((name, Lua::Number(at)));
                    self.nodes(nodes)?;
                    self.locals.pop();
                    at += step;
                }
                Ok(())
            }
        }
    }

    /// Runs one round of a loop, whose key is the last local variable, and drops the key.
    fn round(
        &mut self,
        name: Option<&'d str>,
        item: &'d Value,
        nodes: &'d [Node],
    ) -> Result<(), Failure> {
        self.step()?;
        let inner = self.locals.len();
        self.locals.extend(name.map(|name| (name, Lua::from(item))));
        self.nodes(nodes)?;
        self.locals.truncate(inner - 1);
        Ok(())
    }

    fn write(&mut self, text: &str) -> Result<(), Failure> {
        self.steps_of(text.len())?;
        if self.out.len() + text.len() > OUTPUT_BYTES_MAX {
            return Err(format!("the output is longer than {OUTPUT_BYTES_MAX} bytes"));
        }
        self.out.push_str(text);
        Ok(())
    }

    fn name(&self, name: &str) -> Lua<'d> {
        if let Some((_, value)) = self.locals.iter().rev().find(|(other, _)| *other == name) {
            return value.clone();
        }
        match name {
            "context" => Lua::Context,
            "_ctx" => Lua::Table(self.scene.context),
            "_body" => self.scene.body.map_or(Lua::Nil, |body| Lua::Text(Text::Borrowed(body))),
            // These names are the gateway's; fields of the body cannot replace them.
            "_escape_json" | "_escape_xml" | "_multipart" => Lua::Nil,
            _ => self.scene.document.get(name).map_or(Lua::Nil, Lua::from),
        }
    }

    fn value(&mut self, expression: &'d Expression) -> Result<Lua<'d>, Failure> {
        Ok(match expression {
            Expression::Nil => Lua::Nil,
            Expression::Bool(value) => Lua::Bool(*value),
            Expression::Number(value) => Lua::Number(*value),
            Expression::Text(text) => Lua::Text(Text::Borrowed(text)),
            Expression::Name(name) => self.name(name),
            Expression::Index(of, index) => {
                let of = self.value(of)?;
                let index = self.value(index)?;
                self.index(&of, &index)?
            }
            Expression::Not(value) => Lua::Bool(!self.value(value)?.is_true()),
            Expression::Negative(value) => {
                let value = self.value(value)?;
                Lua::Number(-number_of(&value).ok_or_else(|| cannot("negate", &value))?)
            }
            Expression::Length(value) => match self.value(value)? {
                Lua::Text(text) => Lua::Number(text.len() as f64),
                Lua::Table(Value::Array(items)) => Lua::Number(items.len() as f64),
                Lua::Table(_) => Lua::Number(0.0),
                other => return Err(cannot("get the length of", &other)),
            },
            Expression::Binary(operator, left, right) => self.binary(*operator, left, right)?,
            Expression::Call(function, argument) => {
                let argument = self.value(argument)?;
                self.call(*function, &argument)?
            }
        })
    }

    fn index(&self, of: &Lua<'d>, index: &Lua<'d>) -> Result<Lua<'d>, Failure> {
        let found = match (of, index) {
            (Lua::Context, Lua::Text(name)) => return Ok(self.name(name)),
            (Lua::Table(Value::Object(fields)), Lua::Text(name)) => fields.get(&**name),
            // The text of an element with attributes has this key.
            (Lua::Table(Value::Object(fields)), index) if number_of(index) == Some(1.0) => {
                fields.get("1")
            }
            (Lua::Table(Value::Array(items)), index) => number_of(index)
                .filter(|number| *number >= 1.0 && number.fract() == 0.0)
                .and_then(|number| items.get(number as usize - 1)),
            (Lua::Table(_) | Lua::Context | Lua::Text(_), _) => None,
            (other, _) => return Err(cannot("index", other)),
        };
        Ok(found.map_or(Lua::Nil, Lua::from))
    }

    fn binary(
        &mut self,
        operator: Operator,
        left: &'d Expression,
        right: &'d Expression,
    ) -> Result<Lua<'d>, Failure> {
        use Operator::{Add, And, Concat, Divide, Equal, Modulo, Multiply, Or, Subtract, Unequal};
        let left = self.value(left)?;
        match (operator, left.is_true()) {
            (Or, true) | (And, false) => return Ok(left),
            (Or, false) | (And, true) => return self.value(right),
            _ => {}
        }
        let right = self.value(right)?;
        if let (Lua::Text(one), Lua::Text(other)) = (&left, &right) {
            self.steps_of(one.len().min(other.len()))?;
        }
        let both = || Some((number_of(&left)?, number_of(&right)?));
        let numbers = || {
            let culprit = if number_of(&left).is_none() { &left } else { &right };
            both().ok_or_else(|| cannot("perform arithmetic on", culprit))
        };
        Ok(match operator {
            Equal => Lua::Bool(left.equals(&right)),
            Unequal => Lua::Bool(!left.equals(&right)),
            Concat => {
                let text = |value| text_of(value).filter(|_| !matches!(value, Lua::Bool(_)));
                let one = text(&left).ok_or_else(|| cannot("concatenate", &left))?;
                let other = text(&right).ok_or_else(|| cannot("concatenate", &right))?;
                if one.len() + other.len() > OUTPUT_BYTES_MAX {
                    return Err(format!("a text is longer than {OUTPUT_BYTES_MAX} bytes"));
                }
                self.steps_of(one.len() + other.len())?;
                Lua::Text(Text::Owned((one.into_owned() + &other).into()))
            }
            Add => numbers().map(|(one, other)| Lua::Number(one + other))?,
            Subtract => numbers().map(|(one, other)| Lua::Number(one - other))?,
            Multiply => numbers().map(|(one, other)| Lua::Number(one * other))?,
            Divide => numbers().map(|(one, other)| Lua::Number(one / other))?,
            Modulo => numbers().map(|(a, b)| Lua::Number(a - (a / b).floor() * b))?,
            order => Lua::Bool(ordered(order, &left, &right)?),
        })
    }

    fn call(&mut self, function: Function, argument: &Lua<'d>) -> Result<Lua<'d>, Failure> {
        let text = || text_of(argument).ok_or_else(|| cannot("index", argument));
        let result = match function {
            Function::EscapeJson => json_of(argument)?,
            Function::EscapeXml => escape_xml(&text()?),
            Function::ToText if matches!(argument, Lua::Nil) => "nil".into(),
            Function::ToText => text()?.into_owned(),
            Function::ToNumber => {
                return Ok(number_of(argument).map_or(Lua::Nil, Lua::Number));
            }
            Function::Lower => text()?.to_ascii_lowercase(),
            Function::Upper => text()?.to_ascii_uppercase(),
        };
        self.steps_of(result.len())?;
        Ok(Lua::Text(Text::Owned(result.into())))
    }
}

impl<'d> From<&'d Value> for Lua<'d> {
    fn from(value: &'d Value) -> Self {
        match value {
            Value::Null => Lua::Nil,
            Value::Bool(value) => Lua::Bool(*value),
            Value::Number(number) => Lua::Exact(number),
            Value::String(text) => Lua::Text(Text::Borrowed(text)),
            table => Lua::Table(table),
        }
    }
}

impl Lua<'_> {
    fn is_true(&self) -> bool {
        !matches!(self, Lua::Nil | Lua::Bool(false))
    }

    fn kind(&self) -> &'static str {
        match self {
            Lua::Nil => "nil",
            Lua::Bool(_) => "boolean",
            Lua::Number(_) | Lua::Exact(_) => "number",
            Lua::Text(_) => "string",
            Lua::Table(_) | Lua::Context => "table",
        }
    }

    fn number(&self) -> Option<f64> {
        match self {
            Lua::Number(number) => Some(*number),
            Lua::Exact(number) => number.as_f64(),
            _ => None,
        }
    }

    fn equals(&self, other: &Lua<'_>) -> bool {
        match (self, other) {
            (Lua::Nil, Lua::Nil) => true,
            (Lua::Bool(one), Lua::Bool(other)) => one == other,
            (Lua::Text(one), Lua::Text(other)) => **one == **other,
            (Lua::Table(one), Lua::Table(other)) => std::ptr::eq(*one, *other),
            _ => self.number().is_some_and(|number| other.number() == Some(number)),
        }
    }
}

fn ordered(operator: Operator, left: &Lua<'_>, right: &Lua<'_>) -> Result<bool, Failure> {
    let order = match (left, right) {
        (Lua::Text(one), Lua::Text(other)) => Some(one.as_bytes().cmp(other.as_bytes())),
        _ => match (left.number(), right.number()) {
            (Some(one), Some(other)) => one.partial_cmp(&other),
            _ => {
                let kinds = (left.kind(), right.kind());
                return Err(format!("attempt to compare {} with {}", kinds.0, kinds.1));
            }
        },
    };
    Ok(order.is_some_and(|order| match operator {
        Operator::Less => order.is_lt(),
        Operator::LessOrEqual => order.is_le(),
        Operator::Greater => order.is_gt(),
        _ => order.is_ge(),
    }))
}

fn cannot(act: &str, value: &Lua<'_>) -> Failure {
    format!("attempt to {act} a {} value", value.kind())
}

/// Returns a value as a number; texts count if they are numbers, as in Lua.
fn number_of(value: &Lua<'_>) -> Option<f64> {
    match value {
        Lua::Text(text) if text.len() > NUMBER_BYTES_MAX => None,
        Lua::Text(text) => text.trim().parse().ok(),
        value => value.number(),
    }
}

fn text_of<'v>(value: &'v Lua<'_>) -> Option<Cow<'v, str>> {
    match value {
        Lua::Bool(value) => Some(Cow::Owned(value.to_string())),
        Lua::Number(number) => Some(Cow::Owned(lua_number(*number))),
        Lua::Exact(number) => Some(Cow::Owned(number.to_string())),
        Lua::Text(text) => Some(Cow::Borrowed(&**text)),
        Lua::Nil | Lua::Table(_) | Lua::Context => None,
    }
}

fn json_of(value: &Lua<'_>) -> Result<String, Failure> {
    Ok(match value {
        Lua::Nil => "null".into(),
        Lua::Text(text) => Value::from(&**text).to_string(),
        Lua::Table(table) => table.to_string(),
        other => text_of(other).ok_or_else(|| cannot("encode", other))?.into_owned(),
    })
}

fn escape_xml(text: &str) -> String {
    escape(text, &|byte| {
        Some(match byte {
            '&' => "&amp;",
            '<' => "&lt;",
            '>' => "&gt;",
            '\'' => "&apos;",
            '"' => "&quot;",
            _ => return None,
        })
    })
}

fn escape_html(text: &str) -> String {
    escape(text, &|byte| {
        Some(match byte {
            '&' => "&amp;",
            '<' => "&lt;",
            '>' => "&gt;",
            '"' => "&quot;",
            '\'' => "&#39;",
            '/' => "&#47;",
            _ => return None,
        })
    })
}

fn escape(text: &str, entity: &dyn Fn(char) -> Option<&'static str>) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.chars() {
        match entity(byte) {
            Some(entity) => out.push_str(entity),
            None => out.push(byte),
        }
    }
    out
}
