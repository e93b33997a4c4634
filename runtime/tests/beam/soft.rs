//! The softened beam by hand.
