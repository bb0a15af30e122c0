//! What NVML can answer.

/// Return codes that this crate acts upon.
pub(crate) mod code {
    pub(crate) const SUCCESS: u32 = 0;
    pub(crate) const UNINITIALIZED: u32 = 1;
    pub(crate) const INVALID_ARGUMENT: u32 = 2;
    pub(crate) const NOT_SUPPORTED: u32 = 3;
    pub(crate) const NOT_FOUND: u32 = 6;
    pub(crate) const INSUFFICIENT_SIZE: u32 = 7;
    pub(crate) const GPU_IS_LOST: u32 = 15;
}

/// What a call to NVML came to, other than success.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The library cannot be opened.
    #[error("NVML cannot be loaded: {0}")]
    Load(String),
    /// The library has no such function.
    #[error("the NVML library has no {symbol}")]
    MissingSymbol {
        /// The newest name of the function.
        symbol: &'static str,
    },
    /// NVML answered with an error.
    #[error("{}{call}: {} (NVML code {code})", on(*device), code_words(*code))]
    Nvml {
        /// The function.
        call: &'static str,
        /// NVML index of the GPU.
        device: Option<u32>,
        /// Return code.
        code: u32,
    },
    /// NVML answered with something that makes no sense.
    #[error("{}{call}: {what}", on(*device))]
    Malformed {
        /// The function.
        call: &'static str,
        /// NVML index of the GPU.
        device: Option<u32>,
        /// What was wrong.
        what: String,
    },
}

fn on(device: Option<u32>) -> String {
    device.map_or_else(String::new, |index| format!("GPU {index}: "))
}

impl Error {
    /// NVML's return code, if NVML answered.
    #[must_use]
    pub fn code(&self) -> Option<u32> {
        match self {
            Self::Nvml { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// The function that failed.
    #[must_use]
    pub fn call(&self) -> &'static str {
        match self {
            Self::Load(_) => "dlopen",
            Self::MissingSymbol { symbol } => symbol,
            Self::Nvml { call, .. } | Self::Malformed { call, .. } => call,
        }
    }

    /// Does the GPU or its driver simply not have this?
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        matches!(self, Self::MissingSymbol { .. }) || self.code() == Some(code::NOT_SUPPORTED)
    }

    /// Has the GPU fallen off the bus?
    #[must_use]
    pub fn is_gpu_lost(&self) -> bool {
        self.code() == Some(code::GPU_IS_LOST)
    }

    /// The error in NVML's words, without call and GPU.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Self::Load(why) => why.clone(),
            Self::MissingSymbol { .. } => "the NVML library has no such function".into(),
            Self::Nvml { code, .. } => code_words(*code).into(),
            Self::Malformed { what, .. } => what.clone(),
        }
    }
}

/// NVML's words for a return code, as its documentation has them.
#[must_use]
pub fn code_words(code: u32) -> &'static str {
    match code {
        0 => "Success",
        1 => "Uninitialized",
        2 => "Invalid Argument",
        3 => "Not Supported",
        4 => "Insufficient Permissions",
        5 => "Already Initialized",
        6 => "Not Found",
        7 => "Insufficient Size",
        8 => "Insufficient External Power",
        9 => "Driver Not Loaded",
        10 => "Timeout",
        11 => "Interrupt Request Issue",
        12 => "NVML Shared Library Not Found",
        13 => "Function Not Found",
        14 => "Corrupted infoROM",
        15 => "GPU is lost",
        16 => "GPU requires reset",
        17 => "GPU access blocked by the operating system",
        18 => "Driver/library version mismatch",
        19 => "In use by another client",
        20 => "Insufficient Memory",
        21 => "No data",
        22 => "vGPU operation is not available because ECC is enabled",
        23 => "Insufficient Resources",
        24 => "Frequency not supported",
        25 => "Argument version mismatch",
        26 => "Deprecated function",
        27 => "Not ready",
        28 => "GPU not found",
        29 => "Invalid state",
        30 => "Reset type not supported",
        999 => "Unknown Error",
        _ => "an error that this program does not know",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        let error = Error::Nvml {
            call: "nvmlDeviceGetName",
            device: Some(3),
            code: 15,
        };
        assert_eq!(
            error.to_string(),
            "GPU 3: nvmlDeviceGetName: GPU is lost (NVML code 15)"
        );
        assert!(error.is_gpu_lost() && !error.is_unsupported());
        let error = Error::Nvml {
            call: "nvmlInit_v2",
            device: None,
            code: 9,
        };
        assert_eq!(
            error.to_string(),
            "nvmlInit_v2: Driver Not Loaded (NVML code 9)"
        );
        assert_eq!(
            code_words(12345),
            "an error that this program does not know"
        );
    }
}
