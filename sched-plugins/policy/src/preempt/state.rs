//! What runs where: flat tables, filled anew for each pass, their memory used again.

use super::Amount;
use super::loss::Places;

/// Kinds of GPU on one node.
pub const KINDS: usize = 4;
/// The most shares that a state takes.
const MOST_SHARES: usize = 1 << 20;

/// GPUs of one kind on a node.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Pool {
    /// The caller's number of the kind.
    pub kind: u16,
    /// How many there are.
    pub total: u16,
    /// Those that nobody has.
    pub free: u16,
    /// Those whose jobs are ending or were told to go.
    pub coming: u16,
}

/// Cores and memory of a node.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Host {
    /// Cores.
    pub cores: u32,
    /// Memory, in MiB.
    pub memory: u64,
}

/// A node.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Node {
    /// Whether the preemptor may run there at all: partition, features, node state.
    pub usable: bool,
    /// Its GPUs, by kind.
    pub gpus: [Pool; KINDS],
    /// All of it.
    pub total: Host,
    /// What nobody has.
    pub free: Host,
    /// What belongs to jobs that are ending or were told to go. All of a node that is COMPLETING and would
    /// else be free is this, too.
    pub coming: Host,
}

impl Node {
    /// Sums over the GPUs of a kind, or over all.
    fn sum(&self, kind: Option<u16>, of: impl Fn(&Pool) -> u16, host: Host) -> Amount {
        let gpus = self
            .gpus
            .iter()
            .filter(|pool| kind.is_none_or(|kind| pool.kind == kind))
            .map(|pool| u32::from(of(pool)))
            .fold(0, u32::saturating_add);
        Amount {
            gpus,
            cores: host.cores,
            memory: host.memory,
        }
    }

    /// All of it, as far as a request for a kind of GPU sees it.
    pub(crate) fn whole(&self, kind: Option<u16>) -> Amount {
        self.sum(kind, |pool| pool.total, self.total)
    }

    /// What nobody has.
    pub(crate) fn idle(&self, kind: Option<u16>) -> Amount {
        self.sum(kind, |pool| pool.free, self.free)
    }

    /// What will soon be nobody's.
    pub(crate) fn coming(&self, kind: Option<u16>) -> Amount {
        self.sum(kind, |pool| pool.coming, self.coming)
    }
}

/// A running job that was not told to go.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Job {
    /// Slurm's number of it.
    pub id: u32,
    /// Its service class: the priority of its QOS, or its partition's tier. Lower ones go first.
    pub class: u32,
    /// When it started, in Unix seconds.
    pub start: i64,
    /// When its time limit ends; `i64::MAX` without one.
    pub end: i64,
    /// Its last mark of a checkpoint.
    pub checkpoint: Option<i64>,
    /// How often it was started again.
    pub restarts: u32,
    /// What starting again takes it, in seconds, where that is known.
    pub restart_seconds: Option<u32>,
    /// Whether it may not be pushed out. It is only watched for its end.
    pub exempt: bool,
}

/// What a job has of a node. One that has several kinds of GPU there has a share for each, its cores and
/// memory in one of them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Share {
    /// [`State::add_node`]'s number.
    pub node: u32,
    /// The kind of its GPUs.
    pub kind: u16,
    /// GPUs.
    pub gpus: u16,
    /// Cores.
    pub cores: u32,
    /// Memory, in MiB.
    pub memory: u64,
}

impl Share {
    /// It, as far as a request for a kind of GPU sees it.
    pub(crate) fn amount(&self, kind: Option<u16>) -> Amount {
        let is_seen = kind.is_none_or(|kind| kind == self.kind);
        Amount {
            gpus: if is_seen { u32::from(self.gpus) } else { 0 },
            cores: self.cores,
            memory: self.memory,
        }
    }
}

/// What a job has of all nodes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Size {
    pub(crate) gpus: u32,
    pub(crate) cores: u32,
}

/// Nodes and the jobs on them.
#[derive(Clone, Debug, Default)]
pub struct State {
    nodes: Vec<Node>,
    jobs: Vec<Job>,
    sizes: Vec<Size>,
    places: Places,
    /// The shares, job by job, and where each job's begin.
    shares: Vec<Share>,
    job_starts: Vec<u32>,
    /// (job, share) node by node, and where each node's begin.
    on_nodes: Vec<(u32, Share)>,
    node_starts: Vec<u32>,
}

impl State {
    /// No nodes, no jobs.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets all, keeps the memory.
    pub fn clear(&mut self) {
        self.nodes.clear();
        self.clear_jobs();
    }

    /// Forgets the jobs alone.
    pub fn clear_jobs(&mut self) {
        self.jobs.clear();
        self.sizes.clear();
        self.places = Places::default();
        self.shares.clear();
        self.job_starts.clear();
        self.on_nodes.clear();
        self.node_starts.clear();
    }

    /// Takes in a node and numbers it, from 0 on.
    pub fn add_node(&mut self, node: Node) -> u32 {
        let number = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        self.nodes.push(node);
        number
    }

    /// A node, to change it.
    pub fn node_mut(&mut self, node: u32) -> Option<&mut Node> {
        self.nodes.get_mut(usize::try_from(node).ok()?)
    }

