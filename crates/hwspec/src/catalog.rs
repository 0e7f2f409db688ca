//! Specifications by name: built-in ones, and those of a user's files.
//!
//! The data lie in `catalog/gpus.toml` and `catalog/models.json` of this crate, compiled in and
//! parsed at first use. Models are kept in the field names of their `config.json`, so they pass
//! through the same reader as a user's own file; each entry says whether its decoder's shape was
//! compared with the published file or comes from memory of it.

mod file;

use std::path::Path;
use std::sync::OnceLock;

use serde_json::Value;

use crate::error::HwspecError;
use crate::gpu::GpuSpec;
use crate::model::ModelSpec;
use file::{GpuFile, RawModel};

const GPUS: &str = include_str!("../catalog/gpus.toml");
const MODELS: &str = include_str!("../catalog/models.json");

/// How many similar names an error lists.
const SUGGESTIONS: usize = 3;

/// The built-in accelerator of that name or alias.
///
/// # Errors
///
/// [`HwspecError::UnknownGpu`] lists the closest names.
///
/// ```
/// let gpu = foretoken_hwspec::catalog::gpu("h100")?;
/// assert_eq!(gpu.name, "H100-SXM-80GB");
/// # Ok::<(), foretoken_hwspec::HwspecError>(())
/// ```
pub fn gpu(name: &str) -> Result<GpuSpec, HwspecError> {
    builtin().gpu(name)
}

/// The built-in model of that name, or the model of the `config.json` at that path.
///
/// # Errors
///
/// As [`Catalog::model`].
pub fn model(name: &str) -> Result<ModelSpec, HwspecError> {
    builtin().model(name)
}

fn builtin() -> &'static Catalog {
    static BUILTIN: OnceLock<Catalog> = OnceLock::new();
    BUILTIN.get_or_init(|| {
        Catalog {
            gpus: Vec::new(),
            models: Vec::new(),
        }
        .with_gpus("gpus.toml", GPUS)
        .and_then(|catalog| catalog.with_models("models.json", MODELS))
        .expect("the built-in catalog is read by every test")
    })
}

/// Accelerators and models by name. Later additions hide earlier ones of the same name.
#[derive(Debug, Clone)]
pub struct Catalog {
    gpus: Vec<GpuSpec>,
    models: Vec<ModelEntry>,
}

#[derive(Debug, Clone)]
struct ModelEntry {
    names: Vec<String>,
    verified: bool,
    /// Kept for entries that share the shape and change the quantisation.
    config: Value,
    spec: ModelSpec,
}

impl Catalog {
    /// The catalog that comes with the crate.
    pub fn builtin() -> Self {
        builtin().clone()
    }

    /// With the accelerators of a TOML file in the layout of the built-in one: a `[[gpu]]` table
    /// for each.
    ///
    /// # Errors
    ///
    /// [`HwspecError::File`], and what [`with_gpus`](Self::with_gpus) says.
    pub fn with_gpu_file(self, path: impl AsRef<Path>) -> Result<Self, HwspecError> {
        let path = path.as_ref();
        self.with_gpus(&path.display().to_string(), &read(path)?)
    }

    /// As [`with_gpu_file`](Self::with_gpu_file), from text; `source_name` appears in errors.
    ///
    /// # Errors
    ///
    /// [`HwspecError::Malformed`] with the position, [`HwspecError::InvalidField`].
    ///
    /// ```
    /// use foretoken_hwspec::Catalog;
    ///
    /// let catalog = Catalog::builtin().with_gpus(
    ///     "mine.toml",
    ///     r#"
    ///     [[gpu]]
    ///     name = "X1"
    ///     vendor = "Acme"
    ///     generation = "hopper"
    ///     memory-gib = 40.0
    ///     memory-bandwidth-gb = 2000.0
    ///     peak-tera = { bf16 = 500.0 }
    ///     link = { kind = "pcie", gb = 64.0, domain = 1 }
    ///     "#,
    /// )?;
    /// assert_eq!(catalog.gpu("x1")?.vendor, "Acme");
    /// # Ok::<(), foretoken_hwspec::HwspecError>(())
    /// ```
    pub fn with_gpus(mut self, source_name: &str, text: &str) -> Result<Self, HwspecError> {
        let file: GpuFile = toml::from_str(text).map_err(|error| malformed(source_name, &error))?;
        for entry in file.gpu {
            self.gpus.push(entry.check(source_name)?);
        }
        Ok(self)
    }

