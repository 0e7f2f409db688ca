//! [`Table`]: timings of kernels in CSV files, recognised by their columns.

use std::collections::BTreeMap;
use std::path::Path;

use csv::StringRecord;
use foretoken::hwspec::KvFormat;
use foretoken::latency_model::kernels::{ExpertLayer, Heads, LatentHeads};

use super::timing::{Kernel, Timing, cache_format, weight_format};
use crate::error::CalibrateError;

/// The rows of one file.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Table {
    /// Its name, for messages.
    pub name: String,
    /// What was timed.
    pub timings: Vec<Timing>,
    /// Rows that say nothing a prediction could be held against, by the reason.
    pub left_out: BTreeMap<LeftOut, usize>,
}

/// Why a row is left out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[non_exhaustive]
pub enum LeftOut {
    /// A cell that is missing or no number in range.
    #[error("column {column} is {value:?}: not {expected}")]
    Malformed {
        /// The column.
        column: &'static str,
        /// What it holds.
        value: String,
        /// What it should.
        expected: &'static str,
    },
    /// A number format without a curve.
    #[error("number format {0:?}")]
    UnknownFormat(String),
    /// An accelerator that the catalog lacks.
    #[error("accelerator {0:?} is not in the catalog")]
    UnknownAccelerator(String),
    /// Launched kernel by kernel: the host's time shows, which is no kernel's.
    #[error("timed without a captured graph: the host's launches are in it")]
    Eager,
    /// A collective that is no all-reduce.
    #[error("collective {0:?}")]
    OtherCollective(String),
    /// An all-reduce that is not the one vLLM runs in its graphs.
    #[error("all-reduce of {0:?} alone: vLLM takes the fastest of several")]
    OtherLibrary(String),
    /// Per-tensor FP8 experts of vLLM 0.24, which are slower there than 16-bit ones in nearly nine of
    /// ten shapes: a kernel without settings for these shapes, which vLLM warns of.
    #[error("per-tensor FP8 experts of vLLM 0.24: slower than in 16 bits")]
    SuspiciousExperts,
    /// Experts divided among devices under skewed routing: the load of the timed device is unknown.
    #[error("skewed routing to divided experts: the load of the device is unknown")]
    SkewedShare,
    /// Latent decodes on A100 and L40S: those tables are of `TensorRT-LLM`, whose thread blocks read
    /// a whole context each there, which no serving software does.
    #[error("latent decodes by a kernel that does not split contexts")]
    UnsplitLatent,
    /// A prompt beyond its sliding window.
    #[error("a prompt that is longer than its sliding window")]
    WindowedPrompt,
}

/// What a file holds, by its columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    Gemm,
    Decode,
    Prefill,
    /// Attention with a `phase`: chunks behind a context, windows.
    Phased,
    Latent,
    Experts,
    Collective,
}

impl Layout {
    /// Columns that a layout has, and those that only other layouts have.
    const ALL: [(Self, &'static [&'static str], &'static [&'static str]); 7] = [
        (
            Self::Experts,
            &[
                "tokens", "hidden", "inter", "topk", "experts", "moe_tp", "moe_ep", "dtype",
            ],
            &[],
        ),
        (
            Self::Latent,
            &[
                "phase",
                "heads_local",
                "mla_dtype",
                "kv_dtype",
                "batch",
                "new_tokens",
                "ctx_len",
            ],
            &[],
        ),
        (
            Self::Phased,
            &["phase", "batch", "new_tokens", "ctx_len", "head_dim"],
            &["heads_local"],
        ),
        (
            Self::Prefill,
            &["batch", "new_tokens", "q_heads", "kv_heads", "head_dim"],
            &["phase", "ctx_len"],
        ),
        (
            Self::Decode,
            &["batch", "ctx_len", "q_heads", "kv_heads", "head_dim"],
            &["phase", "new_tokens"],
        ),
        (Self::Collective, &["num_gpus", "bytes", "mode"], &[]),
        (Self::Gemm, &["dtype", "m", "n", "k"], &[]),
    ];

    fn of(columns: &BTreeMap<String, usize>) -> Option<Self> {
        let has = |name: &&str| columns.contains_key(*name);
        let common = ["gpu", "time_us"];
        Self::ALL
            .into_iter()
            .find(|(_, needed, foreign)| {
                common.iter().chain(*needed).all(has) && !foreign.iter().any(has)
            })
            .map(|(layout, ..)| layout)
    }
}

