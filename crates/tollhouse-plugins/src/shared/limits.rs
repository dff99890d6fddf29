//! Shared code of limiters: keys, amounts, the local table of counts, and refusals. Counting in
//! Redis is in `redis`.

pub(crate) mod amount;
pub(crate) mod key;
pub(crate) mod refusal;
pub(crate) mod table;
