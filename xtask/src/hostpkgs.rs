//! What the host needs to compile and to make roots: compilers and headers, nothing of Slurm.

use anyhow::{Result, bail};

use crate::os;
use crate::run::Cmd;
use crate::step::Progress;
use crate::sudo;

/// Packages, and what each is for.
const PACKAGES: [(&str, &str); 12] = [
    ("gcc", "C compiler for Slurm's configure"),
    ("libc6-dev", "C headers"),
    ("make", "Slurm's configure asks for it"),
    ("pkg-config", "Slurm's configure asks for it"),
    ("libclang-dev", "bindgen reads Slurm's headers with it"),
    ("libmunge-dev", "Slurm's configure asks for it"),
    (
        "debootstrap",
        "makes the roots that the Slurm daemons live in",
    ),
    ("debian-archive-keyring", "Debian's signing keys"),
    ("dpkg-dev", "`apt-get source` asks for it"),
    ("patch", "applies Debian's patches to it"),
    ("xz-utils", "compressed archives"),
    ("bzip2", "compressed archives"),
];

/// The packages that are not installed. `pkgconf` stands for `pkg-config` on newer systems, where
/// the latter is a name that dpkg-query still answers.
pub(crate) fn missing() -> Result<Vec<&'static str>> {
    if !os::debian_like() {
        return Ok(Vec::new());
    }
    // dpkg-query fails when one package is unknown, and still lists the others.
    let query = std::process::Command::new("dpkg-query")
        .args(["-W", "-f", "${db:Status-Status} ${Package}\n"])
        .args(PACKAGES.map(|(name, _)| name))
        .output()?;
    Ok(not_installed(&String::from_utf8_lossy(&query.stdout)))
}

fn not_installed(listing: &str) -> Vec<&'static str> {
    PACKAGES
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| {
            !listing
                .lines()
                .any(|line| line == format!("installed {name}"))
        })
        .collect()
}

/// Installs packages.
pub(crate) fn install(packages: &[&str], progress: &Progress) -> Result<()> {
    let step = progress.step(
        "host-packages",
        format!("installing {}", packages.join(" ")),
    );
    let apt = |args: &[&str]| {
        let env = Cmd::new("env").arg("DEBIAN_FRONTEND=noninteractive");
        sudo::as_root(env.args(["apt-get", "-q", "-y"]).args(args))
    };
    apt(&["update"])
        .hint("`apt-get update` must work on this machine first; mend its apt configuration")
        .run(&step)?;
    apt(&["install", "--no-install-recommends"])
        .args(packages)
        .hint(format!(
            "install these packages yourself, then run the same command again: {}",
            packages.join(" ")
        ))
        .run(&step)?;
    step.done();
    Ok(())
}

/// What a person on a system without apt has to bring.
pub(crate) fn explain_foreign() -> Result<()> {
    bail!(
        "{} is not Debian-like, so setup cannot fetch anything here. Building the plugins needs:\n  \
         - a C compiler, make, pkg-config\n  \
         - libclang (bindgen reads Slurm's headers with it)\n  \
         - munge's headers (munge-devel or the like)\n  \
         - the source tree of the very Slurm release that runs:  SLURM_SRC=<folder with META>\n  \
         - that tree configured (config.h, slurm/slurm_version.h): SLURM_BUILD=<folder>, \
         unless configured in place\n\
         Then: SLURM_SRC=... SLURM_BUILD=... cargo xtask build --slurm-src \"$SLURM_SRC\"\n\
         Tests on real daemons need a Debian-like host (roots are made by debootstrap).",
        os::pretty_name()
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_missing_is_asked_for() {
        let listing: String = PACKAGES
            .iter()
            .filter(|(name, _)| *name != "patch")
            .map(|(name, _)| match *name {
                "bzip2" => "config-files bzip2\n".to_owned(),
                name => format!("installed {name}\n"),
            })
            .collect();
        assert_eq!(not_installed(&listing), ["patch", "bzip2"]);
    }

    #[test]
    fn nothing_of_slurm_is_installed_on_the_host() {
        for (name, _) in PACKAGES {
            assert!(!name.contains("slurm") && name != "munge" && !name.contains("maria"));
        }
    }
}
