//! KV that crosses the border of an engine: what vLLM calls a KV connector, seen from its scheduler.
//!
//! An engine does not move KV and does not know other engines. A request says at its submission what
//! it has to do with them ([`KvTransfer`]), the engine reports what is to be read from outside
//! ([`KvLoad`]), and the host, who knows the link, says when that has happened.
//!
//! Disaggregated prefill and decode, as vLLM does it with NIXL:
//!
//! ```text
//! host                                 prefill engine            decode engine
//! submit_remote(.., produce())    ->   computes the prompt
//!                                 <-   Finished(Length); blocks stay
//! submit_remote(.., consume())    ->                             takes blocks, parks the request
//!                                 <-                             KvLoad: 3 blocks
//!   ... the link is busy ...
//! kv_loaded                       ->                             computes one token, goes on
//! release_kv                      ->   frees the blocks
//! ```
//!
//! A host with a link that takes 3 ms, whatever it carries:
//!
//! ```
//! use std::sync::Arc;
//! use foretoken_des_kernel::{SimDuration, SimTime};
//! use foretoken_engine::{Engine, EngineConfig, EngineEvent, KvTransfer, Policies};
//! # use foretoken_latency_model::{Fine, LatencyModel, StepShape};
//! use foretoken_workload::{ContentId, Lifecycle, Prompt, Request, RequestId, Segment, TokenRun};
//! # #[derive(Debug)]
//! # struct TenMillis;
//! # impl LatencyModel for TenMillis {
//! #     fn step(&self, _shape: &StepShape) -> Fine {
//! #         Fine::from_nanos_f64(10e6).expect("a small positive number")
//! #     }
//! # }
//!
//! let engine = || Engine::new(EngineConfig::default(), Arc::new(TenMillis), Policies::fcfs());
//! let (mut prefill, mut decode) = (engine()?, engine()?);
//! let prompt = Prompt::new([Segment::new(ContentId::new(0), 100)])?;
//! let id = RequestId::new(0);
//!
//! let request = Request::new(id, SimTime::ZERO, prompt.clone(), 1);
//! prefill.submit_remote(SimTime::ZERO, request, KvTransfer::produce());
//! let mut computed = SimTime::ZERO;
//! while let Some(now) = prefill.next_wake() {
//!     prefill.advance(now, &mut |event| match event {
//!         EngineEvent::Request(it) if matches!(it.what, Lifecycle::Finished { .. }) => computed = it.at,
//!         _ => {}
//!     });
//! }
//! assert_eq!(prefill.stats().kv_used, 7);
//!
//! let request = Request::new(id, SimTime::ZERO, prompt, 3);
//! decode.submit_remote(computed, request, KvTransfer::consume());
//! let mut read = None;
//! let mut tokens = Vec::new();
//! while let Some(now) = read.into_iter().chain(decode.next_wake()).min() {
//!     if read == Some(now) {
//!         read = None;
//!         decode.kv_loaded(now, id);
//!         prefill.release_kv(now, id);
//!     }
//!     decode.advance(now, &mut |event| match event {
//!         EngineEvent::KvLoad { at, load } => {
//!             assert_eq!((load.tokens, load.blocks), (100, 7));
//!             read = Some(at + SimDuration::from_millis(3));
//!         }
//!         _ => tokens.extend(event.tokens().into_iter().flat_map(TokenRun::arrivals)),
//!     });
//! }
//! // Computed at 10 ms and read at 13 ms, which the empty step of this instant reports. The next one
//! // is planned 1 ms later and computes the last token of the prompt.
//! let millis = |n| SimTime::ZERO + SimDuration::from_millis(n);
//! assert_eq!(tokens, [24, 34, 44].map(millis));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What the workers have seen, an engine learns with the output of a step: a transfer that ends while
//! a step runs is noticed when that step's output is applied, and is of use to the next step that is
//! planned. An engine whose requests only wait for loads plans empty steps, with pauses of 1 ms. One
//! without requests plans none: blocks that were released meanwhile come back with its next step.

use foretoken_workload::RequestId;

