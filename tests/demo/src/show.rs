//! How the demo looks.

use std::io::{IsTerminal, stdout};

/// A heading.
pub(crate) fn chapter(title: &str) {
    if stdout().is_terminal() {
        println!("\n\x1b[1m== {title} ==\x1b[0m");
    } else {
        println!("\n== {title} ==");
    }
}

/// A command as a user would type it.
pub(crate) fn command(program: &str, args: &[&str]) {
    println!("\n$ {program} {}", args.join(" "));
}

/// A table with columns as wide as they need.
pub(crate) fn table(header: &[&str], rows: &[Vec<String>]) {
    let mut widths: Vec<usize> = header.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: Vec<&str>| {
        let padded: Vec<_> = cells
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        println!("  {}", padded.join("  ").trim_end());
    };
    line(header.to_vec());
    for row in rows {
        line(row.iter().map(String::as_str).collect());
    }
}

/// What is worth to be told again of an error that ends in logs: what comes before them.
pub(crate) fn cause(error: &str) -> Option<String> {
    // As the harness heads them: `--- slurmctld.log (last 25 of 90 lines)`.
    let is_log = |line: &str| line.starts_with("--- ") && line.contains(" (last ");
    let at = error.lines().position(is_log)?;
    Some(
        error
            .lines()
            .take(at.min(12))
            .collect::<Vec<_>>()
            .join("\n"),
    )
}

#[cfg(test)]
mod tests {
    use super::cause;

    #[test]
    fn an_error_with_logs_has_its_cause_told_again() {
        let error = "waited 60.0 s for job demo1 running\nlast seen: PD\n--- slurmctld.log (last 2 of 2 lines)\n[..] a\n[..] b";
        let told = cause(error).unwrap();
        assert_eq!(told, "waited 60.0 s for job demo1 running\nlast seen: PD");
        assert_eq!(cause("short: `srun` ended with 1\n--- stderr\nno"), None);
    }
}
