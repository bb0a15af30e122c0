//! The value of `--checkpoint-signal`: `SIG[@sec][,forward=SIG2][,file][,scope=leader|tree]`, or `off`.

use super::signal::Signal;
use super::spank::Scope;

/// How long before the end the signal comes when nobody says so, as with Slurm's own `--signal`.
const DEFAULT_BEFORE_SECONDS: u32 = 60;
/// The longest time before the end, Slurm's own limit for `--signal`.
const LONGEST_BEFORE_SECONDS: u32 = 65_535;

/// What a job asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Request {
    /// The signal that is waited for.
    pub signal: Signal,
    /// The signal that the program gets.
    pub forward: Signal,
    /// How many seconds before the end, and how long a checkpoint takes at most.
    pub before_seconds: u32,
    /// Whether a file tells of it too.
    pub file: bool,
    /// Who gets the signal.
    pub scope: Scope,
}

/// Reads the value; `None` for `off`.
///
/// # Errors
/// In words for the user.
pub fn parse(value: &str) -> Result<Option<Request>, String> {
    if value.eq_ignore_ascii_case("off") {
        return Ok(None);
    }
    let mut words = value.split(',');
    let first = words.next().unwrap_or_default();
    let (name, before) = match first.split_once('@') {
        Some((name, seconds)) => (name, before(seconds)?),
        None => (first, DEFAULT_BEFORE_SECONDS),
    };
    if name.is_empty() {
        return Err(format!("{value:?} names no signal, such as USR1@120"));
    }
    let signal = Signal::parse(name)?;
    let mut request = Request {
        signal,
        forward: signal,
        before_seconds: before,
        file: false,
        scope: Scope::Leader,
    };
    let mut seen = Vec::new();
    for word in words {
        let key = word.split('=').next().unwrap_or_default();
        if seen.contains(&key) {
            return Err(format!("{key} is there twice"));
        }
        seen.push(key);
        match word.split_once('=') {
            None if word == "file" => request.file = true,
            Some(("forward", name)) => request.forward = Signal::parse(name)?,
            Some(("scope", "leader")) => request.scope = Scope::Leader,
            Some(("scope", "tree")) => request.scope = Scope::Tree,
            Some(("scope", other)) => {
                return Err(format!("scope={other}: it is leader or tree"));
            }
            _ => {
                return Err(format!(
                    "{word:?} is none of forward=SIG, file, scope=leader, scope=tree"
                ));
            }
        }
    }
    Ok(Some(request))
}

fn before(seconds: &str) -> Result<u32, String> {
    seconds
        .parse()
        .ok()
        .filter(|number| (1..=LONGEST_BEFORE_SECONDS).contains(number))
        .ok_or_else(|| {
            format!("{seconds:?} is no number of seconds from 1 to {LONGEST_BEFORE_SECONDS}")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read() {
        let plain = parse("USR1").unwrap().unwrap();
        assert_eq!((plain.signal.number(), plain.forward.number()), (10, 10));
        assert_eq!((plain.before_seconds, plain.file), (60, false));
        assert_eq!(plain.scope, Scope::Leader);
        let full = parse("sigusr1@120,forward=USR2,file,scope=tree").unwrap();
        assert_eq!(
            full,
            Some(Request {
                signal: Signal::of_number(10),
                forward: Signal::of_number(12),
                before_seconds: 120,
                file: true,
                scope: Scope::Tree,
            })
        );
        assert_eq!(parse("off"), Ok(None));
        let file = parse("TERM@65535,file").unwrap().unwrap();
        assert_eq!((file.before_seconds, file.file), (65_535, true));
    }

    #[test]
    fn errors_name_the_word() {
        for (value, word) in [
            ("", "names no signal"),
            ("@60", "names no signal"),
            ("USR1@", "\"\""),
            ("USR1@0", "\"0\""),
            ("USR1@65536", "\"65536\""),
            ("USR1@-3", "\"-3\""),
            ("USR1@1m", "\"1m\""),
            ("KILL@60", "\"KILL\""),
            ("USR1,forward=STOP", "\"STOP\""),
            ("USR1,scope=all", "scope=all"),
            ("USR1,scope", "\"scope\""),
            ("USR1,file=/tmp/x", "\"file=/tmp/x\""),
            ("USR1,file,file", "file is there twice"),
            ("USR1,", "\"\""),
            ("off,file", "\"off\""),
        ] {
            let error = parse(value).unwrap_err();
            assert!(error.contains(word), "{value}: {error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_value_is_read_into_something_that_cannot_be(value in "[a-zA-Z0-9@=, ]{0,30}") {
            if let Ok(Some(request)) = parse(&value) {
                proptest::prop_assert!((1..=65_535).contains(&request.before_seconds));
            }
        }
    }
}
