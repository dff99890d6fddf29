//! Values of templates, formatted like those of Go's templates.

use std::borrow::Cow;
use std::fmt::Write;

use crate::golang::{date, put_float};

/// Value of an expression. Texts borrow from the template or the variables if possible.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value<'v> {
    Nil,
    Text(Cow<'v, str>),
    Integer(i64),
    Float(f64),
    Boolean(bool),
    List(Vec<Value<'v>>),
    /// An instant, in nanoseconds of Unix time.
    Time(i64),
}

impl Value<'_> {
    pub(super) fn text(text: String) -> Self {
        Value::Text(Cow::Owned(text))
    }

    /// Whether `if` treats the value as true: every value that is not empty or zero.
    pub(super) fn is_true(&self) -> bool {
        match self {
            Value::Nil => false,
            Value::Text(text) => !text.is_empty(),
            Value::Integer(number) => *number != 0,
            Value::Float(number) => *number != 0.0,
            Value::Boolean(is_true) => *is_true,
            Value::List(values) => !values.is_empty(),
            Value::Time(_) => true,
        }
    }

    /// Returns the name of the value's type for error messages.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Value::Nil => "nil",
            Value::Text(_) => "a text",
            Value::Integer(_) => "a number",
            Value::Float(_) => "a number with a fraction",
            Value::Boolean(_) => "true or false",
            Value::List(_) => "a list",
            Value::Time(_) => "a time",
        }
    }

    /// Converts the value to a whole number. Texts are parsed; other values yield 0, as in sprig.
    pub(super) fn to_integer(&self) -> i64 {
        match self {
            Value::Integer(number) => *number,
            Value::Float(number) => *number as i64,
            Value::Boolean(is_true) => i64::from(*is_true),
            Value::Text(text) => text
                .parse::<i64>()
                .or_else(|_| text.parse::<f64>().map(|number| number as i64))
                .unwrap_or(0),
            Value::Nil | Value::List(_) | Value::Time(_) => 0,
        }
    }

    /// Converts the value to a floating-point number by the rules of [`Self::to_integer`].
    pub(super) fn to_float(&self) -> f64 {
        match self {
            Value::Integer(number) => *number as f64,
            Value::Float(number) => *number,
            Value::Text(text) => {
                text.parse::<f64>().ok().filter(|number| number.is_finite()).unwrap_or(0.0)
            }
            other => other.to_integer() as f64,
        }
    }

    /// Converts the value to the text that a template prints for it; `nil` becomes an empty text.
    pub(super) fn to_text(&self) -> Cow<'_, str> {
        match self {
            Value::Text(text) => Cow::Borrowed(text),
            Value::Nil => Cow::Borrowed(""),
            other => {
                let mut out = String::new();
                other.put(&mut out);
                Cow::Owned(out)
            }
        }
    }

    /// Appends the value as a template prints it.
    pub(super) fn put(&self, out: &mut String) {
        // Writing into a String cannot fail.
        let _ = match self {
            Value::Nil => out.write_str("<no value>"),
            Value::Text(text) => out.write_str(text),
            Value::Integer(number) => write!(out, "{number}"),
            Value::Float(number) => {
                put_float(*number, out);
                Ok(())
            }
            Value::Boolean(is_true) => write!(out, "{is_true}"),
            Value::Time(time) => {
                date::format(*time, "2006-01-02 15:04:05.999999999 -0700 MST", out);
                Ok(())
            }
            Value::List(values) => {
                out.push('[');
                for (index, value) in values.iter().enumerate() {
                    if index > 0 {
                        out.push(' ');
                    }
                    value.put(out);
                }
                out.write_char(']')
            }
        };
    }
}
