//! Header blocks: no panic, limited memory, and decoded fields survive our own encoder.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tollhouse_h2::Field;
use tollhouse_h2::hpack::{Decoder, Encoder, HuffmanUse};

/// Memory limit in bytes for a table of 4 KiB and its scratch space.
const MEMORY_BYTES_MAX: usize = 64 * 1024;

fuzz_target!(|data: &[u8]| {
    // The first byte determines the length of the blocks.
    let Some((&block_bytes, bytes)) = data.split_first() else { return };
    let (mut decoder, mut second) = (Decoder::default(), Decoder::default());
    let mut encoder = Encoder::new(4096, HuffmanUse::IfShorter);
    for block in bytes.chunks(usize::from(block_bytes).max(1) * 16) {
        let mut fields = Vec::new();
        let mut keep = |field: Field<'_>| {
            fields.push((field.name.to_vec(), field.value.to_vec(), field.is_sensitive));
        };
        if decoder.decode(block, &mut keep).is_err() {
            return;
        }
        assert!(decoder.memory_bytes() < MEMORY_BYTES_MAX, "the decoder holds too much");
        let mut out = Vec::new();
        encoder.begin(&mut out);
        for (name, value, is_sensitive) in &fields {
            let field = Field { is_sensitive: *is_sensitive, ..Field::new(name, value) };
            let outcome = encoder.field(field, &mut out, |_, _| Ok::<_, ()>(()));
            assert_eq!(outcome, Ok(()));
        }
        let mut again = Vec::new();
        let mut keep = |field: Field<'_>| again.push((field.name.to_vec(), field.value.to_vec()));
        assert_eq!(second.decode(&out, &mut keep), Ok(()), "our own block is refused");
        let expected: Vec<_> = fields.into_iter().map(|(name, value, _)| (name, value)).collect();
        assert_eq!(again, expected, "a field changed on its way");
    }
});
