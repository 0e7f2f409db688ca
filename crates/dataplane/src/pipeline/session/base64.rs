//! Base64 as session tokens have it: the standard alphabet with padding.

/// Appends what `text` stands for to `bytes`; `None` if it is not base64.
pub(super) fn decode(text: &str, bytes: &mut Vec<u8>) -> Option<()> {
    let text = text.as_bytes();
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let digits = text.strip_suffix(b"==").or(text.strip_suffix(b"="));
    for group in digits.unwrap_or(text).chunks(4) {
        let mut bits = 0_u32;
        for &digit in group {
            bits = bits << 6 | value(digit)?;
        }
        bits <<= 6 * (4 - group.len());
        // Four digits are three bytes, three are two and two are one.
        bytes.extend_from_slice(&bits.to_be_bytes()[1..group.len()]);
    }
    Some(())
}

fn value(digit: u8) -> Option<u32> {
    let value = match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(value.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &str) -> Option<String> {
        let mut bytes = Vec::new();
        decode(text, &mut bytes)?;
        String::from_utf8(bytes).ok()
    }

    #[test]
    fn base64_decodes_with_every_padding() {
        assert_eq!(decoded("bnMvYg==").as_deref(), Some("ns/b"));
        assert_eq!(decoded("bnMvYmM=").as_deref(), Some("ns/bc"));
        assert_eq!(decoded("bnMvYmNk").as_deref(), Some("ns/bcd"));
        assert_eq!(decoded("").as_deref(), Some(""));
    }

    #[test]
    fn what_is_not_base64_decodes_to_nothing() {
        for text in ["bnMvYg", "bnMvYg=", "====", "b===", "bn v", "n s/"] {
            assert_eq!(decoded(text), None, "{text}");
        }
    }
}
