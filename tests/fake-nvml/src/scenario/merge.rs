//! Laying a scenario over its board and the defaults, key by key.

use toml::{Table, Value};

use super::{Device, Scenario};
use crate::error::Error;

/// `base`, then each layer over it: a scenario with all keys, and its devices by board position.
pub(crate) fn merged(layers: &[&Scenario]) -> Result<(Scenario, Vec<Device>), Error> {
    let mut whole = Table::new();
    let mut devices: Vec<Table> = Vec::new();
    for layer in layers {
        let mut table = table_of(layer)?;
        table.remove("device");
        lay(&mut whole, table);
        for (position, device) in layer.device.iter().enumerate() {
            let index = device.index.ok_or_else(|| {
                Error::invalid(
                    format!("device[{position}].index"),
                    "missing: which device?",
                )
            })?;
            if index > 255 {
                return Err(Error::invalid(
                    format!("device[{position}].index"),
                    "beyond 255",
                ));
            }
            if devices.len() <= index {
                devices.resize_with(index + 1, Table::new);
            }
            lay(&mut devices[index], table_of(device)?);
        }
    }
    let scenario: Scenario = plain(whole)?;
    let every = table_of(&scenario.every_device)?;
    let mut full = Vec::new();
    for device in devices {
        let mut table = every.clone();
        lay(&mut table, device);
        full.push(plain(table)?);
    }
    Ok((scenario, full))
}

fn table_of(value: &impl serde::Serialize) -> Result<Table, Error> {
    Table::try_from(value).map_err(|error| Error::invalid("scenario", error.to_string()))
}

fn plain<T: serde::de::DeserializeOwned>(table: Table) -> Result<T, Error> {
    table
        .try_into()
        .map_err(|error| Error::invalid("scenario", error.to_string()))
}

fn lay(below: &mut Table, above: Table) {
    for (key, value) in above {
        match (below.get_mut(&key), value) {
            (Some(Value::Table(old)), Value::Table(new)) => lay(old, new),
            (_, value) => {
                below.insert(key, value);
            }
        }
    }
}
