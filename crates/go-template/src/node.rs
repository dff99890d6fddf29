//! Compiled template: a tree of nodes with all names resolved.

use super::function::Function;

/// Node of a parsed template.
#[derive(Debug, Clone)]
pub(super) enum Node {
    Text(Box<str>),
    Emit(Pipeline),
    Assign { slot: usize, value: Pipeline },
    If { condition: Pipeline, then: Vec<Node>, otherwise: Vec<Node> },
    With { value: Pipeline, slot: Option<usize>, then: Vec<Node>, otherwise: Vec<Node> },
    Range(Box<Range>),
    Break,
    Continue,
}

#[derive(Debug, Clone)]
pub(super) struct Range {
    pub(super) list: Pipeline,
    pub(super) index_slot: Option<usize>,
    pub(super) element_slot: Option<usize>,
    pub(super) body: Vec<Node>,
    pub(super) otherwise: Vec<Node>,
}

/// Pipeline of commands; each receives the value of the previous one as its last argument.
#[derive(Debug, Clone)]
pub(super) struct Pipeline {
    pub(super) first: Operand,
    pub(super) then: Vec<Call>,
}

#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) function: &'static Function,
    pub(super) arguments: Vec<Operand>,
}

/// Operand of a call or pipeline: a value, or an expression for one.
#[derive(Debug, Clone)]
pub(super) enum Operand {
    Nil,
    Text(Box<str>),
    Integer(i64),
    Float(f64),
    Boolean(bool),
    Variable(Variable),
    /// `.` inside `range` and `with`: the current element or value, not the request.
    Dot,
    Slot(usize),
    Call(Call),
    Nested(Box<Pipeline>),
    /// Part of a time, such as `(now).Unix` or `(now).Format "2006"`.
    TimePart {
        time: Box<Operand>,
        part: TimePart,
    },
}

/// Methods of a time value that templates may call.
#[derive(Debug, Clone)]
pub(super) enum TimePart {
    Unix,
    UnixMilli,
    UnixMicro,
    UnixNano,
    Format(Box<Operand>),
}

/// Field of the request that a template may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Variable {
    WorkerId,
    RequestNumber,
    FullyQualifiedName,
    MethodName,
    ServiceName,
    InputName,
    OutputName,
    IsClientStreaming,
    IsServerStreaming,
    Timestamp,
    TimestampUnix,
    TimestampUnixMilli,
    TimestampUnixNano,
    Uuid,
}

/// Fields of the request by their names in templates.
pub(super) const VARIABLES: [(&str, Variable); 14] = [
    ("WorkerID", Variable::WorkerId),
    ("RequestNumber", Variable::RequestNumber),
    ("FullyQualifiedName", Variable::FullyQualifiedName),
    ("MethodName", Variable::MethodName),
    ("ServiceName", Variable::ServiceName),
    ("InputName", Variable::InputName),
    ("OutputName", Variable::OutputName),
    ("IsClientStreaming", Variable::IsClientStreaming),
    ("IsServerStreaming", Variable::IsServerStreaming),
    ("Timestamp", Variable::Timestamp),
    ("TimestampUnix", Variable::TimestampUnix),
    ("TimestampUnixMilli", Variable::TimestampUnixMilli),
    ("TimestampUnixNano", Variable::TimestampUnixNano),
    ("UUID", Variable::Uuid),
];
