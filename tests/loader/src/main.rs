//! Opens a plugin as Slurm does (`src/common/plugin.c`, `plugin_load_from_file`): lazily, with
//! libslurmfull's symbols in reach, version symbols first, then `init`. It runs inside the root of the
//! release that the plugin was built for, and under valgrind.
//!
//! What comes out on standard output is one line per fact, for the test that called it.

use std::ffi::{CStr, CString, c_char};
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use clap::{Parser, Subcommand};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_LAZY, RTLD_LOCAL};

/// Opens a Slurm plugin as Slurm does.
#[derive(Parser)]
struct Arguments {
    /// The release's libslurmfull.so.
    #[arg(long)]
    libslurmfull: PathBuf,
    /// The name of the daemon to pass for, which Slurm's library asks for.
    #[arg(long = "as", default_value = "slurmd")]
    daemon: String,
    /// The plugin.
    plugin: PathBuf,
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Opens, starts, ends and closes the plugin so often.
    Cycle {
        /// How often.
        #[arg(default_value_t = 100)]
        times: u32,
    },
    /// Calls each hook with NULL and 0 for all of its arguments, and prints what it answers.
    Call {
        /// How often each.
        #[arg(long, default_value_t = 1)]
        times: u32,
        /// The hooks.
        #[arg(required = true)]
        hooks: Vec<String>,
    },
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    // SAFETY: Slurm's own library, whose constructors the daemons run too; it is never unloaded.
    let slurm = unsafe { Library::open(Some(&arguments.libslurmfull), RTLD_LAZY | RTLD_GLOBAL) }
        .with_context(|| format!("open {}", arguments.libslurmfull.display()))?;
    pass_for(&slurm, &arguments.daemon)?;
    match arguments.action {
        Action::Cycle { times } => {
            for round in 0..times {
                let plugin = Plugin::open(&arguments.plugin)?;
                if round == 0 {
                    plugin.identify()?;
                }
                // SPANK plugins have neither.
                if plugin.has("init") {
                    ensure!(plugin.call("init")? == 0, "init failed in round {round}");
                    plugin.call("fini")?;
                }
            }
            println!("cycles {times}");
        }
        Action::Call { times, hooks } => {
            let plugin = Plugin::open(&arguments.plugin)?;
            for hook in hooks {
                for _ in 0..times {
                    println!("{hook} {}", plugin.call(&hook)?);
                }
            }
            // It stays mapped, so that a checker can name its functions at the end.
            std::mem::forget(plugin);
        }
    }
    std::mem::forget(slurm);
    Ok(())
}

/// Sets the variable by which Slurm's library knows the daemon that it is in: newer releases have a bit for
/// each, older ones its name.
fn pass_for(slurm: &Library, daemon: &str) -> Result<()> {
    // SAFETY: libslurmfull defines `uint32_t slurm_daemon` (src/common/run_in_daemon.c).
    if let Ok(bits) = unsafe { slurm.get::<*mut u32>(b"slurm_daemon") } {
        // SAFETY: the variable is live, and nobody else runs yet.
        unsafe { **bits = bit(daemon)? };
        return Ok(());
    }
    // SAFETY: libslurmfull defines `char *slurm_prog_name` (src/common/log.c).
    let name = unsafe { slurm.get::<*mut *mut c_char>(b"slurm_prog_name") }?;
    // SAFETY: the variable is live, nobody else runs yet, and the string is given away for good.
    unsafe { **name = CString::new(daemon)?.into_raw() };
    Ok(())
}

/// A daemon's bit in `slurm_daemon` (`src/common/run_in_daemon.h`).
fn bit(daemon: &str) -> Result<u32> {
    match daemon {
        "slurmctld" => Ok(1 << 3),
        "slurmd" => Ok(1 << 4),
        "slurmstepd" => Ok(1 << 5),
        _ => bail!("{daemon} is no daemon that loads plugins of ours"),
    }
}

struct Plugin(Library);

impl Plugin {
    fn open(path: &PathBuf) -> Result<Self> {
        // SAFETY: the plugin under test; running its code is the purpose.
        unsafe { Library::open(Some(path), RTLD_LAZY | RTLD_LOCAL) }
            .map(Self)
            .with_context(|| format!("open {}", path.display()))
    }

    fn identify(&self) -> Result<()> {
        for symbol in ["plugin_type", "plugin_name"] {
            // SAFETY: both are arrays of char that end in NUL, in every plugin of Slurm.
            let text = unsafe { self.0.get::<*const c_char>(symbol.as_bytes()) }?.into_raw();
            // SAFETY: as above; the library stays open.
            let text = unsafe { CStr::from_ptr(text.cast()) };
            println!("{symbol} {}", text.to_str()?);
        }
        // SAFETY: an unsigned 32-bit integer in every plugin of Slurm.
        let version = unsafe { self.0.get::<*const u32>(b"plugin_version") }?;
        // SAFETY: as above.
        println!("plugin_version {}", unsafe { **version });
        Ok(())
    }

    fn has(&self, symbol: &str) -> bool {
        // SAFETY: looked up only.
        unsafe { self.0.get::<*const c_char>(symbol.as_bytes()) }.is_ok()
    }

    /// Calls a hook with zeros. All of Slurm's hooks take at most four integers or pointers.
    fn call(&self, hook: &str) -> Result<usize> {
        type Hook = unsafe extern "C" fn(usize, usize, usize, usize) -> usize;
        // SAFETY: a function by the contract of the callers, who name hooks only.
        let function = unsafe { self.0.get::<Hook>(hook.as_bytes()) }
            .with_context(|| format!("no hook {hook}"))?;
        // SAFETY: in the C calling conventions of Linux a function takes from the argument registers
        // what it declares, and ours must survive NULL and 0 for each.
        Ok(unsafe { function(0, 0, 0, 0) })
    }
}
