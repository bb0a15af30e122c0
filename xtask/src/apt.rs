//! Debian's archives by private apt settings: own sources, lists and cache for each suite, so
//! that the host's apt is read and never changed.
//!
//! The mirror's address comes from the host's own apt configuration, or from the variables
//! `SGPU_DEBIAN_MIRROR` and `SGPU_DEBIAN_SECURITY`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::fsx;
use crate::paths::Paths;
use crate::release::Release;
use crate::run::{Cmd, Failed};
use crate::step::Step;

/// The keys that Debian signs its archives with.
pub(crate) const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Names under which a Debian archive may be configured.
const SUITES: [&str; 9] = [
    "bookworm",
    "trixie",
    "forky",
    "sid",
    "oldoldstable",
    "oldstable",
    "stable",
    "testing",
    "unstable",
];

/// What to do when an archive doesn't answer.
pub(crate) const MIRROR_HINT: &str = "see whether this machine reaches its Debian mirror (a proxy, the network, a wrong address in \
     the apt configuration?), then run the same command again: what is fetched is kept. Another \
     mirror can be named by SGPU_DEBIAN_MIRROR=<address of a debian/ archive> (and \
     SGPU_DEBIAN_SECURITY)";

/// The sources list of all archives of a suite.
const SOURCES: &str = "sources.list";
/// The sources list of each archive, and whether it is the security one.
const ARCHIVES: [(&str, bool); 2] = [("main.list", false), ("security.list", true)];

/// The two archives a suite comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mirrors {
    /// The main archive, as apt takes it.
    main: String,
    /// The security archive, when the host knows one.
    security: Option<String>,
}

/// A repository in the host's apt configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Target {
    uri: String,
    release: String,
    component: String,
    /// Known when the host has fetched the repository's release file.
    origin: Option<String>,
}

impl Mirrors {
    /// Reads them from the environment or from the host's apt configuration.
    pub(crate) fn of_host() -> Result<Self> {
        let var = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        if let Some(main) = var("SGPU_DEBIAN_MIRROR") {
            return Ok(Self {
                main,
                security: var("SGPU_DEBIAN_SECURITY"),
            });
        }
        let bare = "$(REPO_URI)|$(RELEASE)|$(COMPONENT)|";
        let list = |args: &[&str], format: &str| {
            Cmd::new("apt-get")
                .arg("indextargets")
                .args(args)
                .args(["--format", format, "Created-By: Packages"])
                .output()
        };
        // With release files apt tells the origin too, but only of repositories that were fetched.
        let mut targets = parse_targets(&list(&[], &format!("{bare}$(ORIGIN)"))?);
        targets.extend(parse_targets(&list(&["--no-release-info"], bare)?));
        choose(&targets).context(
            "this machine's apt configuration names no Debian archive (looked at: apt-get \
             indextargets). Name one: SGPU_DEBIAN_MIRROR=<address of a debian/ archive>",
        )
    }

    /// The main archive as debootstrap takes it: one address.
    pub(crate) fn for_debootstrap(&self) -> Result<String> {
        let Some(list) = self.main.strip_prefix("mirror+file:") else {
            return Ok(self.main.clone());
        };
        let path = Path::new("/").join(list.trim_start_matches('/').trim_end_matches('/'));
        let text = fs::read_to_string(&path)
            .with_context(|| format!("cannot read the mirror list {}", path.display()))?;
        first_of_mirror_list(&text)
            .with_context(|| format!("the mirror list {} is empty", path.display()))
    }
}

/// `uri|release|component|origin` lines; a variable that apt doesn't know stays as it is.
fn parse_targets(output: &str) -> Vec<Target> {
    output
        .lines()
        .filter_map(|line| {
            let mut fields = line.split('|');
            let mut next = || fields.next().map(str::trim);
            Some(Target {
                uri: next().filter(|uri| uri.contains(':'))?.to_owned(),
                release: next()?.trim_end_matches('/').to_owned(),
                component: next()?.to_owned(),
                origin: next()
                    .filter(|origin| !origin.is_empty() && !origin.starts_with("$("))
                    .map(str::to_owned),
            })
        })
        .collect()
}

/// Picks Debian's own archives among all that the host has. Other vendors use the same release
/// names, so an archive whose origin is known goes first, then one that also has `-updates`.
fn choose(targets: &[Target]) -> Option<Mirrors> {
    let usable = |target: &&Target| {
        target.component == "main"
            && !target.uri.starts_with("cdrom:")
            && target.origin.as_deref().is_none_or(|origin| origin == "Debian")
            // The same address may be listed twice, once with its origin known.
            && !targets.iter().any(|other| {
                other.uri == target.uri
                    && other.origin.as_deref().is_some_and(|origin| origin != "Debian")
            })
    };
    let rank = |target: &&Target| {
        let updates = targets
            .iter()
            .any(|other| other.uri == target.uri && other.release.ends_with("-updates"));
        (target.origin.is_none(), !updates)
    };
    let main = targets
        .iter()
        .filter(usable)
        .filter(|target| SUITES.contains(&target.release.as_str()) && !is_security_uri(&target.uri))
        .min_by_key(rank)?;
    let security = targets
        .iter()
        .filter(usable)
        .filter(|target| is_security_release(&target.release) || is_security_uri(&target.uri))
        .min_by_key(rank);
    Some(Mirrors {
        main: main.uri.clone(),
        security: security.map(|target| target.uri.clone()),
    })
}

