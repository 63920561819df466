//! phalanx
fn main() {}
