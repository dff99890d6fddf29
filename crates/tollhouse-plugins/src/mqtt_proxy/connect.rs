//! The CONNECT packet of MQTT, up to the client id (MQTT 3.1.1 §3.1, 5.0 §3.1). Sans-IO.

/// What is looked at of a packet.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Connect<'p> {
    /// `MQTT`, or `MQIsdp` of version 3.1.
    pub protocol_name: &'p [u8],
    /// 3, 4 or 5.
    pub level: u8,
    /// May be empty.
    pub client_id: &'p [u8],
}

/// The bytes are no CONNECT packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoConnect;

/// The type of the packet with its reserved flags.
const CONNECT: u8 = 0x10;

/// Bytes of a length of variable size.
const VARIABLE_BYTES_MAX: usize = 4;

/// Longest name of the protocol.
const NAME_BYTES_MAX: usize = 6;

/// From this version on properties stand before the client id.
const LEVEL_WITH_PROPERTIES: u8 = 5;

/// Reads the packet at the front of `bytes`; `None` while the client id has not arrived. The verdict is
/// the same for any split of the bytes.
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
    // Flags, then seconds of keep-alive.
    reader.take(1 + 2)?;
    if level >= LEVEL_WITH_PROPERTIES {
        let properties = reader.variable()?;
        reader.take(properties)?;
    }
    let id_bytes = reader.length()?;
    Ok(Connect { protocol_name, level, client_id: reader.take(id_bytes)? })
}

/// Why nothing more can be read.
enum End {
    /// It has not arrived.
    Missing,
    /// It cannot be.
    Wrong,
}

/// Takes bytes from the front, as many as there are and as the packet says it has.
struct Reader<'p> {
    bytes: &'p [u8],
    /// Bytes left of the packet.
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

    /// Two bytes, the high one first.
    fn length(&mut self) -> Result<usize, End> {
        let bytes = self.take(2)?;
        Ok(usize::from(u16::from_be_bytes([bytes[0], bytes[1]])))
    }

    /// Seven bits a byte, the low ones first.
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
