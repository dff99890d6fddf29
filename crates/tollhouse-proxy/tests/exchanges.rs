//! A few hundred random exchanges under the oracle of the fuzz target `exchange`: enough to see that what it plays and
//! judges still compiles and holds, on every change. Finding what is rare is the target's own work (`cargo x fuzz`).
#![allow(missing_docs, reason = "the target's files, which document their own crate")]

#[path = "../../../fuzz/src/lib.rs"]
#[expect(dead_code, unreachable_pub, reason = "the target asks for more than a test does")]
mod fuzz;

/// Inputs, which are the same in every run.
const PLAYS: u64 = 200;
/// Bytes of an input: what the target's corpus has at most.
const INPUT_BYTES_MAX: u64 = 120;

/// The next of a row of numbers without order (splitmix64).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[test]
fn one_request_in_is_one_request_out_whatever_client_node_and_plugins_do() {
    let mut state = 1;
    for _ in 0..PLAYS {
        let length = next(&mut state) % INPUT_BYTES_MAX + 1;
        let input: Vec<u8> = (0..length).map(|_| next(&mut state) as u8).collect();
        fuzz::exchange::play(&input);
    }
}
