//! `cargo xtask setup`: everything that builds and tests need, made once.

use std::time::Instant;

use anyhow::{Context, Result};

use crate::apt::{Apt, Mirrors};
use crate::hostpkgs;
use crate::interrupt;
use crate::lock;
use crate::os;
use crate::paths::Paths;
use crate::release::{self, RELEASES, Release, Support};
use crate::rootfs::{self, Root};
use crate::source::{self, Fetched, Own, Tree};
use crate::step::{Progress, seconds};
use crate::sudo;

/// Fetch and make what builds and tests need: headers, Debian roots with Slurm, Slurm's source.
///
/// Installs compilers and headers on the host (by apt, on Debian-like systems, only what is
/// missing) and nothing of Slurm, munge or MariaDB: these live in Debian roots under
/// $XDG_CACHE_HOME/sgpu (default ~/.cache/sgpu, or SGPU_CACHE), which clones share and `cargo xtask
/// clean` removes. What is complete is kept; a second run does nothing.
#[derive(clap::Args, Debug, Default)]
#[command(after_help = "\
Environment:
  SLURM_SRC, SLURM_BUILD  a Slurm source tree of your own, and the folder it was configured in:
                          used for that version instead of a fetched one
  SGPU_DEBIAN_MIRROR      a debian/ archive to use instead of the one in the apt configuration
  SGPU_DEBIAN_SECURITY    the debian-security/ archive that goes with it
  SGPU_CACHE              another cache folder
Layout:
  <cache>/roots/<suite>                 Debian root with that suite's Slurm
  <cache>/stock/<version>/gpu_nvml.so   the distribution's plugin, which tests compare with
  target/slurm/<version>/{src,build}    Slurm's source, configured")]
pub(crate) struct Args {
    /// A Slurm release or its root's full version, may be repeated [default: 22.05 and 24.11]
    #[arg(long, value_name = "RELEASE", value_parser = release::parser())]
    slurm: Vec<&'static Release>,
    /// All known releases, 26.05 too
    #[arg(long, conflicts_with = "slurm")]
    all: bool,
}

/// What setup gives for one release.
#[derive(Clone, Debug)]
pub(crate) struct Ready {
    /// The release.
    pub(crate) release: &'static Release,
    /// Its root.
    pub(crate) root: Root,
    /// Its source; none where the archives have it not.
    pub(crate) tree: Option<Tree>,
}

