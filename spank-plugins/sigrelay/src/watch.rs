//! The relay's loop.

use std::time::{SystemTime, UNIX_EPOCH};

use sgpu_config::Signal;
use spank_core::checkpoint::orders::Orders;
use spank_core::checkpoint::relay::{Action, Received, Relay};
use spank_core::checkpoint::target;

use crate::flag::Flag;
use crate::processes;
use crate::sys::{self, Ended};
use crate::task::Task;

/// A clock that is set meanwhile is seen after this time.
const LONGEST_SLEEP_SECONDS: u64 = 60;

/// Signals that the kernel sends to all of a terminal's foreground processes.
const OF_TERMINALS: [i32; 7] = [
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
    libc::SIGHUP,
    libc::SIGWINCH,
];

/// Looks after the task to its end, and ends as it did.
pub(crate) fn to_the_end(task: Task, orders: &Orders) -> i32 {
    let mut watch = Watch {
        relay: Relay::new(orders, now()),
        flag: orders.file.as_deref().map(Flag::new),
        orders,
        task,
    };
    let ended = loop {
        if let Some(ended) = watch.round() {
            break ended;
        }
    };
    if let Some(flag) = &watch.flag {
        flag.remove();
    }
    if let Some(lifeline) = orders.lifeline {
        sys::let_go(lifeline);
    }
    match ended {
        Ended::Exit(code) => code,
        Ended::Signal(signal) => {
            sys::die(signal);
            // Only a signal that does not end a process comes here; a shell would say it so.
            signal.saturating_add(128)
        }
    }
}

struct Watch<'o> {
    relay: Relay,
    flag: Option<Flag>,
    orders: &'o Orders,
    task: Task,
}

impl Watch<'_> {
    /// Waits for a signal or the time, and does what they ask for; gives the task's end.
    fn round(&mut self) -> Option<Ended> {
        if let Some(ended) = self.task.ended() {
            return Some(ended);
        }
        let start = now();
        let sleep = self
            .relay
            .wake_at()
            .map(|at| at.saturating_sub(start).min(LONGEST_SLEEP_SECONDS))
            .and_then(|seconds| i32::try_from(seconds.saturating_mul(1000)).ok());
        sys::wait(&self.task.signals, sleep);
        while let Some(info) = sys::next_signal(&self.task.signals) {
            let number = i32::try_from(info.ssi_signo).unwrap_or(0);
            if number == libc::SIGCHLD || self.is_from_the_task(&info) {
                continue;
            }
            let received = Received {
                signal: Signal::of_number(number),
                from_terminal: info.ssi_code == libc::SI_KERNEL && OF_TERMINALS.contains(&number),
            };
            let actions = self.relay.receive(received, now());
            self.act(&actions);
        }
        let actions = self.relay.tick(now());
        self.act(&actions);
        None
    }

    fn act(&mut self, actions: &[Action]) {
        for action in actions {
            match action {
                Action::Touch => {
                    if let Some(flag) = &self.flag {
                        flag.raise();
                    }
                }
                Action::Pass(signal) => {
                    sys::kill(self.task.pid, signal.number());
                }
                Action::Deliver(signal) => {
                    let told = self.deliver(*signal);
                    if let Some(Action::Pass(signal)) = self.relay.delivered(told, now()) {
                        sys::kill(self.task.pid, signal.number());
                    }
                }
            }
        }
    }

    /// Whether a process of the task's own sent it: to their process group, which this one is in, and so it has
    /// got to all that it was meant for.
    fn is_from_the_task(&self, info: &libc::signalfd_siginfo) -> bool {
        i32::try_from(info.ssi_pid)
            .is_ok_and(|sender| sender > 0 && processes::is_below(sender, self.task.pid))
    }

    fn deliver(&self, signal: Signal) -> bool {
        let processes = processes::below(self.task.pid);
        let scope = self.orders.request.scope;
        let chosen = target::choose(&processes, self.task.pid, scope, signal);
        let told = chosen
            .iter()
            .filter(|pid| sys::kill(**pid, signal.number()))
            .count();
        told > 0
    }
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}
