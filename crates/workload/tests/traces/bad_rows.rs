//! Errors say where they are, what is there and what is allowed; rows after a bad one are read.

use foretoken_workload::trace::{
    Columns, Field, Format, OpenOptions, OutputFormat, Row, TraceError, TraceFile,
};

use crate::{Scratch, error, items, open, sample};

/// The message of the one bad row among `rows` rows.
fn bad_row(text: &str, format: Format, rows: usize) -> String {
    let items = items("trace", text, format);
    let (good, bad): (Vec<_>, Vec<_>) = items.into_iter().partition(Result::is_ok);
    assert_eq!((good.len(), bad.len()), (rows, 1), "{bad:?}");
    let error: TraceError = bad.into_iter().find_map(Result::err).unwrap();
    assert!(error.is_about_one_row());
    error.to_string()
}

#[test]
fn a_bad_row_of_each_table_is_named_and_the_next_one_is_read() {
    let cases = [
        (
            Format::Azure,
            "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.68,1,2\n2023-02-29 00:00:00,1,2\n2023-11-16 18:15:46,1,2\n",
            "line 3, TIMESTAMP is \"2023-02-29 00:00:00\": allowed is a date and time of day, \
             YYYY-MM-DD HH:MM:SS[.fraction][zone]",
        ),
        (
            Format::Azure,
            "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.68,1,2\n2023-11-16 18:15:46,-1,2\n2023-11-16 18:15:46,1,2\n",
            "line 3, ContextTokens is \"-1\": allowed is a whole number of tokens, from 0",
        ),
        (
            Format::BurstGpt,
            "Timestamp,Request tokens,Response tokens\n1,2,3\nNaN,2,3\n1,2,3\n",
            "line 3, Timestamp is \"NaN\": allowed is a time that 64-bit nanoseconds can hold",
        ),
        (
            Format::Vidur,
            "arrived_at,num_prefill_tokens,num_decode_tokens\n1,2,3\n1,2.5,3\n1,2,3\n",
            "line 3, num_prefill_tokens is \"2.5\": allowed is a whole number of tokens, from 0",
        ),
        (
            Format::Splitwise,
            "arrival_timestamp,batch_size,prompt_size,token_size\n0,1,2,3\n0,4,2,3\n0,1,2,3\n",
            "line 3, batch_size is \"4\": allowed is 1, since a batch is no request",
        ),
        (
            Format::Blis,
            "arrival_time_us,input_tokens,output_tokens,slo_class\n0,1,2,\n0,1,2,gold\n0,1,2,batch\n",
            "line 3, slo_class is \"gold\": allowed is critical, standard, sheddable, batch, background or nothing",
        ),
        (
            Format::Csv,
            "input-tokens,output-tokens,sent\n1,2,\n1,2\n1,2,3\n",
            "line 3, the number of fields is \"2\": allowed is 3, as there are columns",
        ),
        (
            Format::Csv,
            "input-tokens,output-tokens\n1,2\n1,99999999999999999999\n1,2\n",
            "line 3, output-tokens is \"99999999999999999999\": allowed is a whole number of tokens, from 0",
        ),
        (
            Format::Csv,
            "sent,input-tokens,output-tokens\n1,1,2\n9999999999999,1,2\n1,1,2\n",
            "line 3, sent is \"9999999999999\": allowed is a time that 64-bit nanoseconds can hold",
        ),
        (
            Format::Csv,
            "model,input-tokens,output-tokens\na,1,2\n\"b\"c,1,2\na,1,2\n",
            "line 3, what follows the quoted field 1 is \"c,1,2\": allowed is a comma or the end of the line \
             (two quotes stand for one)",
        ),
    ];
    for (format, text, expected) in cases {
        assert_eq!(bad_row(text, format, 2), expected);
    }
}