impl Table {
    /// Reads a file.
    ///
    /// # Errors
    /// [`CalibrateError::File`], and what [`parse`](Self::parse) says.
    pub fn read(path: &Path) -> Result<Self, CalibrateError> {
        let text =
            std::fs::read_to_string(path).map_err(|source| CalibrateError::file(path, source))?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// Reads a table from text; `name` appears in messages. A row that makes no sense is counted
    /// among those left out.
    ///
    /// # Errors
    /// [`CalibrateError::Table`] if the columns are of no known layout.
    pub fn parse(name: &str, text: &str) -> Result<Self, CalibrateError> {
        let mut reader = csv::ReaderBuilder::new()
            .flexible(true)
            .from_reader(text.as_bytes());
        let unreadable = |problem: String| CalibrateError::Table {
            name: name.to_owned(),
            problem,
        };
        let header = reader
            .headers()
            .map_err(|error| unreadable(error.to_string()))?;
        let columns: BTreeMap<String, usize> = header
            .iter()
            .enumerate()
            .map(|(at, column)| (column.trim().to_owned(), at))
            .collect();
        let layout = Layout::of(&columns).ok_or_else(|| {
            let known: Vec<String> = Layout::ALL
                .iter()
                .map(|(.., needed, _)| needed.join(", "))
                .collect();
            unreadable(format!(
                "columns are {}: allowed are gpu, time_us and one of: {}",
                header.iter().collect::<Vec<_>>().join(", "),
                known.join("; ")
            ))
        })?;
        let mut table = Self {
            name: name.to_owned(),
            timings: Vec::new(),
            left_out: BTreeMap::new(),
        };
        for record in reader.records() {
            let timing = match record {
                Ok(record) => Row {
                    columns: &columns,
                    record: &record,
                }
                .timing(layout),
                Err(error) => Err(LeftOut::Malformed {
                    column: "gpu",
                    value: error.to_string(),
                    expected: "text",
                }),
            };
            match timing {
                Ok(timing) => table.timings.push(timing),
                Err(reason) => *table.left_out.entry(reason).or_default() += 1,
            }
        }
        Ok(table)
    }
}

struct Row<'a> {
    columns: &'a BTreeMap<String, usize>,
    record: &'a StringRecord,
}