fn is_security_uri(uri: &str) -> bool {
    let uri = uri.trim_end_matches('/').trim_end_matches(".list");
    uri.ends_with("-security")
}

fn is_security_release(release: &str) -> bool {
    release
        .strip_suffix("-security")
        .is_some_and(|suite| SUITES.contains(&suite))
}

fn first_of_mirror_list(text: &str) -> Option<String> {
    text.lines()
        .filter_map(|line| line.split_whitespace().next())
        .find(|word| !word.starts_with('#'))
        .map(str::to_owned)
}

/// The private apt settings of one suite.
#[derive(Debug)]
pub(crate) struct Apt {
    dir: PathBuf,
    suite: &'static str,
    stable: bool,
    mirrors: Mirrors,
}

impl Apt {
    /// Writes the settings; [`Apt::update`] fetches the lists.
    pub(crate) fn new(paths: &Paths, release: &Release, mirrors: &Mirrors) -> Result<Self> {
        let apt = Self {
            dir: paths.cache.join("apt").join(release.suite),
            suite: release.suite,
            stable: release.stable,
            mirrors: mirrors.clone(),
        };
        for sub in ["empty", "lists/partial", "cache/archives/partial"] {
            fsx::make_dir(&apt.dir.join(sub))?;
        }
        let own = Cmd::new("apt-config").arg("dump").output()?;
        let settings = render_settings(&apt.dir, &own, crate::sudo::is_root());
        fsx::write_atomic(&apt.dir.join("apt.conf"), settings)?;
        apt.write_sources(true)?;
        Ok(apt)
    }

    fn write_sources(&self, beside: bool) -> Result<()> {
        let text = render_sources(self.suite, self.stable && beside, &self.mirrors);
        fsx::write_atomic(&self.dir.join(SOURCES), &text)?;
        // Each archive by itself too: apt looks for a package's files in one archive only.
        for (name, security) in ARCHIVES {
            let own: String = text
                .lines()
                .filter(|line| line.contains("-security main") == security)
                .map(|line| format!("{line}\n"))
                .collect();
            fsx::write_atomic(&self.dir.join(name), own)?;
        }
        Ok(())
    }

    /// An `apt-get` command for each of the suite's archives alone: the same version may be in
    /// two, with other files missing in each.
    pub(crate) fn get_each(&self, args: &[&str]) -> Vec<Cmd> {
        ARCHIVES
            .iter()
            .map(|(name, _)| self.dir.join(name))
            // A suite may have no security archive.
            .filter(|list| fs::read_to_string(list).is_ok_and(|text| text.contains("deb-src")))
            .map(|list| {
                self.get(&["-o", &format!("Dir::Etc::sourcelist={}", list.display())])
                    .args(args)
            })
            .collect()
    }

    /// Removes lists and downloads: the next setup that needs them fetches them anew.
    pub(crate) fn tidy(&self) -> Result<()> {
        fsx::remove_dir(&self.dir)
    }

    /// Fetches the lists.
    pub(crate) fn update(&self, step: &Step<'_>) -> Result<()> {
        let update = self.get(&["update", "--error-on=any"]).hint(MIRROR_HINT);
        let Err(error) = update.run(step) else {
            return Ok(());
        };
        let missing = error
            .downcast_ref::<Failed>()
            .is_some_and(|failed| failed.tail().contains("does not have a Release file"));
        if !(missing && self.stable) {
            return Err(error);
        }
        // A mirror may be without -updates or -security of a suite: the main part will do.
        self.write_sources(false)?;
        update
            .hint(format!(
                "the Debian mirror that this machine's apt configuration names seems not to carry \
                 {}. Name one that does: SGPU_DEBIAN_MIRROR=<address of a debian/ archive>",
                self.suite
            ))
            .run(step)
    }

    /// An `apt-get` command under the private settings.
    pub(crate) fn get(&self, args: &[&str]) -> Cmd {
        self.tool("apt-get").args(["-q", "-y"]).args(args)
    }

    /// An `apt-cache` command under the private settings.
    pub(crate) fn cache(&self, args: &[&str]) -> Cmd {
        self.tool("apt-cache").args(args)
    }

