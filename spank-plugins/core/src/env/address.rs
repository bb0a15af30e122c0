//! Where rank 0 is.

use slurm_text::hostlist;

use super::Facts;

/// MASTER_ADDR: the user's own, else the site's template, else the host of rank 0.
pub(super) fn master_addr(facts: &Facts<'_>) -> Result<String, String> {
    if let Some(own) = facts.own("MASTER_ADDR") {
        return Ok(own);
    }
    let template = facts.config.master_addr.as_deref().unwrap_or("{node}");
    if !template.contains("{node}") {
        return Ok(template.to_owned());
    }
    let list = first_nodes(facts).ok_or_else(|| {
        "nothing is set: Slurm has given the step no SLURM_STEP_NODELIST".to_owned()
    })?;
    let node = hostlist::first(&list)
        .map_err(|why| format!("nothing is set: SLURM_STEP_NODELIST={list}: {why}"))?;
    Ok(template.replace("{node}", &node))
}

/// The list that begins with rank 0's host.
fn first_nodes(facts: &Facts<'_>) -> Option<String> {
    facts.var("SLURM_STEP_NODELIST")
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
