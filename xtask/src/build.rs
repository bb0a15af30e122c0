//! `cargo xtask build`: plugins for one Slurm release each, and the fake NVML that tests use.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::elf;
use crate::fsx;
use crate::musl;
use crate::os;
use crate::paths::Paths;
use crate::plugins::{self, PROGRAMS, Plugin, Program};
use crate::release::{self, RELEASES, Release};
use crate::rootfs::Root;
use crate::run::Cmd;
use crate::setup::{self, Ready};
use crate::source::{Own, Tree};
use crate::step::{Progress, Step};
use crate::version::Version;

/// What Slurm's daemons need of a plugin's linking; see .cargo/config.toml.
const RELRO: [&str; 2] = ["-C", "relro-level=partial"];

/// Build the plugins for a Slurm release into target/dist/VERSION/.
///
/// A plugin serves exactly one Slurm version: it is built from that version's own headers, and the
/// build stops when source tree and daemons are of different versions. Without arguments it builds
/// for every fully supported release, or for SLURM_SRC if that is set; what `cargo xtask setup`
/// would fetch is fetched first.
#[derive(clap::Args, Debug, Default)]
#[command(after_help = "\
Examples:
  cargo xtask build                                  for 22.05 and 24.11
  cargo xtask build --slurm 24.11 --debug
  cargo xtask build --slurm-src ~/slurm-24.11.5      for a source tree of your own (or SLURM_SRC=...)
  cargo xtask build --fake-nvml                      target/dist/fake-nvml/libnvidia-ml.so.1

For your own tree the daemons' public headers are looked for in SLURM_INCLUDE, then in a root of
that version, then in /usr/include; a version that differs from the tree's stops the build, and
without any headers a warning says that nothing was compared.
A tree that was not configured is configured under target/slurm/VERSION-own/, and stays as it is.
Plugins go to target/dist/VERSION/ by the tree's own version, so they replace those that were built
for the same version from other sources, and no others; a note says so.")]
pub(crate) struct Args {
    /// A Slurm release or its root's full version, may be repeated [default: 22.05 and 24.11]
    #[arg(long, value_name = "RELEASE", value_parser = release::parser())]
    slurm: Vec<&'static Release>,
    /// Build for this Slurm source tree (it has META in it)
    #[arg(long, value_name = "DIR", conflicts_with = "slurm")]
    slurm_src: Option<PathBuf>,
    /// The folder that tree was configured in [default: the tree itself, or configured here]
    #[arg(long, value_name = "DIR", requires = "slurm_src")]
    slurm_build: Option<PathBuf>,
    /// Build without optimisation
    #[arg(long)]
    debug: bool,
    /// Build the plugins with faults that tests provoke, into target/dist/VERSION-fault/
    #[arg(long)]
    fault: bool,
    /// Build the fake NVML; alone, it builds no plugin
    #[arg(long)]
    fake_nvml: bool,
}

/// Beside plugins: the source tree that they were built from.
const BUILT_FROM: &str = ".built-from";

/// What the plugins are built for.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    version: Version,
    /// The source; none where it is not to be had, which leaves the plugins over public headers.
    tree: Option<Tree>,
    /// The public headers of the daemons; none if there are no daemons to compare with.
    include: Option<PathBuf>,
}

/// How the plugins are built.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct How {
    /// Without optimisation.
    pub(crate) debug: bool,
    /// With provokable faults.
    pub(crate) fault: bool,
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> Result<()> {
    let paths = Paths::find()?;
    if args.fake_nvml {
        let progress = Progress::new(1, paths.logs());
        fake_nvml(&paths, &progress)?;
        if args.slurm.is_empty() && args.slurm_src.is_none() && !args.fault {
            return Ok(());
        }
    }
    let own = match &args.slurm_src {
        Some(src) => Some(Own::new(src, args.slurm_build.clone())?),
        None if args.slurm.is_empty() => Tree::of_env()?,
        None => None,
    };
    let targets = match own {
        Some(own) => vec![own_target(&paths, own)?],
        None if !os::debian_like() => return crate::hostpkgs::explain_foreign(),
        None => setup::ensure(&paths, &release::chosen(&args.slurm))?
            .iter()
            .map(Target::of)
            .collect::<Result<_>>()?,
    };
    let how = How {
        debug: args.debug,
        fault: args.fault,
    };
    let progress = Progress::new(targets.len(), paths.logs());
    for target in &targets {
        let dir = plugins_for(&paths, target, how, &progress)?;
        eprintln!("built: {}", paths.short(&dir).display());
    }
    Ok(())
}

