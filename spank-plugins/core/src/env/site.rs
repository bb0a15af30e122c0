//! The site's own variables: set where the node has what they name.

use super::Plan;
use super::facts::{Facts, Node};

/// Adds `[env] set`, and gives a notice for each variable that names something which the node does not have.
pub(super) fn add(facts: &Facts<'_>, plan: &mut Plan) -> Vec<String> {
    let mut notices = Vec::new();
    for (name, value) in &facts.config.set {
        let ours = plan.set.iter().any(|(set, _)| set == name);
        let kept = facts.var(name).is_some() && !facts.options.force;
        if ours || kept {
            continue;
        }
        match missing(name, value, &facts.node) {
            None => plan.set.push((name.clone(), value.clone())),
            Some(why) => notices.push(format!("{name}={value} of sgpu.toml is not set: {why}")),
        }
    }
    notices
}

/// Why a variable is not to be set on a node.
fn missing(name: &str, value: &str, node: &Node<'_>) -> Option<&'static str> {
    let (ok, why) = match name {
        "CUDA_VISIBLE_DEVICES" => (false, "Slurm alone says which GPUs a task sees"),
        "NCCL_SOCKET_IFNAME" => (
            nccl_finds(value, node.interfaces),
            "the node has no such network interface",
        ),
        "GLOO_SOCKET_IFNAME" => (
            names(value).all(|name| node.interfaces.iter().any(|have| have == name)),
            "the node has no such network interface",
        ),
        "NCCL_IB_HCA" => (
            nccl_finds(value, node.hcas),
            "the node has no such InfiniBand device",
        ),
        _ if is_input(name) => ((node.has_file)(value), "the task has no such file"),
        _ => return None,
    };
    (!ok).then_some(why)
}

/// Whether a variable names a file that is read; NCCL writes some.
fn is_input(name: &str) -> bool {
    name.ends_with("_FILE") && !name.ends_with("_DUMP_FILE") && name != "NCCL_DEBUG_FILE"
}

fn names(list: &str) -> impl Iterator<Item = &str> {
    list.split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
}

/// Whether NCCL finds a device by a list: `ib,eth` are beginnings of names, `=ib0,ib1` whole names; `^` in
/// front takes all but those. A device may have a port behind it, `mlx5_0:1`.
fn nccl_finds(list: &str, devices: &[String]) -> bool {
    let (but, list) = match list.strip_prefix('^') {
        Some(list) => (true, list),
        None => (false, list),
    };
    let (whole, list) = match list.strip_prefix('=') {
        Some(list) => (true, list),
        None => (false, list),
    };
    let listed = |device: &String| {
        names(list).any(|name| {
            let name = name.split(':').next().unwrap_or(name);
            if whole {
                device == name
            } else {
                device.starts_with(name)
            }
        })
    };
    devices.iter().any(|device| listed(device) != but)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_as_nccl_finds_them() {
        let have = ["lo", "eth0", "eth1", "ib0"].map(str::to_owned);
        for list in [
            "eth0",
            "eth",
            "=eth0",
            "ib",
            "^docker,lo",
            "^=lo",
            "=ib9,ib0",
            "eth0,ib7",
        ] {
            assert!(nccl_finds(list, &have), "{list}");
        }
        for list in [
            "eth2",
            "=eth",
            "ib1",
            "^lo,eth,ib",
            "",
            "=",
            "^=lo,eth0,eth1,ib0",
        ] {
            assert!(!nccl_finds(list, &have), "{list}");
        }
        let hcas = ["mlx5_0", "mlx5_1", "mlx5_10"].map(str::to_owned);
        for list in ["mlx5", "=mlx5_1:1", "^mlx5_0:1", "=mlx5_4:1,mlx5_10:1"] {
            assert!(nccl_finds(list, &hcas), "{list}");
        }
        assert!(!nccl_finds("=mlx5_2:1", &hcas));
        assert!(!nccl_finds("mlx5", &[]));
    }

    #[test]
    fn what_a_node_does_not_have_is_missing() {
        let (interfaces, hcas) = (["ib0".to_owned()], ["mlx5_0".to_owned()]);
        let node = Node {
            interfaces: &interfaces,
            hcas: &hcas,
            has_file: &|path| path == "/etc/nccl/topo.xml",
        };
        for (name, value, there) in [
            ("NCCL_SOCKET_IFNAME", "ib", true),
            ("NCCL_SOCKET_IFNAME", "eth0", false),
            ("GLOO_SOCKET_IFNAME", "ib0", true),
            ("GLOO_SOCKET_IFNAME", "ib", false),
            ("GLOO_SOCKET_IFNAME", "ib0,ib1", false),
            ("NCCL_IB_HCA", "mlx5", true),
            ("NCCL_IB_HCA", "=mlx5_1", false),
            ("NCCL_TOPO_FILE", "/etc/nccl/topo.xml", true),
            ("NCCL_TOPO_FILE", "/etc/nccl/other.xml", false),
            // NCCL writes these.
            ("NCCL_TOPO_DUMP_FILE", "/tmp/topo.xml", true),
            ("NCCL_DEBUG_FILE", "/tmp/nccl.%h", true),
            ("NCCL_DEBUG", "WARN", true),
            ("CUDA_VISIBLE_DEVICES", "0", false),
        ] {
            assert_eq!(
                missing(name, value, &node).is_none(),
                there,
                "{name}={value}"
            );
        }
    }
}
