//! Unary calls between two connections in memory, so many as the argument says: what instructions are
//! counted on, by the slope between two runs of different length under callgrind.

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
