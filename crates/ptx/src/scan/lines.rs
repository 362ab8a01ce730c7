//! Scans PTX line by line, recognising only comments and strings.

/// Reads consecutive lines; a comment may extend across them.
#[derive(Debug, Default)]
pub struct CodeLines {
    comment: bool,
}

impl CodeLines {
    /// Returns the code of the next line: comments become blanks, strings become `""`.
    pub fn code(&mut self, line: &str) -> String {
        let mut out = String::with_capacity(line.len());
        let mut rest = line;
        while !rest.is_empty() {
            if self.comment {
                let Some(end) = rest.find("*/") else { break };
                self.comment = false;
                out.push(' ');
                rest = &rest[end + 2..];
                continue;
            }
            let at = rest.find(['/', '"']).unwrap_or(rest.len());
            out.push_str(&rest[..at]);
            rest = &rest[at..];
            if rest.starts_with("//") {
                break;
            } else if let Some(behind) = rest.strip_prefix("/*") {
                self.comment = true;
                rest = behind;
            } else if let Some(behind) = rest.strip_prefix('"') {
                out.push_str("\"\"");
                // A string ends on its line.
                rest = behind.find('"').map_or("", |end| &behind[end + 1..]);
            } else if let Some(behind) = rest.strip_prefix('/') {
                out.push('/');
                rest = behind;
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_are_no_code() {
        let mut lines_of_code = CodeLines::default();
        let lines = ["a / b // c", "x /* y", ".version 1.0", "*/ z \"{ // }\" w", "\"open"];
        let got: Vec<String> = lines.iter().map(|l| lines_of_code.code(l).trim().to_owned()).collect();
        assert_eq!(got, ["a / b", "x", "", "z \"\" w", "\"\""]);
    }
}
