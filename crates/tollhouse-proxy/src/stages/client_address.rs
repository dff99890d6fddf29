//! Client address: the peer's, or the one that a trusted proxy reports.

use std::net::IpAddr;

use ipnet::IpNet;
use smallvec::SmallVec;
use tollhouse_http::field::list_elements;
use tollhouse_http::{Fields, Known};

use crate::head::request::Trust;
use crate::settings::{RealIp, Settings};

/// Elements of a proxy chain that are handled without allocation; more are rare.
const HOPS_INLINE: usize = 8;

/// Returns the address that a trusted proxy reports; `None` if the peer itself is the client.
#[inline]
pub(crate) fn reported(
    real_ip: &RealIp,
    peer: IpAddr,
    fields: &Fields,
    bytes: &[u8],
) -> Option<IpAddr> {
    let mut elements: SmallVec<[&[u8]; HOPS_INLINE]> = SmallVec::new();
    match real_ip.header.as_str() {
        "x-real-ip" => {
            elements.extend(list_elements(fields.first(Known::XRealIp)?.bytes_in(bytes)))
        }
        // Proxies may add separate lines; together they form one list.
        "x-forwarded-for" if fields.has(Known::XForwardedFor) => {
            let lines = fields.iter().filter(|field| field.known == Known::XForwardedFor);
            lines.for_each(|line| elements.extend(list_elements(line.value().bytes_in(bytes))));
        }
        other => elements.extend(list_elements(fields.find(other.as_bytes(), bytes)?)),
    }
    if !contains(&real_ip.from, peer) {
        return None;
    }
    let mut reported = None;
    for element in elements.into_iter().rev() {
        let Some(address) = parse_address(element) else { break };
        reported = Some(address);
        if !real_ip.recursive || !contains(&real_ip.from, address) {
            break;
        }
    }
    reported
}

/// Returns the degree of trust in the peer's forwarding headers.
#[inline]
pub(crate) fn trust(settings: &Settings, peer: IpAddr) -> Trust {
    match &settings.trusted_addresses {
        None => Trust::Unconfigured,
        Some(trusted) if contains(trusted, peer) => Trust::Trusted,
        Some(_) => Trust::Untrusted,
    }
}

/// Parses an address, optionally with a port or in brackets, as proxies write them.
fn parse_address(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address.to_canonical());
    }
    if let Ok(address) = text.parse::<std::net::SocketAddr>() {
        return Some(address.ip().to_canonical());
    }
    text.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
}

#[inline]
fn contains(networks: &[IpNet], address: IpAddr) -> bool {
    let address = address.to_canonical();
    networks.iter().any(|network| network.contains(&address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn real_ip(header: &str, from: &[&str]) -> RealIp {
        let from = from.iter().map(|net| net.parse().expect("a network")).collect();
        RealIp { header: header.to_owned(), from, recursive: true }
    }

    fn check(real_ip: &RealIp, peer: &str, lines: &str, expected: Option<&str>) {
        let bytes = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n").into_bytes();
        let mut head = tollhouse_http::RequestHead::default();
        head.parse(&bytes, &Default::default()).expect("a good head");
        let found = reported(real_ip, peer.parse().expect("an address"), &head.fields, &bytes);
        assert_eq!(found, expected.map(|text| text.parse().expect("an address")), "{lines:?}");
    }

    #[test]
    fn only_a_trusted_peer_may_report_another_client() {
        let local = real_ip("x-real-ip", &["127.0.0.1/32"]);
        check(&local, "127.0.0.1", "X-Real-IP: 1.2.3.4\r\n", Some("1.2.3.4"));
        check(&local, "10.0.0.1", "X-Real-IP: 1.2.3.4\r\n", None);
        check(&local, "127.0.0.1", "", None);
        check(&local, "127.0.0.1", "X-Real-IP: nonsense\r\n", None);
        check(&local, "127.0.0.1", "X-Real-IP: [::1]:80\r\n", Some("::1"));
    }

    #[test]
    fn a_chain_is_followed_through_trusted_proxies() {
        let chain = real_ip("x-forwarded-for", &["127.0.0.1/32", "10.0.0.0/8"]);
        let lines = "X-Forwarded-For: 9.9.9.9, 1.2.3.4, 10.0.0.7\r\n";
        check(&chain, "127.0.0.1", lines, Some("1.2.3.4"));
    }

    #[test]
    fn a_chain_goes_on_in_the_line_before() {
        let chain = real_ip("x-forwarded-for", &["127.0.0.1/32", "10.0.0.0/8"]);
        let last = RealIp { recursive: false, ..chain.clone() };
        for (lines, walked, nearest) in [
            ("X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-For: 10.0.0.7\r\n", "1.2.3.4", "10.0.0.7"),
            (
                "X-Forwarded-For: 9.9.9.9, 1.2.3.4\r\nA: b\r\nx-forwarded-for: 10.0.0.8, 10.0.0.7\r\n",
                "1.2.3.4",
                "10.0.0.7",
            ),
            ("X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-For:\r\n", "1.2.3.4", "1.2.3.4"),
            ("X-Forwarded-For: x\r\nX-Forwarded-For: 10.0.0.7\r\n", "10.0.0.7", "10.0.0.7"),
        ] {
            check(&chain, "127.0.0.1", lines, Some(walked));
            check(&last, "127.0.0.1", lines, Some(nearest));
        }
        check(&chain, "127.0.0.1", "", None);
    }
}
