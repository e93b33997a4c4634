//! The `rtc` command.

fn main() {}
