//! Efficiencies of kernels, from timings of kernels.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`timing`] | a timed kernel, as one row of a table says it |
//! | [`table`] | tables of timings (CSV), recognised by their columns |
//! | [`predict`](mod@predict) | what a parameter file says of a timed kernel, or why it says nothing |
//! | [`check`](mod@check) | predicted against measured: errors by accelerator, class and format |
//! | [`curve`] | the curves' parameters, with their physical bounds |
//! | [`fit`](mod@fit) | curves from timings, with a held-out fifth |
//!
//! ```
//! use foretoken::hwspec::Catalog;
//! use foretoken::latency_model::KernelParameters;
//! use foretoken_calibrate::kernels::{check::check, table::Table};
//!
//! let table = Table::parse(
//!     "mine.csv",
//!     "gpu,dtype,m,n,k,time_us\n\
//!      H100-SXM-80GB,bfloat16,16,4096,4096,15.5\n",
//! )?;
//! let check = check(&[table], &Catalog::builtin(), KernelParameters::builtin());
//! assert_eq!(check.groups[0].rows, 1);
//! assert!(check.groups[0].median_error < 0.3);
//! # Ok::<(), foretoken_calibrate::CalibrateError>(())
//! ```

mod block;
pub mod check;
pub mod curve;
pub mod file;
pub mod fit;
pub mod predict;
pub mod table;
pub mod timing;
