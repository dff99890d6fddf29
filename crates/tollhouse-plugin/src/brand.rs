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

    /// Returns the page of an error with the id of the request's trace, which clients can quote. The
    /// imitated pages stay without it, because tools compare them.
    #[must_use]
    pub fn traced_error_page(self, title: &str, trace_id: &str) -> String {
        match self {
            Brand::Tollhouse => {
                self.signed(title, &format!("<center>trace {trace_id}</center>\r\n"))
            }
            Brand::Apisix => self.error_page(title),
        }
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
        let traced = Brand::Tollhouse.traced_error_page("502 Bad Gateway", "4bf9");
        assert!(traced.contains("<center>trace 4bf9</center>"), "{traced}");
        let imitated = Brand::Apisix.error_page("502 Bad Gateway");
        assert_eq!(Brand::Apisix.traced_error_page("502 Bad Gateway", "4bf9"), imitated);
        assert!(imitated.ends_with("APISIX</a>.</em></p></body>\r\n</html>\r\n"));
        assert!(
            Brand::Apisix
                .page("302 Found")
                .ends_with("openresty</center>\r\n</body>\r\n</html>\r\n")
        );
    }
}
