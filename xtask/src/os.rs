//! What system this is.

use std::fs;

/// Whether the host is Debian or made from it, so that apt and debootstrap can be had.
pub(crate) fn debian_like() -> bool {
    let text = fs::read_to_string("/etc/os-release")
        .or_else(|_| fs::read_to_string("/usr/lib/os-release"))
        .unwrap_or_default();
    is_debian_like(&text)
}

/// The host's name for itself.
pub(crate) fn pretty_name() -> String {
    let text = fs::read_to_string("/etc/os-release").unwrap_or_default();
    field(&text, "PRETTY_NAME")
        .unwrap_or("this system")
        .to_owned()
}

fn is_debian_like(os_release: &str) -> bool {
    let named = |key| {
        field(os_release, key).is_some_and(|names| names.split_whitespace().any(|n| n == "debian"))
    };
    named("ID") || named("ID_LIKE")
}

fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once('=')?;
        (name == key).then(|| value.trim_matches(['"', '\'']))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debian_and_its_children_are_known() {
        assert!(is_debian_like("NAME=\"Debian GNU/Linux\"\nID=debian\n"));
        assert!(is_debian_like("ID=ubuntu\nID_LIKE=debian\n"));
        assert!(is_debian_like("ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n"));
        assert!(!is_debian_like("ID=\"rhel\"\nID_LIKE=\"fedora\"\n"));
        assert!(!is_debian_like(""));
    }
}
