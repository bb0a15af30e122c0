//! What the site says: sgpu.toml, and over it the words behind the plugin in plugstack.conf.

use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use sgpu_config::request::Request;
use slurm_plugin::spank::Spank;
use spank_core::checkpoint::arguments::Arguments;

/// The relay's name, beside the plugin unless the site says otherwise.
const RELAY: &str = "sgpu-sigrelay";
/// The program that marks checkpoints, beside the relay or beside the plugin.
const CKPT: &str = "sgpu-ckpt";

#[derive(Debug, Default)]
pub(crate) struct Settings {
    /// What a job gets that does not ask.
    pub(crate) default: Option<Request>,
    /// The relay.
    pub(crate) relay: PathBuf,
    /// Where `sgpu-ckpt` may lie, when tasks in containers may mark.
    pub(crate) ckpt: Option<[PathBuf; 2]>,
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// The settings of this step.
pub(crate) fn get() -> Option<&'static Settings> {
    SETTINGS.get()
}

/// Reads the settings. What is wrong is logged and left out: a job must not fail for it.
pub(crate) fn read(spank: &Spank<'_>, arguments: &[String]) {
    let arguments = Arguments::parse(arguments);
    spank_site::tell(&arguments.faults);
    let sections = spank_site::sections(spank, arguments.config.as_deref());
    let site = arguments.checkpoint.over(sections.checkpoint);
    let relay = site
        .relay
        .map_or_else(|| beside_the_plugin(RELAY), PathBuf::from);
    let ckpt = site
        .container_marks
        .unwrap_or(false)
        .then(|| [relay.with_file_name(CKPT), beside_the_plugin(CKPT)]);
    // A second call is a second load, with the same words.
    let _ = SETTINGS.set(Settings {
        default: site.signal.flatten(),
        relay,
        ckpt,
    });
}

fn beside_the_plugin(name: &str) -> PathBuf {
    // SAFETY: all zero is a value of the struct: NULL pointers.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: an address within this library; the struct is ours.
    let found = unsafe { libc::dladdr((&raw const SETTINGS).cast(), &raw mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return PathBuf::from(name);
    }
    // SAFETY: the dynamic linker's own text of this library's path, which lives as long as it is loaded.
    let own = unsafe { CStr::from_ptr(info.dli_fname) }.to_string_lossy();
    Path::new(own.as_ref()).with_file_name(name)
}
