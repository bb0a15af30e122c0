//! What a shared object says of itself.

use std::collections::BTreeSet;
use std::path::Path;

use object::elf;
use object::read::elf::{Dyn, ElfFile64, FileHeader, ProgramHeader};
use object::{Object, ObjectSection, ObjectSymbol};

/// The facts of one shared object that Slurm's loader cares about.
#[derive(Debug)]
pub struct SharedObject {
    /// Symbols that it defines for others.
    pub exports: BTreeSet<String>,
    /// Symbols that it needs from others, weak ones left out.
    pub undefined: BTreeSet<String>,
    /// The libraries that it names.
    pub needed: BTreeSet<String>,
    /// Whether all functions must resolve when it is opened: Slurm opens plugins lazily on purpose.
    pub binds_now: bool,
    /// Whether its stack may be executed.
    pub executable_stack: bool,
}

impl SharedObject {
    /// Reads a 64-bit shared object.
    ///
    /// # Panics
    /// When the file is no such thing.
    #[must_use]
    pub fn read(path: &Path) -> Self {
        let data = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let file: ElfFile64<'_> =
            ElfFile64::parse(&*data).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let name = |symbol: &object::read::elf::ElfSymbol64<'_, '_>| {
            symbol.name().expect("a symbol's name").to_owned()
        };
        let endian = file.endian();
        let header = file.elf_header();
        let segments = header
            .program_headers(endian, &*data)
            .expect("program headers");
        let strings = file
            .elf_section_table()
            .dynamic(endian, &*data)
            .expect("a dynamic section")
            .map(|(entries, strings)| {
                let strings = file
                    .elf_section_table()
                    .strings(endian, &*data, strings)
                    .expect("dynamic strings");
                (entries, strings)
            });
        let (mut needed, mut binds_now) = (BTreeSet::new(), false);
        let (entries, strings) = strings.expect("a shared object");
        for entry in entries {
            let value = entry.d_val(endian);
            match entry.tag(endian) {
                elf::DT_NEEDED => {
                    let at = u32::try_from(value).expect("a string's place");
                    let library = strings.get(at).expect("a library's name");
                    needed.insert(String::from_utf8_lossy(library).into_owned());
                }
                elf::DT_BIND_NOW => binds_now = true,
                elf::DT_FLAGS => binds_now |= value & elf::DF_BIND_NOW.0 != 0,
                elf::DT_FLAGS_1 => binds_now |= value & elf::DF_1_NOW.0 != 0,
                _ => {}
            }
        }
        Self {
            exports: file
                .dynamic_symbols()
                .filter(|symbol| !symbol.is_undefined())
                .map(|s| name(&s))
                .collect(),
            undefined: file
                .dynamic_symbols()
                .filter(|symbol| symbol.is_undefined() && !symbol.is_weak())
                .map(|symbol| name(&symbol))
                .filter(|name| !name.is_empty())
                .collect(),
            needed,
            binds_now,
            executable_stack: segments.iter().any(|segment| {
                segment.p_type(endian) == elf::PT_GNU_STACK
                    && segment.p_flags(endian).0 & elf::PF_X.0 != 0
            }),
        }
    }
}

/// The value of a 32-bit variable that a shared object exports, as its loader finds it.
///
/// # Panics
/// When the file has no such variable.
#[must_use]
pub fn variable(path: &Path, name: &str) -> u32 {
    let data = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let file: ElfFile64<'_> =
        ElfFile64::parse(&*data).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let symbol = file
        .dynamic_symbols()
        .find(|symbol| symbol.name() == Ok(name) && symbol.size() == 4)
        .unwrap_or_else(|| panic!("no {name} in {}", path.display()));
    let section = symbol.section_index().expect("a defined symbol");
    let bytes = file
        .section_by_index(section)
        .expect("a symbol's section")
        .data_range(symbol.address(), 4)
        .expect("a section's data")
        .expect("a variable within its section");
    u32::from_ne_bytes(bytes.try_into().expect("four bytes"))
}
