//! MQTT CONNECT packet, up to the client id (MQTT 3.1.1 §3.1, 5.0 §3.1). Sans-IO.

/// Fields of a CONNECT packet (MQTT 3.1.1 §3.1).
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Connect<'p> {
    /// `MQTT`, or `MQIsdp` in version 3.1.
    pub protocol_name: &'p [u8],
    /// Protocol level: 3, 4 or 5.
    pub level: u8,
    /// Client id of the packet; may be empty.
    pub client_id: &'p [u8],
}

/// Error: the bytes are not a CONNECT packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoConnect;

/// First byte of a CONNECT packet: type and reserved flags.
const CONNECT: u8 = 0x10;

/// Maximum length of a variable-length integer in bytes.
const VARIABLE_BYTES_MAX: usize = 4;

/// Maximum length of the protocol name in bytes.
const NAME_BYTES_MAX: usize = 6;

/// First level in which properties precede the client id.
const LEVEL_WITH_PROPERTIES: u8 = 5;

/// Parses the packet at the start of `bytes`. Returns `None` until the client id has arrived. The
/// result does not depend on how the bytes are split.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<Connect<'_>>, NoConnect> {
    match read(&mut Reader { bytes, limit: usize::MAX }) {
        Ok(packet) => Ok(Some(packet)),
        Err(End::Missing) => Ok(None),
        Err(End::Wrong) => Err(NoConnect),
    }
}

fn read<'p>(reader: &mut Reader<'p>) -> Result<Connect<'p>, End> {
    if reader.byte()? != CONNECT {
        return Err(End::Wrong);
    }
    let remaining = reader.variable()?;
    reader.limit = remaining;
    let name_bytes = reader.length()?;
    if name_bytes == 0 || name_bytes > NAME_BYTES_MAX {
        return Err(End::Wrong);
    }
    let protocol_name = reader.take(name_bytes)?;
    let level = reader.byte()?;
    // Flags (1 byte) and keep-alive seconds (2 bytes).
    reader.take(1 + 2)?;
    if level >= LEVEL_WITH_PROPERTIES {
        let properties = reader.variable()?;
        reader.take(properties)?;
    }
    let id_bytes = reader.length()?;
    Ok(Connect { protocol_name, level, client_id: reader.take(id_bytes)? })
}

enum End {
    Missing,
    Wrong,
}

/// Reader that checks both the available bytes and the packet's own length.
struct Reader<'p> {
    bytes: &'p [u8],
    /// Number of bytes that remain in the packet.
    limit: usize,
}

impl<'p> Reader<'p> {
    fn take(&mut self, count: usize) -> Result<&'p [u8], End> {
        if count > self.limit {
            return Err(End::Wrong);
        }
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or(End::Missing)?;
        self.bytes = rest;
        self.limit -= count;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, End> {
        self.take(1).map(|taken| taken[0])
    }

    /// Reads a 16-bit length, high byte first.
    fn length(&mut self) -> Result<usize, End> {
        let bytes = self.take(2)?;
        Ok(usize::from(u16::from_be_bytes([bytes[0], bytes[1]])))
    }

    /// Reads a variable-length integer: seven bits per byte, low bits first.
    fn variable(&mut self) -> Result<usize, End> {
        let mut value = 0;
        for index in 0..VARIABLE_BYTES_MAX {
            let byte = self.byte()?;
            value |= usize::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(End::Wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(name: &str, level: u8, properties: Option<&[u8]>, id: &str) -> Vec<u8> {
        let text = |text: &str| [&[0, text.len() as u8][..], text.as_bytes()].concat();
        let mut body = text(name);
        body.extend([level, 2, 0, 60]);
        if let Some(properties) = properties {
            body.push(properties.len() as u8);
            body.extend(properties);
        }
        body.extend(text(id));
        [&[CONNECT, body.len() as u8][..], &body].concat()
    }

    fn verdict(bytes: &[u8]) -> Result<Option<Connect<'_>>, NoConnect> {
        let whole = parse(bytes);
        for end in 0..bytes.len() {
            let early = parse(&bytes[..end]);
            assert!(early == Ok(None) || early == whole, "{end} of {bytes:?}");
        }
        whole
    }

    #[test]
    fn the_client_id_is_found_in_every_version() {
        for (bytes, name, level, id) in [
            (packet("MQTT", 4, None, "sensor"), "MQTT", 4, "sensor"),
            (packet("MQTT", 4, None, ""), "MQTT", 4, ""),
            (packet("MQIsdp", 3, None, "a"), "MQIsdp", 3, "a"),
            (packet("MQTT", 5, Some(&[]), "b"), "MQTT", 5, "b"),
            (packet("MQTT", 5, Some(&[0x11, 0, 0, 0, 9]), "c"), "MQTT", 5, "c"),
        ] {
            let expected = Connect {
                protocol_name: name.as_bytes(),
                level,
                client_id: id.as_bytes(),
            };
            assert_eq!(verdict(&bytes), Ok(Some(expected)), "{bytes:?}");
        }
    }

    #[test]
    fn what_is_no_connect_is_refused_at_once() {
        let mut longer_id = packet("MQTT", 4, None, "sensor");
        let at = longer_id.len() - 7;
        longer_id[at] = 200;
        for bytes in [
            b"GET / HTTP/1.1".to_vec(),
            vec![0x11, 10],
            vec![CONNECT, 0x80, 0x80, 0x80, 0x80, 1],
            vec![CONNECT, 10, 0, 0],
            vec![CONNECT, 10, 0, 7],
            vec![CONNECT, 1, 0, 4],
            longer_id,
        ] {
            assert_eq!(verdict(&bytes), Err(NoConnect), "{bytes:?}");
        }
    }
}
