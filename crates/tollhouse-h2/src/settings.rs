//! SETTINGS (RFC 9113 §6.5, RFC 8441 §3, RFC 9218 §2.1).

use crate::frame::{PAYLOAD_BYTES_DEFAULT, PAYLOAD_BYTES_MAX, U31_MAX};
use crate::hpack::TABLE_BYTES_DEFAULT;
use crate::{ConnectionError, Role};

/// Default window of a stream, and initial window of a connection.
pub const WINDOW_BYTES_DEFAULT: u32 = 65_535;

/// Size of one setting in bytes.
const ENTRY_BYTES: usize = 6;

mod id {
    pub(super) const HEADER_TABLE_SIZE: u16 = 1;
    pub(super) const ENABLE_PUSH: u16 = 2;
    pub(super) const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub(super) const INITIAL_WINDOW_SIZE: u16 = 4;
    pub(super) const MAX_FRAME_SIZE: u16 = 5;
    pub(super) const MAX_HEADER_LIST_SIZE: u16 = 6;
    pub(super) const ENABLE_CONNECT_PROTOCOL: u16 = 8;
    pub(super) const NO_RFC7540_PRIORITIES: u16 = 9;
}

/// The settings of one side; the default applies before its first SETTINGS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Maximum table size for fields sent to this side, in bytes.
    pub header_table_bytes: u32,
    /// Whether this side accepts pushed responses; ours never does.
    pub enable_push: bool,
    /// Number of streams the other side may have open; `u32::MAX` means no limit.
    pub concurrent_streams: u32,
    /// Initial window of every stream towards this side, in bytes.
    pub initial_window_bytes: u32,
    /// Largest frame payload towards this side, in bytes.
    pub frame_bytes: u32,
    /// Advisory maximum size of a field list towards this side, in bytes; `u32::MAX` means no
    /// limit.
    pub header_list_bytes: u32,
    /// Whether this side, a server, accepts extended CONNECT (RFC 8441).
    pub connect_protocol: bool,
    /// Whether this side ignores RFC 7540 priorities (RFC 9218 §2.1).
    pub no_rfc7540_priorities: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            header_table_bytes: TABLE_BYTES_DEFAULT,
            enable_push: true,
            concurrent_streams: u32::MAX,
            initial_window_bytes: WINDOW_BYTES_DEFAULT,
            frame_bytes: PAYLOAD_BYTES_DEFAULT,
            header_list_bytes: u32::MAX,
            connect_protocol: false,
            no_rfc7540_priorities: false,
        }
    }
}