    fn tool(&self, name: &str) -> Cmd {
        Cmd::new(name)
            .env("APT_CONFIG", self.dir.join("apt.conf"))
            .env("LC_ALL", "C")
            .env("DEBIAN_FRONTEND", "noninteractive")
    }

    /// Whether the suite has a binary package.
    pub(crate) fn has_package(&self, name: &str) -> bool {
        self.cache(&["show", "--no-all-versions", name])
            .output()
            .is_ok()
    }

    /// All versions of a package that the suite's archives have, as `apt-cache show` (binary) or
    /// `showsrc` (source) lists them.
    pub(crate) fn versions(&self, show: &[&str], package: &str) -> Result<Vec<String>> {
        let text = self.cache(show).arg(package).output().unwrap_or_default();
        Ok(versions_in(&text, package))
    }

    /// Downloads a binary package of exactly this version into `dir`.
    pub(crate) fn download(
        &self,
        package: &str,
        version: &str,
        dir: &Path,
        step: &Step<'_>,
    ) -> Result<PathBuf> {
        self.get(&["download", &format!("{package}={version}")])
            .dir(dir)
            .hint(MIRROR_HINT)
            .run(step)?;
        let found = fs::read_dir(dir)
            .with_context(|| format!("cannot read {}", dir.display()))?
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .find(|path| path.extension().is_some_and(|ext| ext == "deb"));
        match found {
            Some(path) => Ok(path),
            None => bail!("apt-get download left no package in {}", dir.display()),
        }
    }
}

/// The versions of stanzas that are about `package` itself.
fn versions_in(text: &str, package: &str) -> Vec<String> {
    let mut versions: Vec<String> = Vec::new();
    for stanza in text.split("\n\n") {
        let field = |key: &str| fsx::value(stanza, key).map(str::trim);
        if field("Package:") == Some(package)
            && let Some(version) = field("Version:")
            && !versions.iter().any(|known| known == version)
        {
            versions.push(version.to_owned());
        }
    }
    versions
}

/// The sources list of a suite; the oracle's package is in `contrib`.
fn render_sources(suite: &str, beside: bool, mirrors: &Mirrors) -> String {
    let mut places = vec![(mirrors.main.as_str(), suite.to_owned())];
    if beside {
        places.push((&mirrors.main, format!("{suite}-updates")));
        if let Some(security) = &mirrors.security {
            places.push((security, format!("{suite}-security")));
        }
    }
    let mut text =
        String::from("# Made by cargo xtask setup; the system's apt does not read it.\n");
    for (uri, release) in places {
        for kind in ["deb", "deb-src"] {
            text.push_str(&format!(
                "{kind} [signed-by={KEYRING}] {uri} {release} main contrib\n"
            ));
        }
    }
    text
}

