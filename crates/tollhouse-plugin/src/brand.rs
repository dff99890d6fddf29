//! Product name that clients see: Tollhouse, or APISIX for users who replaced it and compare
//! answers or search for that name.

/// Product name in pages and headers that the gateway generates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Brand {
    /// Tollhouse, the default.
    #[default]
    Tollhouse,
    /// APISIX, including the error pages of its server.
    Apisix,
}

impl Brand {
    /// Returns the HTML page of an error that the gateway answers itself.
    #[must_use]
    pub fn error_page(self, title: &str) -> String {
        let signature = match self {
            Brand::Tollhouse => "",
            Brand::Apisix => {
                "<p><em>Powered by <a href=\"https://apisix.apache.org/\">APISIX</a>.</em></p>"
            }
        };
        self.signed(title, signature)
    }

    /// Returns the HTML page of any other status, such as a redirect.
    #[must_use]
    pub fn page(self, title: &str) -> String {
        self.signed(title, "")
    }

    fn signed(self, title: &str, signature: &str) -> String {
        let server = match self {
            Brand::Tollhouse => "tollhouse",
            Brand::Apisix => "openresty",
        };
        format!(
            "<html>\r\n<head><title>{title}</title></head>\r\n<body>\r\n\
             <center><h1>{title}</h1></center>\r\n<hr><center>{server}</center>\r\n\
             {signature}</body>\r\n</html>\r\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_names_who_answers() {
        let own = Brand::Tollhouse.error_page("502 Bad Gateway");
        assert!(own.contains("<center>tollhouse</center>") && own.contains("502 Bad Gateway"));
        assert!(!own.contains("APISIX") && !own.contains("openresty"));
        let imitated = Brand::Apisix.error_page("502 Bad Gateway");
        assert!(imitated.ends_with("APISIX</a>.</em></p></body>\r\n</html>\r\n"));
        assert!(
            Brand::Apisix
                .page("302 Found")
                .ends_with("openresty</center>\r\n</body>\r\n</html>\r\n")
        );
    }
}
