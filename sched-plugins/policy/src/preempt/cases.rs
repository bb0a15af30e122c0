//! States and the right decisions.
