//! When the relay sends which signal.
//!
//! The job's program is told to checkpoint by one of: the clock, `before_seconds` ahead of the job's end; the
//! signal itself, from Slurm's `--signal` or from a user; SIGTERM, by which Slurm preempts. Whichever comes
//! first tells it, once. What comes behind that is passed on.
//!
//! A first SIGTERM is held back until the time that a checkpoint takes is over, so that a program without a
//! handler for it gets to the checkpoint; then it is passed on, and a second one at once. So scancel ends a job
//! as ever, if a little later. When nobody is ready to be told, nothing is held back.

use sgpu_config::Signal;

use super::orders::Orders;

/// Something that the relay does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Action {
    /// The flag file appears.
    Touch,
    /// The program gets the signal: the processes that [`super::target`] chooses.
    Deliver(Signal),
    /// The task's own process gets the signal, as it would without a relay.
    Pass(Signal),
}

/// A signal that the relay has got.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Received {
    /// Which.
    pub signal: Signal,
    /// Whether the kernel sent it for a terminal: it went to the task's processes too.
    pub from_terminal: bool,
}

/// The search for somebody to be told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Again {
    /// When it is looked next.
    next: u64,
    /// How long after the last time that is: twice as long each time.
    pause: u64,
    /// When it is given up.
    until: u64,
}

/// The longest pause between two looks at the machine's processes.
const LONGEST_PAUSE_SECONDS: u64 = 30;
/// A SIGTERM that long after another is not the second one of an end: the program lived on.
const TERM_LAPSES_SECONDS: u64 = 3600;

/// The relay's mind. Times are in seconds since 1970.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Relay {
    signal: Signal,
    forward: Signal,
    before: u64,
    /// When the clock tells the program.
    alarm: Option<u64>,
    /// When the program was last told.
    told: Option<u64>,
    /// Nobody was there to be told; looked for again.
    again: Option<Again>,
    /// When the SIGTERM that is held back is passed on.
    held_until: Option<u64>,
    /// The clock has told the program: what comes when that is over is the end.
    struck: bool,
    /// When SIGTERM was last there for the first time.
    termed: Option<u64>,
    /// A program may look at the flag file and know no signal.
    has_file: bool,
}

impl Relay {
    /// A relay that starts now. When less time than `before_seconds` is left then, the clock never tells: the
    /// program would be told before it can hear.
    #[must_use]
    pub fn new(orders: &Orders, now: u64) -> Self {
        let before = u64::from(orders.request.before_seconds);
        Self {
            signal: orders.request.signal,
            forward: orders.request.forward,
            before,
            alarm: orders
                .end_unix
                .and_then(|end| end.checked_sub(before))
                .filter(|alarm| *alarm > now),
            told: None,
            again: None,
            held_until: None,
            struck: false,
            termed: None,
            has_file: orders.file.is_some(),
        }
    }

    /// When to do something by the clock again; `None`: never.
    #[must_use]
    pub fn wake_at(&self) -> Option<u64> {
        let again = self.again.map(|again| again.next);
        [self.alarm, self.held_until, again]
            .into_iter()
            .flatten()
            .min()
    }