    /// With the models of a JSON file in the layout of the built-in one: a list of objects with
    /// `names` and `config`, or with `names`, `like` and `quantization_config`.
    ///
    /// # Errors
    ///
    /// [`HwspecError::File`], and what [`with_models`](Self::with_models) says.
    pub fn with_model_file(self, path: impl AsRef<Path>) -> Result<Self, HwspecError> {
        let path = path.as_ref();
        self.with_models(&path.display().to_string(), &read(path)?)
    }

    /// As [`with_model_file`](Self::with_model_file), from text; `source_name` appears in errors.
    ///
    /// # Errors
    ///
    /// [`HwspecError::Malformed`] with the position, and what
    /// [`ModelSpec::from_config_json`] says of a configuration.
    pub fn with_models(mut self, source_name: &str, text: &str) -> Result<Self, HwspecError> {
        let entries: Vec<RawModel> =
            serde_json::from_str(text).map_err(|error| malformed(source_name, &error))?;
        for raw in entries {
            let Some(name) = raw.names.first() else {
                return Err(HwspecError::MissingField {
                    source_name: source_name.to_owned(),
                    field: "names[0]".to_owned(),
                });
            };
            let mut config = match (raw.config, &raw.like) {
                (Some(config), None) => config,
                (None, Some(like)) => self.entry(like)?.config.clone(),
                _ => {
                    return Err(malformed(
                        source_name,
                        &format!("`{name}`: give config or like"),
                    ));
                }
            };
            insert(&mut config, "quantization_config", raw.quantization_config);
            insert(&mut config, "generation_config", raw.generation_config);
            let spec = ModelSpec::from_config(name, &config)?;
            let verified = raw.verified;
            self.models.push(ModelEntry {
                names: raw.names,
                verified,
                config,
                spec,
            });
        }
        Ok(self)
    }

    /// The accelerator of that name or alias; case, spaces, hyphens and underscores do not matter.
    ///
    /// # Errors
    ///
    /// [`HwspecError::UnknownGpu`] lists the closest names.
    pub fn gpu(&self, name: &str) -> Result<GpuSpec, HwspecError> {
        let wanted = simplified(name);
        let names = |gpu: &GpuSpec| -> Vec<String> {
            [&gpu.name]
                .into_iter()
                .chain(&gpu.aliases)
                .map(|n| simplified(n))
                .collect()
        };
        self.gpus
            .iter()
            .rev()
            .find(|gpu| names(gpu).contains(&wanted))
            .cloned()
            .ok_or_else(|| {
                let known = self
                    .gpus
                    .iter()
                    .flat_map(|gpu| [&gpu.name].into_iter().chain(&gpu.aliases));
                HwspecError::UnknownGpu {
                    name: name.to_owned(),
                    closest: closest(name, known),
                }
            })
    }

    /// The model of that name, with or without its organisation, in any case; or, for a name that
    /// ends in `.json` or is a folder with a `config.json`, the model that the file describes.
    ///
    /// # Errors
    ///
    /// [`HwspecError::UnknownModel`] lists the closest names; [`HwspecError::File`] and what
    /// [`ModelSpec::from_config_json`] says of a file.
    pub fn model(&self, name: &str) -> Result<ModelSpec, HwspecError> {
        let path = Path::new(name);
        if path
            .extension()
            .is_some_and(|e| e.eq_ignore_ascii_case("json"))
        {
            return from_file(name, path);
        }
        let found = self.entry(name);
        let inside = path.join("config.json");
        if found.is_err() && inside.is_file() {
            return from_file(name, &inside);
        }
        let entry = found?;
        let mut spec = entry.spec.clone();
        let wanted = last_segment(name).to_lowercase();
        let full = entry.names.iter().find(|n| n.eq_ignore_ascii_case(name));
        let short = || {
            entry
                .names
                .iter()
                .find(|n| last_segment(n).to_lowercase() == wanted)
        };
        if let Some(spelled) = full.or_else(short) {
            spec.name.clone_from(spelled);
        }
        Ok(spec)
    }

