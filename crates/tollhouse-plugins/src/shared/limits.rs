//! What limiters have in common: by which key and how much is counted, the table that counts here,
//! and how requests are turned away. Counting elsewhere is in `redis`.

pub(crate) mod amount;
pub(crate) mod key;
pub(crate) mod refusal;
pub(crate) mod table;
