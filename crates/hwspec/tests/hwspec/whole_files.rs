//! The reader on published configuration files with all their fields, and on the built-in copies.

use foretoken_hwspec::{HwspecError, KvFormat, ModelSpec, catalog};
use serde_json::Value;

const FILE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../../shared/data/catalog-models.json"
);

/// Whether `found` is within 1 % of `expected`.
fn close(found: u64, expected: f64) -> bool {
    (found as f64 / expected - 1.0).abs() < 0.01
}

#[test]
fn whole_files_give_the_published_totals_or_say_that_their_family_is_not_supported() {
    let Ok(text) = std::fs::read_to_string(FILE) else {
        println!("skipped: ../shared is absent");
        return;
    };
    let file: Value = serde_json::from_str(&text).expect("JSON");
    let mut read = 0;
    for entry in file["models"].as_array().expect("a list") {
        let name = entry["id"].as_str().expect("a name");
        let model = match ModelSpec::from_config_json(name, &entry["config"].to_string()) {
            Ok(model) => model,
            Err(error @ HwspecError::Unsupported { .. }) => {
                println!("{error}");
                assert!(catalog::model(name).is_err(), "{name} is in the catalog");
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        read += 1;
        let derived = &entry["derived"];
        let billions = |field: &str| 1e9 * derived[field].as_f64().expect("a number");
        assert!(close(model.parameters(), billions("params_B")), "{name}");
        assert!(
            close(model.active_parameters(), billions("active_params_B")),
            "{name}"
        );
        let cached = model.kv_bytes_per_token(KvFormat::Auto).get();
        assert_eq!(
            Some(cached),
            derived["kv_bytes_per_token_bf16"].as_u64(),
            "{name}"
        );

        // The built-in copy keeps only the fields that decide, and must decide the same.
        let builtin = catalog::model(name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(builtin.layers, model.layers, "{name}");
        assert_eq!(builtin.formats, model.formats, "{name}");
        assert_eq!(builtin.max_position, model.max_position, "{name}");
        assert_eq!(builtin.vocab_size, model.vocab_size, "{name}");
        assert_eq!(builtin.tied_embeddings, model.tied_embeddings, "{name}");
    }
    assert!(read >= 22, "only {read} were read");
}
