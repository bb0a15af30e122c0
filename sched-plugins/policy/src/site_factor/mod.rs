//! The site factor.
