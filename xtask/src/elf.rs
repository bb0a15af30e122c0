//! What a built plugin must be before it is called one: an empty stub, or a file that Slurm could
//! not open, never reaches `target/dist`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use object::elf;
use object::read::elf::{Dyn, ElfFile64, FileHeader, ProgramHeader};
use object::{Object, ObjectSection, ObjectSymbol};

use crate::version::Version;

/// What Slurm looks for in a plugin of any type.
const EXPORTS: [&str; 3] = ["plugin_type", "plugin_name", "plugin_version"];

/// Checks a plugin that was built for a Slurm version.
pub(crate) fn check_plugin(path: &Path, version: Version) -> Result<()> {
    let data = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    check(&data, version).with_context(|| format!("{} is not a plugin", path.display()))
}

fn check(data: &[u8], version: Version) -> Result<()> {
    let file: ElfFile64<'_> = ElfFile64::parse(data).context("not a 64-bit ELF file")?;
    let exports = |name: &str| {
        file.dynamic_symbols()
            .find(|symbol| symbol.is_definition() && symbol.name().is_ok_and(|own| own == name))
    };
    let missing: Vec<&str> = EXPORTS
        .into_iter()
        .filter(|name| exports(name).is_none())
        .collect();
    if !missing.is_empty() {
        bail!(
            "it does not export {}: built without Slurm's headers, a plugin is an empty stub",
            missing.join(", ")
        );
    }
    let stamped = exports("plugin_version")
        .and_then(|symbol| {
            let section = file.section_by_index(symbol.section_index()?).ok()?;
            section.data_range(symbol.address(), 4).ok()?
        })
        .and_then(|bytes| bytes.try_into().ok())
        .map(u32::from_le_bytes);
    if stamped.map(Version::of_number) != Some(version) {
        bail!(
            "its plugin_version is {}, it was to be built for Slurm {version}",
            stamped.map_or("unreadable".to_owned(), |number| {
                format!("{} ({number:#08x})", Version::of_number(number))
            })
        );
    }
    if binds_now(data, &file)? {
        bail!(
            "it is linked to resolve every symbol when opened (BIND_NOW); Slurm's daemons lack some \
             of them. `-C relro-level=partial` did not reach rustc: is a linker flag (-z now) set \
             in RUSTFLAGS or in a cargo configuration?"
        );
    }
    Ok(())
}

/// Checks that a program needs no shared library.
pub(crate) fn check_static(path: &Path) -> Result<()> {
    let data = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let file: ElfFile64<'_> = ElfFile64::parse(&*data).context("not a 64-bit ELF file")?;
    let endian = file.endian();
    let segments = file
        .elf_header()
        .program_headers(endian, &*data)
        .context("unreadable program headers")?;
    if segments
        .iter()
        .any(|segment| segment.p_type(endian) == elf::PT_INTERP)
    {
        bail!(
            "{} asks for a dynamic linker, which a container may not have",
            path.display()
        );
    }
    Ok(())
}

fn binds_now(data: &[u8], file: &ElfFile64<'_>) -> Result<bool> {
    let endian = file.endian();
    let (entries, _) = file
        .elf_section_table()
        .dynamic(endian, data)
        .context("unreadable dynamic section")?
        .context("not a shared object")?;
    Ok(entries.iter().any(|entry| {
        let value = entry.d_val(endian);
        match entry.tag(endian) {
            elf::DT_BIND_NOW => true,
            elf::DT_FLAGS => value & elf::DF_BIND_NOW.0 != 0,
            elf::DT_FLAGS_1 => value & elf::DF_1_NOW.0 != 0,
            _ => false,
        }
    }))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const SOURCE: &str = "const char plugin_type[] = \"gpu/x\"; const char plugin_name[] = \"x\";
        const unsigned plugin_version = 0x160508; int init(void) { return 0; }
        int fini(void) { return 0; }";

    fn built(source: &str, flag: &str) -> Result<()> {
        let dir = tempfile::tempdir().unwrap();
        let (c, so) = (dir.path().join("x.c"), dir.path().join("x.so"));
        fs::write(&c, source).unwrap();
        let cc = Command::new("cc")
            .args(["-shared", "-fPIC", flag, "-o"])
            .args([&so, &c])
            .status()
            .unwrap();
        assert!(cc.success());
        check_plugin(&so, Version::parse("22.05.8").unwrap())
    }

    #[test]
    fn a_lazily_bound_plugin_of_its_version_is_one() {
        built(SOURCE, "-Wl,-z,lazy").unwrap();
    }

    #[test]
    fn what_slurm_could_not_open_is_none() {
        let error = |source, flag| format!("{:#}", built(source, flag).unwrap_err());
        assert!(error(SOURCE, "-Wl,-z,now").contains("BIND_NOW"));
        assert!(error("int x;", "-Wl,-z,lazy").contains("empty stub"));
        let other = SOURCE.replace("0x160508", "0x160509");
        assert!(error(&other, "-Wl,-z,lazy").contains("22.05.9"));
    }
}
