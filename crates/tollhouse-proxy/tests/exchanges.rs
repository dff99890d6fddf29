//! A few hundred random exchanges under the oracle of the fuzz target `exchange`, and some plays of `datagrams` under its
//! own: enough to see that what they play and judge still compiles and holds, on every change. Finding what is rare is
//! the targets' own work (`cargo x fuzz`).

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

/// Plays of datagrams: each waits for all its sessions to end.
const DATAGRAM_PLAYS: u64 = 12;

/// An input of this many bytes at most.
fn input(state: &mut u64, bytes_max: u64) -> Vec<u8> {
    let length = next(state) % bytes_max + 1;
    (0..length).map(|_| next(state) as u8).collect()
}

#[test]
fn no_datagram_of_one_session_reaches_another_whatever_sources_nodes_and_time_do() {
    let mut state = 1;
    for _ in 0..DATAGRAM_PLAYS {
        fuzz::datagrams::play(&input(&mut state, 2 * INPUT_BYTES_MAX));
    }
}

#[test]
fn one_request_in_is_one_request_out_whatever_client_node_and_plugins_do() {
    let mut state = 1;
    for _ in 0..PLAYS {
        fuzz::exchange::play(&input(&mut state, INPUT_BYTES_MAX));
    }
}
