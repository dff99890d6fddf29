//! The registry's part of the OpenAPI document.