    /// What the time asks for.
    pub fn tick(&mut self, now: u64) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.alarm.take_if(|alarm| *alarm <= now).is_some() {
            self.struck = true;
            if !self.told_lately(now) {
                actions.extend(self.tell(now));
            }
        }
        if self.held_until.take_if(|until| *until <= now).is_some() {
            actions.push(Action::Pass(Signal::TERM));
        }
        match self.again {
            Some(again) if again.until <= now => self.again = None,
            Some(again) if again.next <= now && actions.is_empty() => {
                actions.push(Action::Deliver(self.forward));
            }
            _ => {}
        }
        actions
    }

    /// What a signal asks for.
    pub fn receive(&mut self, received: Received, now: u64) -> Vec<Action> {
        let Received {
            signal,
            from_terminal,
        } = received;
        if from_terminal {
            return Vec::new();
        }
        if signal == Signal::TERM {
            return self.terminate(now);
        }
        if signal != self.signal {
            return vec![Action::Pass(signal)];
        }
        if self.told_lately(now) {
            vec![Action::Deliver(self.forward)]
        } else {
            self.tell(now)
        }
    }

    fn terminate(&mut self, now: u64) -> Vec<Action> {
        let again = self
            .termed
            .is_some_and(|termed| now.saturating_sub(termed) <= TERM_LAPSES_SECONDS);
        if !again {
            self.termed = Some(now);
        }
        let lately = self.told_lately(now);
        let mut actions = Vec::new();
        if !again && !lately && !self.struck {
            actions.extend(self.tell(now));
        }
        self.held_until = self
            .told
            .map(|told| told.saturating_add(self.before))
            .filter(|until| !again && *until > now);
        if self.held_until.is_none() {
            actions.push(Action::Pass(Signal::TERM));
        }
        actions
    }

    /// How the delivery went. When nobody was ready, it is tried again, and a SIGTERM that waits for the
    /// checkpoint waits no longer: there will be none, unless of a program that looks at the flag file.
    pub fn delivered(&mut self, somebody: bool, now: u64) -> Option<Action> {
        if somebody {
            self.again = None;
            return None;
        }
        let (pause, until) = match self.again {
            None => (1, now.saturating_add(self.before)),
            Some(again) => (
                again.pause.saturating_mul(2).min(LONGEST_PAUSE_SECONDS),
                again.until,
            ),
        };
        self.again = Some(Again {
            next: now.saturating_add(pause).min(until),
            pause,
            until,
        });
        let has_file = self.has_file;
        let held = self.held_until.take_if(|_| !has_file);
        held.map(|_| Action::Pass(Signal::TERM))
    }

    fn told_lately(&self, now: u64) -> bool {
        self.told
            .is_some_and(|told| now.saturating_sub(told) <= self.before)
    }

    fn tell(&mut self, now: u64) -> Vec<Action> {
        self.told = Some(now);
        vec![Action::Touch, Action::Deliver(self.forward)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sgpu_config::request;

    const USR1: Signal = Signal::of_number(10);
    const TELL: [Action; 2] = [Action::Touch, Action::Deliver(USR1)];

    fn relay(value: &str, end: Option<u64>) -> Relay {
        let orders = Orders {
            request: request::parse(value).unwrap().unwrap(),
            end_unix: end,
            file: None,
            child: None,
            lifeline: None,
        };
        Relay::new(&orders, 1000)
    }

    fn got(number: i32) -> Received {
        Received {
            signal: Signal::of_number(number),
            from_terminal: false,
        }
    }

    #[test]
    fn the_clock_tells_once() {
        let mut relay = relay("USR1@120", Some(5000));
        assert_eq!(relay.wake_at(), Some(4880));
        assert_eq!(relay.tick(4879), []);
        assert_eq!(relay.tick(4880), TELL);
        relay.delivered(true, 4880);
        assert_eq!(relay.tick(4881), []);
        assert_eq!(relay.wake_at(), None);
        // Slurm ends the job.
        assert_eq!(relay.receive(got(15), 5003), [Action::Pass(Signal::TERM)]);
    }

    #[test]
    fn slurms_own_early_signal_counts_for_the_clocks() {
        // slurmctld may send it up to a minute early.
        let mut relay = relay("USR1@120", Some(5000));
        assert_eq!(relay.receive(got(10), 4825), TELL);
        relay.delivered(true, 4825);
        assert_eq!(relay.tick(4880), []);
        // A second signal goes to the program too.
        assert_eq!(relay.receive(got(10), 4890), [Action::Deliver(USR1)]);
    }

    #[test]
    fn a_users_signal_long_before_leaves_the_clock_its_own() {
        let mut relay = relay("USR1@120", Some(5000));
        assert_eq!(relay.receive(got(10), 2000), TELL);
        relay.delivered(true, 2000);
        assert_eq!(relay.tick(4880), TELL);
    }

    #[test]
    fn a_preemption_tells_and_its_sigterm_waits() {
        let mut relay = relay("USR1@30", None);
        assert_eq!(relay.wake_at(), None);
        assert_eq!(
            relay.receive(got(18), 1999),
            [Action::Pass(Signal::of_number(18))]
        );
        assert_eq!(relay.receive(got(15), 2000), TELL);
        relay.delivered(true, 2000);
        assert_eq!(relay.wake_at(), Some(2030));
        assert_eq!(relay.tick(2029), []);
        assert_eq!(relay.tick(2030), [Action::Pass(Signal::TERM)]);
        assert_eq!(relay.wake_at(), None);
        assert_eq!(relay.receive(got(15), 2040), [Action::Pass(Signal::TERM)]);
    }

    #[test]
    fn a_second_sigterm_is_passed_at_once_and_alone() {
        let mut relay = relay("USR1@30", None);
        assert_eq!(relay.receive(got(15), 2000), TELL);
        relay.delivered(true, 2000);
        assert_eq!(relay.receive(got(15), 2010), [Action::Pass(Signal::TERM)]);
        assert_eq!(relay.tick(2031), []);
    }

    #[test]
    fn a_checkpoint_that_is_being_written_is_waited_for() {
        let mut clock = relay("USR1@120", Some(5000));
        assert_eq!(clock.tick(4880), TELL);
        clock.delivered(true, 4880);
        assert_eq!(clock.receive(got(15), 4890), []);
        assert_eq!(clock.tick(4999), []);
        assert_eq!(clock.tick(5000), [Action::Pass(Signal::TERM)]);
        let mut user = relay("USR1@30", None);
        assert_eq!(user.receive(got(10), 2000), TELL);
        user.delivered(true, 2000);
        assert_eq!(user.receive(got(15), 2010), []);
        assert_eq!(user.wake_at(), Some(2030));
        assert_eq!(user.receive(got(15), 2011), [Action::Pass(Signal::TERM)]);
        assert_eq!(user.wake_at(), None);
    }

    #[test]
    fn forwarding_and_other_signals() {
        let mut relay = relay("USR1@30,forward=USR2", None);
        for other in [1, 2, 12, 18, 34] {
            let signal = Signal::of_number(other);
            assert_eq!(relay.receive(got(other), 2000), [Action::Pass(signal)]);
        }
        let usr2 = Signal::of_number(12);
        assert_eq!(
            relay.receive(got(10), 2001),
            [Action::Touch, Action::Deliver(usr2)]
        );
    }

    #[test]
    fn a_terminals_signals_are_not_passed_twice() {
        let mut relay = relay("INT@30", None);
        let typed = Received {
            signal: Signal::of_number(2),
            from_terminal: true,
        };
        assert_eq!(relay.receive(typed, 2000), []);
    }

    #[test]
    fn nobody_there_is_tried_again_for_a_time() {
        let mut relay = relay("USR1@30", None);
        assert_eq!(relay.receive(got(10), 2000), TELL);
        relay.delivered(false, 2000);
        // After 1, 2, 4, 8 seconds, and for as long as a checkpoint takes.
        for (at, next) in [(2001, 2003), (2003, 2007), (2007, 2015), (2015, 2030)] {
            assert_eq!(relay.wake_at(), Some(at));
            assert_eq!(relay.tick(at - 1), []);
            assert_eq!(relay.tick(at), [Action::Deliver(USR1)]);
            relay.delivered(false, at);
            assert_eq!(relay.wake_at(), Some(next));
        }
        assert_eq!(relay.tick(2030), []);
        assert_eq!(relay.wake_at(), None);
    }

    #[test]
    fn a_sigterm_long_after_another_tells_again() {
        let mut relay = relay("USR1@30", None);
        for start in [2000, 6000] {
            assert_eq!(relay.receive(got(15), start), TELL);
            relay.delivered(true, start);
            assert_eq!(relay.tick(start + 30), [Action::Pass(Signal::TERM)]);
            assert_eq!(
                relay.receive(got(15), start + 3600),
                [Action::Pass(Signal::TERM)]
            );
        }
    }

    #[test]
    fn a_sigterm_waits_for_nobody() {
        let mut deaf = relay("USR1@30", None);
        assert_eq!(deaf.receive(got(15), 2000), TELL);
        assert_eq!(
            deaf.delivered(false, 2000),
            Some(Action::Pass(Signal::TERM))
        );
        assert_eq!(deaf.delivered(false, 2001), None);
        let mut looking = Relay {
            has_file: true,
            ..relay("USR1@30,file", None)
        };
        assert_eq!(looking.receive(got(15), 2000), TELL);
        assert_eq!(looking.delivered(false, 2000), None);
        assert_eq!(
            looking.tick(2030),
            [Action::Pass(Signal::TERM)],
            "when a checkpoint is over"
        );
    }

    #[test]
    fn too_little_time_is_no_alarm() {
        assert_eq!(relay("USR1@120", Some(1120)).wake_at(), None);
        assert_eq!(relay("USR1@120", Some(1121)).wake_at(), Some(1001));
        assert_eq!(relay("USR1@120", Some(100)).wake_at(), None);
    }
}
