//! Values that a type alone does not rule: what is wrong is told while the file is read, so that it comes with its
//! line.

use std::collections::BTreeMap;

use serde::de::{Deserialize, Deserializer, Error};
use slurm_text::hostlist;

use crate::request::{self, Request};

/// A host list.
pub(crate) fn nodes<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let list = String::deserialize(from)?;
    match hostlist::hosts(&list) {
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
    match set
        .keys()
        .find(|name| name.is_empty() || name.contains(['=', '\0']))
    {
        Some(name) => Err(D::Error::custom(format!(
            "set: {name:?} is no name of a variable"
        ))),
        None => Ok(set),
    }
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
