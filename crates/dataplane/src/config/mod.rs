//! Reading the router's own configuration files: llm-d's `EndpointPickerConfig`.

mod document;
mod schema;

pub use document::ConfigError;
