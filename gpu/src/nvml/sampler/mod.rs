//! Usage and energy, polled.
//!
//! * `sample`: what a sample is
//! * `state`: whose turn it is, and who waits for whom
//! * `verdict`: what to make of a thread that has not come back
//! * `poll`: one poll, on its thread
//! * `again`: when to ask again for what has failed
//! * `shares`, `merge`: MIG devices' parts of a GPU, its processes

mod again;
mod merge;
mod poll;
mod sample;
mod shares;
mod state;
#[cfg(test)]
mod state_tests;
mod verdict;

use std::sync::Arc;
use std::time::Duration;

use super::worker::{Hung, PerProcess, Worker};
use poll::{Open, poll};
pub use sample::{GpuSample, MigShare, ProcessUsage, Sample, SampleError, SamplerOptions, Want};
use state::{Ages, State};

/// Where NVML is opened for each sample, its start alone may take longer than any caller waits. A
/// sample that came too late is handed to the next caller up to this age.
const LATE: Duration = Duration::from_secs(60);

/// Samples all GPUs of the node, each read once per poll however many callers there are.
///
/// Made for a `static`; belongs to the process that uses it: a forked child starts anew.
///
/// NVML is called on threads of the sampler's own, never on a caller's. A poll that takes longer
/// than its callers wait goes on, later callers join it, and its session serves the next ones. When
/// a call hangs on one GPU, its thread is left alone and the following polls leave that GPU out, as
/// long as it hangs. When as many hang as a node can have, or NVML as a whole does for some seconds, every
/// caller gets the [`Hung`] at once until a call returns.
pub struct Sampler {
    options: SamplerOptions,
    worker: Worker,
    state: PerProcess<State<Open>>,
}

impl Sampler {
    /// A sampler; NVML is touched at the first sample.
    #[must_use]
    pub const fn new(options: SamplerOptions) -> Self {
        Self {
            options,
            worker: Worker::new(),
            state: PerProcess::new(),
        }
    }

    /// The last sample when it is younger than [`min_age`](SamplerOptions::min_age), else that of
    /// the poll under way or a new one; never waits longer than `deadline`.
    ///
    /// # Errors
    /// NVML as a whole cannot be asked, a call hangs, or the poll takes longer than `deadline`.
    pub fn sample(&self, deadline: Duration) -> Result<Arc<Sample>, SampleError> {
        let options = self.options.clone();
        let ages = Ages {
            min: options.min_age,
            late: if options.keep_open {
                Duration::ZERO
            } else {
                LATE
            },
        };
        let work = move |open: Option<Open>, hanging: &[Hung], trace: &_| {
            poll(open, &options, hanging, trace)
        };
        self.state.get().sample(&self.worker, ages, deadline, &work)
    }

    /// The last sample, however old; `None` before the first.
    #[must_use]
    pub fn latest(&self) -> Option<Arc<Sample>> {
        self.state.peek()?.latest()
    }

    /// The call that hangs still, or that a caller has waited for in vain and that has not come
    /// back yet.
    #[must_use]
    pub fn wedged(&self) -> Option<Hung> {
        self.worker
            .wedged()
            .or_else(|| self.state.peek()?.overdue())
    }

    /// Closes NVML, so that a driver can be unloaded or a GPU reset; the next sample opens it
    /// anew. Waits for a sample under way.
    ///
    /// # Errors
    /// A sample under way does not end in time, NVML's shutdown hangs, or an earlier call hangs
    /// still and keeps NVML open.
    pub fn release(&self, deadline: Duration) -> Result<(), Hung> {
        let Some(state) = self.state.peek() else {
            return Ok(());
        };
        state.release(deadline, Open::close)?;
        // A thread that hangs has a session of its own.
        self.worker.wedged().map_or(Ok(()), Err)
    }

    /// Forgets samples and hangs, for a plugin's `fini`. NVML, when it is open, stays so: call
    /// [`release`](Self::release) before. A poll under way closes its session when it ends.
    pub fn reset(&self) {
        if let Some(state) = self.state.peek() {
            state.forget();
        }
        self.state.reset();
        self.worker.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nvml::error::Error;

    #[test]
    fn no_library_is_an_error_each_time() {
        let sampler = Sampler::new(SamplerOptions {
            library: Some("/nonexistent/libnvidia-ml.so.1".into()),
            want: Want {
                energy: true,
                processes: true,
                utilization: true,
            },
            min_age: Duration::ZERO,
            keep_open: true,
        });
        for _ in 0..2 {
            let error = sampler.sample(Duration::from_secs(20)).unwrap_err();
            assert!(
                matches!(error, SampleError::Nvml(Error::Load(_))),
                "{error}"
            );
        }
        assert!(sampler.latest().is_none());
        assert_eq!(sampler.release(Duration::from_secs(1)), Ok(()));
        sampler.reset();
    }
}
