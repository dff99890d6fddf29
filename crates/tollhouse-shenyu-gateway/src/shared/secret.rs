//! Comparison of secrets.

use aws_lc_rs::constant_time;

/// Compares two texts in constant time, so that the duration does not reveal where they differ.
pub(crate) fn equal(given: &str, secret: &str) -> bool {
    constant_time::verify_slices_are_equal(given.as_bytes(), secret.as_bytes()).is_ok()
}
