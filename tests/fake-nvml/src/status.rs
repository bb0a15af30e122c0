//! NVML's return codes, with the names that a scenario uses for them.

use std::ffi::CStr;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

/// An `nvmlReturn_t`. In a scenario it is a name such as `"gpu_is_lost"` or a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Status(pub u32);

macro_rules! table {
    ($($constant:ident = $code:literal, $name:literal, $text:literal;)*) => {
        impl Status {
            $(#[doc = concat!("`", $name, "`")] pub const $constant: Self = Self($code);)*

            /// Every code: number, scenario name, `nvmlErrorString`.
            pub(crate) const TABLE: &[(u32, &str, &CStr)] = &[$(($code, $name, $text)),*];
        }
    };
}

table! {
    SUCCESS = 0, "success", c"Success";
    UNINITIALIZED = 1, "uninitialized", c"Uninitialized";
    INVALID_ARGUMENT = 2, "invalid_argument", c"Invalid Argument";
    NOT_SUPPORTED = 3, "not_supported", c"Not Supported";
    NO_PERMISSION = 4, "no_permission", c"Insufficient Permissions";
    ALREADY_INITIALIZED = 5, "already_initialized", c"Already Initialized";
    NOT_FOUND = 6, "not_found", c"Not Found";
    INSUFFICIENT_SIZE = 7, "insufficient_size", c"Insufficient Size";
    INSUFFICIENT_POWER = 8, "insufficient_power", c"Insufficient External Power";
    DRIVER_NOT_LOADED = 9, "driver_not_loaded", c"Driver Not Loaded";
    TIMEOUT = 10, "timeout", c"Timeout";
    IRQ_ISSUE = 11, "irq_issue", c"Interrupt Request Issue";
    LIBRARY_NOT_FOUND = 12, "library_not_found", c"NVML Shared Library Not Found";
    FUNCTION_NOT_FOUND = 13, "function_not_found", c"Function Not Found";
    CORRUPTED_INFOROM = 14, "corrupted_inforom", c"Corrupted infoROM";
    GPU_IS_LOST = 15, "gpu_is_lost", c"GPU is lost";
    RESET_REQUIRED = 16, "reset_required", c"GPU requires reset";
    OPERATING_SYSTEM = 17, "operating_system",
        c"The operating system has blocked the request.";
    LIB_RM_VERSION_MISMATCH = 18, "lib_rm_version_mismatch", c"Driver/library version mismatch";
    IN_USE = 19, "in_use", c"In use by another client";
    MEMORY = 20, "memory", c"Insufficient Memory";
    NO_DATA = 21, "no_data", c"No data";
    VGPU_ECC_NOT_SUPPORTED = 22, "vgpu_ecc_not_supported", c"vGPU ECC Not Supported";
    INSUFFICIENT_RESOURCES = 23, "insufficient_resources", c"Insufficient Resources";
    FREQ_NOT_SUPPORTED = 24, "freq_not_supported", c"Requested frequency is not supported";
    ARGUMENT_VERSION_MISMATCH = 25, "argument_version_mismatch", c"Argument version mismatch";
    DEPRECATED = 26, "deprecated", c"Deprecated";
    NOT_READY = 27, "not_ready", c"Not Ready";
    GPU_NOT_FOUND = 28, "gpu_not_found", c"GPU Not Found";
    INVALID_STATE = 29, "invalid_state", c"Invalid State";
    RESET_TYPE_NOT_SUPPORTED = 30, "reset_type_not_supported", c"Reset Type Not Supported";
    UNKNOWN = 999, "unknown", c"Unknown Error";
}

impl Status {
    /// The scenario's name of this code, if NVML has such a code.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        Self::TABLE
            .iter()
            .find(|row| row.0 == self.0)
            .map(|row| row.1)
    }

    /// The code with this scenario name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::TABLE
            .iter()
            .find(|row| row.1 == name)
            .map(|row| Self(row.0))
    }

    /// NVML's own text for the code, as `nvmlErrorString` gives it.
    #[must_use]
    pub fn text(self) -> &'static CStr {
        Self::TABLE
            .iter()
            .find(|row| row.0 == self.0)
            .map_or(c"Unknown Error", |row| row.2)
    }
}

impl Serialize for Status {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.name() {
            Some(name) => serializer.serialize_str(name),
            None => serializer.serialize_u32(self.0),
        }
    }
}

impl<'de> Deserialize<'de> for Status {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameOrNumber;
        impl Visitor<'_> for NameOrNumber {
            type Value = Status;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of an NVML return code, such as \"gpu_is_lost\", or a number")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<Status, E> {
                Status::named(name)
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Str(name), &self))
            }

            fn visit_i64<E: de::Error>(self, code: i64) -> Result<Status, E> {
                u32::try_from(code)
                    .map(Status)
                    .map_err(|_| E::invalid_value(de::Unexpected::Signed(code), &self))
            }

            fn visit_u64<E: de::Error>(self, code: u64) -> Result<Status, E> {
                u32::try_from(code)
                    .map(Status)
                    .map_err(|_| E::invalid_value(de::Unexpected::Unsigned(code), &self))
            }
        }
        deserializer.deserialize_any(NameOrNumber)
    }
}
