//! [`Energy`]: what the accelerators draw for the tokens that they serve.

use foretoken_des_kernel::SimDuration;
use foretoken_hwspec::KernelPower;
use foretoken_metrics::{DecodeSteps, MetricSink, Report, StepRecord};
use foretoken_workload::TokenRun;
use serde::{Deserialize, Serialize};

use crate::deployment::Resolved;

/// Energy of accelerators while steps run.
///
/// The power of a step follows from its tokens: up to 256 memory limits it, from 2048 on the compute units do, and
/// between them the power is interpolated, as the accelerator's [`KernelPower`] has it. Boards only: neither hosts nor
/// cooling; and only while steps run: the power of idle accelerators was not measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Energy {
    /// All of it.
    pub joules: f64,
    /// For each output token of a complete request; `None` without any.
    pub joules_per_output_token: Option<f64>,
    /// For each prompt and output token of a complete request; `None` without any.
    pub joules_per_token: Option<f64>,
    /// Where the power comes from.
    pub source: EnergySource,
}

/// Where the power of accelerators comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum EnergySource {
    /// Kernels were measured on every accelerator.
    Measured,
    /// Of one accelerator or more only the board power is known; 54 to 97 % of it is taken, as accelerators that were
    /// measured draw.
    Tdp,
}

/// What the accelerators that were measured (H200, B200, GB200) draw: the middle of each share.
const TYPICAL: KernelPower = KernelPower {
    memory_bound: 0.54,
    compute_bound: 0.97,
};

/// Tokens of a step up to which memory limits it, and from which on the compute units do: where the kernels that powers
/// come from begin and end.
const FEW_TOKENS: u32 = 256;
const MANY_TOKENS: u32 = 2048;

/// Listens for the steps of each engine.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meter(Vec<Worked>);

/// The steps of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Worked {
    nanos: u128,
    /// The same, each times the tokens of its step beyond [`FEW_TOKENS`].
    token_nanos: u128,
}

impl MetricSink for Meter {
    fn on_tokens(&mut self, _: &TokenRun<'_>) {}

    fn on_step(&mut self, step: &StepRecord) {
        self.add(step.instance, step.tokens, step.end - step.start);
    }

    fn on_decode_steps(&mut self, steps: &DecodeSteps<'_>) {
        let times = steps.starts.iter().zip(steps.ends);
        let took = times.map(|(&start, &end)| end - start).sum();
        self.add(steps.instance, steps.sequences, took);
    }
}

impl Worked {
    /// Joules of accelerators of so many watts together.
    fn joules(self, watts: f64, power: KernelPower) -> f64 {
        let seconds = self.nanos as f64 / 1e9;
        let compute = self.token_nanos as f64 / 1e9 / f64::from(MANY_TOKENS - FEW_TOKENS);
        let KernelPower {
            memory_bound,
            compute_bound,
        } = power;
        watts * (memory_bound * (seconds - compute) + compute_bound * compute)
    }
}

impl Meter {
    /// Steps of so many tokens took so long.
    fn add(&mut self, instance: u32, tokens: u32, took: SimDuration) {
        let engine = instance as usize;
        if self.0.len() <= engine {
            self.0.resize(engine + 1, Worked::default());
        }
        let nanos = u128::from(took.as_nanos());
        let tokens = tokens.clamp(FEW_TOKENS, MANY_TOKENS) - FEW_TOKENS;
        self.0[engine].nanos += nanos;
        self.0[engine].token_nanos += nanos * u128::from(tokens);
    }

    /// What these engines, in the order of their deployments, drew; `None` if the board power of one is not known.
    pub(crate) fn energy(&self, deployments: &[Resolved], report: &Report) -> Option<Energy> {
        let mut engines = self.0.iter();
        let (mut joules, mut source) = (0.0, EnergySource::Measured);
        for deployment in deployments {
            let gpu = &deployment.gpu;
            let watts = gpu.tdp_watts? * f64::from(deployment.tensor_parallel.get());
            let power = gpu.kernel_power.unwrap_or_else(|| {
                source = EnergySource::Tdp;
                TYPICAL
            });
            for worked in engines.by_ref().take(deployment.replicas as usize) {
                joules += worked.joules(watts, power);
            }
        }
        let all = &report.overall;
        let each = |tokens: u64| (tokens > 0).then(|| joules / tokens as f64);
        Some(Energy {
            joules,
            joules_per_output_token: each(all.output_tokens),
            joules_per_token: each(all.prompt_tokens + all.output_tokens),
            source,
        })
    }
}

impl core::fmt::Display for Energy {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.joules_per_output_token {
            Some(joules) => write!(f, "energy: {joules:.3} J per output token")?,
            None => write!(f, "energy: {:.0} J", self.joules)?,
        }
        let source = match self.source {
            EnergySource::Measured => "measured kernel powers",
            EnergySource::Tdp => "54 to 97 % of the board power, not measured",
        };
        write!(f, " ({source}; of steps only, without idle time)")
    }
}

#[cfg(test)]
mod tests {
    use foretoken_des_kernel::SimTime;

    use super::*;

    fn step(instance: u32, ms: u64, tokens: u32) -> StepRecord {
        StepRecord {
            instance,
            start: SimTime::ZERO,
            end: SimTime::ZERO + SimDuration::from_millis(ms),
            tokens,
            sequences: 1,
        }
    }

    #[test]
    fn the_power_of_a_step_rises_with_its_tokens_between_two_bounds() {
        let power = KernelPower {
            memory_bound: 0.5,
            compute_bound: 1.0,
        };
        for (tokens, joules) in [
            (1, 50.0),
            (256, 50.0),
            (1152, 75.0),
            (2048, 100.0),
            (9999, 100.0),
        ] {
            let mut meter = Meter::default();
            meter.on_step(&step(1, 1_000, tokens));
            assert_eq!(meter.0.len(), 2);
            let drawn = meter.0[1].joules(100.0, power);
            assert!((drawn - joules).abs() < 1e-9, "{tokens}: {drawn}");
        }
    }

    #[test]
    fn steps_of_decodes_draw_what_they_draw_one_by_one() {
        let times = [0, 30, 70, 71].map(SimTime::from_nanos);
        for sequences in [1, 300, 9_999] {
            let steps = DecodeSteps {
                instance: 1,
                sequences,
                starts: &times[..3],
                ends: &times[1..],
            };
            let (mut together, mut apart) = (Meter::default(), Meter::default());
            together.on_decode_steps(&steps);
            steps.records().for_each(|step| apart.on_step(&step));
            assert_eq!(together.0, apart.0);
        }
    }
}
