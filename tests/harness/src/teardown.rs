//! What a cluster left behind.

use std::fmt;

/// The faults found while a cluster was taken down.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The cluster's id.
    pub id: String,
    /// Each fault, one line or more.
    pub faults: Vec<String>,
    /// Ends of the logs, when there are faults.
    pub logs: String,
}

impl Report {
    /// Nothing was wrong.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.faults.is_empty()
    }

    /// Whether a fault has this in its text.
    #[must_use]
    pub fn mentions(&self, text: &str) -> bool {
        self.faults.iter().any(|fault| fault.contains(text))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.is_clean() {
            "ended"
        } else {
            "did not end clean:"
        };
        writeln!(f, "cluster {} {how}", self.id)?;
        for fault in &self.faults {
            writeln!(f, "- {fault}")?;
        }
        f.write_str(&self.logs)
    }
}
