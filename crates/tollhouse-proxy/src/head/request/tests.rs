//! Tables for the module above.
