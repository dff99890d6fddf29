//! Number of datagrams for a socket that the kernel dropped, usually because the receive buffer was
//! full. The program cannot count them itself.

#![expect(unsafe_code, reason = "no safe wrapper of SO_MEMINFO is kept; see below")]

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Socket option (asm-generic/socket.h). The libc crate defines only the indices of its result.
const SO_MEMINFO: libc::c_int = 55;

/// Number of values the kernel returns (`SK_MEMINFO_VARS`, linux/sock_diag.h).
const NUMBERS: usize = 9;

/// Index of the number of dropped datagrams.
const DROPS: usize = libc::SK_MEMINFO_DROPS as usize;

/// Returns the number of datagrams dropped since `socket` was created; wraps around after 2³² − 1.
///
/// # Errors
/// If the kernel is older than Linux 4.12, or `socket` is not a socket.
pub fn lost_datagrams(socket: impl AsFd) -> io::Result<u32> {
    let mut numbers = [0_u32; NUMBERS];
    let mut bytes = size_of_val(&numbers) as libc::socklen_t;
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: both pointers are to values that outlive the call, and `bytes` is the size of the
    // first.
    let status = unsafe {
        let (numbers, bytes) = (numbers.as_mut_ptr().cast(), &raw mut bytes);
        libc::getsockopt(socket, libc::SOL_SOCKET, SO_MEMINFO, numbers, bytes)
    };
    match status {
        0 => Ok(numbers[DROPS]),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn what_a_socket_has_no_room_for_is_counted() {
        let receiver = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let address = receiver.local_addr().expect("bound");
        let sender = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        assert_eq!(lost_datagrams(&receiver).expect("it is told"), 0);
        // More than the largest buffer that an administrator would set.
        let sent = (0..200_000).find(|_| {
            sender.send_to(&[0; 1024], address).expect("sent");
            lost_datagrams(&receiver).expect("it is told") > 0
        });
        assert!(sent.is_some());
    }

    #[test]
    fn what_is_no_socket_has_lost_nothing() {
        let file = std::fs::File::open("/dev/null").expect("a file");
        assert!(lost_datagrams(&file).is_err());
    }
}
