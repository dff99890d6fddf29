//! The pages that a web server shows where no JSON is due: unknown paths, refused peers.

use hyper::StatusCode;

/// The page of a status; people search it for the reason phrase.
pub(crate) fn html(status: StatusCode) -> String {
    let reason = status.canonical_reason().unwrap_or("Error");
    let title = format!("{} {reason}", status.as_u16());
    format!(
        "<html>\r\n<head><title>{title}</title></head>\r\n<body>\r\n\
         <center><h1>{title}</h1></center>\r\n<hr><center>openresty</center>\r\n\
         <p><em>Powered by <a href=\"https://apisix.apache.org/\">APISIX</a>.</em></p></body>\r\n\
         </html>\r\n"
    )
}