#[test]
fn a_bad_line_of_json_is_named_and_the_next_one_is_read() {
    let good = r#"{"timestamp": 1, "input_length": 2, "output_length": 3}"#;
    let with = |line: &str| bad_row(&format!("{good}\n{line}\n{good}\n"), Format::Mooncake, 2);
    assert_eq!(
        with(r#"{"timestamp": 1, "input_length": "x", "output_length": 3}"#),
        "line 2, input_length is \"\\\"x\\\"\": allowed is a whole number of tokens, from 0"
    );
    assert_eq!(
        with(r#"{"timestamp": 1, "output_length": 3}"#),
        "line 2, input_length is \"missing\": allowed is a whole number of tokens, from 0"
    );
    assert_eq!(
        with(r#"{"timestamp": 1, "input_length": 2, "output_length": 3, "hash_ids": [1, -2]}"#),
        "line 2, hash_ids is \"[1, -2]\": allowed is a list of whole numbers, from 0"
    );
    let cut = with(r#"{"timestamp": 1, "input_length": 2, "outp"#);
    assert!(
        cut.contains("EOF while parsing a string at line 1 column 41"),
        "{cut}"
    );
    let bomb = with(&"[".repeat(100_000));
    assert!(bomb.len() < 300, "{bomb}");
    let bomb = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(
        with(&bomb),
        "line 2, input_length is \"missing\": allowed is a whole number of tokens, from 0"
    );
}

#[test]
fn a_bad_line_of_a_table_of_json_is_named_and_the_next_one_is_read() {
    let good = r#"{"input-tokens": 1, "output-tokens": 2}"#;
    let with = |line: &str| bad_row(&format!("{good}\n{line}\n{good}\n"), Format::Jsonl, 2);
    assert_eq!(
        with(r#"{"input-tokens": 1, "output-tokens": 2, "turn": [1]}"#),
        "line 2, turn is \"[1]\": allowed is a whole number, from 0"
    );
    assert_eq!(
        with(r#"{"input-tokens": 1, "output-tokens": null}"#),
        "line 2, output-tokens is \"missing\": allowed is a whole number of tokens, from 0"
    );
    assert!(with("[1, 2]").starts_with("line 2, the row is \"[1, 2]\": allowed is a JSON object"));
    assert!(with(&format!("{good} {good}")).contains("trailing characters"));
}

#[test]
fn a_bad_element_of_each_report_is_named_and_the_next_one_is_read() {
    let good = r#"{"start_time": 1, "info": {"input_tokens": 1, "output_tokens": 2}}"#;
    let bad = r#"{"start_time": 1, "info": {"input_tokens": 1, "output_tokens": 1e99}}"#;
    assert_eq!(
        bad_row(&format!("[{good},{bad},{good}]"), Format::InferencePerf, 2),
        "row 2, output_tokens is \"1e99\": allowed is a whole number of tokens, from 0"
    );
    let good = r#"{"prompt_tokens": 1, "output_tokens": 2, "start_time": 1}"#;
    let bad = r#"{"prompt_tokens": 1, "start_time": 1}"#;
    let report =
        format!(r#"{{"benchmarks":[{{"requests":{{"successful":[{good},{bad},{good}]}}}}]}}"#);
    assert_eq!(
        bad_row(&report, Format::GuideLlm, 2),
        "row 2, output_tokens is \"missing\": allowed is a whole number of tokens, from 0"
    );
    let span = |start: &str| {
        let usage = ["input", "output"].map(|of| {
            format!(r#"{{"key":"gen_ai.usage.{of}_tokens","value":{{"intValue":"5"}}}}"#)
        });
        format!(
            r#"{{"startTimeUnixNano":{start},"attributes":[{}]}}"#,
            usage.join(",")
        )
    };
    let spans = [span("1"), span("\"soon\""), span("\"2\"")].join(",");
    let document = format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{spans}]}}]}}]}}"#);
    assert_eq!(
        bad_row(&document, Format::OpenTelemetry, 2),
        "row 2, startTimeUnixNano is \"\\\"soon\\\"\": allowed is a time that 64-bit nanoseconds can hold"
    );
    assert_eq!(
        error(r#"{"input_lens": [1, 2, -3]}"#, Format::VllmBench),
        "line 1: input_lens[2] is -3: allowed is a whole number of tokens, from 0"
    );
}

