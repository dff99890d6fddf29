//! The closed sets of values that labels of metrics take: bounded by construction.

use crate::counters::Label;

macro_rules! label {
    ($(#[$doc:meta])* $name:ident, $label:literal; $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)*) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            /// How many values there are.
            pub const COUNT: usize = <Self as Label>::ALL.len();
        }

        impl Label for $name {
            const NAME: &'static str = $label;
            const ALL: &'static [Self] = &[$(Self::$variant),*];

            fn index(self) -> usize {
                self as usize
            }

            fn text(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }
    };
}

label! {
    /// The first digit of a status.
    StatusClass, "class";
    /// 100 to 199.
    Informational = "1xx",
    /// 200 to 299.
    Success = "2xx",
    /// 300 to 399.
    Redirection = "3xx",
    /// 400 to 499.
    ClientError = "4xx",
    /// 500 to 599.
    ServerError = "5xx",
    /// Any other number.
    Other = "other",
}

impl StatusClass {
    /// The class of a status.
    #[inline]
    pub fn of(status: u16) -> Self {
        match status {
            200..=299 => Self::Success,
            300..=399 => Self::Redirection,
            400..=499 => Self::ClientError,
            500..=599 => Self::ServerError,
            100..=199 => Self::Informational,
            _ => Self::Other,
        }
    }
}

label! {
    /// Why a connection was closed before its first request.
    ConnectionRefusal, "reason";
    /// All connections allowed are in use.
    Limit = "limit",
    /// The client address has all connections it may have.
    LimitPerAddress = "limit_per_address",
    /// The node is shutting down.
    Draining = "draining",
    /// The TLS handshake failed.
    TlsHandshake = "tls_handshake",
    /// The system refused to accept: out of file descriptors, mostly.
    Accept = "accept",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_have_a_class() {
        let table = [
            (100, "1xx"),
            (101, "1xx"),
            (200, "2xx"),
            (304, "3xx"),
            (404, "4xx"),
            (499, "4xx"),
            (599, "5xx"),
            (0, "other"),
            (999, "other"),
        ];
        for (status, expected) in table {
            assert_eq!(StatusClass::of(status).text(), expected);
        }
    }

    #[test]
    fn indexes_follow_the_list() {
        for (index, class) in StatusClass::ALL.iter().enumerate() {
            assert_eq!(class.index(), index);
        }
        for (index, reason) in ConnectionRefusal::ALL.iter().enumerate() {
            assert_eq!(reason.index(), index);
        }
    }
}
