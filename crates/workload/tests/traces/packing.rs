//! Files that are compressed, in other encodings, or cut off.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use foretoken_workload::trace::Format;

use crate::{Scratch, error, items, open, read, sample};

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn zstd(content: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(content, ruzstd::encoding::CompressionLevel::Fastest)
}

/// A zstd frame without data.
const SKIPPABLE: &[u8] = b"\x53\x2a\x4d\x18\x03\0\0\0abc";

#[test]
fn gzip_and_zstd_are_unpacked_member_by_member() {
    let content = std::fs::read(sample("azure-2023.csv")).unwrap();
    let (first, second) = content.split_at(100);
    let plain = read(&sample("azure-2023.csv"));
    let packed = [
        gzip(&content),
        [gzip(first), gzip(second)].concat(),
        zstd(&content),
        [SKIPPABLE, &zstd(first), SKIPPABLE, &zstd(second), SKIPPABLE].concat(),
    ];
    for packed in packed {
        assert_eq!(read(&Scratch::new("t", packed).path), plain);
    }
}

#[test]
fn progress_counts_the_bytes_of_the_file() {
    let mut content = b"input-tokens,output-tokens\n".to_vec();
    content.extend(b"123,456\n".repeat(100_000));
    for packed in [content.clone(), gzip(&content), zstd(&content)] {
        let total = packed.len() as u64;
        let file = Scratch::new("t", packed);
        let trace = open(&file.path, None).unwrap();
        let progress = trace.progress();
        assert_eq!(progress.bytes_total(), Some(total));
        let last = AtomicU64::new(0);
        let count = trace
            .into_rows()
            .inspect(|_| {
                let read = progress.bytes_read();
                assert!(last.swap(read, Ordering::Relaxed) <= read);
            })
            .count();
        assert_eq!((count, progress.bytes_read()), (100_000, total));
    }
}

#[test]
fn data_that_is_cut_off_gives_its_rows_and_then_an_error_that_says_where() {
    let mut content = b"input-tokens,output-tokens\n".to_vec();
    for number in 0..50_000_u32 {
        writeln!(
            content,
            "{},{}",
            number.wrapping_mul(2_654_435_761) % 9_999,
            number
        )
        .unwrap();
    }
    for (kind, packed) in [("gzip", gzip(&content)), ("zstd", zstd(&content))] {
        let cut = packed.len() * 2 / 3;
        let items = items("t", &packed[..cut], Format::Csv);
        let last = items.last().unwrap().as_ref().unwrap_err().to_string();
        assert!(items.len() > 10_000, "{kind}: {}", items.len());
        assert!(items[..items.len() - 1].iter().all(Result::is_ok));
        let said =
            format!("the {kind} data is damaged or cut off at the end of the file, byte {cut}");
        assert!(last.starts_with("line ") && last.contains(&said), "{last}");
    }
}

#[test]
fn damage_inside_of_packed_data_is_found() {
    let content = b"input-tokens,output-tokens\n1,2\n".repeat(1000);
    for packed in [gzip(&content), zstd(&content)] {
        let mut damaged = packed.clone();
        let end = damaged.len() - 2;
        damaged[end] ^= 1;
        let error = error(damaged, Format::Csv);
        assert!(error.contains("data is damaged"), "{error}");
    }
}

#[test]
fn a_mark_of_utf_8_is_dropped() {
    let mut content = "\u{feff}".as_bytes().to_vec();
    content.extend(std::fs::read(sample("azure-2023.csv")).unwrap());
    assert_eq!(
        read(&Scratch::new("t", content).path),
        read(&sample("azure-2023.csv"))
    );
}

#[test]
fn other_encodings_are_refused_with_their_line() {
    let utf_16: Vec<u8> = "\u{feff}input-tokens,output-tokens\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    assert_eq!(
        error(&utf_16, Format::Csv),
        "line 1: this is UTF-16: allowed is UTF-8"
    );
    let nul = "line 1: there is a NUL: allowed is text, in UTF-8";
    assert_eq!(error(&utf_16[2..], Format::Csv), nul);
    let latin_1 = b"input-tokens,output-tokens,model\n1,2,a\n3,4,caf\xe9\n5,6,b\n";
    let items = items("t", latin_1, Format::Csv);
    assert_eq!(items.len(), 2);
    assert_eq!(
        items[1].as_ref().unwrap_err().to_string(),
        "line 3: this is not UTF-8 (Latin-1?): allowed is UTF-8"
    );
}

#[test]
fn a_last_line_that_ends_inside_a_character_is_refused() {
    let cut = b"input-tokens,output-tokens,model\n1,2,caf\xc3";
    assert_eq!(
        error(cut, Format::Csv),
        "line 2: this is not UTF-8 (Latin-1?): allowed is UTF-8"
    );
}

#[test]
fn characters_that_lie_across_chunks_are_whole() {
    let model = "é".repeat(50);
    for shift in 0..2 {
        let mut content = format!(
            "input-tokens,output-tokens,model\n1,2,{}\n",
            "x".repeat(shift)
        );
        for _ in 0..10_000 {
            content.extend(["1,2,", &model, "\n"]);
        }
        let (_, rows) = read(&Scratch::new("t", content).path);
        assert!(
            rows[1..]
                .iter()
                .all(|row| row.model.as_deref() == Some(&*model))
        );
    }
}
