//! Status codes in confs.

/// Converts a configured status. Schemas have no upper bound if APISIX has none, so codes outside
/// 200 to 999 become 500.
pub(crate) fn status_of(code: i64) -> u16 {
    const STATUS_MAX: u16 = 999;
    u16::try_from(code).ok().filter(|status| (200..=STATUS_MAX).contains(status)).unwrap_or(500)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_status_becomes_an_error() {
        for (code, status) in [(200, 200), (403, 403), (999, 999), (1000, 500), (-1, 500)] {
            assert_eq!(status_of(code), status);
        }
    }
}
