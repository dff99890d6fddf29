//! CRC-32C (Castagnoli), bytewise, because headers are short and rarely contain a checksum.

/// Castagnoli polynomial in reversed bit order.
const POLYNOMIAL: u32 = 0x82f6_3b78;

static TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut rest = index as u32;
        let mut bit = 0;
        while bit < 8 {
            rest = if rest & 1 == 1 { rest >> 1 ^ POLYNOMIAL } else { rest >> 1 };
            bit += 1;
        }
        table[index] = rest;
        index += 1;
    }
    table
};

/// CRC-32C of the bytes added so far.
pub(super) struct Sum(u32);

impl Sum {
    pub(super) fn new() -> Self {
        Self(!0)
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            let [low, ..] = self.0.to_le_bytes();
            self.0 = self.0 >> 8 ^ TABLE[usize::from(low ^ byte)];
        }
    }

    pub(super) fn value(&self) -> u32 {
        !self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_rfc_3720() {
        // Test vectors of RFC 3720, appendix B.4.
        let ascending: Vec<u8> = (0..32).collect();
        for (bytes, expected) in
            [(vec![0; 32], 0x8a91_36aa), (vec![0xff; 32], 0x62a8_ab43), (ascending, 0x46dd_794e)]
        {
            let mut sum = Sum::new();
            sum.add(&bytes[..7]);
            sum.add(&bytes[7..]);
            assert_eq!(sum.value(), expected, "{bytes:?}");
        }
    }
}
