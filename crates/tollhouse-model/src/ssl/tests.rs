//! SSL objects.
