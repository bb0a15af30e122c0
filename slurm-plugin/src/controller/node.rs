//! A node of slurmctld's table.

use std::marker::PhantomData;
use std::ptr::NonNull;

use slurm_headers::internal::{self, node_record_t};

use super::Gpus;
use crate::cstr;

/// A node, for the time of a hook.
#[derive(Clone, Copy, Debug)]
pub struct Node<'hook>(NonNull<node_record_t>, PhantomData<&'hook ()>);

/// The nodes with their places in the table, which are their bits in Slurm's bitmaps. A place may be empty.
pub fn nodes<'hook>() -> impl Iterator<Item = Option<Node<'hook>>> {
    // SAFETY: variables of Slurm's library, an array of so many pointers (src/common/node_conf.h); the hook's
    // locks keep it as it is.
    let (table, count) = unsafe {
        (
            internal::node_record_table_ptr,
            usize::try_from(internal::node_record_count).unwrap_or(0),
        )
    };
    let count = if table.is_null() { 0 } else { count };
    (0..count).map(move |place| {
        // SAFETY: within the array.
        let record = unsafe { *table.add(place) };
        NonNull::new(record).map(|record| Node(record, PhantomData))
    })
}

impl Node<'_> {
    fn record(&self) -> &node_record_t {
        // SAFETY: live by the contract of `nodes`.
        unsafe { self.0.as_ref() }
    }

    /// Its name; `None` for a node that is no more.
    #[must_use]
    pub fn name(&self) -> Option<String> {
        // SAFETY: NULL or a string of the record.
        unsafe { cstr::text(self.record().name) }.map(|name| name.into_owned())
    }

    /// The CPUs that jobs may have.
    #[must_use]
    pub fn cpus(&self) -> u32 {
        self.record().cpus_efctv.into()
    }

    /// CPUs of a core.
    #[must_use]
    pub fn threads(&self) -> u32 {
        u32::from(self.record().tpc).max(1)
    }

    /// The memory that jobs may have, in MiB.
    #[must_use]
    pub fn memory(&self) -> u64 {
        let record = self.record();
        record.real_memory.saturating_sub(record.mem_spec_limit)
    }

    /// Its GPUs.
    #[must_use]
    pub fn gpus(&self) -> Gpus<'_> {
        // SAFETY: NULL or the node's own list.
        unsafe { Gpus::of_node(self.record().gres_list) }
    }
}
