//! Counterparts and faults for acpx's own tests.
