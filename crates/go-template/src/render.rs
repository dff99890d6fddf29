//! Renderer for compiled templates, with limits on output and steps.

use std::borrow::Cow;

use tollhouse_stdx::Random;

use super::fault::Fault;
use super::function::Context;
use super::node::{Call, Node, Operand, Pipeline, Range, TimePart, Variable};
use super::value::Value;
use super::{Variables, put_uuid};
use crate::golang::date;

/// Maximum size of the output of one rendering, in bytes. Larger bodies are read from files and not
/// expanded.
pub(super) const OUTPUT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Maximum number of nodes visited in one rendering; only nested `range` blocks come close.
const STEPS_MAX: usize = 100_000;

/// Renders nodes; `slots` is the number of declared variables.
pub(super) fn render(
    nodes: &[Node],
    slots: usize,
    variables: &Variables<'_>,
    random: &mut Random,
    out: &mut String,
) -> Result<(), Fault> {
    let out_bytes_max = out.len().saturating_add(OUTPUT_BYTES_MAX);
    let mut renderer = Renderer {
        variables,
        context: Context { random, unix_ns: variables.unix_ns as i64 },
        slots: if slots == 0 { Vec::new() } else { vec![Value::Nil; slots] },
        dot: Value::Nil,
        steps: 0,
        out_bytes_max,
    };
    renderer.nodes(nodes, out).map(|_| ())
}

struct Renderer<'v, 'r> {
    variables: &'v Variables<'v>,
    context: Context<'r>,
    slots: Vec<Value<'v>>,
    dot: Value<'v>,
    steps: usize,
    out_bytes_max: usize,
}

/// Reason why the rendering of a list of nodes has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Through,
    Break,
    Continue,
}

