//! Module-name patterns of quantisation blocks: plain names, globs and a subset of regular
//! expressions.

/// Steps after which a match is given up, so that no pattern can run for ever.
const BUDGET: u32 = 20_000;

/// Whether `pattern` of an `ignore`, `targets` or `modules_to_not_convert` list means `module`.
///
/// `re:` introduces a regular expression that must match from the start (as `re.match` does in
/// compressed-tensors); anything else names the module, one of its ancestors or one segment of its
/// path, with `*` for any text (modelopt, MXFP4).
pub(super) fn matches(pattern: &str, module: &str) -> bool {
    let mut budget = BUDGET;
    if let Some(expression) = pattern.strip_prefix("re:") {
        let expression: Vec<char> = expression.trim_start_matches('^').chars().collect();
        let module: Vec<char> = module.chars().collect();
        return regex(&expression, &module, &mut budget);
    }
    if pattern.contains('*') {
        let expression: Vec<char> = pattern.chars().collect();
        let mut prefixes =
            segment_ends(module).map(|end| module[..end].chars().collect::<Vec<_>>());
        return prefixes.any(|prefix| glob(&expression, &prefix, &mut budget));
    }
    segment_ends(module).any(|end| &module[..end] == pattern)
        || module.split('.').any(|segment| segment == pattern)
        || module
            .strip_suffix(pattern)
            .is_some_and(|head| head.ends_with('.'))
}

/// Ends of the dotted prefixes of `module`, the whole included.
fn segment_ends(module: &str) -> impl Iterator<Item = usize> + '_ {
    module
        .match_indices('.')
        .map(|(at, _)| at)
        .chain([module.len()])
}

fn glob(pattern: &[char], text: &[char], budget: &mut u32) -> bool {
    if *budget == 0 {
        return false;
    }
    *budget -= 1;
    match pattern.split_first() {
        None => text.is_empty(),
        Some(('*', rest)) => (0..=text.len()).any(|skip| glob(rest, &text[skip..], budget)),
        Some((first, rest)) => text
            .split_first()
            .is_some_and(|(head, tail)| head == first && glob(rest, tail, budget)),
    }
}

/// Matches a prefix of `text`. Knows literals, `.`, escapes, classes without ranges beyond `a-b`,
/// one level of `(a|b)` at a time, and the quantifiers `*`, `+` and `?`. What it does not know it
/// takes literally, which then matches nothing.
fn regex(pattern: &[char], text: &[char], budget: &mut u32) -> bool {
    if *budget == 0 {
        return false;
    }
    *budget -= 1;
    let Some(&first) = pattern.first() else {
        return true;
    };
    if first == '$' && pattern.len() == 1 {
        return text.is_empty();
    }
    if first == '('
        && let Some(close) = closing(pattern)
    {
        let inner = &pattern[1..close];
        let inner = inner.strip_prefix(&['?', ':']).unwrap_or(inner);
        let (quantifier, rest) = quantified(&pattern[close + 1..]);
        if matches!(quantifier, Some('?' | '*')) && regex(rest, text, budget) {
            return true;
        }
        return alternatives(inner).iter().any(|alternative| {
            let joined: Vec<char> = alternative.iter().chain(rest).copied().collect();
            regex(&joined, text, budget)
        });
    }
    let (width, accepts) = unit(pattern);
    let (quantifier, rest) = quantified(&pattern[width..]);
    let least = usize::from(!matches!(quantifier, Some('*' | '?')));
    let most = if matches!(quantifier, Some('*' | '+')) {
        text.len()
    } else {
        1
    };
    let run = text.iter().take(most).take_while(|&&c| accepts(c)).count();
    (least..=run)
        .rev()
        .any(|taken| regex(rest, &text[taken..], budget))
}

/// The quantifier at the start of `pattern`, and what follows it.
fn quantified(pattern: &[char]) -> (Option<char>, &[char]) {
    match pattern.split_first() {
        Some((&q @ ('*' | '+' | '?'), rest)) => {
            (Some(q), rest.strip_prefix(&['?']).unwrap_or(rest))
        }
        _ => (None, pattern),
    }
}

/// Position of the parenthesis that closes the first one.
fn closing(pattern: &[char]) -> Option<usize> {
    let mut depth = 0_u32;
    let mut escaped = false;
    for (at, &c) in pattern.iter().enumerate() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '(' => depth += 1,
            ')' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// The alternatives of a group, split at bars outside inner groups.
fn alternatives(inner: &[char]) -> Vec<&[char]> {
    let mut depth = 0_i32;
    inner
        .split(|&c| {
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            c == '|' && depth == 0
        })
        .collect()
}

/// One character's worth of pattern: its width and what it accepts.
fn unit(pattern: &[char]) -> (usize, Box<dyn Fn(char) -> bool + '_>) {
    match pattern {
        ['.', ..] => (1, Box::new(|_| true)),
        ['\\', 'd', ..] => (2, Box::new(|c| c.is_ascii_digit())),
        ['\\', 'w', ..] => (2, Box::new(|c| c.is_alphanumeric() || c == '_')),
        ['\\', literal, ..] => (2, Box::new(move |c| c == *literal)),
        ['[', rest @ ..] => match rest.iter().position(|&c| c == ']') {
            Some(end) => (end + 2, Box::new(move |c| in_class(&rest[..end], c))),
            None => (1, Box::new(|c| c == '[')),
        },
        [literal, ..] => (1, Box::new(move |c| c == *literal)),
        [] => (0, Box::new(|_| false)),
    }
}

fn in_class(class: &[char], c: char) -> bool {
    let (negated, mut class) = match class {
        ['^', rest @ ..] => (true, rest),
        _ => (false, class),
    };
    let mut found = false;
    while let Some((&first, rest)) = class.split_first() {
        class = if let ['-', last, tail @ ..] = rest {
            found |= (first..=*last).contains(&c);
            tail
        } else {
            found |= first == c;
            rest
        };
    }
    found != negated
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn regular_expressions_match_from_the_start() {
        let module = "language_model.model.layers.3.self_attn.q_proj";
        assert!(matches("re:.*self_attn", module));
        assert!(matches(r"re:.*self_attn\.(q|k|v)_proj$", module));
        assert!(matches(r"re:.*layers\.[0-9]+\.self_attn.*", module));
        assert!(matches(r"re:(language_model\.)?model.*", module));
        assert!(matches(r"re:(vision|language)_model", module));
        assert!(!matches("re:self_attn", module));
        assert!(!matches("re:.*mlp.*", module));
        assert!(!matches(r"re:.*self_attn$", module));
    }

    #[test]
    fn names_mean_the_module_and_what_is_below_it() {
        let module = "model.layers.3.self_attn.q_proj";
        assert!(matches(module, module));
        assert!(matches("model.layers.*.self_attn", module));
        assert!(matches("model.layers.3", module));
        assert!(matches("self_attn", module));
        assert!(!matches("model.layers.30", module));
        assert!(!matches("attn", module));
        assert!(matches("*self_attn*", module));
    }

    #[test]
    fn a_pattern_that_backtracks_without_end_is_given_up() {
        assert!(!matches(
            "re:.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*x",
            &"a".repeat(400)
        ));
        assert!(!matches(&format!("{}x", "*".repeat(60)), &"a".repeat(400)));
    }
}
