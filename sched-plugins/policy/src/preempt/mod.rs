//! Whom a job may push out, and when it rather waits.
//!
//! A [`State`] says what runs where, a [`Request`] what one job, the preemptor, wants. [`Planner`]
//! finds the cheapest victims by [`Loss`], [`Preemptors`] keeps to what was planned until it has come true or
//! its time is over, and [`explain`](explain::explain) says it in one line.

mod amount;
mod budget;
mod claims;
mod cover;
pub mod explain;
mod loss;
pub mod plan;
mod request;
mod rules;
mod state;
mod sticky;

#[cfg(test)]
mod cases;
#[cfg(test)]
mod exact;
#[cfg(test)]
mod quality;

pub use amount::Amount;
pub use budget::Budget;
pub use claims::{Claim, Claims};
pub use loss::{CLASSES, Loss, cost};
pub use plan::{Context, Lacking, Outcome, Plan, Planner, Victim};
pub use request::{Gpus, Request};
pub use rules::Rules;
pub use state::{Host, Job, KINDS, Node, Pool, Share, State};
pub use sticky::{Answer, Counters, Preemptors, Reason, Verdict};
