//! The environment of distributed training: what each task of a step is given, from what Slurm says of it.
//!
//! - [`Options`]: what the user asks for; [`Arguments`]: what plugstack.conf says;
//! - [`Facts`]: what is known of a task; [`plan`]: what becomes of its environment;
//! - [`port`]: where rank 0 listens.

mod address;
mod arguments;
mod devices;
mod facts;
mod options;
pub mod port;
mod profiles;
mod ranks;
mod site;
mod slurm_conf;
#[cfg(test)]
mod tests;
mod threads;

use sgpu_config::Profile;

pub use arguments::Arguments;
pub use facts::{Exported, Facts, Node, TaskCpus};
pub use options::Options;

use ranks::Ranks;

/// What becomes of a task's environment.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Plan {
    /// Variables to be set, in this order.
    pub set: Vec<(String, String)>,
    /// Whether they replace what is set already; else none of them is.
    pub replace: bool,
    /// What the user is told, a line each. Other tasks of the step or node have said the rest.
    pub notices: Vec<String>,
}

/// What becomes of a task's environment. A step that does not want it, or that another launcher cares for,
/// gets nothing.
#[must_use]
pub fn plan(facts: &Facts<'_>) -> Plan {
    let mut plan = Plan {
        replace: facts.options.force,
        ..Plan::default()
    };
    if facts.step_id >= crate::FIRST_SPECIAL_STEP {
        return plan;
    }
    if let Err(why) = fill(facts, &mut plan) {
        plan.set.clear();
        plan.notices = Vec::new();
        if let Some(why) = why
            && facts.is_first_of_step()
        {
            plan.notices.push(why);
        }
    }
    plan
}

/// Fills the plan, or gives up: with what the user is told, if anything.
fn fill(facts: &Facts<'_>, plan: &mut Plan) -> Result<(), Option<String>> {
    let asked = facts.options.profile.is_some();
    let Some(profile) = profiles::chosen(facts) else {
        let idle = match (facts.options.port.is_some(), facts.options.force) {
            (true, true) => "--dist-port and --dist-force do",
            (true, false) => "--dist-port does",
            (false, true) => "--dist-force does",
            (false, false) => return Err(None),
        };
        return Err((!asked).then(|| format!("{idle} nothing in this step without --dist-env")));
    };
    if let Some(name) = ["SUBMITIT_EXECUTOR", "TORCHELASTIC_RUN_ID"]
        .into_iter()
        .find(|name| facts.var(name).is_some())
    {
        return Err(asked.then(|| {
            format!("nothing is set: by {name}, another launcher makes the environment")
        }));
    }
    let ranks = Ranks::of(facts)?;
    if profile == Profile::Torchrun && ranks.world_size > ranks.nodes {
        return Err(asked.then(|| {
            format!(
                "nothing is set: torchrun starts its workers itself and needs one task on each node, \
                 and the step has {} tasks on {} nodes",
                ranks.world_size, ranks.nodes
            )
        }));
    }
    let ours = profiles::variables(profile, facts, &ranks)?;
    let mut kept = Vec::new();
    for (name, value) in ours {
        match facts.var(name) {
            Some(own) if !facts.options.force => {
                // The address and the port of the plan are the user's own then.
                if own != value || name.starts_with("MASTER_") {
                    kept.push(name);
                }
            }
            _ => plan.set.push((name.to_owned(), value)),
        }
    }
    if let Some(threads) = threads::omp(facts) {
        plan.set.push(("OMP_NUM_THREADS".to_owned(), threads));
    }
    let missing = site::add(facts, plan);
    plan.set.push((
        "SGPU_DIST_PROFILE".to_owned(),
        options::name(profile).to_owned(),
    ));
    if facts.is_first_of_step() {
        if !kept.is_empty() {
            plan.notices.push(format!(
                "kept as it was set: {} (--dist-force replaces it)",
                kept.join(", ")
            ));
        }
        plan.notices.extend(devices::hidden_peers(facts, &ranks));
    }
    if ranks.local_rank == 0 {
        plan.notices.extend(missing);
    }
    Ok(())
}
