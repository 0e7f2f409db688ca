//! An [`Inspection`] as a page of HTML that needs no other file.

use std::fmt::Write as _;

use foretoken::workload::trace::Inspection;

use super::pictures;

/// The pictures, the warnings, and the report as people see it on a terminal.
pub(super) fn page(title: &str, seen: &Inspection, report: &str) -> Result<String, String> {
    let title = escaped(title);
    let mut body = format!("<h1>{title}</h1>\n");
    if !seen.warnings.is_empty() {
        body.push_str("<ul class=\"warnings\">\n");
        for warning in &seen.warnings {
            let _ = writeln!(body, "<li>{}</li>", escaped(&warning.to_string()));
        }
        body.push_str("</ul>\n");
    }
    if let Some(curve) = &seen.rate_over_time {
        body.push_str(&pictures::rate(curve)?);
    }
    body.push_str(&pictures::lengths("Rows by input tokens", &seen.input)?);
    body.push_str(&pictures::lengths("Rows by output tokens", &seen.output)?);
    let _ = writeln!(body, "<pre>{}</pre>", escaped(report));
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>{title}</title>\n\
         <style>{STYLE}</style></head>\n<body>\n{body}</body>\n</html>\n"
    ))
}

const STYLE: &str = "body { font-family: sans-serif; margin: 2em auto; max-width: 900px } \
    svg { display: block; width: 100%; height: auto } pre { font-size: 12px; overflow-x: auto } \
    .warnings { background: #fff4d6; padding: 0.6em 2em }";

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn names_cannot_become_markup() {
        assert_eq!(
            escaped("<a href=\"x\">&"),
            "&lt;a href=&quot;x&quot;&gt;&amp;"
        );
    }
}
