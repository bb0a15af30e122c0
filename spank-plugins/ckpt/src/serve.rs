//! `sgpu-ckpt serve`: marks for a task that is in a container, where Slurm's commands are not.
//!
//! The plugin `spank_sgpu_ckpt` starts it outside of the container, as the user and in the step's control groups,
//! with two sockets: its standard input ends when the task's relay does, and its standard output is the one that
//! `sgpu-ckpt mark` in the container connects to. It leads a process group of its own.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use nix::sys::prctl;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::{getpgrp, getpid};
use spank_core::checkpoint::marks::{Answer, Ask, LONGEST_ASK_BYTES};

use crate::{Failure, mark, peer};

/// A peer that says nothing keeps others waiting no longer than this.
const LONGEST_SILENCE: Duration = Duration::from_secs(5);

pub(crate) fn run() -> Result<(), Failure> {
    // The end is that of the whole group, squeue and scontrol among it.
    if getpgrp() != getpid() {
        return Err(failure("started by Slurm's plugin spank_sgpu_ckpt only"));
    }
    // The user's limits are not set yet where it was started: it is nothing for him to enter.
    prctl::set_dumpable(false).map_err(failure)?;
    std::thread::Builder::new()
        .spawn(end_with_the_relay)
        .map_err(failure)?;
    let socket = io::stdout().as_fd().try_clone_to_owned().map_err(failure)?;
    let listener = UnixListener::from(socket);
    loop {
        let (peer, _) = listener.accept().map_err(failure)?;
        // A peer that goes away has no answer to get.
        drop(answer(peer));
    }
}

fn failure(why: impl ToString) -> Failure {
    Failure {
        code: 2,
        why: why.to_string(),
    }
}

/// Nothing ever comes but the end.
fn end_with_the_relay() {
    drop(io::stdin().read(&mut [0]));
    let _ = killpg(getpgrp(), Signal::SIGKILL);
}

fn answer(mut peer: UnixStream) -> io::Result<()> {
    if !peer::is_own(&peer) {
        return Ok(());
    }
    peer::wait_at_most(&peer, LONGEST_SILENCE)?;
    let mut line = String::new();
    BufReader::new((&peer).take(LONGEST_ASK_BYTES)).read_line(&mut line)?;
    let Some(Ask { every }) = Ask::parse(&line) else {
        return Ok(());
    };
    let answer = match mark::here(every) {
        Ok(text) => Answer { code: 0, text },
        Err(Failure { code, why }) => Answer { code, text: why },
    };
    peer.write_all(answer.line().as_bytes())
}