impl Target {
    /// The target that setup made ready.
    pub(crate) fn of(ready: &Ready) -> Result<Self> {
        Self {
            version: ready.root.slurm,
            tree: ready.tree.clone(),
            include: Some(ready.root.include()),
        }
        .checked()
    }

    /// The Slurm version.
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// The plugins that are built for it.
    pub(crate) fn plugins(&self) -> Vec<&'static Plugin> {
        plugins::of(self.version, self.has_source())
    }

    /// Whether plugins over internal headers are among them.
    pub(crate) fn has_source(&self) -> bool {
        self.tree.is_some()
    }

    /// Stops a build of which the source is not the daemons' own: a plugin built so would corrupt
    /// their memory.
    fn checked(self) -> Result<Self> {
        if let (Some(include), Some(tree)) = (&self.include, &self.tree) {
            let (version, daemon) = (tree.version, Version::of_headers(include)?);
            if daemon != version {
                bail!(
                    "the source tree {} is Slurm {version}, but the daemons' headers in {} are \
                     Slurm {daemon}: build from the source of the very version that runs",
                    tree.src.display(),
                    include.display()
                );
            }
        }
        Ok(self)
    }
}

/// A tree of the admin's own, with the public headers of the daemons that it is for.
fn own_target(paths: &Paths, own: Own) -> Result<Target> {
    let include = public_headers(paths, own.version);
    let progress = Progress::new(1, paths.logs());
    let step = progress.step("configure-own", format!("looking at Slurm {}", own.version));
    let tree = own.configured(paths, &step)?;
    step.done();
    if include.is_none() {
        eprintln!("{}", not_compared(tree.version));
    }
    Target {
        version: tree.version,
        tree: Some(tree),
        include,
    }
    .checked()
}

/// What a person must know who builds where there are no daemons' headers.
fn not_compared(version: Version) -> String {
    format!(
        "warning: no headers of the running daemons are known here, so their version was not compared: \
         these plugins serve Slurm {version} exactly, and no other. SLURM_INCLUDE=<folder with \
         slurm/slurm_version.h> names the headers"
    )
}

fn public_headers(paths: &Paths, version: Version) -> Option<PathBuf> {
    let named = std::env::var_os("SLURM_INCLUDE").filter(|value| !value.is_empty());
    if let Some(named) = named {
        return Some(named.into());
    }
    let root = RELEASES
        .iter()
        .filter_map(|release| Root::find(paths, release))
        .find(|root| root.slurm == version);
    if let Some(root) = root {
        return Some(root.include());
    }
    let system = Path::new("/usr/include");
    system
        .join("slurm/slurm_version.h")
        .is_file()
        .then(|| system.to_owned())
}

/// Builds and checks the plugins of one target; gives back the folder they are in.
pub(crate) fn plugins_for(
    paths: &Paths,
    target: &Target,
    how: How,
    progress: &Progress,
) -> Result<PathBuf> {
    let version = target.version();
    let suffix = if how.fault { "-fault" } else { "" };
    let plugins = target.plugins();
    let step = progress.step(
        &format!("build-{version}{suffix}"),
        format!(
            "building {} plugins and {} programs for Slurm {version}{}",
            plugins.len(),
            PROGRAMS.len(),
            if how.fault { ", with faults" } else { "" }
        ),
    );
    // A dir for the faults too: in one, each kind would be linked anew after the other.
    let out = paths.target().join(format!("slurm-{version}{suffix}"));
    let mut cmd = cargo_for(paths, target, "build", &out);
    if !how.debug {
        cmd = cmd.arg("--release");
    }
    for plugin in &plugins {
        cmd = cmd.args(["-p", plugin.package]);
    }
    if how.fault {
        let faults: Vec<String> = plugins
            .iter()
            .map(|plugin| format!("{}/fault", plugin.package))
            .collect();
        cmd = cmd.args(["--features", &faults.join(",")]);
    }
    cmd.run(&step)?;
    let dir = paths.dist().join(format!("{version}{suffix}"));
    let earlier = fs::read_to_string(dir.join(BUILT_FROM)).ok();
    collect(&plugins, version, &out.join(profile(how.debug)), &dir)?;
    for program in &PROGRAMS {
        let made = self::program(paths, program, how, &step)?;
        fsx::copy_atomic(&made, &dir.join(program.package))?;
    }
    let from = from_note(target);
    fsx::write_atomic(&dir.join(BUILT_FROM), &from)?;
    step.done();
    if let Some(earlier) = earlier
        && let Some(note) = replaced(&earlier, &from, version)
    {
        eprintln!("note: in {} {note}", paths.short(&dir).display());
    }
    Ok(dir)
}