impl<'v> Renderer<'v, '_> {
    fn nodes(&mut self, nodes: &'v [Node], out: &mut String) -> Result<Flow, Fault> {
        for node in nodes {
            self.steps += 1;
            if self.steps > STEPS_MAX {
                return Err(format!("takes more than {STEPS_MAX} steps").into());
            }
            match self.node(node, out)? {
                Flow::Through => {}
                flow => return Ok(flow),
            }
            if out.len() > self.out_bytes_max {
                return Err(format!("writes more than {OUTPUT_BYTES_MAX} bytes").into());
            }
        }
        Ok(Flow::Through)
    }

    fn node(&mut self, node: &'v Node, out: &mut String) -> Result<Flow, Fault> {
        match node {
            Node::Text(text) => out.push_str(text),
            Node::Emit(Pipeline { first: Operand::Variable(variable), then })
                if then.is_empty() =>
            {
                self.put_variable(*variable, out);
            }
            Node::Emit(pipeline) => self.pipeline(pipeline)?.put(out),
            Node::Assign { slot, value } => self.slots[*slot] = self.pipeline(value)?,
            Node::If { condition, then, otherwise } => {
                let is_true = self.pipeline(condition)?.is_true();
                return self.nodes(if is_true { then } else { otherwise }, out);
            }
            Node::With { value, slot, then, otherwise } => {
                let value = self.pipeline(value)?;
                if !value.is_true() {
                    return self.nodes(otherwise, out);
                }
                if let Some(slot) = slot {
                    self.slots[*slot] = value.clone();
                }
                // The dot is restored even if the block ends early by `break`.
                let before = std::mem::replace(&mut self.dot, value);
                let flow = self.nodes(then, out);
                self.dot = before;
                return flow;
            }
            Node::Range(range) => return self.range(range, out),
            Node::Break => return Ok(Flow::Break),
            Node::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Through)
    }

    fn range(&mut self, range: &'v Range, out: &mut String) -> Result<Flow, Fault> {
        let list = match self.pipeline(&range.list)? {
            Value::List(list) => list,
            Value::Integer(count) if (0..=STEPS_MAX as i64).contains(&count) => {
                (0..count).map(Value::Integer).collect()
            }
            Value::Nil => Vec::new(),
            other => return Err(format!("range needs a list, not {}", other.kind()).into()),
        };
        if list.is_empty() {
            return self.nodes(&range.otherwise, out);
        }
        let before = std::mem::replace(&mut self.dot, Value::Nil);
        for (index, element) in list.into_iter().enumerate() {
            if let Some(slot) = range.index_slot {
                self.slots[slot] = Value::Integer(index as i64);
            }
            if let Some(slot) = range.element_slot {
                self.slots[slot] = element.clone();
            }
            self.dot = element;
            // `break` and `continue` apply to this range.
            if self.nodes(&range.body, out)? == Flow::Break {
                break;
            }
        }
        self.dot = before;
        Ok(Flow::Through)
    }

    fn pipeline(&mut self, pipeline: &'v Pipeline) -> Result<Value<'v>, Fault> {
        let mut value = self.operand(&pipeline.first)?;
        for call in &pipeline.then {
            value = self.call(call, Some(value))?;
        }
        Ok(value)
    }

    fn call(&mut self, call: &'v Call, last: Option<Value<'v>>) -> Result<Value<'v>, Fault> {
        let mut arguments = Vec::with_capacity(call.arguments.len() + 1);
        for argument in &call.arguments {
            let value = self.operand(argument)?;
            arguments.push(value);
        }
        arguments.extend(last);
        call.function.call(&mut self.context, &arguments)
    }

    fn operand(&mut self, operand: &'v Operand) -> Result<Value<'v>, Fault> {
        Ok(match operand {
            Operand::Nil => Value::Nil,
            Operand::Text(text) => Value::Text(Cow::Borrowed(text)),
            Operand::Integer(number) => Value::Integer(*number),
            Operand::Float(number) => Value::Float(*number),
            Operand::Boolean(is_true) => Value::Boolean(*is_true),
            Operand::Variable(variable) => self.variable(*variable),
            Operand::Dot => self.dot.clone(),
            Operand::Slot(slot) => self.slots[*slot].clone(),
            Operand::Call(call) => self.call(call, None)?,
            Operand::Nested(pipeline) => self.pipeline(pipeline)?,
            Operand::TimePart { time, part } => {
                let Value::Time(time) = self.operand(time)? else {
                    return Err("only times have `.Unix` and `.Format`".into());
                };
                self.time_part(time, part)?
            }
        })
    }

    fn time_part(&mut self, time: i64, part: &'v TimePart) -> Result<Value<'v>, Fault> {
        Ok(match part {
            TimePart::Unix => Value::Integer(time.div_euclid(1_000_000_000)),
            TimePart::UnixMilli => Value::Integer(time.div_euclid(1_000_000)),
            TimePart::UnixMicro => Value::Integer(time.div_euclid(1_000)),
            TimePart::UnixNano => Value::Integer(time),
            TimePart::Format(layout) => {
                let layout = self.operand(layout)?;
                let mut text = String::new();
                date::format(time, &layout.to_text(), &mut text);
                Value::text(text)
            }
        })
    }

    fn variable(&self, variable: Variable) -> Value<'v> {
        let variables = self.variables;
        let method = variables.method;
        let text = |text: &'v str| Value::Text(Cow::Borrowed(text));
        match variable {
            Variable::WorkerId => text(variables.worker_id),
            Variable::RequestNumber => Value::Integer(variables.request_number as i64),
            Variable::FullyQualifiedName => text(&method.fully_qualified_name),
            Variable::MethodName => text(&method.method_name),
            Variable::ServiceName => text(&method.service_name),
            Variable::InputName => text(&method.input_name),
            Variable::OutputName => text(&method.output_name),
            Variable::IsClientStreaming => Value::Boolean(method.is_client_streaming),
            Variable::IsServerStreaming => Value::Boolean(method.is_server_streaming),
            Variable::TimestampUnix => Value::Integer((variables.unix_ns / 1_000_000_000) as i64),
            Variable::TimestampUnixMilli => Value::Integer((variables.unix_ns / 1_000_000) as i64),
            Variable::TimestampUnixNano => Value::Integer(variables.unix_ns as i64),
            Variable::Timestamp | Variable::Uuid => {
                let mut made = String::new();
                self.put_variable(variable, &mut made);
                Value::text(made)
            }
        }
    }

    /// Appends a field of the request directly, without creating a [`Value`] first.
    fn put_variable(&self, variable: Variable, out: &mut String) {
        match variable {
            Variable::Timestamp => {
                date::format(self.variables.unix_ns as i64, date::RFC_3339, out);
            }
            Variable::Uuid => put_uuid(self.variables.uuid, out),
            other => self.variable(other).put(out),
        }
    }
}
