//! Finds the line of a key in a launch file: YAML parsers locate type errors, but not values that are semantically invalid.

/// One component of the path from the top of a file to a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    Key(String),
    Item(usize),
}

/// Returns the line, from 1, of the value at the end of a path, or of the last part that is found.
pub(super) fn line_of(text: &str, path: &[Part]) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    // The line where the search continues, and the minimum indentation of nested lines.
    let (mut at, mut inside) = (0, 0);
    for part in path {
        let found = match part {
            Part::Key(key) => (at..lines.len())
                .take_while(|n| *n == at || indent(lines[*n]).is_none_or(|i| i >= inside))
                .find(|n| has_key(lines[*n], key)),
            Part::Item(item) => {
                let behind = lines.iter().enumerate().skip(at);
                let dashes = behind.filter(|(_, l)| l.trim_start().starts_with("- "));
                let level = dashes.clone().find(|(_, l)| indent(l).is_some_and(|i| i >= inside));
                let level = level.and_then(|(_, l)| indent(l));
                dashes
                    .take_while(|(n, l)| *n == at || indent(l) >= level)
                    .filter(|(_, l)| indent(l) == level)
                    .map(|(n, _)| n)
                    .nth(*item)
            }
        };
        let Some(found) = found else { break };
        let dash = usize::from(lines[found].trim_start().starts_with("- ")) * 2;
        inside = indent(lines[found]).unwrap_or(0) + if matches!(part, Part::Item(_)) { 1 } else { dash };
        at = found;
    }
    at + 1
}

/// Returns the indentation of a line; `None` for an empty line or a comment.
fn indent(line: &str) -> Option<usize> {
    let content = line.trim_start();
    (!content.is_empty() && !content.starts_with('#')).then_some(line.len() - content.len())
}

/// Whether a line contains `key:`, at its start or inside a flow mapping or sequence.
fn has_key(line: &str, key: &str) -> bool {
    line.match_indices(key).any(|(at, _)| {
        let before = line[..at].trim_end_matches(['"', '\'']);
        let after = line[at + key.len()..].trim_start_matches(['"', '\'']);
        let begins = before.trim().is_empty() || before.trim_end().ends_with(['-', '{', ',', '[']);
        begins && after.trim_start().starts_with(':')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "modules:\n  m: {file: a.ptx}\nbuffers:\n  a: {type: u8, shape: 4}\n  b:\n    type: f32\n    shape: [2]\n\n\
                        launches:\n- grid: 1\n  args:\n  - {u32: 1}\n  - buffer: a\n    offset: 2\n- grid: 2\n  args: [{u32: 1}, {u32: 2}]\n";

    fn line(path: &[&str]) -> usize {
        let part = |p: &&str| p.parse().map_or_else(|_| Part::Key((*p).to_owned()), Part::Item);
        line_of(TEXT, &path.iter().map(part).collect::<Vec<_>>())
    }

    #[test]
    fn keys_and_items_are_found() {
        for (path, want) in [
            (&["buffers", "a", "shape"][..], 4),
            (&["buffers", "b"], 5),
            (&["buffers", "b", "shape"], 7),
            (&["launches", "0", "grid"], 10),
            (&["launches", "0", "args", "1"], 13),
            (&["launches", "0", "args", "1", "offset"], 14),
            (&["launches", "1"], 15),
            (&["launches", "1", "args"], 16),
            (&["launches", "1", "args", "1"], 16),
            (&["nothing"], 1),
            (&["buffers", "c"], 3),
        ] {
            assert_eq!(line(path), want, "{path:?}");
        }
    }
}
