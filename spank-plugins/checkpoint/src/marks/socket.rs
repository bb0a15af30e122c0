//! The sockets between the task's process, the waiter and `sgpu-ckpt mark`. All are closed by an execve, and none
//! is where slurmstepd puts the task's standard input and output later.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

use crate::fds::above_standard;

/// The family, its own size and that of a whole address.
#[expect(clippy::cast_possible_truncation, reason = "1, 2 and 110")]
const FAMILY: (libc::sa_family_t, libc::socklen_t, libc::socklen_t) = (
    libc::AF_UNIX as libc::sa_family_t,
    size_of::<libc::sa_family_t>() as libc::socklen_t,
    size_of::<libc::sockaddr_un>() as libc::socklen_t,
);
/// How many may ask at a time.
const BACKLOG: libc::c_int = 16;

/// A socket with an abstract name that the kernel chooses, and the name. Nobody can connect yet.
pub(super) fn bind() -> io::Result<(OwnedFd, String)> {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    // SAFETY: takes numbers.
    let socket = owned(unsafe { libc::socket(libc::AF_UNIX, kind, 0) })?;
    // SAFETY: numbers only, for which all zero is a value.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    let (family, family_bytes, mut length) = FAMILY;
    address.sun_family = family;
    // SAFETY: our struct, of which the family alone is read: that asks for a name (unix(7), "Autobind feature").
    check(unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            family_bytes,
        )
    })?;
    // SAFETY: our struct, and its length.
    check(unsafe {
        libc::getsockname(
            socket.as_raw_fd(),
            (&raw mut address).cast(),
            &raw mut length,
        )
    })?;
    // A NUL, and five digits.
    let name: String = address
        .sun_path
        .iter()
        .skip(1)
        .map(|byte| char::from(byte.cast_unsigned()))
        .take_while(char::is_ascii_hexdigit)
        .collect();
    if name.is_empty() {
        return Err(io::Error::other("the kernel gave the socket no name"));
    }
    Ok((socket, name))
}

/// Lets others connect, who see this process' user as the socket's.
pub(super) fn listen(socket: &OwnedFd) -> io::Result<()> {
    // SAFETY: takes numbers.
    check(unsafe { libc::listen(socket.as_raw_fd(), BACKLOG) })
}

/// Two sockets with each other, for messages that are read whole.
pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    let mut both = [-1; 2];
    // SAFETY: the kernel writes two numbers.
    check(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, both.as_mut_ptr()) })?;
    let [one, other] = both.map(owned);
    Ok((one?, other?))
}

/// Sends a message.
pub(super) fn send(socket: &OwnedFd, message: &[u8]) -> io::Result<()> {
    // SAFETY: our bytes, and their number.
    let sent = unsafe {
        libc::send(
            socket.as_raw_fd(),
            message.as_ptr().cast(),
            message.len(),
            libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT,
        )
    };
    if usize::try_from(sent) == Ok(message.len()) {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Takes a message of this length that is there.
pub(super) fn receive(socket: &OwnedFd, message: &mut [u8]) -> io::Result<()> {
    // SAFETY: our bytes, and their number.
    let received = unsafe {
        libc::recv(
            socket.as_raw_fd(),
            message.as_mut_ptr().cast(),
            message.len(),
            libc::MSG_DONTWAIT,
        )
    };
    if usize::try_from(received) == Ok(message.len()) {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Takes a new descriptor.
fn owned(fd: RawFd) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that nobody else has.
    above_standard(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn check(code: libc::c_int) -> io::Result<()> {
    if code < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
