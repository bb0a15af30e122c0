//! Root's rights, by sudo and only where they are needed.

use anyhow::{Result, bail};

use crate::run::Cmd;

/// Whether we run as root.
pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// The same command with root's rights.
pub(crate) fn as_root(cmd: Cmd) -> Cmd {
    if is_root() {
        cmd
    } else {
        cmd.under(&["sudo", "--"])
    }
}

/// A cargo command whose programs, not cargo itself, run with root's rights: clusters need namespaces,
/// mounts and device nodes. Under sudo they keep the variables that they are told by.
pub(crate) fn programs_as_root(cmd: Cmd) -> Cmd {
    const RUNNER: &str = "sudo --preserve-env=SGPU_CACHE,SGPU_DIST,SGPU_SLURM,CARGO,PATH,CI --";
    if is_root() {
        return cmd;
    }
    let target = format!(
        "{}_UNKNOWN_LINUX_GNU",
        std::env::consts::ARCH.to_uppercase()
    );
    cmd.env(&format!("CARGO_TARGET_{target}_RUNNER"), RUNNER)
}

/// Makes sure that root's rights can be had, asking for the password now rather than in the
/// middle of a step.
pub(crate) fn ready(why: &str) -> Result<()> {
    if is_root() {
        return Ok(());
    }
    if Cmd::new("sudo").args(["-n", "true"]).output().is_ok() {
        return Ok(());
    }
    if std::process::Command::new("sudo")
        .arg("-V")
        .output()
        .is_err()
    {
        bail!("root's rights are needed {why}, and there is no sudo here: run this as root");
    }
    eprintln!("root's rights are needed {why}: sudo may ask for your password");
    let asked = std::process::Command::new("sudo").arg("-v").status();
    if !asked.is_ok_and(|status| status.success()) {
        bail!(
            "root's rights are needed {why}, and sudo gave none: run this as root, or allow sudo"
        );
    }
    Ok(())
}
