//! Messages of Polaris: no panic, and a message that is printed is read back as the same message.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tollhouse_polaris::wire::{DiscoverRequest, InstanceRequest};
use tollhouse_polaris::{descriptors, json};

const TYPES: [&str; 12] = [
    "v1.Instance",
    "v1.DiscoverRequest",
    "v1.RouteRule",
    "v1.LaneGroup",
    "v1.Rule",
    "v1.CircuitBreakerRule",
    "v1.ConfigFile",
    "v1.ConfigFileRelease",
    "v1.ClientConfigFileInfo",
    "v1.ClientWatchConfigFileRequest",
    "v1.ConfigDiscoverRequest",
    "v1.AuthStrategy",
];

fuzz_target!(|data: &[u8]| {
    let Some((&choice, bytes)) = data.split_first() else { return };
    let _ = InstanceRequest::parse(bytes);
    let _ = DiscoverRequest::parse(bytes);
    let name = TYPES[usize::from(choice) % TYPES.len()];
    let descriptor = descriptors().get_message_by_name(name).expect("in the schema");
    let _ = json::print(&descriptor, bytes);
    let Ok(message) = json::read(&descriptor, bytes) else { return };
    let text = json::print(&descriptor, &message).expect("what was read can be printed");
    let again = json::read(&descriptor, text.as_bytes()).expect("what was printed can be read");
    let once_more = json::print(&descriptor, &again).expect("and printed again");
    assert_eq!(text, once_more);
});
