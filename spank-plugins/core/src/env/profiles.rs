//! The profiles: which framework's variables a step gets.

use sgpu_config::Profile;

use super::address::{master_addr, with_port};
use super::port::master_port;
use super::ranks::Ranks;
use super::{Facts, devices};

/// The profile of a step, never `Auto` or `Off`. A step that does not ask gets the site's, with more than
/// one task: LOCAL_RANK=0 alone makes some frameworks wait for others.
pub(super) fn chosen(facts: &Facts<'_>) -> Option<Profile> {
    let sites = match facts.config.profile {
        None | Some(Profile::Off) => None,
        Some(Profile::Auto) => Some(Profile::Torch),
        profile => profile,
    };
    match facts.options.profile {
        None if facts.step_tasks() > 1 => sites,
        None | Some(Profile::Off) => None,
        Some(Profile::Auto) => Some(sites.unwrap_or(Profile::Torch)),
        profile => profile,
    }
}

/// The variables of a profile.
pub(super) fn variables(
    profile: Profile,
    facts: &Facts<'_>,
    ranks: &Ranks,
) -> Result<Vec<(&'static str, String)>, String> {
    match profile {
        Profile::Torchrun => torchrun(facts, ranks),
        Profile::Jax => jax(facts, ranks),
        Profile::Elastic => {
            let mut variables = torch(facts, ranks)?;
            variables.extend(elastic(ranks));
            Ok(variables)
        }
        Profile::Torch | Profile::Auto | Profile::Off => torch(facts, ranks),
    }
}

/// What PyTorch's `env://` reads.
fn torch(facts: &Facts<'_>, ranks: &Ranks) -> Result<Vec<(&'static str, String)>, String> {
    ranks.check_own(facts)?;
    Ok(vec![
        ("MASTER_ADDR", master_addr(facts)?),
        ("MASTER_PORT", master_port(facts).to_string()),
        ("RANK", ranks.rank.to_string()),
        ("WORLD_SIZE", ranks.world_size.to_string()),
        ("LOCAL_RANK", ranks.local_rank.to_string()),
        ("LOCAL_WORLD_SIZE", ranks.local_world_size.to_string()),
        ("NODE_RANK", ranks.node_rank.to_string()),
        ("NNODES", ranks.nodes.to_string()),
    ])
}

/// What programs that know torchelastic look for beside that.
fn elastic(ranks: &Ranks) -> [(&'static str, String); 4] {
    [
        ("GROUP_RANK", ranks.node_rank.to_string()),
        ("GROUP_WORLD_SIZE", ranks.nodes.to_string()),
        ("ROLE_RANK", ranks.rank.to_string()),
        ("ROLE_WORLD_SIZE", ranks.world_size.to_string()),
    ]
}

/// torchrun's own options; the ranks are its to give.
fn torchrun(facts: &Facts<'_>, ranks: &Ranks) -> Result<Vec<(&'static str, String)>, String> {
    let mut variables = vec![("PET_NNODES", ranks.nodes.to_string())];
    if let Some(gpus) = devices::visible(facts) {
        variables.push(("PET_NPROC_PER_NODE", gpus.to_string()));
    }
    let id = format!(
        "{}.{}.{}",
        facts.common_job_id(),
        facts.step_id,
        facts.restarts()
    );
    variables.extend([
        ("PET_NODE_RANK", ranks.node_rank.to_string()),
        ("PET_MASTER_ADDR", master_addr(facts)?),
        ("PET_MASTER_PORT", master_port(facts).to_string()),
        ("PET_RDZV_ID", id),
    ]);
    Ok(variables)
}

/// What JAX takes before it looks at Slurm.
fn jax(facts: &Facts<'_>, ranks: &Ranks) -> Result<Vec<(&'static str, String)>, String> {
    let address = with_port(&master_addr(facts)?, master_port(facts));
    let mut variables = vec![("JAX_COORDINATOR_ADDRESS", address)];
    if let Some(ids) = devices::jax_local_ids(facts, ranks) {
        variables.push(("JAX_LOCAL_DEVICE_IDS", ids));
    }
    Ok(variables)
}
