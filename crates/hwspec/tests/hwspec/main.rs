//! Counts and plans against published and measured figures, and invariants over random inputs.

mod fuzz;
mod ground_truth;
mod plans;
mod published;
mod whole_files;
