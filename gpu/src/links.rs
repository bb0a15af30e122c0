//! Slurm's `Links` vector: how well each GPU of a node is joined to each other.
//!
//! Slurm gives a job the GPUs with the highest sums of these numbers; -1 marks the GPU itself.
//!
//! # The rule
//!
//! 1. **A board with NVLink** (at least one pair of its GPUs is joined): the number is the
//!    count of NVLinks between the two GPUs.
//!    * A link that ends at the other GPU counts one. This is what Slurm's own plugin gives.
//!    * All GPUs with links to an NVSwitch reach each other over all of these links, so such a
//!      pair adds the smaller one of the two GPUs' counts of active switch links. (Switches of one
//!      node form one fabric: on boards with two switch planes they are joined.)
//!    * A pair that NVLink does not join gets 0, however near it is by PCIe: so NVLink always
//!      outranks PCIe, and the vectors of a board without NVSwitch are those of Slurm's own
//!      plugin.
//! 2. **A board without NVLink**: the number ranks the way over PCIe, in `nvidia-smi topo`'s
//!    words PIX 4, PXB 3, PHB 2, NODE 1, SYS 0; 0 also where the way is unknown.
//! 3. **MIG devices** have no links.

use crate::model::{Inventory, NvLink, RemoteEnd};
use crate::pci::PciAddress;
use crate::sysfs::PciProximity;

/// The mark of the GPU itself.
pub const SELF: i32 = -1;

/// What counts of a GPU here.
#[derive(Clone, Copy, Debug)]
pub struct LinkGpu<'a> {
    /// Where it sits.
    pub pci: PciAddress,
    /// Its NVLinks.
    pub nvlinks: &'a [NvLink],
}

/// By what the vectors of a node were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkRule {
    /// Direct NVLinks only: Slurm's own plugin gives the same.
    NvLink,
    /// NVLinks through NVSwitch.
    NvSwitch,
    /// The way over PCIe.
    Pcie,
    /// Nothing is known, or there are fewer than two GPUs.
    Nothing,
}

