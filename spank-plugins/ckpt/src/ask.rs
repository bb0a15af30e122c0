//! Asks for a mark out of a container.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Duration;

use spank_core::checkpoint::marks::{self, Answer, Ask, LONGEST_ANSWER_BYTES};

use crate::peer;

/// As long as Slurm's commands may try to reach slurmctld.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// Has the process at `place` mark.
pub(crate) fn ask(place: &str, every: u64) -> io::Result<Answer> {
    let name = marks::name(place).ok_or(io::ErrorKind::InvalidInput)?;
    let mut peer = UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)?;
    if !peer::is_own(&peer) {
        return Err(io::Error::other("it is another user's"));
    }
    peer::wait_at_most(&peer, LONGEST_WAIT)?;
    peer.write_all(Ask { every }.line().as_bytes())?;
    let mut line = String::new();
    BufReader::new(peer.take(LONGEST_ANSWER_BYTES)).read_line(&mut line)?;
    Answer::parse(&line).ok_or_else(|| io::Error::other("it did not answer"))
}