impl Row<'_> {
    fn text(&self, column: &str) -> Option<&str> {
        let at = *self.columns.get(column)?;
        self.record
            .get(at)
            .map(str::trim)
            .filter(|cell| !cell.is_empty())
    }

    fn malformed(&self, column: &'static str, expected: &'static str) -> LeftOut {
        LeftOut::Malformed {
            column,
            value: self.text(column).unwrap_or_default().to_owned(),
            expected,
        }
    }

    /// A whole number from `low` to 2^31, also as `8.0`.
    fn whole(&self, column: &'static str, low: u32) -> Result<u32, LeftOut> {
        let number: Option<f64> = self.text(column).and_then(|cell| cell.parse().ok());
        let range = f64::from(low)..=2_147_483_648.0;
        number
            .filter(|n| range.contains(n) && n.fract().abs() < f64::EPSILON)
            .map(|n| {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "it is whole, not negative and within u32"
                )]
                let whole = n as u32;
                whole
            })
            .ok_or_else(|| self.malformed(column, "a whole number in range"))
    }

    fn count(&self, column: &'static str) -> Result<u32, LeftOut> {
        self.whole(column, 1)
    }

    fn dtype(&self) -> &str {
        ["dtype", "attn_dtype", "mla_dtype"]
            .iter()
            .find_map(|column| self.text(column))
            .unwrap_or("bfloat16")
    }

    fn cache(&self) -> Result<KvFormat, LeftOut> {
        let dtype = self.text("kv_dtype").unwrap_or("bfloat16");
        cache_format(dtype).ok_or_else(|| LeftOut::UnknownFormat(dtype.to_owned()))
    }

    /// Tables without these columns are those of vLLM 0.14.0.
    fn software(&self) -> String {
        if let Some(version) = self
            .text("impl")
            .and_then(|name| name.strip_prefix("vllm-"))
        {
            return format!("vLLM {version}");
        }
        let framework = match self.text("framework") {
            Some("trtllm") => "TensorRT-LLM",
            Some("vllm") | None => "vLLM",
            Some(other) => other,
        };
        format!("{framework} {}", self.text("version").unwrap_or("0.14.0"))
    }

    fn heads(&self) -> Result<Heads, LeftOut> {
        let [query, kv] = if self.columns.contains_key("q_heads_local") {
            ["q_heads_local", "kv_heads_local"]
        } else {
            ["q_heads", "kv_heads"]
        };
        Ok(Heads {
            query: self.count(query)?,
            kv: self.count(kv)?,
            width: self.count("head_dim")?,
            format: self.cache()?,
        })
    }

    fn timing(&self, layout: Layout) -> Result<Timing, LeftOut> {
        let gpu = self
            .text("gpu")
            .ok_or_else(|| self.malformed("gpu", "a name"))?;
        let micros: Option<f64> = self.text("time_us").and_then(|cell| cell.parse().ok());
        let micros = micros
            .filter(|time| *time > 0.0 && *time < 1e9)
            .ok_or_else(|| self.malformed("time_us", "a time above 0"))?;
        if self.text("timing") == Some("eager") {
            return Err(LeftOut::Eager);
        }
        let kernel = match layout {
            Layout::Gemm => self.gemm()?,
            Layout::Decode => self.decode(self.heads()?, u32::MAX)?,
            Layout::Prefill => self.chunks(self.heads()?, 0)?,
            Layout::Phased => self.phased()?,
            Layout::Latent => self.latent()?,
            Layout::Experts => self.experts()?,
            Layout::Collective => self.collective()?,
        };
        let dtype = match layout {
            Layout::Gemm | Layout::Experts => self.dtype().to_owned(),
            Layout::Collective => "bfloat16".to_owned(),
            // Attention differs by the format of the cache.
            _ => self.text("kv_dtype").unwrap_or("bfloat16").to_owned(),
        };
        Ok(Timing {
            gpu: gpu.to_owned(),
            kernel,
            dtype,
            software: self.software(),
            micros,
            touched: kernel.touched(),
        })
    }

    fn gemm(&self) -> Result<Kernel, LeftOut> {
        let dtype = self.dtype();
        let format =
            weight_format(dtype).ok_or_else(|| LeftOut::UnknownFormat(dtype.to_owned()))?;
        Ok(Kernel::Gemm {
            format,
            shape: [self.count("m")?, self.count("n")?, self.count("k")?],
            // AIConfigurator rotates six weights of plain products, and one of block-scaled ones.
            copies: if matches!(dtype, "bfloat16" | "fp8") {
                6
            } else {
                1
            },
        })
    }

    /// Tables of vLLM 0.14.0 alone, which lack a version, count the new token in the context; the
    /// others do not: their contexts are 127, 1023 and so on.
    fn decode(&self, heads: Heads, window: u32) -> Result<Kernel, LeftOut> {
        let batch = self.count("batch")?;
        let own = u32::from(self.columns.contains_key("version"));
        let context = self
            .whole("ctx_len", 1 - own)?
            .saturating_add(own)
            .min(window);
        Ok(Kernel::Decode {
            heads,
            batch,
            context: u64::from(batch) * u64::from(context),
        })
    }

    fn chunks(&self, heads: Heads, past: u32) -> Result<Kernel, LeftOut> {
        let (batch, new) = (self.count("batch")?, self.count("new_tokens")?);
        Ok(Kernel::Prefill {
            heads,
            chunks: [batch, new, past],
        })
    }

    fn phased(&self) -> Result<Kernel, LeftOut> {
        let heads = self.heads()?;
        let window = match self.text("window") {
            Some(_) => self.count("window")?,
            None => u32::MAX,
        };
        if self.text("phase") == Some("decode") {
            return self.decode(heads, window);
        }
        let past = self.whole("ctx_len", 0)?;
        if u64::from(past) + u64::from(self.count("new_tokens")?) > u64::from(window) {
            return Err(LeftOut::WindowedPrompt);
        }
        self.chunks(heads, past)
    }

    fn latent(&self) -> Result<Kernel, LeftOut> {
        let heads = LatentHeads::deepseek(self.count("heads_local")?, self.cache()?);
        let (batch, past) = (self.count("batch")?, self.whole("ctx_len", 0)?);
        let new = self.count("new_tokens")?;
        if self.text("phase") == Some("decode") || new == 1 {
            let unsplit = ["A100", "L40S"];
            let gpu = self.text("gpu").unwrap_or_default();
            if unsplit.iter().any(|name| gpu.starts_with(name)) {
                return Err(LeftOut::UnsplitLatent);
            }
            let context = u64::from(batch) * (u64::from(past) + 1);
            return Ok(Kernel::LatentDecode {
                heads,
                batch,
                context,
            });
        }
        Ok(Kernel::LatentPrefill {
            heads,
            chunks: [batch, new, past],
        })
    }

    fn experts(&self) -> Result<Kernel, LeftOut> {
        let dtype = self.dtype();
        let format =
            weight_format(dtype).ok_or_else(|| LeftOut::UnknownFormat(dtype.to_owned()))?;
        if dtype == "fp8" && self.text("version").is_some_and(|v| v.starts_with("0.24")) {
            return Err(LeftOut::SuspiciousExperts);
        }
        let devices = self.count("moe_ep")?;
        let skew = match self.text("distribution") {
            None | Some("balanced") => 0.0,
            Some(name) => name
                .strip_prefix("power_law_")
                .and_then(|power| power.parse().ok())
                .filter(|power| (0.0..=4.0).contains(power))
                .ok_or_else(|| self.malformed("distribution", "balanced or power_law_<0 to 4>"))?,
        };
        if skew > 0.0 && devices > 1 {
            return Err(LeftOut::SkewedShare);
        }
        let (experts, per_token) = (self.count("experts")?, self.count("topk")?);
        if per_token > experts || devices > experts || experts > 65_536 {
            return Err(self.malformed("experts", "at least topk and moe_ep, at most 65536"));
        }
        Ok(Kernel::Experts {
            layer: ExpertLayer {
                experts,
                per_token,
                hidden: self.count("hidden")?,
                intermediate: self.count("inter")?.div_ceil(self.count("moe_tp")?),
                format,
            },
            tokens: self.count("tokens")?,
            devices,
            skew,
        })
    }

    fn collective(&self) -> Result<Kernel, LeftOut> {
        match self.text("op") {
            None | Some("all_reduce") => {}
            Some(other) => return Err(LeftOut::OtherCollective(other.to_owned())),
        }
        if self.text("mode") == Some("eager") {
            return Err(LeftOut::Eager);
        }
        match self.text("impl") {
            Some(other) if !other.starts_with("vllm") && !other.starts_with("oneccl") => {
                return Err(LeftOut::OtherLibrary(other.to_owned()));
            }
            _ => {}
        }
        let devices = self.whole("num_gpus", 2)?;
        let bytes: Option<u64> = self.text("bytes").and_then(|cell| cell.parse().ok());
        let bytes = bytes
            .filter(|bytes| *bytes <= 1 << 50)
            .ok_or_else(|| self.malformed("bytes", "a whole number up to 2^50"))?;
        Ok(Kernel::AllReduce { devices, bytes })
    }
}