/// One vector per entry of `gpus`, each as long as `gpus`, and the rule that made them. An entry
/// that is `None` (a GPU that does not answer) has zeros and is joined to nothing. `proximity` is
/// asked for two positions in `gpus` only when the board has no NVLink.
pub fn link_vectors<P>(gpus: &[Option<LinkGpu<'_>>], proximity: P) -> (Vec<Vec<i32>>, LinkRule)
where
    P: Fn(usize, usize) -> Option<PciProximity>,
{
    let switch_links: Vec<i32> = gpus
        .iter()
        .map(|gpu| count(gpu, |remote| matches!(remote, RemoteEnd::Switch(_))))
        .collect();
    let mut rule = LinkRule::Nothing;
    let by_nvlink = square(gpus, |i, j, a, b| {
        let direct = count(&Some(*a), |remote| remote == RemoteEnd::Gpu(b.pci));
        let switched = switch_links
            .get(i)
            .min(switch_links.get(j))
            .copied()
            .unwrap_or(0);
        if switched > 0 {
            rule = LinkRule::NvSwitch;
        } else if direct > 0 && rule == LinkRule::Nothing {
            rule = LinkRule::NvLink;
        }
        direct.saturating_add(switched)
    });
    if rule != LinkRule::Nothing {
        return (by_nvlink, rule);
    }
    let by_pcie = square(gpus, |i, j, _, _| {
        let way = proximity(i, j);
        if way.is_some() {
            rule = LinkRule::Pcie;
        }
        way.map_or(0, pcie_rank)
    });
    (by_pcie, rule)
}

/// The vectors of an inventory, one per NVML index.
pub fn inventory_links<P>(inventory: &Inventory, proximity: P) -> (Vec<Vec<i32>>, LinkRule)
where
    P: Fn(usize, usize) -> Option<PciProximity>,
{
    let gpus: Vec<Option<LinkGpu<'_>>> = inventory
        .gpus
        .iter()
        .map(|gpu| {
            gpu.as_ref().ok().map(|gpu| LinkGpu {
                pci: gpu.pci,
                nvlinks: &gpu.nvlinks,
            })
        })
        .collect();
    link_vectors(&gpus, proximity)
}

/// The rank of a way over PCIe.
#[must_use]
pub fn pcie_rank(way: PciProximity) -> i32 {
    match way {
        PciProximity::SameSwitch => 4,
        PciProximity::MultipleSwitches => 3,
        PciProximity::SameHostBridge => 2,
        PciProximity::SameNuma => 1,
        PciProximity::System => 0,
    }
}

/// Slurm's text of a vector: numbers with commas between.
#[must_use]
pub fn format(vector: &[i32]) -> String {
    let mut text = String::with_capacity(vector.len().saturating_mul(3));
    for (n, number) in vector.iter().enumerate() {
        if n > 0 {
            text.push(',');
        }
        text.push_str(&number.to_string());
    }
    text
}

fn count(gpu: &Option<LinkGpu<'_>>, wanted: impl Fn(RemoteEnd) -> bool) -> i32 {
    let found = gpu.as_ref().map_or(0, |gpu| {
        gpu.nvlinks
            .iter()
            .filter(|link| link.active && wanted(link.remote))
            .count()
    });
    i32::try_from(found).unwrap_or(i32::MAX)
}

fn square<'a>(
    gpus: &[Option<LinkGpu<'a>>],
    mut number: impl FnMut(usize, usize, &LinkGpu<'a>, &LinkGpu<'a>) -> i32,
) -> Vec<Vec<i32>> {
    let mut vectors = Vec::with_capacity(gpus.len());
    for (i, a) in gpus.iter().enumerate() {
        let mut vector = Vec::with_capacity(gpus.len());
        for (j, b) in gpus.iter().enumerate() {
            vector.push(match (a, b) {
                _ if i == j => SELF,
                (Some(a), Some(b)) => number(i, j, a, b),
                _ => 0,
            });
        }
        vectors.push(vector);
    }
    vectors
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pci(bus: usize) -> PciAddress {
        PciAddress::new(0, u8::try_from(bus).unwrap(), 0, 0).unwrap()
    }

    fn board(links: &[Vec<NvLink>]) -> Vec<Option<LinkGpu<'_>>> {
        links
            .iter()
            .enumerate()
            .map(|(n, nvlinks)| {
                Some(LinkGpu {
                    pci: pci(n + 1),
                    nvlinks,
                })
            })
            .collect()
    }

    fn link(link: usize, remote: RemoteEnd) -> NvLink {
        NvLink {
            link: u32::try_from(link).unwrap(),
            active: true,
            remote,
        }
    }

    fn texts(vectors: &[Vec<i32>]) -> Vec<String> {
        vectors.iter().map(|vector| format(vector)).collect()
    }

    fn to_switches(count: usize) -> Vec<NvLink> {
        (0..count)
            .map(|n| link(n, RemoteEnd::Switch(Some(pci(0xc0 + n % 4)))))
            .collect()
    }

    #[test]
    fn h100_on_nvswitch() {
        let links = vec![to_switches(18); 8];
        let (vectors, rule) = link_vectors(&board(&links), |_, _| panic!("no need of PCIe"));
        assert_eq!(rule, LinkRule::NvSwitch);
        assert_eq!(format(&vectors[0]), "-1,18,18,18,18,18,18,18");
        assert_eq!(format(&vectors[3]), "18,18,18,-1,18,18,18,18");
    }

    #[test]
    fn a_gpu_with_fewer_switch_links() {
        let mut links = vec![to_switches(18), to_switches(18), to_switches(18)];
        links[1][5].active = false;
        let (vectors, _) = link_vectors(&board(&links), |_, _| None);
        assert_eq!(texts(&vectors), ["-1,17,18", "17,-1,17", "18,17,-1"]);
    }

    /// DGX-1 with V100: six links a GPU, two quads in which some pairs have two links, and one
    /// link or two from each GPU to its twin in the other quad.
    #[test]
    fn dgx1_v100_hybrid_cube_mesh() {
        let pairs = [
            (0, 1, 1),
            (0, 2, 1),
            (0, 3, 2),
            (0, 4, 2),
            (1, 2, 2),
            (1, 3, 1),
            (1, 5, 2),
            (2, 3, 2),
            (2, 6, 1),
            (3, 7, 1),
            (4, 5, 1),
            (4, 6, 1),
            (4, 7, 2),
            (5, 6, 2),
            (5, 7, 1),
            (6, 7, 2),
        ];
        let mut links = vec![Vec::new(); 8];
        for (a, b, count) in pairs {
            for _ in 0..count {
                let (at_a, at_b): (usize, usize) = (links[a].len(), links[b].len());
                links[a].push(link(at_a, RemoteEnd::Gpu(pci(b + 1))));
                links[b].push(link(at_b, RemoteEnd::Gpu(pci(a + 1))));
            }
        }
        assert!(links.iter().all(|links| links.len() == 6));
        let (vectors, rule) = link_vectors(&board(&links), |_, _| Some(PciProximity::SameSwitch));
        assert_eq!(rule, LinkRule::NvLink);
        assert_eq!(
            texts(&vectors),
            [
                "-1,1,1,2,2,0,0,0",
                "1,-1,2,1,0,2,0,0",
                "1,2,-1,2,0,0,1,0",
                "2,1,2,-1,0,0,0,1",
                "2,0,0,0,-1,1,1,2",
                "0,2,0,0,1,-1,2,1",
                "0,0,1,0,1,2,-1,2",
                "0,0,0,1,2,1,2,-1",
            ]
        );
    }

    #[test]
    fn a_box_with_pcie_only() {
        let links = vec![Vec::new(); 8];
        let way = |i: usize, j: usize| {
            Some(match () {
                () if i / 2 == j / 2 => PciProximity::SameSwitch,
                () if i / 4 == j / 4 => PciProximity::SameNuma,
                () => PciProximity::System,
            })
        };
        let (vectors, rule) = link_vectors(&board(&links), way);
        assert_eq!(rule, LinkRule::Pcie);
        assert_eq!(format(&vectors[0]), "-1,4,1,1,0,0,0,0");
        assert_eq!(format(&vectors[5]), "0,0,0,0,4,-1,1,1");
    }

    #[test]
    fn nvlink_bridges_outrank_pcie() {
        let joined = |to: usize| (0..4).map(|n| link(n, RemoteEnd::Gpu(pci(to)))).collect();
        let links = vec![joined(2), joined(1), Vec::new(), Vec::new()];
        let (vectors, _) = link_vectors(&board(&links), |_, _| Some(PciProximity::SameSwitch));
        assert_eq!(
            texts(&vectors),
            ["-1,4,0,0", "4,-1,0,0", "0,0,-1,0", "0,0,0,-1"]
        );
    }

    #[test]
    fn faults_links_down_and_strangers() {
        let mut down = to_switches(2);
        down.iter_mut().for_each(|link| link.active = false);
        let stranger = vec![link(0, RemoteEnd::Gpu(pci(0x77))), link(1, RemoteEnd::Cpu)];
        let links = vec![down, stranger];
        let mut gpus = board(&links);
        gpus.push(None);
        let (vectors, rule) = link_vectors(&gpus, |_, _| None);
        assert_eq!(rule, LinkRule::Nothing);
        assert_eq!(texts(&vectors), ["-1,0,0", "0,-1,0", "0,0,-1"]);
        assert_eq!(link_vectors(&board(&links[..1]), |_, _| None).0, [[SELF]]);
        assert!(link_vectors(&[], |_, _| None).0.is_empty());
    }

    proptest! {
        #[test]
        fn one_self_each_and_symmetric(counts in prop::collection::vec(0usize..19, 0..17)) {
            let links: Vec<_> = counts.iter().map(|count| to_switches(*count)).collect();
            let (vectors, _) = link_vectors(&board(&links), |_, _| Some(PciProximity::System));
            for (i, vector) in vectors.iter().enumerate() {
                prop_assert_eq!(vector.len(), counts.len());
                for (j, number) in vector.iter().enumerate() {
                    prop_assert_eq!(*number == SELF, i == j);
                    prop_assert_eq!(*number, vectors[j][i]);
                }
            }
        }
    }
}
