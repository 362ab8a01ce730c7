//! What the launches left out: inputs that none of them used, parts of outputs that none of them wrote, modules and launches that did
//! not run. None of it is a failure by itself; beside a wrong result it is the first clue.

use std::fmt;
use std::ops::Range;

use emulator::argument::Shape;
use emulator::trials::Verdict;
use serde::Serialize;

use super::run::Outcome;
use super::session::{Initial, Session};

/// Something that the launches left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Omission {
    /// No launch read or wrote a buffer that had contents.
    Unread {
        /// The buffer.
        buffer: String,
    },
    /// No launch wrote some elements of a buffer without contents.
    Unwritten {
        /// The buffer.
        buffer: String,
        /// Which elements.
        elements: Elements,
    },
    /// A launch did not run, because an earlier one stopped.
    Skipped {
        /// Its index.
        launch: usize,
        /// Its kernel.
        kernel: String,
    },
    /// No launch is of a module.
    Unlaunched {
        /// The module.
        module: String,
    },
}

/// Elements of a buffer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Elements {
    /// How many there are.
    pub count: usize,
    /// The first of them, in the order of memory.
    pub first: usize,
    /// The last of them.
    pub last: usize,
    /// The first and the last row, if they are all elements of a rectangle. A row is one index of all dimensions but the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<[usize; 2]>,
    /// The first and the last column of the rectangle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub columns: Option<[usize; 2]>,
}

impl Elements {
    /// The elements that have a byte in one of these ranges, which are in ascending order; `None` if there are none.
    #[must_use]
    pub fn of_bytes(shape: &Shape, bytes: &[Range<usize>]) -> Option<Self> {
        let bits = shape.element.bits();
        let element = |byte: usize| byte * 8 / bits;
        let mut runs: Vec<Range<usize>> = Vec::new();
        for run in bytes.iter().filter(|run| !run.is_empty()) {
            let elements = element(run.start)..element(run.end - 1) + (8 / bits).max(1);
            match runs.last_mut() {
                Some(last) if last.end >= elements.start => last.end = last.end.max(elements.end),
                _ => runs.push(elements),
            }
        }
        let (first, end) = (runs.first()?.start, runs.last()?.end);
        let rectangle = rectangle(&runs, shape.dims.last().copied().filter(|_| shape.dims.len() > 1));
        let (rows, columns) = rectangle.map_or((None, None), |[rows, columns]| (Some(rows), Some(columns)));
        let count = runs.iter().map(ExactSizeIterator::len).sum();
        Some(Self { count, first, last: end - 1, rows, columns })
    }
}

/// The first and last row and column of runs of elements that are a rectangle of a matrix with so many columns.
fn rectangle(runs: &[Range<usize>], columns: Option<usize>) -> Option<[[usize; 2]; 2]> {
    let columns = columns.filter(|columns| *columns > 0)?;
    let (head, tail) = (runs.first()?, runs.last()?);
    if let [all] = runs
        && all.start % columns == 0
        && all.end % columns == 0
    {
        return Some([[all.start / columns, all.end / columns - 1], [0, columns - 1]]);
    }
    let (from, len) = (head.start % columns, head.len());
    let regular =
        |(n, run): (usize, &Range<usize>)| run.start == head.start + n * columns && run.len() == len;
    let inside = from + len <= columns && runs.iter().enumerate().all(regular);
    inside.then(|| [[head.start / columns, tail.start / columns], [from, from + len - 1]])
}

/// `4 to 7`, or `4` for a single one.
fn span([first, last]: [usize; 2], one: &str) -> String {
    if first == last { format!("{one} {first}") } else { format!("{one}s {first} to {last}") }
}

impl fmt::Display for Elements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, first, last, rows, columns } = self;
        let without_gap = last - first + 1 == *count;
        let elements = span([*first, *last], "element");
        match (rows, columns) {
            (Some(rows), Some(_)) if without_gap && rows[0] != rows[1] => {
                write!(f, "{elements}, {}", span(*rows, "row"))
            }
            (Some(rows), Some(columns)) => {
                let (rows, columns) = (span(*rows, "row"), span(*columns, "column"));
                let elements = if without_gap { elements } else { format!("{count} elements") };
                write!(f, "{elements}, {columns} of {rows}")
            }
            _ if without_gap => f.write_str(&elements),
            _ => write!(f, "{count} elements between {first} and {last}"),
        }
    }
}