    /// Names of all accelerators, in the order of the files.
    pub fn gpu_names(&self) -> impl Iterator<Item = &str> {
        self.gpus.iter().map(|gpu| gpu.name.as_str())
    }

    /// Names of all models, in the order of the files.
    pub fn model_names(&self) -> impl Iterator<Item = &str> {
        self.models
            .iter()
            .flat_map(|entry| entry.names.iter().map(String::as_str))
    }

    /// Whether the shape of a model's decoder was compared with its published `config.json`; `None` for a
    /// name that is not in the catalog.
    pub fn is_verified(&self, name: &str) -> Option<bool> {
        self.entry(name).ok().map(|entry| entry.verified)
    }

    fn entry(&self, name: &str) -> Result<&ModelEntry, HwspecError> {
        let whole = |n: &String| n.eq_ignore_ascii_case(name);
        let named = |n: &String| last_segment(n).eq_ignore_ascii_case(name);
        self.models
            .iter()
            .rev()
            .find(|entry| entry.names.iter().any(whole))
            .or_else(|| {
                self.models
                    .iter()
                    .rev()
                    .find(|entry| entry.names.iter().any(named))
            })
            .ok_or_else(|| HwspecError::UnknownModel {
                name: name.to_owned(),
                closest: closest(name, self.models.iter().flat_map(|entry| &entry.names)),
            })
    }
}

/// Sets a field of a JSON object, if there is something to set.
fn insert(config: &mut Value, field: &str, value: Option<Value>) {
    if let (Value::Object(fields), Some(value)) = (config, value) {
        fields.insert(field.to_owned(), value);
    }
}

/// The model of a `config.json`, with the `generation_config.json` beside it if there is one.
fn from_file(name: &str, path: &Path) -> Result<ModelSpec, HwspecError> {
    let parse = |path: &Path| -> Result<Value, HwspecError> {
        let text = read(path)?;
        serde_json::from_str(&text).map_err(|error| malformed(&path.display().to_string(), &error))
    };
    let mut config = parse(path)?;
    let beside = path.with_file_name("generation_config.json");
    if beside.is_file() {
        insert(&mut config, "generation_config", Some(parse(&beside)?));
    }
    ModelSpec::from_config(name, &config)
}

fn read(path: &Path) -> Result<String, HwspecError> {
    std::fs::read_to_string(path).map_err(|error| HwspecError::File {
        path: path.display().to_string(),
        reason: error.to_string(),
    })
}

fn malformed(source_name: &str, reason: &impl ToString) -> HwspecError {
    HwspecError::Malformed {
        source_name: source_name.to_owned(),
        reason: reason.to_string(),
    }
}

fn last_segment(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// Letters and digits only, in lower case.
fn simplified(name: &str) -> String {
    name.chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect()
}

/// The known names with the fewest edits from `name`; organisations count only where it has one.
fn closest<'a>(name: &str, known: impl Iterator<Item = &'a String>) -> Vec<String> {
    let wanted: Vec<char> = simplified(name).chars().take(64).collect();
    let with_organisation = name.contains('/');
    let mut ranked: Vec<(usize, &String)> = known
        .map(|candidate| {
            let compared = if with_organisation {
                candidate
            } else {
                last_segment(candidate)
            };
            let compared: Vec<char> = simplified(compared).chars().collect();
            (edits(&wanted, &compared), candidate)
        })
        .collect();
    ranked.sort();
    ranked
        .into_iter()
        .take(SUGGESTIONS)
        .map(|(_, name)| name.clone())
        .collect()
}

