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
