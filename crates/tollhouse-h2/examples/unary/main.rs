//! Unary calls between two in-memory connections; the argument gives the number of calls. Run it
//! twice under callgrind with different numbers: the slope is the instruction count per call.

mod pair;

use pair::Pair;

fn main() {
    let count = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1000);
    let mut pair = Pair::new();
    let mut bytes = 0;
    for number in 0..count {
        bytes += pair.call(number);
    }
    println!("{count} calls, {bytes} bytes");
}
