//! Who is at the other end of a socket.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::unistd::geteuid;

/// Whether it is this user: of an abstract name anybody may know.
pub(crate) fn is_own(peer: &UnixStream) -> bool {
    getsockopt(peer, PeerCredentials).is_ok_and(|peer| peer.uid() == geteuid().as_raw())
}

/// Waits for the other end no longer than this, each time.
pub(crate) fn wait_at_most(peer: &UnixStream, time: Duration) -> std::io::Result<()> {
    peer.set_read_timeout(Some(time))?;
    peer.set_write_timeout(Some(time))
}
