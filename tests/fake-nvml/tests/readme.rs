//! README.md against the code: its examples parse, and it names every key.

use fake_nvml::Scenario;

const README: &str = include_str!("../README.md");

fn examples(language: &str) -> Vec<&'static str> {
    let fence = format!("```{language}\n");
    let parts = README.split(fence.as_str()).skip(1);
    parts
        .map(|part| part.split("```").next().unwrap())
        .collect()
}

#[test]
fn examples_parse() {
    let found = examples("toml");
    assert_eq!(found.len(), 2);
    for example in found {
        Scenario::parse(example).unwrap();
    }
}

/// The keys of a table, from the words with which a wrong one is refused.
fn keys(prefix: &str, suffix: &str) -> Vec<String> {
    let error = Scenario::parse(&format!("{prefix}no_such_key = 1{suffix}\n")).unwrap_err();
    let told = error.to_string();
    let list = told
        .split("expected one of ")
        .nth(1)
        .unwrap_or_else(|| panic!("{told}"));
    let list = list.split(" in `").next().unwrap();
    list.split(", ")
        .map(|key| key.trim_matches('`').to_owned())
        .collect()
}

#[test]
fn every_key_is_told() {
    let tables = [
        ("", ""),
        ("[machine]\n", ""),
        ("[[device]]\n", ""),
        ("[[fault]]\n", ""),
        ("[[process]]\n", ""),
        ("every_device.pcie = { ", " }"),
        ("every_device.nvlink = { ", " }"),
        ("every_device.nvlink.errors = [{ ", " }]"),
        ("every_device.fabric = { ", " }"),
        ("every_device.remapped_rows = { ", " }"),
        ("every_device.row_histogram = { ", " }"),
        ("every_device.violations = { ", " }"),
        ("every_device.ecc.volatile.corrected = { ", " }"),
        ("every_device.clock_sets = [{ ", " }]"),
        ("every_device.xid = [{ ", " }]"),
        ("every_device.mig = [{ ", " }]"),
        ("every_device.mig_profiles = [{ ", " }]"),
    ];
    let mut missing = Vec::new();
    for (prefix, suffix) in tables {
        for key in keys(prefix, suffix) {
            if !README.contains(&key) {
                missing.push(format!("{prefix}{key}"));
            }
        }
    }
    assert!(missing.is_empty(), "README.md does not name {missing:?}");
}
