//! Which task this is, and of how many.

use super::Facts;

/// Which task this is, and of how many.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Ranks {
    pub(super) rank: u32,
    pub(super) world_size: u32,
    pub(super) local_rank: u32,
    pub(super) local_world_size: u32,
    pub(super) node_rank: u32,
    pub(super) nodes: u32,
}

impl Ranks {
    /// From Slurm's own variables: those of the step, never SLURM_NTASKS, which may be the job's.
    pub(super) fn of(facts: &Facts<'_>) -> Result<Self, String> {
        let number = |name: &str| {
            facts
                .number(name)
                .ok_or_else(|| format!("nothing is set: Slurm has given the step no {name}"))
        };
        Ok(Self {
            rank: number("SLURM_PROCID")?,
            world_size: number("SLURM_STEP_NUM_TASKS")?,
            local_rank: number("SLURM_LOCALID")?,
            local_world_size: facts.local_tasks,
            node_rank: number("SLURM_NODEID")?,
            nodes: number("SLURM_STEP_NUM_NODES")?,
        })
    }

    /// Whether RANK, WORLD_SIZE and LOCAL_RANK may be set: not when one of them is and says otherwise.
    /// What the user exported is the same in all tasks, so that there all tasks must come to the same
    /// answer.
    pub(super) fn check_own(&self, facts: &Facts<'_>) -> Result<(), String> {
        if facts.options.force {
            return Ok(());
        }
        let for_all = [
            ("RANK", facts.exported.rank && self.world_size > 1),
            (
                "LOCAL_RANK",
                facts.exported.local_rank && self.world_size > self.nodes,
            ),
        ];
        for (name, ours) in [
            ("RANK", self.rank),
            ("WORLD_SIZE", self.world_size),
            ("LOCAL_RANK", self.local_rank),
        ] {
            let Some(own) = facts.var(name) else {
                continue;
            };
            let wrong = own.trim().parse() != Ok(ours) || for_all.contains(&(name, true));
            if wrong {
                return Err(format!(
                    "nothing is set: {name}={own} is set already and is not what all tasks of the step \
                     need (--dist-force replaces it)"
                ));
            }
        }
        Ok(())
    }
}
