//! Runs the built command.

use std::path::PathBuf;
use std::process::Command;

/// What a call of the command came to.
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Calls the command with arguments given as one line, separated by spaces.
pub(crate) fn foretoken(line: &str) -> Run {
    let output = Command::new(env!("CARGO_BIN_EXE_foretoken"))
        .args(line.split_whitespace())
        .output()
        .expect("the command is built");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Run {
        code: output.status.code(),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// Calls the command, which succeeds, and gives what it printed.
pub(crate) fn succeeds(line: &str) -> String {
    let run = foretoken(line);
    assert_eq!(run.code, Some(0), "foretoken {line}\n{}", run.stderr);
    run.stdout
}

/// Calls the command, which fails with exit code 2 and a message, and gives the message.
pub(crate) fn fails(line: &str) -> String {
    let run = foretoken(line);
    let message = run.stderr;
    assert!(!message.contains("panicked"), "foretoken {line}\n{message}");
    assert_eq!(run.code, Some(2), "foretoken {line}\n{message}");
    assert!(
        message.starts_with("error: "),
        "foretoken {line}\n{message}"
    );
    message
}

/// Asserts that the command fails with a message that contains all of `parts`.
pub(crate) fn refuses(line: &str, parts: &[&str]) {
    let message = fails(line);
    for part in parts {
        assert!(
            message.contains(part),
            "foretoken {line}\nthe message lacks `{part}`:\n{message}"
        );
    }
}

/// Writes a file of this name for the tests, and gives its path.
pub(crate) fn file(name: &str, content: impl AsRef<[u8]>) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, content).expect("the folder can be written");
    let path = path.to_str().expect("UTF-8").to_owned();
    assert!(!path.contains(' '), "arguments are separated by spaces");
    path
}

/// A small scenario in YAML.
pub(crate) const SCENARIO: &str = "deployment:
  model: meta-llama/Llama-3.1-8B-Instruct
  gpu: H100
  engine: { max-model-len: 4096 }
workload:
  synthetic:
    arrivals: { poisson: { rate-rps: 5 } }
    requests: 20
    prompt-tokens: { constant: { tokens: 100 } }
    output-tokens: { constant: { tokens: 10 } }
seed: 3
";

/// The same in JSON.
pub(crate) const SCENARIO_JSON: &str = r#"{
    "deployment": { "model": "meta-llama/Llama-3.1-8B-Instruct", "gpu": "H100",
                    "engine": { "max-model-len": 4096 } },
    "workload": { "synthetic": {
        "arrivals": { "poisson": { "rate-rps": 5 } },
        "requests": 20,
        "prompt-tokens": { "constant": { "tokens": 100 } },
        "output-tokens": { "constant": { "tokens": 10 } } } },
    "seed": 3
}"#;

/// The same in flags.
pub(crate) const FLAGS: &str = "run --model meta-llama/Llama-3.1-8B-Instruct --gpu H100 \
     --max-model-len 4096 --rate 5 --requests 20 --prompt-tokens 100 --output-tokens 10 --seed 3";

/// A file of one measured experiment.
pub(crate) const EXPERIMENTS: &str = r#"{ "experiments": [ {
    "id": "tiny", "model": "meta-llama/Llama-3.1-8B-Instruct", "gpu": "H100-SXM-80GB",
    "tensor_parallel": 1,
    "engine": { "version": "0.15.1", "max_num_seqs": 64, "max_model_len": 4096 },
    "workload": { "profile": "chat", "num_groups": 2, "prompts_per_group": 3,
        "system_prompt_tokens": 50, "question_tokens": 200, "output_tokens": 20,
        "stages": [ { "rate_rps": 2, "duration_s": 10 } ] },
    "measured": {
        "stages": [ { "ttft_ms": { "mean": 20 }, "e2e_ms": { "mean": 150 } } ],
        "overall": { "ttft_ms": { "mean": 20 }, "e2e_ms": { "mean": 150 } } }
} ] }"#;