    /// Takes in a job; `false` when there are too many, or a share names no node.
    pub fn add_job(&mut self, job: Job, shares: &[Share]) -> bool {
        let nodes = self.nodes.len();
        let fits = self.shares.len().saturating_add(shares.len()) <= MOST_SHARES
            && self.jobs.len() < MOST_SHARES;
        if !fits || shares.iter().any(|share| at(share.node) >= nodes) {
            return false;
        }
        let begin = u32::try_from(self.shares.len()).unwrap_or(u32::MAX);
        self.job_starts.push(begin);
        self.shares.extend_from_slice(shares);
        let size = shares.iter().fold(Size::default(), |size, share| Size {
            gpus: size.gpus.saturating_add(u32::from(share.gpus)),
            cores: size.cores.saturating_add(share.cores),
        });
        if !job.exempt {
            self.places.add(job.class);
        }
        self.jobs.push(job);
        self.sizes.push(size);
        true
    }

    /// Orders the shares by node. To be called when all jobs are in.
    pub fn seal(&mut self) {
        let Self {
            nodes,
            shares,
            job_starts,
            on_nodes,
            node_starts,
            ..
        } = self;
        node_starts.clear();
        node_starts.resize(nodes.len().saturating_add(1), 0);
        for share in shares.iter() {
            if let Some(count) = node_starts.get_mut(at(share.node)) {
                *count = count.saturating_add(1);
            }
        }
        let mut sum = 0_u32;
        for count in node_starts.iter_mut() {
            sum = sum.saturating_add(*count);
            *count = sum;
        }
        on_nodes.clear();
        on_nodes.resize(shares.len(), (0, Share::default()));
        // From the last on, so that each node's stay in the order of the jobs.
        let mut end = shares.len();
        for (job, begin) in job_starts.iter().enumerate().rev() {
            let begin = at(*begin);
            let job = u32::try_from(job).unwrap_or(u32::MAX);
            for share in shares.get(begin..end).unwrap_or_default().iter().rev() {
                if let Some(place) = node_starts.get_mut(at(share.node)) {
                    *place = place.saturating_sub(1);
                    if let Some(slot) = on_nodes.get_mut(at(*place)) {
                        *slot = (job, *share);
                    }
                }
            }
            end = begin;
        }
    }

    /// The nodes.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The jobs.
    #[must_use]
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// The service classes of the jobs that may go.
    pub(crate) fn places(&self) -> &Places {
        &self.places
    }

    pub(crate) fn sizes(&self) -> &[Size] {
        &self.sizes
    }

    /// The shares of a job.
    #[must_use]
    pub fn shares_of(&self, job: u32) -> &[Share] {
        range(&self.shares, &self.job_starts, job)
    }

    /// (job, share) of a node, once sealed.
    #[must_use]
    pub fn shares_on(&self, node: u32) -> &[(u32, Share)] {
        range(&self.on_nodes, &self.node_starts, node)
    }
}

/// The part of `all` that belongs to number `which`.
fn range<'a, T>(all: &'a [T], starts: &[u32], which: u32) -> &'a [T] {
    let Some(begin) = starts.get(at(which)) else {
        return &[];
    };
    let end = starts
        .get(at(which).saturating_add(1))
        .map_or(all.len(), |end| at(*end));
    all.get(at(*begin)..end).unwrap_or_default()
}

/// A number as an index.
pub(crate) fn at(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_found_by_job_and_by_node() {
        let mut state = State::new();
        for _ in 0..3 {
            state.add_node(Node::default());
        }
        let share = |node, gpus| Share {
            node,
            gpus,
            cores: 2,
            ..Share::default()
        };
        let job = |id| Job {
            id,
            ..Job::default()
        };
        assert!(state.add_job(job(7), &[share(2, 1), share(0, 2)]));
        assert!(state.add_job(job(8), &[share(2, 3)]));
        assert!(!state.add_job(job(9), &[share(3, 1)]));
        assert!(state.add_job(job(10), &[]));
        state.seal();
        state.seal();
        assert_eq!(state.shares_of(0), [share(2, 1), share(0, 2)]);
        assert_eq!(state.shares_of(1), [share(2, 3)]);
        assert_eq!(state.shares_of(2), []);
        assert_eq!(state.shares_of(9), []);
        assert_eq!(state.shares_on(0), [(0, share(0, 2))]);
        assert_eq!(state.shares_on(1), []);
        assert_eq!(state.shares_on(2), [(0, share(2, 1)), (1, share(2, 3))]);
        assert_eq!(state.shares_on(3), []);
        assert_eq!(state.sizes()[0], Size { gpus: 3, cores: 4 });
    }

    #[test]
    fn a_request_sees_gpus_of_its_kind() {
        let pool = |kind, total, free, coming| Pool {
            kind,
            total,
            free,
            coming,
        };
        let mut node = Node::default();
        node.gpus[0] = pool(1, 4, 1, 2);
        node.gpus[1] = pool(2, 2, 0, 1);
        assert_eq!(node.whole(None).gpus, 6);
        assert_eq!(node.idle(Some(1)).gpus, 1);
        assert_eq!(node.coming(Some(2)).gpus, 1);
        assert_eq!(node.whole(Some(3)).gpus, 0);
    }
}
