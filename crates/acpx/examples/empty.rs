//! A program that does nothing: the floor of what the benchmark measures. Whatever any program takes to start and
//! to end, this one takes too.

fn main() {}
