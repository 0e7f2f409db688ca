//! What an engine reports.

use foretoken_des_kernel::SimTime;
use foretoken_latency_model::StepShape;
use foretoken_workload::Occurrence;

/// Something that an engine reports while it is advanced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EngineEvent {
    /// Something happened to a request. Tokens and ends carry the time at which the client sees
    /// them, which may lie after the engine's clock.
    Request(Occurrence),
    /// A step ended, and its output is applied now.
    Step(StepReport),
}

/// A step that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StepReport {
    /// When the accelerator started it.
    pub start: SimTime,
    /// When the accelerator ended it.
    pub end: SimTime,
    /// What it computed.
    pub shape: StepShape,
}

/// The engine's state as it would report it to a scraper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct EngineStats {
    /// Requests in the running batch.
    pub running: u32,
    /// Requests that wait, those still in the front end included.
    pub waiting: u32,
    /// KV blocks in use.
    pub kv_used: u32,
    /// KV blocks that can be used.
    pub kv_total: u32,
}
