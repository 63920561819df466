//! phalanxd
fn main() {}