impl fmt::Display for Omission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unread { buffer } => write!(f, "`{buffer}` was never read by any launch"),
            Self::Unwritten { buffer, elements } => {
                let were = if elements.count == 1 { "was" } else { "were" };
                write!(f, "of `{buffer}`, {elements} {were} never written by any launch")
            }
            Self::Skipped { launch, kernel } => write!(f, "launch {launch}, `{kernel}`, did not run"),
            Self::Unlaunched { module } => write!(f, "no launch is of the module {module}"),
        }
    }
}

impl Session {
    /// Returns what the launches of the first trial left out. Of memory nothing is said unless the trial ran to its end.
    #[must_use]
    pub fn omissions(&self, outcome: Option<&Outcome>, verdict: &Verdict) -> Vec<Omission> {
        let mut all = Vec::new();
        let is_used = |n: usize| self.steps.iter().any(|step| step.module == n);
        let unused = self.modules.iter().enumerate().filter(|(n, _)| !is_used(*n));
        all.extend(unused.map(|(_, module)| Omission::Unlaunched { module: module.name.clone() }));
        if let Some(stopped) = verdict.stopped.as_ref().filter(|_| !verdict.finished) {
            let behind = self.steps.iter().enumerate().skip(stopped.step + 1);
            all.extend(behind.map(|(launch, step)| Omission::Skipped { launch, kernel: step.entry.clone() }));
        }
        let Some(Outcome { memory, addresses }) = outcome else { return all };
        for (buffer, address) in self.buffers.iter().zip(addresses).filter(|(buffer, _)| !buffer.scratch) {
            let name = buffer.name.clone();
            let uses = memory.uses(*address);
            if buffer.initial == Initial::Unwritten {
                let runs = memory.untouched_runs(*address);
                let elements = Elements::of_bytes(&buffer.shape, &runs);
                all.extend(elements.map(|elements| Omission::Unwritten { buffer: name, elements }));
            } else if !uses.read && !uses.written && !matches!(buffer.initial, Initial::There(_)) {
                // What is written and not read is an output with initial contents.
                all.push(Omission::Unread { buffer: name });
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use emulator::argument::Element;

    use super::*;

    /// Elements of f32 that have bytes in these runs, from the first to the one before the end.
    fn region_words(dims: &[usize], bytes: &[(usize, usize)]) -> String {
        let shape = Shape::new(Element::F32, dims.to_vec()).unwrap();
        let runs: Vec<Range<usize>> = bytes.iter().map(|(from, to)| *from..*to).collect();
        Elements::of_bytes(&shape, &runs).unwrap().to_string()
    }

    #[test]
    fn elements_are_named_by_rows_and_columns_where_they_are_a_rectangle() {
        assert_eq!(region_words(&[64, 128], &[(4 * 4096, 4 * 8192)]), "elements 4096 to 8191, rows 32 to 63");
        assert_eq!(region_words(&[4, 8], &[(16, 32), (48, 64)]), "8 elements, columns 4 to 7 of rows 0 to 1");
        assert_eq!(region_words(&[4, 8], &[(32, 64)]), "elements 8 to 15, columns 0 to 7 of row 1");
        assert_eq!(region_words(&[4, 8], &[(124, 128)]), "element 31, column 7 of row 3");
        assert_eq!(region_words(&[4, 8], &[(20, 40)]), "elements 5 to 9");
        assert_eq!(region_words(&[4, 8], &[(0, 4), (12, 20)]), "3 elements between 0 and 4");
        assert_eq!(region_words(&[16], &[(8, 12)]), "element 2");
        // A byte of an element is the element.
        assert_eq!(region_words(&[16], &[(9, 10), (11, 17)]), "elements 2 to 4");
        let shape = Shape::new(Element::named("e2m1").unwrap(), vec![8]).unwrap();
        let bytes = 1..3;
        let some = Elements::of_bytes(&shape, std::slice::from_ref(&bytes)).unwrap();
        assert_eq!(some.to_string(), "elements 2 to 5");
        assert_eq!(Elements::of_bytes(&shape, &[]), None);
    }
}
