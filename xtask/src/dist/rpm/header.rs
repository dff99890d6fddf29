//! The header structure of RPM: an index of tags with types and places, then the values.

use anyhow::Result;
use std::collections::BTreeMap;

/// Value of a tag.
pub(super) enum Value {
    Short(Vec<u16>),
    Long(Vec<u32>),
    Text(String),
    Texts(Vec<String>),
    /// Text of the locale C.
    Translated(String),
}

impl Value {
    pub(super) fn texts(texts: impl IntoIterator<Item = String>) -> Self {
        Self::Texts(texts.into_iter().collect())
    }

    /// Number of the type in an index entry.
    fn kind(&self) -> u32 {
        match self {
            Self::Short(_) => 3,
            Self::Long(_) => 4,
            Self::Text(_) => 6,
            Self::Texts(_) => 8,
            Self::Translated(_) => 9,
        }
    }

    fn count(&self) -> usize {
        match self {
            Self::Short(values) => values.len(),
            Self::Long(values) => values.len(),
            Self::Texts(values) => values.len(),
            Self::Text(_) | Self::Translated(_) => 1,
        }
    }

    /// Multiple at which values of this type begin.
    fn alignment(&self) -> usize {
        match self {
            Self::Short(_) => 2,
            Self::Long(_) => 4,
            _ => 1,
        }
    }

    fn push(&self, store: &mut Vec<u8>) {
        let mut push_text = |text: &str| {
            store.extend_from_slice(text.as_bytes());
            store.push(0);
        };
        match self {
            Self::Text(text) | Self::Translated(text) => push_text(text),
            Self::Texts(texts) => texts.iter().for_each(|text| push_text(text)),
            Self::Short(values) => store.extend(values.iter().flat_map(|it| it.to_be_bytes())),
            Self::Long(values) => store.extend(values.iter().flat_map(|it| it.to_be_bytes())),
        }
    }
}

/// Values by their tags.
#[derive(Default)]
pub(super) struct Header {
    values: BTreeMap<u32, Value>,
}

impl Header {
    pub(super) fn set(&mut self, tag: u32, value: Value) {
        self.values.insert(tag, value);
    }

    /// Returns the bytes, with all tags in the region of this tag, which marks them as unchanged.
    pub(super) fn encode(self, region: u32) -> Result<Vec<u8>> {
        let index_entries = u32::try_from(self.values.len() + 1)?;
        let mut index = Vec::new();
        let mut store = Vec::new();
        for (tag, value) in &self.values {
            super::super::tree::pad(&mut store, value.alignment());
            push_entry(&mut index, *tag, value.kind(), [store.len(), value.count()])?;
            value.push(&mut store);
        }
        // The region's value is an index entry that leads back over all entries.
        let back = 0_u32.wrapping_sub(index_entries * 16);
        let mut first = Vec::new();
        push_entry(&mut first, region, 7, [store.len(), 16])?;
        push_entry_at(&mut store, region, 7, [back, 16]);
        let mut bytes = vec![0x8e, 0xad, 0xe8, 1, 0, 0, 0, 0];
        bytes.extend(index_entries.to_be_bytes());
        bytes.extend(u32::try_from(store.len())?.to_be_bytes());
        bytes.extend(first);
        bytes.extend(index);
        bytes.extend(store);
        Ok(bytes)
    }
}

fn push_entry(index: &mut Vec<u8>, tag: u32, kind: u32, place: [usize; 2]) -> Result<()> {
    let [offset, count] = place;
    push_entry_at(index, tag, kind, [u32::try_from(offset)?, u32::try_from(count)?]);
    Ok(())
}

fn push_entry_at(index: &mut Vec<u8>, tag: u32, kind: u32, place: [u32; 2]) {
    let [offset, count] = place;
    index.extend([tag, kind, offset, count].iter().flat_map(|number| number.to_be_bytes()));
}