/// What plugins were built from, as kept beside them.
fn from_note(target: &Target) -> String {
    let from = target.tree.as_ref().map(|tree| tree.src.as_path());
    let from = from.or(target.include.as_deref());
    format!("{}\n", from.unwrap_or(Path::new("nothing")).display())
}

/// What to tell when plugins of one version were built from another tree before.
fn replaced(earlier: &str, now: &str, version: Version) -> Option<String> {
    (earlier != now).then(|| {
        format!(
            "the plugins built from {} are replaced by those from {}, both Slurm {version}",
            earlier.trim(),
            now.trim(),
        )
    })
}

/// cargo with the headers of a Slurm.
pub(crate) fn cargo_for(paths: &Paths, target: &Target, verb: &str, out: &Path) -> Cmd {
    let cmd = cargo(paths)
        .arg(verb)
        .arg("--target-dir")
        .arg(out)
        .hint("the log has the compiler's messages");
    let cmd = match &target.tree {
        Some(tree) => cmd
            .env("SLURM_SRC", &tree.src)
            .env("SLURM_BUILD", &tree.build),
        None => cmd.without_env("SLURM_SRC").without_env("SLURM_BUILD"),
    };
    match &target.include {
        Some(include) => cmd.env("SLURM_INCLUDE", include),
        None => cmd.without_env("SLURM_INCLUDE"),
    }
}

/// Checks what cargo made and moves it to where Slurm's names are.
fn collect(plugins: &[&Plugin], version: Version, from: &Path, to: &Path) -> Result<()> {
    let made = |plugin: &Plugin| from.join(format!("lib{}", plugin.file));
    for plugin in plugins {
        elf::check_plugin(&made(plugin), version)?;
    }
    fsx::make_dir(to)?;
    for plugin in plugins {
        fsx::copy_atomic(&made(plugin), &to.join(plugin.file))?;
    }
    Ok(())
}

/// Builds a program and gives the file.
fn program(paths: &Paths, program: &Program, how: How, step: &Step<'_>) -> Result<PathBuf> {
    let out = paths.target().join("programs");
    let mut cmd = cargo(paths)
        .args(["rustc", "-p", program.package, "--target-dir"])
        .arg(&out)
        .hint("the log has the compiler's messages");
    if !how.debug {
        cmd = cmd.arg("--release");
    }
    if !program.is_static {
        cmd.run(step)?;
        return Ok(out.join(profile(how.debug)).join(program.package));
    }
    // At a fixed address it starts sooner: a task has to wait for that.
    let fixed = ["--", "-C", "relocation-model=static"];
    let made = match musl::ensure(step) {
        Ok(target) => {
            cmd.args(["--target", &target]).args(fixed).run(step)?;
            out.join(target)
        }
        Err(error) => {
            eprintln!(
                "note: {} is linked with glibc, and starts later: {error} (see the log)",
                program.package
            );
            let glibc = ["-C", "target-feature=+crt-static"];
            cmd.args(fixed).args(glibc).run(step)?;
            out
        }
    };
    let made = made.join(profile(how.debug)).join(program.package);
    elf::check_static(&made)?;
    Ok(made)
}

/// Builds the fake NVML and puts it under the names that programs look for.
pub(crate) fn fake_nvml(paths: &Paths, progress: &Progress) -> Result<PathBuf> {
    let step = progress.step("build-fake-nvml", "building the fake NVML");
    let out = paths.target().join("fake-nvml");
    cargo(paths)
        .args([
            "build",
            "--release",
            "--lib",
            "-p",
            "fake-nvml",
            "--target-dir",
        ])
        .arg(&out)
        .hint("the log has the compiler's messages")
        .run(&step)?;
    let dir = paths.dist().join("fake-nvml");
    fsx::make_dir(&dir)?;
    fsx::copy_atomic(
        &out.join("release/libfake_nvml.so"),
        &dir.join("libnvidia-ml.so.1"),
    )?;
    let link = dir.join("libnvidia-ml.so");
    if fs::read_link(&link).ok().as_deref() != Some(Path::new("libnvidia-ml.so.1")) {
        drop(fs::remove_file(&link));
        std::os::unix::fs::symlink("libnvidia-ml.so.1", &link)
            .with_context(|| format!("cannot make {}", link.display()))?;
    }
    step.done();
    Ok(dir)
}