/// What a request has to do with KV outside its engine (vLLM: `kv_transfer_params` and what a
/// connector makes of them).
///
/// ```
/// use foretoken_engine::{KvOffer, KvTransfer};
///
/// assert_eq!(KvTransfer::local(), KvTransfer::default());
/// // 512 tokens lie in a store so near that reading them takes no time.
/// let stored = KvTransfer::offering(KvOffer::InStep { tokens: 512 });
/// assert_ne!(stored, KvTransfer::consume());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct KvTransfer {
    /// KV of its first tokens that can be read from outside.
    pub offer: KvOffer,
    /// What becomes of its blocks when it ends.
    pub at_end: AtEnd,
}

impl KvTransfer {
    /// Nothing crosses the border.
    pub const fn local() -> Self {
        Self {
            offer: KvOffer::Nothing,
            at_end: AtEnd::Free,
        }
    }

    /// The prefill side (`do_remote_decode`): others read its KV when it has ended. The caller asks
    /// for one output token.
    pub const fn produce() -> Self {
        Self {
            offer: KvOffer::Nothing,
            at_end: AtEnd::Hold,
        }
    }

    /// The decode side (`do_remote_prefill`): the KV of its whole prompt is read from elsewhere, as
    /// far as the prefix cache does not have it.
    pub const fn consume() -> Self {
        Self::offering(KvOffer::Load { tokens: u32::MAX })
    }

    /// Part of its KV can be read from outside.
    pub const fn offering(offer: KvOffer) -> Self {
        Self {
            offer,
            at_end: AtEnd::Free,
        }
    }
}

/// The answer of a connector to "what of this request do you have?", asked when the request is
/// admitted.
///
/// Token counts are from the start of the prompt, hits of the prefix cache included; more than there
/// are known tokens means all. An offer is taken up once: after a preemption the request is
/// recomputed here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum KvOffer {
    /// Nothing.
    #[default]
    Nothing,
    /// Not known yet: ask again in the next step. Until [`Engine::offer`](crate::Engine::offer)
    /// changes it the request is passed over.
    Later,
    /// Read inside the step: counts as computed at once. The last known token is computed here all
    /// the same. The time of reading is the host's to add; the engine adds none.
    InStep {
        /// Tokens from the start.
        tokens: u32,
    },
    /// Read beside the steps. The request is parked with its blocks, and goes on when the load has
    /// been reported. vLLM 0.15.1 then takes all blocks for full (but computes the last known token),
    /// so offer whole blocks or all tokens.
    Load {
        /// Tokens from the start.
        tokens: u32,
    },
}

impl KvOffer {
    /// Tokens on offer beyond the first `local` of `known` ones.
    pub(crate) fn beyond(self, local: u32, known: u32) -> u32 {
        match self {
            Self::Nothing | Self::Later => 0,
            Self::InStep { tokens } => tokens.min(known - 1).saturating_sub(local),
            Self::Load { tokens } => tokens.min(known).saturating_sub(local),
        }
    }

    /// Whether it is read beside the steps.
    pub(crate) fn loads(self) -> bool {
        matches!(self, Self::Load { .. })
    }
}

/// What becomes of a request's blocks when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum AtEnd {
    /// They are free.
    #[default]
    Free,
    /// If it ends by its length they stay allocated, for others to read, until
    /// [`Engine::release_kv`](crate::Engine::release_kv): they count as used, and nobody can take them.
    /// An end of another kind leaves nothing, nor does an end after the blocks were lost to a
    /// preemption.
    Hold,
}

/// What the workers are told to read from outside for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct KvLoad {
    /// The request.
    pub request: RequestId,
    /// Tokens that the prefix cache did not have.
    pub tokens: u32,
    /// Blocks to fill: those without local content. Whole blocks are read, the last one too.
    pub blocks: u32,
}

impl KvLoad {
    /// Nothing is read, the other side is only told that it may free its blocks: everything was here
    /// already, or the request was aborted before its load began.
    pub(crate) const fn confirmation(request: RequestId) -> Self {
        Self {
            request,
            tokens: 0,
            blocks: 0,
        }
    }

    /// Whether there is nothing to read. Then no [`Engine::kv_loaded`](crate::Engine::kv_loaded) is
    /// awaited, and the other side may free its blocks as soon as it hears of it.
    pub const fn is_confirmation(&self) -> bool {
        self.blocks == 0
    }
}
