//! The program `acpx`.

fn main() {}