/// The private apt.conf. The host's own files are switched off (their hooks would touch the
/// host's cache), but how it reaches archives (proxies, certificates) is taken over.
fn render_settings(dir: &Path, host_dump: &str, root: bool) -> String {
    let mut text =
        String::from("// Made by cargo xtask setup; the system's apt does not read it.\n");
    for line in host_dump.lines() {
        let skipped = [
            "Acquire::IndexTargets",
            "Acquire::Languages",
            "Acquire::GzipIndexes",
        ];
        if line.starts_with("Acquire::") && !skipped.iter().any(|name| line.starts_with(name)) {
            text.push_str(line);
            text.push('\n');
        }
    }
    let at = |sub: &str| dir.join(sub).display().to_string();
    let mut set = |name: &str, value: &str| text.push_str(&format!("{name} \"{value}\";\n"));
    set("Acquire::Languages", "none");
    set("Acquire::Retries", "3");
    set("Dir::Etc::main", "/dev/null");
    set("Dir::Etc::parts", &at("empty"));
    set("Dir::Etc::sourcelist", &at("sources.list"));
    set("Dir::Etc::sourceparts", "-");
    set("Dir::Etc::preferences", "/dev/null");
    set("Dir::Etc::preferencesparts", "-");
    set("Dir::State::lists", &at("lists"));
    set("Dir::State::status", "/dev/null");
    set("Dir::State::extended_states", &at("extended_states"));
    set("Dir::Cache", &at("cache"));
    set("Dir::Log", &at("log"));
    if root {
        // The cache may lie in root's home, which apt's own user cannot enter.
        set("APT::Sandbox::User", "root");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(output: &str) -> Option<(String, Option<String>)> {
        choose(&parse_targets(output)).map(|mirrors| (mirrors.main, mirrors.security))
    }

    #[test]
    fn both_source_formats_read_alike() {
        // One line for each architecture; `$(ORIGIN)` stays when apt doesn't know it.
        let output = "http://mirror.test/debian/|bookworm|main|$(ORIGIN)\n\
                      http://mirror.test/debian/|bookworm|main|$(ORIGIN)\n\
                      http://mirror.test/debian/|bookworm-updates|main|\n\
                      http://mirror.test/debian-security/|bookworm-security|main|Debian\n";
        let main = "http://mirror.test/debian/".to_owned();
        let security = "http://mirror.test/debian-security/".to_owned();
        assert_eq!(chosen(output), Some((main, Some(security))));
        assert_eq!(chosen(""), None);
    }

    #[test]
    fn other_vendors_are_passed_over() {
        let output = "https://vendor.test/apt/|bookworm|main|Vendor\n\
                      https://vendor.test/apt/|bookworm|main|\n\
                      https://other.test/apt/|bookworm|main|\n\
                      https://third.test/apt/|nodistro|main|\n\
                      http://mirror.test/debian/|bookworm|main|\n\
                      http://mirror.test/debian/|bookworm-updates|main|\n";
        assert_eq!(
            chosen(output),
            Some(("http://mirror.test/debian/".to_owned(), None))
        );
        assert_eq!(
            chosen("https://vendor.test/apt/|bookworm|main|Vendor\n"),
            None
        );
        assert_eq!(chosen("https://vendor.test/apt/|bookworm|stable|\n"), None);
    }

    #[test]
    fn mirror_lists_are_understood() {
        let output = "mirror+file:/etc/apt/mirrors/debian.list/|trixie|main|\n\
                      mirror+file:/etc/apt/mirrors/debian-security.list/|trixie-security|main|\n";
        let (main, security) = chosen(output).unwrap();
        assert_eq!(main, "mirror+file:/etc/apt/mirrors/debian.list/");
        assert_eq!(
            security.unwrap(),
            "mirror+file:/etc/apt/mirrors/debian-security.list/"
        );
        let list = "# a remark\n\nhttp://mirror.test/debian\tpriority:1\nhttp://b.test/debian\n";
        assert_eq!(
            first_of_mirror_list(list),
            Some("http://mirror.test/debian".to_owned())
        );
        assert_eq!(first_of_mirror_list("# none\n"), None);
    }

    #[test]
    fn a_mirror_list_file_is_read_for_debootstrap() {
        let dir = tempfile::tempdir().unwrap();
        let list = dir.path().join("debian.list");
        fs::write(&list, "http://mirror.test/debian\n").unwrap();
        let main = format!("mirror+file:{}/", list.display());
        let mirrors = Mirrors {
            main,
            security: None,
        };
        assert_eq!(
            mirrors.for_debootstrap().unwrap(),
            "http://mirror.test/debian"
        );
    }

    #[test]
    fn sources_name_the_suite_and_what_is_beside_it() {
        let mirrors = Mirrors {
            main: "http://m.test/debian/".into(),
            security: None,
        };
        let text = render_sources("forky", false, &mirrors);
        assert_eq!(
            text.lines().filter(|line| line.starts_with("deb")).count(),
            2
        );
        let mirrors = Mirrors {
            security: Some("http://m.test/debian-security/".into()),
            ..mirrors
        };
        let text = render_sources("trixie", true, &mirrors);
        assert!(text.contains(&format!(
            "deb-src [signed-by={KEYRING}] http://m.test/debian-security/ trixie-security main contrib\n"
        )));
        assert!(text.contains(" http://m.test/debian/ trixie-updates main contrib\n"));
    }

    #[test]
    fn settings_take_over_how_archives_are_reached_and_no_hooks() {
        let dump = "APT::Update::Post-Invoke:: \"rm -f /var/cache/apt/*\";\n\
                    Acquire::http::Proxy \"http://proxy.test:3128\";\n\
                    Acquire::IndexTargets::deb::DEP-11::MetaKey \"x\";\n\
                    Dir \"/\";\n";
        let text = render_settings(Path::new("/c/apt/trixie"), dump, true);
        assert!(text.contains("Acquire::http::Proxy \"http://proxy.test:3128\";\n"));
        assert!(!text.contains("Post-Invoke") && !text.contains("DEP-11"));
        assert!(text.contains("Dir::Etc::sourcelist \"/c/apt/trixie/sources.list\";\n"));
        assert!(text.contains("Dir::State::lists \"/c/apt/trixie/lists\";\n"));
    }

    #[test]
    fn versions_come_from_the_packages_own_stanzas() {
        let text = "Package: slurm-wlm\nBinary: slurmd\nVersion: 24.11.5-4\n\n\
                    Package: slurm-wlm\nVersion: 24.11.5-4+deb13u1\n\n\
                    Package: slurm-wlm-contrib\nVersion: 24.11.5-2\n\n\
                    Package: slurm-wlm\nVersion: 24.11.5-4\n";
        assert_eq!(
            versions_in(text, "slurm-wlm"),
            ["24.11.5-4", "24.11.5-4+deb13u1"]
        );
    }
}