impl Settings {
    /// Appends every setting that differs from its default.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let default = Self::default();
        let numbers = |settings: &Self| {
            [
                (id::HEADER_TABLE_SIZE, settings.header_table_bytes),
                (id::ENABLE_PUSH, u32::from(settings.enable_push)),
                (id::MAX_CONCURRENT_STREAMS, settings.concurrent_streams),
                (id::INITIAL_WINDOW_SIZE, settings.initial_window_bytes),
                (id::MAX_FRAME_SIZE, settings.frame_bytes),
                (id::MAX_HEADER_LIST_SIZE, settings.header_list_bytes),
                (id::ENABLE_CONNECT_PROTOCOL, u32::from(settings.connect_protocol)),
                (id::NO_RFC7540_PRIORITIES, u32::from(settings.no_rfc7540_priorities)),
            ]
        };
        for ((id, value), (_, default)) in numbers(self).into_iter().zip(numbers(&default)) {
            if value != default {
                out.extend_from_slice(&id.to_be_bytes());
                out.extend_from_slice(&value.to_be_bytes());
            }
        }
    }

    /// Applies the first SETTINGS frame of `from` in order; unknown settings are ignored.
    ///
    /// # Errors
    /// The connection must end.
    pub fn apply_first(&mut self, payload: &[u8], from: Role) -> Result<(), ConnectionError> {
        let (entries, rest) = payload.as_chunks::<ENTRY_BYTES>();
        if !rest.is_empty() {
            return Err(ConnectionError::frame_size("SETTINGS with an invalid length"));
        }
        for &[i0, i1, v0, v1, v2, v3] in entries {
            let (id, value) = (u16::from_be_bytes([i0, i1]), u32::from_be_bytes([v0, v1, v2, v3]));
            self.apply_one(id, value, from)?;
        }
        Ok(())
    }

    /// Applies a further SETTINGS frame of `from`. SETTINGS_NO_RFC7540_PRIORITIES may no longer
    /// change (RFC 9218 §2.1).
    ///
    /// # Errors
    /// The connection must end.
    pub fn apply_update(&mut self, payload: &[u8], from: Role) -> Result<(), ConnectionError> {
        let before = self.no_rfc7540_priorities;
        self.apply_first(payload, from)?;
        if before != self.no_rfc7540_priorities {
            let reason = "SETTINGS_NO_RFC7540_PRIORITIES changed";
            return Err(ConnectionError::protocol(reason));
        }
        Ok(())
    }

    fn apply_one(&mut self, id: u16, value: u32, from: Role) -> Result<(), ConnectionError> {
        let flag = |reason| match value {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(ConnectionError::protocol(reason)),
        };
        match id {
            id::HEADER_TABLE_SIZE => self.header_table_bytes = value,
            id::ENABLE_PUSH => {
                self.enable_push = flag("SETTINGS_ENABLE_PUSH is neither 0 nor 1")?;
                if self.enable_push && from == Role::Server {
                    return Err(ConnectionError::protocol("a server enabled push"));
                }
            }
            id::MAX_CONCURRENT_STREAMS => self.concurrent_streams = value,
            // RFC 9113 §6.5.2 specifies the error code for each value, and conformance suites check
            // it.
            id::INITIAL_WINDOW_SIZE if value > U31_MAX => {
                let reason = "SETTINGS_INITIAL_WINDOW_SIZE exceeds the maximum window";
                return Err(ConnectionError::flow_control(reason));
            }
            id::INITIAL_WINDOW_SIZE => self.initial_window_bytes = value,
            id::MAX_FRAME_SIZE => {
                if !(PAYLOAD_BYTES_DEFAULT..=PAYLOAD_BYTES_MAX).contains(&value) {
                    return Err(ConnectionError::protocol("SETTINGS_MAX_FRAME_SIZE out of range"));
                }
                self.frame_bytes = value;
            }
            id::MAX_HEADER_LIST_SIZE => self.header_list_bytes = value,
            id::ENABLE_CONNECT_PROTOCOL => {
                let enabled = flag("SETTINGS_ENABLE_CONNECT_PROTOCOL is neither 0 nor 1")?;
                if self.connect_protocol && !enabled {
                    let reason = "SETTINGS_ENABLE_CONNECT_PROTOCOL was withdrawn";
                    return Err(ConnectionError::protocol(reason));
                }
                self.connect_protocol = enabled;
            }
            id::NO_RFC7540_PRIORITIES => {
                self.no_rfc7540_priorities =
                    flag("SETTINGS_NO_RFC7540_PRIORITIES is neither 0 nor 1")?;
            }
            // Unknown settings are ignored (RFC 9113 §6.5.2).
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorCode;

    fn entry(id: u16, value: u32) -> Vec<u8> {
        [&id.to_be_bytes()[..], &value.to_be_bytes()].concat()
    }

    #[test]
    fn what_is_written_is_read_back() {
        let settings = Settings {
            header_table_bytes: 0,
            enable_push: false,
            concurrent_streams: 128,
            initial_window_bytes: 1 << 20,
            frame_bytes: 32_768,
            header_list_bytes: 65_536,
            connect_protocol: true,
            no_rfc7540_priorities: true,
        };
        let mut bytes = Vec::new();
        settings.write(&mut bytes);
        let mut read = Settings::default();
        read.apply_first(&bytes, Role::Server).unwrap();
        assert_eq!(read, settings);
    }

    #[test]
    fn values_out_of_range_end_the_connection() {
        for (id, value, code) in [
            (2, 2, ErrorCode::PROTOCOL_ERROR),
            (4, 1 << 31, ErrorCode::FLOW_CONTROL_ERROR),
            (5, 16_383, ErrorCode::PROTOCOL_ERROR),
            (5, 1 << 24, ErrorCode::PROTOCOL_ERROR),
            (8, 2, ErrorCode::PROTOCOL_ERROR),
            (9, 2, ErrorCode::PROTOCOL_ERROR),
        ] {
            let outcome = Settings::default().apply_first(&entry(id, value), Role::Client);
            assert_eq!(outcome.unwrap_err().code, code, "{id} {value}");
        }
        let outcome = Settings::default().apply_first(&[0; 5], Role::Client);
        assert_eq!(outcome.unwrap_err().code, ErrorCode::FRAME_SIZE_ERROR);
        let outcome = Settings::default().apply_first(&entry(2, 1), Role::Server);
        assert_eq!(outcome.unwrap_err().code, ErrorCode::PROTOCOL_ERROR);
    }

    #[test]
    fn unknown_settings_say_nothing_and_later_ones_win() {
        let mut settings = Settings::default();
        let bytes = [entry(0x99, 5), entry(4, 1), entry(4, 2)].concat();
        settings.apply_first(&bytes, Role::Client).unwrap();
        assert_eq!(settings, Settings { initial_window_bytes: 2, ..Settings::default() });
    }

    #[test]
    fn promises_are_not_taken_back() {
        let mut settings = Settings::default();
        settings.apply_first(&entry(8, 1), Role::Server).unwrap();
        assert!(settings.apply_update(&entry(8, 0), Role::Server).is_err());
        assert!(settings.apply_update(&entry(9, 1), Role::Server).is_err());
    }
}
