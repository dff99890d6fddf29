//! Messages that hold values of any type: `Any`, `Struct`, `Value`, `ListValue`.

use prost::encoding::WireType;
use prost_reflect::{DescriptorPool, Kind};
use serde_json::Value as Json;

use super::compile::{Compiler, Pieces, joined, key_of, sized};
use super::well_known::{self, Form};
use super::{MessageError, Piece, Zero};

/// Field numbers of `google.protobuf.Value`.
mod value_field {
    pub(super) const NULL: u32 = 1;
    pub(super) const NUMBER: u32 = 2;
    pub(super) const STRING: u32 = 3;
    pub(super) const BOOL: u32 = 4;
    pub(super) const STRUCT: u32 = 5;
    pub(super) const LIST: u32 = 6;
}

impl Compiler {
    /// Compiles `{"@type": "…/package.Message", …fields}`. Messages with a special JSON form have
    /// that form in the member `value`.
    pub(super) fn any(
        &mut self,
        json: &Json,
        pool: &DescriptorPool,
    ) -> Result<Pieces, MessageError> {
        let fields = self.object(json, "google.protobuf.Any")?;
        let Some(url) = fields.get("@type").and_then(Json::as_str) else {
            return Err(self.error("needs `@type`, such as type.googleapis.com/package.Message"));
        };
        let name = url.rsplit('/').next().unwrap_or(url);
        let Some(descriptor) = pool.get_message_by_name(name) else {
            return Err(self.error(format!("@type names `{name}`, which is not a known message")));
        };
        let pieces = match well_known::form(&descriptor) {
            Form::Fields => {
                let others = fields.iter().filter(|(name, _)| *name != "@type");
                self.fields(others, &descriptor)?
            }
            _ => {
                let before = self.enter("value");
                let value = fields.get("value").unwrap_or(&Json::Null);
                let pieces = self.message(value, &descriptor)?;
                self.leave(before);
                pieces
            }
        };
        let url = sized(1, vec![Piece::Ready(url.as_bytes().to_vec())]);
        Ok(joined([url, sized(2, pieces)].into_iter()))
    }

    pub(super) fn structure(&mut self, json: &Json) -> Result<Pieces, MessageError> {
        let mut pieces = Vec::new();
        for (name, json) in self.object(json, "google.protobuf.Struct")? {
            let before = self.enter(name);
            let value = self.any_value(json)?;
            let pair = [sized(1, vec![Piece::Ready(name.as_bytes().to_vec())]), sized(2, value)];
            pieces.push(sized(1, joined(pair.into_iter())));
            self.leave(before);
        }
        Ok(joined(pieces.into_iter()))
    }

    pub(super) fn any_list(&mut self, json: &Json) -> Result<Pieces, MessageError> {
        let Some(values) = json.as_array() else {
            return Err(self.error("takes a list (google.protobuf.ListValue)"));
        };
        let mut pieces = Vec::new();
        for value in values {
            pieces.push(sized(1, self.any_value(value)?));
        }
        Ok(joined(pieces.into_iter()))
    }

    pub(super) fn any_value(&mut self, json: &Json) -> Result<Pieces, MessageError> {
        let scalar = |compiler: &mut Self, number, kind: Kind| {
            compiler.one(json, number, &kind, Zero::Written)
        };
        match json {
            Json::Null => {
                let mut bytes = key_of(value_field::NULL, WireType::Varint);
                bytes.push(0);
                Ok(vec![Piece::Ready(bytes)])
            }
            Json::Bool(_) => scalar(self, value_field::BOOL, Kind::Bool),
            Json::Number(_) => scalar(self, value_field::NUMBER, Kind::Double),
            Json::String(_) => scalar(self, value_field::STRING, Kind::String),
            Json::Array(_) => {
                let pieces = self.any_list(json)?;
                Ok(vec![sized(value_field::LIST, pieces)])
            }
            Json::Object(_) => {
                let pieces = self.structure(json)?;
                Ok(vec![sized(value_field::STRUCT, pieces)])
            }
        }
    }
}
