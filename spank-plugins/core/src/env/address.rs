//! Where rank 0 is.

use slurm_text::hostlist;

use super::Facts;

/// As many as a heterogeneous job may have (`MAX_HET_JOB_COMPONENTS` in slurm.h).
const MOST_COMPONENTS: u32 = 128;

/// MASTER_ADDR: the user's own, else the site's template, else the host of rank 0.
pub(super) fn master_addr(facts: &Facts<'_>) -> Result<String, String> {
    if let Some(own) = facts.own("MASTER_ADDR") {
        return Ok(own);
    }
    let template = facts.config.master_addr.as_deref().unwrap_or("{node}");
    if !template.contains("{node}") {
        return Ok(template.to_owned());
    }
    Ok(template.replace("{node}", &host_of_rank_0(facts)?))
}

/// The host of rank 0: the first of the step's, which is where Slurm puts task 0.
fn host_of_rank_0(facts: &Facts<'_>) -> Result<String, String> {
    let list = facts.var("SLURM_STEP_NODELIST").ok_or_else(|| {
        "nothing is set: Slurm has given the step no SLURM_STEP_NODELIST".to_owned()
    })?;
    if facts.is_heterogeneous() {
        return first_components(facts, &list).ok_or_else(|| {
            format!(
                "nothing is set: which of {list} has task 0 is known by SLURM_JOB_NODELIST_HET_GROUP_0 \
                 and so on, which the step has not got"
            )
        });
    }
    // The list is sorted, and the order of the host file is known to srun alone.
    let is_arbitrary = facts.var("SLURM_DISTRIBUTION").as_deref() == Some("arbitrary");
    if is_arbitrary && facts.var("SLURM_STEP_NUM_NODES").as_deref() != Some("1") {
        return Err(format!(
            "nothing is set: with --distribution=arbitrary no step is told which of {list} has task 0; set \
             MASTER_ADDR to the first line of SLURM_HOSTFILE"
        ));
    }
    hostlist::first(&list)
        .map_err(|why| format!("nothing is set: SLURM_STEP_NODELIST={list}: {why}"))
}

/// The first host of a heterogeneous step's first component. srun sorts the step's list
/// (`_reorder_het_job_recs`), so that it may begin with another's; the components' own lists come in their
/// order, from sbatch and salloc as `HET_GROUP`, from srun as `PACK_GROUP`.
fn first_components(facts: &Facts<'_>, step: &str) -> Option<String> {
    (0..MOST_COMPONENTS)
        .map_while(|component| {
            ["HET", "PACK"]
                .into_iter()
                .find_map(|word| facts.var(&format!("SLURM_JOB_NODELIST_{word}_GROUP_{component}")))
        })
        .filter_map(|list| hostlist::hosts(&list).ok())
        .flatten()
        .find(|host| hostlist::contains(step, host) == Ok(true))
}

/// An address and a port as one text.
pub(super) fn with_port(address: &str, port: u16) -> String {
    if address.contains(':') && !address.starts_with('[') {
        format!("[{address}]:{port}")
    } else {
        format!("{address}:{port}")
    }
}

#[cfg(test)]
mod tests {
    use super::with_port;

    #[test]
    fn ipv6_gets_brackets() {
        assert_eq!(with_port("n1", 61_000), "n1:61000");
        assert_eq!(with_port("10.0.0.1", 1), "10.0.0.1:1");
        assert_eq!(with_port("fe80::1", 1), "[fe80::1]:1");
        assert_eq!(with_port("[fe80::1]", 1), "[fe80::1]:1");
    }
}
