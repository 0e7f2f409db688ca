//! What holds for whole runs, told by hand.

mod golden;
mod properties;
mod sections;
mod told;
