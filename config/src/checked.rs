//! Values that a type alone does not rule: what is wrong is told while the file is read, so that it comes with its
//! line.

use std::collections::BTreeMap;
use std::fmt::Display;

use serde::de::{Deserialize, Deserializer, Error};
use slurm_text::hostlist;

use crate::request::{self, Request};

/// A host list.
pub(crate) fn nodes<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let list = String::deserialize(from)?;
    // Looks at all of the list without writing it out, which for a million hosts takes long.
    match hostlist::first(&list) {
        Ok(_) => Ok(list),
        Err(error) => Err(D::Error::custom(format!("nodes = {list:?}: {error}"))),
    }
}

/// Two ports.
pub(crate) fn port_range<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<(u16, u16)>, D::Error> {
    let (low, high) = <(u16, u16)>::deserialize(from)?;
    if low == 0 || low > high {
        return Err(D::Error::custom(format!(
            "port_range = [{low}, {high}]: the first must not be 0 nor above the second"
        )));
    }
    Ok(Some((low, high)))
}

/// Variables by name.
pub(crate) fn variables<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    let set = BTreeMap::<String, String>::deserialize(from)?;
    match set.keys().find(|name| !is_a_name(name)) {
        Some(name) => Err(D::Error::custom(format!(
            "set: {name:?} is no name of a variable"
        ))),
        None => Ok(set),
    }
}

/// Whether shells could name a variable so.
fn is_a_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    let first = bytes.next();
    first.is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// What MASTER_ADDR is made of.
pub(crate) fn master_addr<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let template = String::deserialize(from)?;
    let rest = template.replace("{node}", "");
    if template.is_empty() || rest.contains(['{', '}', '\0']) || rest.contains(char::is_whitespace)
    {
        return Err(D::Error::custom(format!(
            "master_addr = {template:?}: it is a name or an address, in which {{node}} stands for the host of rank 0"
        )));
    }
    Ok(Some(template))
}

/// A checkpoint signal, or `off`.
pub(crate) fn signal<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Option<Request>>, D::Error> {
    let value = String::deserialize(from)?;
    request::parse(&value)
        .map(Some)
        .map_err(|why| D::Error::custom(format!("signal: {why}")))
}

/// The path of the file of run times.
pub(crate) fn history_file<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    path(from, "history_file").map(Some)
}

/// The path of the relay.
pub(crate) fn relay<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    path(from, "relay").map(Some)
}

/// The path of a file, from the root on.
fn path<'de, D: Deserializer<'de>>(from: D, key: &str) -> Result<String, D::Error> {
    let path = String::deserialize(from)?;
    if !path.starts_with('/') || path.contains('\0') {
        return Err(D::Error::custom(format!(
            "{key} = {path:?}: it must begin with /"
        )));
    }
    Ok(path)
}

/// Readers of numbers, each with its key and its bounds.
macro_rules! numbers {
    ($($key:ident: $kind:ident, $low:literal to $high:literal;)+) => {
        $(pub(crate) fn $key<'de, D: Deserializer<'de>>(
            from: D,
        ) -> Result<Option<numbers!(@type $kind)>, D::Error> {
            $kind(from, stringify!($key), $low, $high).map(Some)
        })+
    };
    (@type whole) => { u32 };
    (@type real) => { f64 };
}

numbers! {
    short: whole, 0 to 100_000_000;
    las: whole, 0 to 100_000_000;
    age: whole, 0 to 100_000_000;
    big: whole, 0 to 100_000_000;
    hole: whole, 0 to 100_000_000;
    owed: whole, 0 to 100_000_000;
    star: whole, 0 to 100_000_000;
    xfactor_max: real, 1.1 to 1000.0;
    starve_after_hours: real, 0.01 to 8760.0;
    max_boosted: whole, 0 to 1000;
    hysteresis: whole, 0 to 100_000_000;
    max_loss_cap_hours: whole, 1 to 8760;
    assumed_interval_minutes: whole, 1 to 10_080;
    restart_seconds: whole, 0 to 86_400;
    repeat_penalty: real, 0.0 to 100.0;
    min_gain_seconds: whole, 0 to 86_400;
    wait_short_seconds: whole, 0 to 3600;
    max_lost_gpu_hours_per_hour: real, 0.0 to 1e9;
    fallback_after: whole, 1 to 1000;
}

fn whole<'de, D: Deserializer<'de>>(
    from: D,
    key: &str,
    low: u32,
    high: u32,
) -> Result<u32, D::Error> {
    let value =
        i64::deserialize(from).map_err(|error| D::Error::custom(format!("{key}: {error}")))?;
    match u32::try_from(value) {
        Ok(value) if (low..=high).contains(&value) => Ok(value),
        _ => Err(outside(key, value, low, high)),
    }
}

fn real<'de, D: Deserializer<'de>>(
    from: D,
    key: &str,
    low: f64,
    high: f64,
) -> Result<f64, D::Error> {
    let value =
        f64::deserialize(from).map_err(|error| D::Error::custom(format!("{key}: {error}")))?;
    // Not a number is in no range.
    if (low..=high).contains(&value) {
        Ok(value)
    } else {
        Err(outside(key, value, low, high))
    }
}

fn outside<E: Error>(key: &str, value: impl Display, low: impl Display, high: impl Display) -> E {
    E::custom(format!("{key} = {value}: it must be from {low} to {high}"))
}
