//! What holds for every search.
