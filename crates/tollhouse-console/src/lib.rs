//! Built files of the web console (`cargo x console build`): contents, media types, and the HTML
//! document that loads them. The sources are in `console/` at the root of the tree.

#![forbid(unsafe_code)]

use std::io::Write;
use std::sync::OnceLock;

use flate2::Compression;
use flate2::write::GzEncoder;

include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// Name of the document, served at every address below `/ui/`.
const DOCUMENT: &str = "index.html";

/// Placeholder in the document for the nonce of its Content-Security-Policy.
const NONCE_MARK: &str = "__NONCE__";

/// Prefix of relative file references in the document; replaced so that they work at any address.
const RELATIVE: &str = "=\"./";

/// File of the console, embedded in the program.
#[derive(Debug)]
pub struct Asset {
    name: &'static str,
    bytes: &'static [u8],
    packed: OnceLock<Vec<u8>>,
}

impl Asset {
    const fn new(name: &'static str, bytes: &'static [u8]) -> Self {
        Self { name, bytes, packed: OnceLock::new() }
    }

    /// Returns the media type for the header `Content-Type`.
    pub fn kind(&self) -> &'static str {
        match self.name.rsplit_once('.').map(|(_, ending)| ending) {
            Some("js") => "text/javascript",
            Some("css") => "text/css",
            Some("svg") => "image/svg+xml",
            Some("json") => "application/json",
            _ => "application/octet-stream",
        }
    }

    pub fn bytes(&self) -> &'static [u8] {
        self.bytes
    }

    /// Returns the content compressed with gzip. Compressed once, at the first call.
    pub fn gzip(&'static self) -> &'static [u8] {
        self.packed.get_or_init(|| {
            let mut packer = GzEncoder::new(Vec::new(), Compression::best());
            // Writing to memory cannot fail. If it did, clients without gzip would still be served.
            let written = packer.write_all(self.bytes);
            written.and_then(|()| packer.finish()).unwrap_or_default()
        })
    }
}

/// Returns the hash of all files. An address that contains this hash always serves equal content.
pub fn build_id() -> &'static str {
    BUILD_ID
}

/// Finds a file by name, such as `main.js`. The HTML document is not found; use [`document`].
pub fn asset(name: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.name == name && asset.name != DOCUMENT)
}

/// Returns the HTML document with this nonce in its scripts. `base`, which ends with a slash,
/// becomes the prefix of the URLs of its files. Returns `None` if the program was built without the
/// console.
pub fn document(nonce: &str, base: &str) -> Option<String> {
    let document = ASSETS.iter().find(|asset| asset.name == DOCUMENT)?;
    let text = std::str::from_utf8(document.bytes).ok()?;
    Some(text.replace(NONCE_MARK, nonce).replace(RELATIVE, &format!("=\"{base}")))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;

    /// Largest transfer of the files that the document names, in bytes.
    const FIRST_LOAD_BYTES_MAX: usize = 220_000;

    #[test]
    fn the_document_loads_files_that_exist_and_holds_no_script() {
        let text = document("n0", "/b/").expect("the page is built");
        assert!(!text.contains(NONCE_MARK) && text.contains("n0"), "{text}");
        for part in text.split("\"/b/").skip(1) {
            let name = part.split('"').next().unwrap_or_default();
            assert!(asset(name).is_some(), "{name}");
        }
        for script in text.split("<script").skip(1) {
            let body = script.split_once('>').map_or("", |(_, body)| body);
            assert!(body.starts_with("</script>"), "an inline script: {body}");
        }
    }

    #[test]
    fn the_first_load_is_small() {
        let text = document("n0", "/b/").expect("the page is built");
        let names = text.split("\"/b/").skip(1).filter_map(|part| part.split('"').next());
        let bytes: usize = names.filter_map(asset).map(|asset| asset.gzip().len()).sum();
        assert!(bytes < FIRST_LOAD_BYTES_MAX, "{bytes} bytes");
    }

    #[test]
    fn packed_files_unpack_to_themselves() {
        for asset in &ASSETS {
            let mut unpacked = Vec::new();
            GzDecoder::new(asset.gzip()).read_to_end(&mut unpacked).expect("it is gzip");
            assert_eq!(unpacked, asset.bytes, "{}", asset.name);
        }
    }

    #[test]
    fn nothing_is_fetched_from_elsewhere() {
        let text = document("n0", "/b/").expect("the page is built");
        assert!(!text.contains("http://") && !text.contains("https://"), "{text}");
        assert!(asset(DOCUMENT).is_none() && asset("../Cargo.toml").is_none());
    }
}
