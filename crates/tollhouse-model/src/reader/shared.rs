//! Readers that several kinds of objects share: ids, names, labels, hosts, client networks,
//! timeouts.

use std::collections::BTreeMap;

use ipnet::IpNet;
use serde_json::Value;

use super::scalar::pattern_reason;
use super::{Fields, Reader, TIME_FIELDS, Unknown};
use crate::expr::Expr;
use crate::limits::{NAME_CHARS_MAX, TEXT_CHARS_MAX};
use crate::{Id, Timeouts, network};

const ADDRESS_HINT: &str = "give an IPv4 or IPv6 address, or a network such as 10.0.0.0/8";

const HOST_PATTERN: &str = r"^\*$|^\*?[0-9a-zA-Z-._\[\]:]+$";
const LABEL_PATTERN: &str = r"^\S+$";

/// Descriptive fields that every object may have.
pub(crate) struct Description {
    pub(crate) name: Option<String>,
    pub(crate) desc: Option<String>,
    pub(crate) labels: BTreeMap<String, String>,
}

impl Reader<'_> {
    pub(crate) fn description(&mut self, fields: &Fields) -> Description {
        Description {
            name: self.optional(fields, "name", |reader, value| {
                reader.text_within(value, 1..=NAME_CHARS_MAX).map(str::to_owned)
            }),
            desc: self.optional(fields, "desc", |reader, value| {
                reader.text_within(value, 0..=TEXT_CHARS_MAX).map(str::to_owned)
            }),
            labels: self.optional(fields, "labels", Self::labels).unwrap_or_default(),
        }
    }

    /// Checks `id`, which must equal the key of the object if present, and the times, which must be
    /// whole seconds.
    pub(crate) fn own_keys(&mut self, fields: &Fields, own: Option<&Id>) {
        self.optional(fields, "id", |reader, value| {
            let id = reader.id(value)?;
            if own.is_some_and(|own| *own != id) {
                reader.error(value, "wrong id", "the id in the object differs from its key");
            }
            Some(())
        });
        self.own_times(fields);
    }

    /// Checks the `id` of an object whose key has several parts, such as `vault/1`. It may be the
    /// whole key or its last part.
    pub(crate) fn own_parted_key(&mut self, fields: &Fields, own: &Id) {
        self.optional(fields, "id", |reader, value| {
            let parted = value.as_str().filter(|text| text.contains('/'));
            let id = match parted {
                Some(text) => Id::new(text),
                None => reader.id(value)?,
            };
            let last = own.as_str().rsplit('/').next();
            if id != *own && Some(id.as_str()) != last {
                reader.error(value, "wrong id", "the id in the object differs from its key");
            }
            Some(())
        });
    }

    /// Checks the times of creation and change: whole seconds.
    pub(crate) fn own_times(&mut self, fields: &Fields) {
        for name in TIME_FIELDS {
            self.optional(fields, name, |reader, value| reader.integer(value, 0..=i64::MAX));
        }
    }

    /// Reads an id: of another object, or of the object itself.
    pub(crate) fn id(&mut self, value: &Value) -> Option<Id> {
        let (path, problems) = self.parts();
        Id::parse(value, path, problems)
    }

    /// Reads a condition on requests; an empty one holds always.
    pub(crate) fn expression(&mut self, value: &Value) -> Option<Expr> {
        // An empty expression is a list, but may be written as an empty object.
        let is_nothing = value.as_object().is_some_and(Fields::is_empty);
        let nothing = Value::Array(Vec::new());
        let (path, problems) = self.parts();
        Expr::parse(if is_nothing { &nothing } else { value }, path, problems)
    }

    /// Reads a text that `valid` accepts; `pattern` appears in the message only.
    pub(crate) fn matching<'v>(
        &mut self,
        value: &'v Value,
        pattern: &str,
        valid: impl FnOnce(&str) -> bool,
    ) -> Option<&'v str> {
        let text = self.text(value)?;
        if !valid(text) {
            self.error(value, pattern_reason(pattern, text), "");
            return None;
        }
        Some(text)
    }

    /// Reads a host of a route or upstream.
    pub(crate) fn host<'v>(&mut self, value: &'v Value) -> Option<&'v str> {
        self.matching(value, HOST_PATTERN, host_is_valid)
    }

    /// Reads at least one host; returns them in lower case.
    pub(crate) fn hosts(&mut self, value: &Value) -> Option<Vec<String>> {
        let items = self.unique_list_not_empty(value)?;
        self.items(items, |reader, item| reader.host(item).map(str::to_ascii_lowercase))
    }

    /// Reads an address or a network; host bits are dropped.
    pub(crate) fn network(&mut self, value: &Value) -> Option<IpNet> {
        let text = self.text(value)?;
        let network = network::parse(text);
        if network.is_none() {
            self.error(value, "object matches none of the required", ADDRESS_HINT);
        }
        network
    }

    /// Reads at least one address or network.
    pub(crate) fn networks(&mut self, value: &Value) -> Option<Vec<IpNet>> {
        let items = self.unique_list_not_empty(value)?;
        self.items(items, |reader, item| reader.network(item))
    }

    /// Reads `{connect, send, read}` in seconds; all three are required.
    pub(crate) fn timeouts(&mut self, value: &Value) -> Option<Timeouts> {
        let fields = self.object(value, &["connect", "send", "read"], Unknown::Ignored)?;
        let connect = self.required(fields, "connect", Self::seconds_above_zero);
        let send = self.required(fields, "send", Self::seconds_above_zero);
        let read = self.required(fields, "read", Self::seconds_above_zero);
        Some(Timeouts { connect: connect?, send: send?, read: read? })
    }

    /// Refuses a field that contains Lua.
    pub(crate) fn refuse_lua(&mut self, fields: &Fields, name: &str, hint: &str) {
        self.optional(fields, name, |reader, value| {
            let reason = format!("\"{name}\" is not supported here");
            reader.error(value, reason, hint);
            Some(())
        });
    }

    fn labels(&mut self, value: &Value) -> Option<BTreeMap<String, String>> {
        let fields = self.map(value)?;
        let mut labels = BTreeMap::new();
        for (name, value) in fields {
            let text = self.in_field(name, |reader| {
                reader.text_within(value, 1..=TEXT_CHARS_MAX)?;
                let dense = |text: &str| !text.contains(char::is_whitespace);
                reader.matching(value, LABEL_PATTERN, dense)
            });
            labels.extend(text.map(|text| (name.clone(), text.to_owned())));
        }
        (labels.len() == fields.len()).then_some(labels)
    }
}

/// Whether a text is a valid host: `*`, or the characters of names and addresses after at most one
/// leading `*`.
pub(crate) fn host_is_valid(text: &str) -> bool {
    let named = text.strip_prefix('*').unwrap_or(text);
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-._[]:".contains(&byte);
    text == "*" || (!named.is_empty() && named.bytes().all(letter))
}
