//! Whatever the text, the answer is a configuration or an error.

use foretoken_dataplane::config::{BuildOptions, RouterConfig, shipped};
use proptest::prelude::*;

fn check(yaml: &str) {
    match RouterConfig::from_yaml(yaml) {
        Ok(config) => drop(config.build(&BuildOptions::default())),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Lines that look like those of a configuration.
fn lines() -> impl Strategy<Value = String> {
    let indent = prop::sample::select(vec!["", "  ", "    ", "- ", "  - ", "\t"]);
    let key = prop::sample::select(vec![
        "apiVersion",
        "kind",
        "plugins",
        "type",
        "name",
        "parameters",
        "schedulingProfiles",
        "pluginRef",
        "weight",
        "flowControl",
        "priorityBands",
        "priority",
        "maxBytes",
        "headroom",
        "maxConcurrency",
        "defaultRequestTTL",
        "featureGates",
        "conditions",
        "sources",
    ]);
    let value = prop_oneof![
        prop::sample::select(vec![
            "",
            "llm-d.ai/v1",
            "EndpointPickerConfig",
            "queue-scorer",
            "disagg-profile-handler",
            "concurrency-detector",
            "1e400",
            "-1",
            "9999999999999999999999999999999999999999999",
            ".nan",
            "-.inf",
            "1d",
            "99999999999h",
            "10Ei",
            "18446744073709551615Ti",
            "[flowControl]",
            "{}",
            "[]",
            "~",
            "&a x",
            "*a",
            "!!int x",
            "'",
            "\"",
            "|",
        ])
        .prop_map(str::to_owned),
        "[ -~]{0,12}",
    ];
    let line =
        (indent, key, value).prop_map(|(indent, key, value)| format!("{indent}{key}: {value}"));
    prop::collection::vec(line, 0..12).prop_map(|lines| lines.join("\n"))
}

fn is_refused(yaml: &str) -> bool {
    RouterConfig::from_yaml(yaml).is_err()
}

#[test]
fn deep_documents_are_refused() {
    for (open, close) in [("[", "]"), ("{a: ", "}")] {
        let deep = format!("plugins: {}{}", open.repeat(100_000), close.repeat(100_000));
        assert!(is_refused(&deep));
    }
}

#[test]
fn swelling_documents_are_refused() {
    let level = |level: u32| {
        let below = format!("*a{}, ", level - 1).repeat(10);
        format!("a{level}: &a{level} [{below}]\n")
    };
    let yaml = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    let yaml = yaml + &(1..20).map(level).collect::<String>();
    assert!(is_refused(&yaml));
}

#[test]
fn chains_of_aliases_are_refused() {
    let level = |level: u32| format!("a{level}: &a{level} [*a{}]\n", level - 1);
    let yaml = "a0: &a0 [x]\n".to_owned() + &(1..10_000).map(level).collect::<String>();
    assert!(is_refused(&yaml));
}

proptest! {
    #[test]
    fn arbitrary_text_never_panics(text in "\\PC{0,200}") {
        check(&text);
    }

    #[test]
    fn arbitrary_lines_never_panic(text in lines()) {
        check(&text);
        check(&format!("apiVersion: llm-d.ai/v1\nkind: EndpointPickerConfig\n{text}"));
    }

    /// A shipped file in which a piece is replaced.
    #[test]
    fn damaged_files_never_panic(
        file in 0..shipped().len(),
        from in 0.0..1.0_f64,
        length in 0..30_usize,
        text in prop_oneof![
            "[ -~\n]{0,20}",
            prop::sample::select(vec!["-1", "1e308", ".nan", "[]", "0", "99999999999999999999"])
                .prop_map(str::to_owned),
        ],
    ) {
        let (_, yaml) = shipped()[file];
        let mut letters: Vec<char> = yaml.chars().collect();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of the length"
        )]
        let start = (from * letters.len() as f64) as usize;
        let end = (start + length).min(letters.len());
        letters.splice(start..end, text.chars());
        check(&letters.into_iter().collect::<String>());
    }
}
