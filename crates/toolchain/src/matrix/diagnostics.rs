//! Parses the messages of ptxas: `ptxas x.ptx, line 12; error   : words`.

use std::sync::LazyLock;

use regex::Regex;

/// The severity of a diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// A remark; ptxas still generates code.
    Warning,
    /// ptxas refuses the file but reads on.
    Error,
    /// ptxas refuses the file and stops reading; the rest of the file is unknown.
    Fatal,
}

/// One error or warning; ptxas's closing line does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The severity.
    pub severity: Severity,
    /// Line in the file given to ptxas, from 1.
    pub line: Option<usize>,
    /// The message.
    pub text: String,
}

/// Every error in `output`, in the order printed.
pub(super) fn parse(output: &str) -> Vec<Diagnostic> {
    output.lines().filter_map(parse_line).collect()
}

/// `ptxas <file>, line <n>; error   : <words>` or `ptxas fatal   : <words>`. The file name is ours and may contain anything.
static FORM: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^(?:ptxas .*?, line (\d+); |ptxas )(error|fatal) *: ?(.*)$").ok());

/// Every warning and advisory that names a line in `output`.
pub(super) fn warnings(output: &str) -> Vec<Diagnostic> {
    let remark = |line: &str| {
        let found = REMARK.as_ref()?.captures(line)?;
        Some(Diagnostic {
            severity: Severity::Warning,
            line: found[1].parse().ok(),
            text: found[2].trim().to_owned(),
        })
    };
    output.lines().filter_map(remark).collect()
}

/// `ptxas <file>, line <n>; warning : <words>`.
static REMARK: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^ptxas .*?, line (\d+); warning *: ?(.*)$").ok());

fn parse_line(line: &str) -> Option<Diagnostic> {
    let found = FORM.as_ref()?.captures(line)?;
    let text = found[3].trim();
    if text.starts_with("Ptx assembly aborted due to errors") {
        return None;
    }
    let severity = if &found[2] == "fatal" { Severity::Fatal } else { Severity::Error };
    Some(Diagnostic {
        severity,
        line: found.get(1).and_then(|n| n.as_str().parse().ok()),
        text: text.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_that_ptxas_prints() {
        let output = "\
ptxas b.ptx, line 6; error   : Unknown modifier '.bar'
ptxas b.ptx, line 7; warning : Some error: here
ptxas info    : (C7519) Potential Performance Loss: error
ptxas b, line 3.ptx, line 11; fatal   : Parsing error near 'r2': syntax error
ptxas fatal   : Value 'sm_999' is not defined for option 'gpu-name'
ptxas error   : Entry function 'v1' uses too much shared data (0x1c000 bytes, 0xc000 max)
ptxas fatal   : Ptx assembly aborted due to errors
garbage error everywhere
";
        let got: Vec<_> = parse(output).into_iter().map(|d| (d.severity, d.line, d.text)).collect();
        assert_eq!(
            got,
            [
                (Severity::Error, Some(6), "Unknown modifier '.bar'".to_owned()),
                (Severity::Fatal, Some(11), "Parsing error near 'r2': syntax error".to_owned()),
                (Severity::Fatal, None, "Value 'sm_999' is not defined for option 'gpu-name'".to_owned()),
                (
                    Severity::Error,
                    None,
                    "Entry function 'v1' uses too much shared data (0x1c000 bytes, 0xc000 max)".to_owned()
                ),
            ]
        );
    }

    #[test]
    fn warnings_are_told_apart_from_errors() {
        let output = "ptxas b.ptx, line 7; warning : Advisory: slow\nptxas b.ptx, line 8; error   : no\nptxas info : x\n";
        let got: Vec<_> = warnings(output).into_iter().map(|d| (d.severity, d.line, d.text)).collect();
        assert_eq!(got, [(Severity::Warning, Some(7), "Advisory: slow".to_owned())]);
    }

    proptest::proptest! {
        #[test]
        fn any_output_is_survived(output in ".{0,300}") {
            parse(&output);
            warnings(&output);
        }
    }
}
