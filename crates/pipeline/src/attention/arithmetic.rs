//! The arithmetic of one wrong element as a Python program that needs nothing else, where few keys make it.

use std::fmt::{Display, Write};

use super::judge::{Pair, Subject};
use super::problem::Problem;
use super::semantics::{ScoreOrder, Semantics};

/// Numbers of all visible keys up to which a program is short enough to be read.
const MOST_NUMBERS: usize = 1024;

fn list<T: Display>(all: impl IntoIterator<Item = T>) -> String {
    let all: Vec<String> = all.into_iter().map(|x| x.to_string()).collect();
    format!("[{}]", all.join(", "))
}

/// Whether a program can say what is computed: the plain order of scores, and no fault of a hypothesis.
fn is_plain(semantics: &Semantics) -> bool {
    let Semantics { score, stale, cap: _, sink_count, merge, sentinel, reads_hidden, .. } = semantics;
    *score == ScoreOrder::Declared
        && stale.is_none()
        && *sink_count == 1.0
        && merge.is_none()
        && sentinel.is_none()
        && !reads_hidden
}

/// The program that computes an element of the output of a pair exactly, and prints it beside what is stored; `None` if it has many keys, none,
/// or numbers that Python does not read.
pub(super) fn program(subject: &Subject<'_>, pair: Pair, column: usize, stored: f32) -> Option<String> {
    let (problem, request) = subject.request(pair)?;
    let Problem { shape, semantics, keys, values, slopes, .. } = problem;
    let visible: Vec<usize> = problem.visible(request, pair.row).collect();
    let size = visible.len() * shape.width;
    if size == 0 || size > MOST_NUMBERS || !is_plain(semantics) {
        return None;
    }
    let [key_head, value_head] = [0, 1].map(|side| shape.kv_head(side, pair.head));
    let query = problem.query(request.rows.start + pair.row, pair.head);
    let (mut rows, mut scales, mut column_values, mut biases) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for key in visible {
        let at = request.keys.start + key;
        rows.push(keys.row(at, key_head, shape.kv_heads, shape.width));
        scales.push(semantics.scale * keys.factor(at, key_head, shape.kv_heads));
        let value = values.row(at, value_head, shape.kv_heads, shape.value_width).get(column)?;
        let factor = semantics.value_scale * values.factor(at, value_head, shape.kv_heads);
        column_values.push(f64::from(*value) * factor);
        // The position of the row is that of its last key.
        biases.push((key as i64 - request.position - pair.row as i64) as f64);
    }
    let sink = problem.sink(pair.row, pair.head);
    let numbers = query.iter().chain(rows.iter().copied().flatten()).map(|x| f64::from(*x));
    if !numbers
        .chain(scales.iter().copied())
        .chain(column_values.iter().copied())
        .chain(sink)
        .all(f64::is_finite)
    {
        return None;
    }
    let mut program = String::from("import math\n");
    let mut line = |text: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(program, "{text}");
    };
    line(format!("q = {}", list(query)));
    line(format!("keys = {}", list(rows.iter().copied().map(list))));
    line(format!("values = {}", list(column_values)));
    let is_one = scales.iter().all(|scale| Some(scale) == scales.first());
    let all = match is_one {
        true => format!("[{}] * {}", scales.first()?, scales.len()),
        false => list(&scales),
    };
    line(format!("scales = {all}"));
    line(
        "scores = [scale * sum(a * b for a, b in zip(q, key)) for scale, key in zip(scales, keys)]"
            .to_owned(),
    );
    if let Some(slope) = slopes.get(pair.head) {
        line(format!(
            "scores = [score + {slope} * distance for score, distance in zip(scores, {})]",
            list(biases)
        ));
    }
    if let Some(cap) = semantics.cap {
        line(format!("scores = [{cap} * math.tanh(score / {cap}) for score in scores]"));
    }
    let sinks = sink.map_or_else(String::new, |sink| format!("{sink}"));
    line(format!("sinks = [{sinks}]"));
    line("largest = max(scores + sinks)".to_owned());
    line("weights = [math.exp(score - largest) for score in scores]".to_owned());
    line("total = sum(weights) + sum(math.exp(sink - largest) for sink in sinks)".to_owned());
    let stored = if stored.is_finite() { stored.to_string() } else { format!("float('{stored}')") };
    line(format!("print('exact', sum(w * v for w, v in zip(weights, values)) / total, 'stored', {stored})"));
    Some(program)
}
