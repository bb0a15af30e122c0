//! The site's part of a job's priority.
//!
//! Once in an update, [`Tables`] are made of what the cluster looks like; then [`factor`] says each pending
//! job's. How long a job will run is told by the [`History`] of jobs like it.

mod attained;
mod factor;
mod history;
mod hole;
mod parts;
mod settings;
mod stars;
mod usage;

pub use attained::Attained;
pub use factor::{NICE_OFFSET, Pending, Tables, factor, to_write};
pub use history::{Finished, History, Kind, ParseError, kind_of};
pub use hole::{Holes, MOST_PER_NODE, Mix};
pub use parts::{age, big, las, owed, short};
pub use settings::Settings;
pub use stars::{Stars, Waiting};
pub use usage::Usage;
