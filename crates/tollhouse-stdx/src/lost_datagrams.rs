//! How many datagrams the kernel has thrown away that were meant for a socket, most often because its buffer
//! was full: what no count of a program can show otherwise.

#![expect(unsafe_code, reason = "no safe wrapper of SO_MEMINFO is kept; see below")]

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The option that tells them (asm-generic/socket.h); the libc crate has only what stands in its answer.
const SO_MEMINFO: libc::c_int = 55;

/// Numbers that the kernel tells of a socket (`SK_MEMINFO_VARS`, linux/sock_diag.h).
const NUMBERS: usize = 9;

/// Where among them stands what was thrown away.
const DROPS: usize = libc::SK_MEMINFO_DROPS as usize;

/// Datagrams lost before anybody could read them from `socket`, since it was made; begins again at 0 behind
/// 2³² − 1.
///
/// # Errors
/// The kernel does not tell: it is older than Linux 4.12, or `socket` is none.
pub fn lost_datagrams(socket: impl AsFd) -> io::Result<u32> {
    let mut numbers = [0_u32; NUMBERS];
    let mut bytes = size_of_val(&numbers) as libc::socklen_t;
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: both pointers are to values that outlive the call, and `bytes` is the size of the first.
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
