//! The line of a CUDA C++ source that a line of its PTX comes from.

use serde::Serialize;

/// A CUDA C++ file whose PTX is checked.
#[derive(Debug, Clone)]
pub struct CudaFile {
    /// Its path as given.
    pub file: String,
    /// Its name in the line information of the PTX.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// A line of a CUDA C++ file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CudaLine {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// Its text, trimmed.
    pub text: String,
}

impl CudaFile {
    /// Returns the line that line `number` of the PTX comes from; of code that was inlined from a header, the line of the call.
    #[must_use]
    pub fn line(&self, ptx: &str, number: usize) -> Option<CudaLine> {
        let own = ptx.lines().find_map(|line| {
            let (index, name) =
                line.trim_start().strip_prefix(".file")?.trim().split_once(char::is_whitespace)?;
            (name.trim().trim_matches('"') == self.name).then(|| index.to_owned())
        })?;
        let above: Vec<&str> = ptx.lines().take(number).collect();
        let line = above.iter().rev().take_while(|line| !opens_function(line)).find_map(|line| {
            let places = line.trim_start().strip_prefix(".loc")?;
            // The place itself, then that of the call.
            places.split(',').find_map(|part| {
                let place =
                    part.trim().trim_start_matches("inlined_at").split_whitespace().collect::<Vec<_>>();
                (place.first() == Some(&own.as_str())).then(|| place.get(1)?.parse::<usize>().ok()).flatten()
            })
        })?;
        let text = self.text.lines().nth(line.checked_sub(1)?)?.trim().to_owned();
        Some(CudaLine { file: self.file.clone(), line, text })
    }
}

fn opens_function(line: &str) -> bool {
    line.trim_start().starts_with('.')
        && line.split_whitespace().any(|word| word == ".entry" || word == ".func")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_ptx_lead_to_lines_of_cuda() {
        let ptx = ".visible .entry k()\n{\n.loc 1 3 1\nadd.u32 %r1, %r1, %r1;\n.loc 2 9 1, function_name $L, inlined_at 1 4 5\n\
            ld.global.u32 %r1, [%rd1];\nret;\n}\n.file 1 \"k.cu\"\n.file 2 \"/h/intrinsics.hpp\"\n";
        let file = CudaFile {
            file: "src/k.cu".to_owned(),
            name: "k.cu".to_owned(),
            text: "// k\nvoid k() {\n  a += a;\n  get(x);\n}\n".to_owned(),
        };
        let of = |number| file.line(ptx, number).map(|line| (line.line, line.text));
        assert_eq!(of(4), Some((3, "a += a;".to_owned())));
        assert_eq!(of(6), Some((4, "get(x);".to_owned())));
        assert_eq!(of(2), None);
    }
}