/// A release that could not be set up.
#[derive(Debug)]
pub(crate) struct Missing {
    /// The release.
    pub(crate) release: &'static Release,
    /// What went wrong.
    pub(crate) why: anyhow::Error,
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> Result<()> {
    let begun = Instant::now();
    let paths = Paths::find()?;
    let wanted = if args.all {
        RELEASES.iter().collect()
    } else {
        release::chosen(&args.slurm)
    };
    if !os::debian_like() {
        return foreign(&paths);
    }
    let all = ensure(&paths, &wanted)?;
    if let Some(own) = Tree::of_env()?
        && !all.iter().any(|ready| ready.root.slurm == own.version)
    {
        eprintln!(
            "note: SLURM_SRC is Slurm {}, which none of the roots runs, and is not used here; \
             `cargo xtask build --slurm-src` builds for it",
            own.version
        );
    }
    for ready in all {
        let source = match &ready.tree {
            Some(tree) => format!("source {}", paths.short(&tree.src).display()),
            None => "no source to be had: parts over the public headers only".to_owned(),
        };
        eprintln!(
            "ready: Slurm {} of Debian {}, root {}, {source}",
            ready.root.slurm,
            ready.release.suite,
            ready.root.dir.display()
        );
    }
    eprintln!("setup took {}", seconds(begun));
    Ok(())
}

/// On a system without apt only a source tree of the admin's own can be set up.
fn foreign(paths: &Paths) -> Result<()> {
    let Some(own) = Tree::of_env()? else {
        return hostpkgs::explain_foreign();
    };
    let progress = Progress::new(1, paths.logs());
    let step = progress.step(
        "configure-own",
        format!("configuring Slurm {}", own.version),
    );
    let tree = own.configured(paths, &step)?;
    step.done();
    eprintln!(
        "ready: Slurm {}, source {}, build {}. No roots are made on {}: tests on real daemons need \
         a Debian-like host",
        tree.version,
        tree.src.display(),
        tree.build.display(),
        os::pretty_name()
    );
    Ok(())
}

/// Makes what is missing for these releases.
pub(crate) fn ensure(paths: &Paths, wanted: &[&'static Release]) -> Result<Vec<Ready>> {
    let (ready, missing) = attempt(paths, wanted)?;
    all_there(missing)?;
    Ok(ready)
}

/// Makes what is missing for these releases, and gives those that cannot be had of a Debian that is still in
/// the making: what its archive has is of the day, and it may bring the next Slurm tomorrow.
pub(crate) fn ensure_available(
    paths: &Paths,
    wanted: &[&'static Release],
) -> Result<(Vec<Ready>, Vec<Missing>)> {
    let (ready, missing) = attempt(paths, wanted)?;
    let (needed, missing) = missing
        .into_iter()
        .partition(|missing| missing.release.stable);
    all_there(needed)?;
    Ok((ready, missing))
}

/// Shows all that failed; the last one goes up.
fn all_there(missing: Vec<Missing>) -> Result<()> {
    let mut failure: Option<anyhow::Error> = None;
    for missing in missing {
        if let Some(earlier) = failure.replace(missing.why) {
            eprintln!("\nerror: {earlier:#}");
        }
    }
    failure.map_or(Ok(()), Err)
}

/// Tries it with each release.
fn attempt(paths: &Paths, wanted: &[&'static Release]) -> Result<(Vec<Ready>, Vec<Missing>)> {
    if !os::debian_like() {
        hostpkgs::explain_foreign()?;
    }
    let own = Tree::of_env()?;
    let _lock = lock::take(paths)?;
    let packages = hostpkgs::missing()?;
    let plans: Vec<Plan> = wanted
        .iter()
        .map(|release| Plan::of(paths, release, &own))
        .collect();
    let steps = plans.iter().map(Plan::steps).sum::<usize>() + usize::from(!packages.is_empty());
    if plans.iter().any(|plan| plan.root) || !packages.is_empty() {
        sudo::ready("to install packages and to make Debian roots")?;
    }
    let progress = Progress::new(steps, paths.logs());
    if !packages.is_empty() {
        hostpkgs::install(&packages, &progress)?;
    }
    let mirrors = plans
        .iter()
        .any(Plan::fetches)
        .then(Mirrors::of_host)
        .transpose()?;
    // Each release in a thread: downloads, unpacking and configuring of two go well together.
    let outcomes: Vec<Result<Ready>> = std::thread::scope(|scope| {
        let threads: Vec<_> = plans
            .iter()
            .map(|plan| {
                let (progress, mirrors, own) = (&progress, mirrors.as_ref(), &own);
                scope.spawn(move || {
                    one(paths, plan, mirrors, own, progress)
                        .with_context(|| format!("setting up Slurm {}", plan.release.name))
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|_| anyhow::bail!("a thread panicked"))
            })
            .collect()
    });
    interrupt::check()?;
    let (mut ready, mut missing) = (Vec::new(), Vec::new());
    for (plan, outcome) in plans.iter().zip(outcomes) {
        match outcome {
            Ok(one) => ready.push(one),
            Err(why) => missing.push(Missing {
                release: plan.release,
                why,
            }),
        }
    }
    Ok((ready, missing))
}

/// What is missing for a release.
#[derive(Debug)]
struct Plan {
    release: &'static Release,
    root: bool,
    source: bool,
    configure: bool,
    oracle: bool,
}

impl Plan {
    fn of(paths: &Paths, release: &'static Release, own: &Option<Own>) -> Self {
        let root = Root::find(paths, release);
        let version = root.as_ref().map(|root| root.slurm);
        // An own tree serves its version; before the root is there, its release is all we know.
        let has_own = own.as_ref().is_some_and(|own| match version {
            Some(version) => own.version == version,
            None => own.version.is_of(release.name),
        });
        let configured =
            has_own || version.is_some_and(|version| Tree::find(paths, version).is_some());
        let full = release.support == Support::Full;
        let given_up = !full && version.is_some_and(|v| source::is_given_up(paths, v));
        Self {
            release,
            root: root.is_none(),
            source: !configured
                && !given_up
                && !version.is_some_and(|version| source::is_fetched(paths, version)),
            configure: !configured && !given_up,
            oracle: full
                && !version.is_some_and(|version| paths.stock(&version.to_string()).is_file()),
        }
    }

    fn fetches(&self) -> bool {
        self.root || self.source || self.oracle
    }

    fn steps(&self) -> usize {
        usize::from(self.fetches())
            + [self.root, self.source, self.configure, self.oracle]
                .into_iter()
                .filter(|missing| *missing)
                .count()
    }
}

/// Makes what is missing for one release.
fn one(
    paths: &Paths,
    plan: &Plan,
    mirrors: Option<&Mirrors>,
    own: &Option<Own>,
    progress: &Progress,
) -> Result<Ready> {
    let release = plan.release;
    let slug = |what: &str| format!("{what}-{}", release.suite);
    let apt = match mirrors.filter(|_| plan.fetches()) {
        Some(mirrors) => {
            let apt = Apt::new(paths, release, mirrors)?;
            let step = progress.step(
                &slug("lists"),
                format!("fetching Debian {}'s package lists", release.suite),
            );
            apt.update(&step)?;
            step.done();
            Some((apt, mirrors))
        }
        None => None,
    };
    let apt = apt.as_ref();
    let root = match Root::find(paths, release) {
        Some(root) => root,
        None => {
            let (apt, mirrors) = apt.context("no archive to make the root from")?;
            let step = progress.step(
                &slug("root"),
                format!(
                    "making the Debian {} root with Slurm {}",
                    release.suite, release.name
                ),
            );
            let root = rootfs::make(paths, release, apt, mirrors, &step)?;
            step.done_with(&format!("Slurm {}", root.slurm));
            root
        }
    };
    let own = own.as_ref().filter(|own| own.version == root.slurm);
    let tree = match own {
        Some(own) => {
            let step = progress.step(
                &slug("configure"),
                format!("using SLURM_SRC for Slurm {}", root.slurm),
            );
            let tree = own.clone().configured(paths, &step)?;
            step.done();
            Some(tree)
        }
        None => fetched_tree(paths, plan, &root, apt.map(|(apt, _)| apt), progress)?,
    };
    if plan.oracle && !paths.stock(&root.slurm.to_string()).is_file() {
        let (apt, _) = apt.context("no archive to take the stock plugin from")?;
        let step = progress.step(
            &slug("stock"),
            format!(
                "fetching the distribution's gpu_nvml.so of Slurm {}",
                root.slurm
            ),
        );
        crate::oracle::fetch(paths, &root, apt, &step)?;
        step.done();
    }
    if let Some((apt, _)) = apt {
        apt.tidy()?;
    }
    Ok(Ready {
        release,
        root,
        tree,
    })
}

/// The configured source of the root's Slurm; none when the archives have it not and the release
/// can do without.
fn fetched_tree(
    paths: &Paths,
    plan: &Plan,
    root: &Root,
    apt: Option<&Apt>,
    progress: &Progress,
) -> Result<Option<Tree>> {
    let suite = plan.release.suite;
    let version = root.slurm;
    if let Some(tree) = Tree::find(paths, version) {
        return Ok(Some(tree));
    }
    if !source::is_fetched(paths, version) {
        let Some(apt) = apt else { return Ok(None) };
        let step = progress.step(
            &format!("source-{suite}"),
            format!("fetching the source of Slurm {version}"),
        );
        match source::fetch(paths, root, apt, &step) {
            Ok(Fetched::Patched) => step.done_with("with Debian's patches"),
            Ok(Fetched::Bare) => step.done_with(
                "upstream's tarball: the archives lack Debian's patches today, which change no \
                 struct that a plugin reads",
            ),
            Err(error) if plan.release.support == Support::PublicApi => {
                interrupt::check()?;
                source::give_up(paths, version, &error)?;
                step.done_with(&format!(
                    "not to be had from the archives; going on with the public headers. Plugins \
                     over internal headers need SLURM_SRC=<source tree of {version}>"
                ));
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
    }
    let step = progress.step(
        &format!("configure-{suite}"),
        format!("configuring Slurm {version}"),
    );
    let tree = source::configure(paths, version, &step)?;
    step.done();
    Ok(Some(tree))
}