/// cargo, at the workspace's root, with the linking that plugins need whatever RUSTFLAGS says.
pub(crate) fn cargo(paths: &Paths) -> Cmd {
    let cmd =
        Cmd::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())).dir(&paths.workspace);
    match merged_rustflags(
        std::env::var_os("CARGO_ENCODED_RUSTFLAGS"),
        std::env::var_os("RUSTFLAGS"),
    ) {
        Some((name, value)) => cmd.env(name, value),
        None => cmd,
    }
}

/// RUSTFLAGS in the environment replace those of .cargo/config.toml: add ours to them.
fn merged_rustflags(
    encoded: Option<OsString>,
    plain: Option<OsString>,
) -> Option<(&'static str, OsString)> {
    let (name, mut value, space) = match (encoded, plain) {
        (Some(encoded), _) => ("CARGO_ENCODED_RUSTFLAGS", encoded, "\x1f"),
        (None, Some(plain)) => ("RUSTFLAGS", plain, " "),
        (None, None) => return None,
    };
    if value.to_string_lossy().contains(RELRO[1]) {
        return None;
    }
    for flag in RELRO {
        if !value.is_empty() {
            value.push(space);
        }
        value.push(flag);
    }
    Some((name, value))
}

fn profile(debug: bool) -> &'static str {
    if debug { "debug" } else { "release" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rustflags_keep_the_relro_level() {
        let merged = |encoded: Option<&str>, plain: Option<&str>| {
            merged_rustflags(encoded.map(Into::into), plain.map(Into::into))
                .map(|(name, value)| (name, value.into_string().unwrap()))
        };
        assert_eq!(merged(None, None), None);
        assert_eq!(
            merged(None, Some("-D warnings")),
            Some(("RUSTFLAGS", "-D warnings -C relro-level=partial".to_owned()))
        );
        assert_eq!(
            merged(None, Some("")),
            Some(("RUSTFLAGS", "-C relro-level=partial".to_owned()))
        );
        assert_eq!(
            merged(Some("-Dwarnings"), Some("x")),
            Some((
                "CARGO_ENCODED_RUSTFLAGS",
                "-Dwarnings\x1f-C\x1frelro-level=partial".to_owned()
            ))
        );
        assert_eq!(merged(None, Some("-C relro-level=partial")), None);
    }

    #[test]
    fn plugins_of_another_tree_are_not_replaced_in_silence() {
        let version = Version::parse("24.11.5").unwrap();
        let note = |src: &str| {
            from_note(&Target {
                version,
                tree: Some(Tree {
                    src: src.into(),
                    build: "/build".into(),
                    version,
                }),
                include: None,
            })
        };
        assert_eq!(
            replaced(&note("/archive"), &note("/archive"), version),
            None
        );
        let told = replaced(&note("/archive"), &note("/own"), version).unwrap();
        for part in ["/archive", "/own", "24.11.5"] {
            assert!(told.contains(part), "{part} is not in {told}");
        }
    }

    #[test]
    fn a_version_that_was_not_compared_is_a_warning() {
        let told = not_compared(Version::parse("24.11.7").unwrap());
        assert!(told.starts_with("warning: ") && told.contains("24.11.7"));
    }

    #[test]
    fn a_tree_of_another_version_than_the_daemons_stops_the_build() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("slurm")).unwrap();
        fs::write(
            dir.path().join("slurm/slurm_version.h"),
            "#define SLURM_VERSION_NUMBER 0x180b05\n",
        )
        .unwrap();
        let target = |version| {
            let version = Version::parse(version).unwrap();
            Target {
                version,
                tree: Some(Tree {
                    src: "/src".into(),
                    build: "/build".into(),
                    version,
                }),
                include: Some(dir.path().to_owned()),
            }
        };
        target("24.11.5").checked().unwrap();
        let error = target("24.11.4").checked().unwrap_err().to_string();
        for part in [
            "24.11.4",
            "24.11.5",
            "/src",
            &dir.path().display().to_string(),
        ] {
            assert!(error.contains(part), "{part} is not in {error}");
        }
    }
}