#[test]
fn a_document_that_is_no_json_says_in_which_line() {
    let cases = [
        (
            "[\n{},\n",
            "line 3: not JSON: the text ends where a value should be",
        ),
        (
            "[\n{\"a\": ",
            "line 2: not JSON: the text ends inside a value",
        ),
        (
            "[\n1 2]",
            "line 2: not JSON: there is \"2]\" where ',' should be",
        ),
        (
            "[\n1,]",
            "line 2: not JSON: there is \"]\" where a value should be",
        ),
        (
            "\n\nhello",
            "line 3: not JSON: there is \"hello\" where a list or an object should be",
        ),
        (
            "{\"a\": 1, b}",
            "line 1: not JSON: there is \"b}\" where a key in quotes should be",
        ),
        (
            "{\"a\" 1}",
            "line 1: not JSON: there is \"1}\" where ':' should be",
        ),
        (
            "{\"a\": 1}",
            "line 1: there is nothing to read: needed is a list of requests, as in per_request_lifecycle_metrics.json",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(error(text, Format::InferencePerf), expected, "{text}");
    }
    let bomb = format!("{{\"a\":{}", "[".repeat(1_000_000));
    let expected = "line 1: not JSON: more than 128 lists and objects inside each other";
    assert_eq!(error(bomb, Format::InferencePerf), expected);
}

#[test]
fn what_no_row_can_be_is_refused_without_being_held() {
    let long = "9".repeat(17 << 20);
    let expected = "line 2: the line is longer than 16 MiB, which no row is";
    let text = format!("input-tokens,output-tokens\n{long}\n");
    assert_eq!(error(text, Format::Csv), expected);
    let element = format!("[{{\"request\": \"{long}\"}}]");
    let expected = "line 1: not JSON: an element larger than 16 MiB, which no request is";
    assert_eq!(error(element, Format::InferencePerf), expected);
    let quote = format!(
        "model,input-tokens,output-tokens\na,1,2\n\"{}",
        "b\n".repeat(9 << 20)
    );
    let expected = "line 3: a quote is opened here and not closed within 16 MiB";
    assert_eq!(error(quote, Format::Csv), expected);
}

#[test]
fn quotes_that_are_never_closed_say_where_they_were_opened() {
    let text = "model,input-tokens,output-tokens\na,1,2\n\"b,1,2\nc,3,4\n";
    let items = items("t", text, Format::Csv);
    assert_eq!(items.len(), 2);
    let error = items[1].as_ref().unwrap_err().to_string();
    assert_eq!(error, "line 3: a quote is opened here and never closed");
}

#[test]
fn a_file_without_rows_is_empty_or_has_a_header_only() {
    for format in Format::ALL {
        if !matches!(format, Format::ServeGen | Format::Parquet) {
            let error = error("", *format);
            assert!(error.starts_with("line 1: "), "{format}: {error}");
        }
    }
    assert!(items("t", "input-tokens,output-tokens\n", Format::Csv).is_empty());
    assert!(items("t", "\n", Format::Jsonl).is_empty());
    let error = open(&Scratch::new("t", "").path, None)
        .unwrap_err()
        .to_string();
    assert!(
        error.ends_with("t: the file is empty: there is no format to tell"),
        "{error}"
    );
}

#[test]
fn columns_that_are_missing_or_twice_there_are_named() {
    let cases = [
        (
            Format::Azure,
            "TIMESTAMP,ContextTokens\n",
            "line 1: there is no column \"GeneratedTokens\": there are TIMESTAMP,ContextTokens",
        ),
        (
            Format::Csv,
            "input-tokens,sent\n",
            "line 1: there is no column \"output-tokens\": there are input-tokens,sent",
        ),
        (
            Format::Csv,
            "input-tokens,input_tokens,output-tokens\n",
            "line 1: columns \"input-tokens\" and \"input_tokens\" are both input-tokens",
        ),
        (
            Format::Vidur,
            "num_prefill_tokens,num_decode_tokens,num_decode_tokens\n",
            "line 1: there are two columns \"num_decode_tokens\"",
        ),
    ];
    for (format, text, expected) in cases {
        assert_eq!(error(text, format), expected);
    }
    let options = OpenOptions {
        format: Some(Format::Csv),
        columns: Columns::default().with(Field::Model, "llm"),
    };
    let file = Scratch::new("t", "input-tokens,output-tokens\n");
    let mut rows = TraceFile::open(&file.path, &options).unwrap().into_rows();
    let error = rows.next().unwrap().unwrap_err().to_string();
    assert!(
        error.starts_with("line 1: there is no column \"llm\""),
        "{error}"
    );
}

#[test]
fn an_unknown_format_says_what_was_found_and_what_is_known() {
    let message = |text: &str| {
        open(&Scratch::new("t", text).path, None)
            .unwrap_err()
            .to_string()
    };
    let table = message(&format!("a,b,{}\n1,2\n", "c".repeat(500)));
    assert!(table.contains("begins with the line \"a,b,ccc"), "{table}");
    assert!(
        table.contains("azure, mooncake, burst-gpt") && table.len() < 500,
        "{table}"
    );
    let object = message(r#"{"x": {"input_lens": 1}, "y": [2]}"#);
    assert!(
        object.contains("an object with the keys \"x, y\""),
        "{object}"
    );
    assert!(message("[1, 2]").contains("a list of objects"));
    assert_eq!("azure".parse(), Ok(Format::Azure));
    let unknown = "sharegpt".parse::<Format>().unwrap_err().to_string();
    assert!(unknown.starts_with("the format is \"sharegpt\": allowed is one of azure,"));
    assert!(OutputFormat::of("x.txt".as_ref()).is_err());
}

#[test]
fn what_is_not_there_and_what_is_of_another_kind() {
    let missing = open(&sample("nothing.csv"), None).unwrap_err().to_string();
    assert!(missing.contains("nothing.csv: No such file"), "{missing}");
    let text = items("t", "PAR1 but no more", Format::Azure);
    assert_eq!(
        text[0].as_ref().unwrap_err().to_string(),
        "a Parquet file: allowed is text"
    );
    assert!(error("a,b", Format::Parquet).contains("does not begin with PAR1"));
    let damaged = items("t", "PAR1 but no more", Format::Parquet);
    assert!(
        damaged[0]
            .as_ref()
            .unwrap_err()
            .to_string()
            .starts_with("row 1: unreadable Parquet")
    );
    let folder = Scratch::empty("t");
    let empty = items_of(&folder.folder);
    assert!(
        empty[0]
            .as_ref()
            .unwrap_err()
            .to_string()
            .contains("no ServeGen client")
    );
}

fn items_of(path: &std::path::Path) -> Vec<Result<Row, TraceError>> {
    open(path, None).unwrap().into_rows().collect()
}

#[test]
fn a_client_of_servegen_that_makes_no_sense_is_refused() {
    let client = |trace: &str, dataset: &str| {
        let file = Scratch::new("chunk-1-trace.csv", trace);
        std::fs::write(file.folder.join("chunk-1-dataset.json"), dataset).unwrap();
        let items = items_of(&file.path);
        let error = items[0].as_ref().unwrap_err();
        assert!(items.len() == 1 && !error.is_about_one_row());
        error.to_string()
    };
    let good = r#"{"0": {"input_tokens": {"1": 1}, "output_tokens": {"1": 1}}}"#;
    let ends = |error: String, end: &str| assert!(error.ends_with(end), "{error}");
    ends(
        client("", good),
        "line 1: there is no window: needed is a row of start, rate, cv and pattern",
    );
    ends(
        client("0,1,1,Pareto\n", good),
        "line 1: column 4 is \"Pareto\": allowed is Gamma, Weibull or Poisson",
    );
    ends(
        client("0,-1,1,Gamma\n", good),
        "line 1: column 2 is \"-1\": allowed is 0, or above 0 and at most 1e6",
    );
    ends(
        client("0,1,0,Gamma\n", good),
        "line 1: column 3 is \"0\": allowed is a number above 0",
    );
    ends(
        client("5,1,1,Gamma\n5,1,1,Gamma\n", good),
        "line 2: column 1 is \"5\": allowed is a start after that of the window before",
    );
    ends(
        client("0,1,1,Gamma\n", "{}"),
        "row 1: the dataset has no window",
    );
    ends(
        client(
            "0,1,1,Gamma\n",
            r#"{"0": {"input_tokens": {"1": 0}, "output_tokens": {"1": 1}}}"#,
        ),
        "row 1: input_tokens is \"{\\\"1\\\": 0}\": allowed is weights by lengths, with a finite weight above 0",
    );
}