/// Levenshtein distance.
fn edits(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_name_finds_its_own_entry() {
        let catalog = Catalog::builtin();
        for name in catalog.model_names() {
            let spec = catalog.model(name).expect("listed");
            assert_eq!(spec.name, name);
            assert!(
                spec.shard(crate::TensorParallel::ONE).is_ok(),
                "{name} does not fit one device"
            );
        }
        for gpu in &catalog.gpus {
            for name in [&gpu.name].into_iter().chain(&gpu.aliases) {
                assert_eq!(catalog.gpu(name).expect("listed").name, gpu.name, "{name}");
            }
        }
        assert_eq!(catalog.gpus.len(), 24);
    }

    #[test]
    fn no_two_entries_share_a_name() {
        let catalog = Catalog::builtin();
        let mut short: Vec<(String, usize)> = catalog
            .models
            .iter()
            .enumerate()
            .flat_map(|(at, e)| {
                e.names
                    .iter()
                    .map(move |n| (last_segment(n).to_lowercase(), at))
            })
            .collect();
        short.sort();
        short.dedup();
        let clash = short.windows(2).find(|pair| pair[0].0 == pair[1].0);
        assert_eq!(clash, None);
        let mut gpus: Vec<String> = catalog
            .gpus
            .iter()
            .flat_map(|gpu| {
                let mut names: Vec<String> = [&gpu.name]
                    .into_iter()
                    .chain(&gpu.aliases)
                    .map(|n| simplified(n))
                    .collect();
                names.sort();
                names.dedup();
                names
            })
            .collect();
        gpus.sort();
        assert_eq!(gpus.windows(2).find(|pair| pair[0] == pair[1]), None);
    }

    #[test]
    fn names_are_found_in_any_case_and_without_organisation() {
        assert_eq!(model("qwen3-8b").expect("known").name, "Qwen/Qwen3-8B");
        let instruct = model("META-LLAMA/llama-3.1-8b-instruct").expect("known");
        assert_eq!(instruct.name, "meta-llama/Llama-3.1-8B-Instruct");
        assert_eq!(
            gpu("nvidia-h100-80gb-hbm3").expect("known").name,
            "H100-SXM-80GB"
        );
        assert_eq!(gpu("A100").expect("known").name, "A100-SXM-80GB");
    }

    #[test]
    fn an_unknown_name_comes_with_the_closest_ones() {
        let error = model("meta-llama/Llama-3.1-7B").expect_err("there is none");
        let HwspecError::UnknownModel { closest, .. } = error else {
            panic!("{error}")
        };
        assert!(
            closest.iter().any(|name| name == "meta-llama/Llama-3.1-8B"),
            "{closest:?}"
        );
        let error = gpu("H1000").expect_err("there is none");
        assert_eq!(
            error.to_string(),
            "no accelerator is called `H1000`; the closest names are H100, A100, H200"
        );
    }

    #[test]
    fn a_users_file_adds_and_hides() {
        let text = r#"[
            {"names": ["me/tiny"], "config": {"architectures": ["LlamaForCausalLM"],
             "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
             "num_attention_heads": 4, "vocab_size": 256, "max_position_embeddings": 512}},
            {"names": ["Qwen/Qwen3-8B"], "like": "me/tiny"}
        ]"#;
        let catalog = Catalog::builtin()
            .with_models("mine.json", text)
            .expect("well formed");
        assert_eq!(catalog.model("tiny").expect("added").depth(), 2);
        assert_eq!(
            catalog.model("Qwen/Qwen3-8B").expect("hidden").hidden_size,
            64
        );
        let error = Catalog::builtin().with_models("mine.json", "[{\"name\": 1}]");
        assert!(
            error
                .expect_err("unknown field")
                .to_string()
                .contains("line 1")
        );
    }

    #[test]
    fn an_absurd_accelerator_is_refused_by_field() {
        let text = "[[gpu]]\nname = \"X\"\nvendor = \"V\"\ngeneration = \"ada\"\nmemory-gib = -1.0\n\
            memory-bandwidth-gb = 1.0\npeak-tera = { bf16 = 1.0 }\n\
            link = { kind = \"pcie\", gb = 1.0, domain = 1 }";
        let error = Catalog::builtin()
            .with_gpus("x.toml", text)
            .expect_err("negative memory");
        assert_eq!(
            error.to_string(),
            "`x.toml`: X.memory-gib = -1, but must be above 0 and at most 65536"
        );
    }
}
