//! What holds for whole runs, told by hand.

mod decodes;
mod golden;
mod properties;
mod sections;
mod streamed;
mod together;
mod told;
