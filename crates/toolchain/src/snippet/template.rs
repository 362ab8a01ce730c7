//! Templates: text with `${…}` placeholders.
//!
//! `${axis}` is the axis value. `${table[axis]}` and `${table[a,b]}` look up a text, which may contain placeholders
//! itself. `${%r0..%r3}` expands to `%r0, %r1, %r2, %r3`. Modules also have `${isa}` and `${target}`.

use std::collections::BTreeSet;

use indexmap::IndexMap;

/// Tables of a header: name → key → text.
pub(super) type Tables = IndexMap<String, IndexMap<String, String>>;

/// Maximum number of registers in one `${r0..rN}`; PTX vectors end at 256.
const RANGE_LIMIT: u32 = 1024;

/// Maximum depth of tables that refer to tables.
const DEPTH_LIMIT: usize = 8;

/// A placeholder that cannot be filled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    /// Line in the given text, from 1.
    pub(super) line: usize,
    /// What is wrong and how to fix it.
    pub(super) message: String,
}

/// The names a template may refer to, and a record of those it did.
pub(super) struct Scope<'a> {
    /// Axis values of the variant.
    pub(super) axes: &'a [(String, String)],
    /// Tables of the header.
    pub(super) tables: &'a Tables,
    /// Names other than axes and tables: `isa`, `target`, and their values.
    pub(super) extra: &'a [(&'a str, &'a str)],
    /// Axes and tables (`[name]`) used so far.
    pub(super) used: BTreeSet<String>,
}

impl Scope<'_> {
    /// Fills every placeholder of `text`.
    pub(super) fn render(&mut self, text: &str) -> Result<String, Fault> {
        self.render_at(text, 0)
    }

    fn render_at(&mut self, text: &str, depth: usize) -> Result<String, Fault> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            out.push_str(&rest[..start]);
            let line = text[..text.len() - rest.len() + start].matches('\n').count() + 1;
            let fault = |message: String| Fault { line, message };
            let inside = &rest[start + 2..];
            let end = inside
                .find('}')
                .filter(|end| !inside[..*end].contains('\n'))
                .ok_or_else(|| fault("`${` without `}` on the same line".to_owned()))?;
            let expression = &inside[..end];
            out.push_str(&self.value(expression, depth).map_err(fault)?);
            rest = &inside[end + 1..];
        }
        out.push_str(rest);
        Ok(out)
    }

    fn value(&mut self, expression: &str, depth: usize) -> Result<String, String> {
        if let Some(range) = register_range(expression)? {
            return Ok(range);
        }
        if let Some((table, axes)) = expression.strip_suffix(']').and_then(|e| e.split_once('[')) {
            return self.look_up(table, axes, depth);
        }
        if let Some((_, value)) = self.axes.iter().find(|(name, _)| name == expression) {
            self.used.insert(expression.to_owned());
            return Ok(value.clone());
        }
        if let Some((_, value)) = self.extra.iter().find(|(name, _)| *name == expression) {
            return Ok((*value).to_owned());
        }
        Err(format!("unknown placeholder `${{{expression}}}`; {}", self.known()))
    }

    fn look_up(&mut self, table: &str, axes: &str, depth: usize) -> Result<String, String> {
        let tables = self.tables;
        let entries = tables
            .get(table)
            .ok_or_else(|| format!("unknown table `{table}` in `${{{table}[{axes}]}}`; {}", self.known()))?;
        self.used.insert(format!("[{table}]"));
        let mut key = Vec::new();
        for axis in axes.split(',').map(str::trim) {
            let (_, value) = self.axes.iter().find(|(name, _)| name == axis).ok_or_else(|| {
                format!("unknown axis `{axis}` in `${{{table}[{axes}]}}`; {}", self.known())
            })?;
            self.used.insert(axis.to_owned());
            key.push(value.as_str());
        }
        let key = key.join(",");
        let text =
            entries.get(&key).ok_or_else(|| format!("table `{table}` has no entry for `{key}`; add one"))?;
        if depth >= DEPTH_LIMIT {
            return Err(format!("table `{table}` refers to itself"));
        }
        self.render_at(text, depth + 1).map_err(|fault| fault.message)
    }

    fn known(&self) -> String {
        let axes = self.axes.iter().map(|(name, _)| name.as_str());
        let names: Vec<&str> = axes
            .chain(self.extra.iter().map(|(name, _)| *name))
            .chain(self.tables.keys().map(String::as_str))
            .collect();
        if names.is_empty() {
            "the header names no axes".to_owned()
        } else {
            format!("known names: {}", names.join(", "))
        }
    }
}

/// `%r0..%r3` → `%r0, %r1, %r2, %r3`; `None` if the expression is not a range.
fn register_range(expression: &str) -> Result<Option<String>, String> {
    let Some((first, last)) = expression.split_once("..") else { return Ok(None) };
    let parts = |text: &'_ str| -> Option<(String, u32)> {
        let prefix = text.trim_end_matches(|c: char| c.is_ascii_digit());
        Some((prefix.to_owned(), text[prefix.len()..].parse().ok()?))
    };
    let bad = || format!("`${{{expression}}}` is not a register range; write `${{r0..r3}}`");
    let ((prefix, first), (prefix_last, last)) = parts(first).zip(parts(last)).ok_or_else(bad)?;
    if prefix != prefix_last || prefix.is_empty() || last < first || last - first >= RANGE_LIMIT {
        return Err(bad());
    }
    let names: Vec<String> = (first..=last).map(|n| format!("{prefix}{n}")).collect();
    Ok(Some(names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(text: &str) -> Result<(String, Vec<String>), Fault> {
        let axes = [("num".to_owned(), "x2".to_owned()), ("ty".to_owned(), "b16".to_owned())];
        let entry = |k: &str, v: &str| (k.to_owned(), v.to_owned());
        let tables: Tables = [
            ("regs".to_owned(), [entry("x2", "${r0..r1}"), entry("x2,b16", "both")].into_iter().collect()),
            ("loop".to_owned(), [entry("x2", "${loop[num]}")].into_iter().collect()),
        ]
        .into_iter()
        .collect();
        let mut scope =
            Scope { axes: &axes, tables: &tables, extra: &[("isa", "9.5")], used: BTreeSet::new() };
        let out = scope.render(text)?;
        Ok((out, scope.used.into_iter().collect()))
    }

    #[test]
    fn placeholders_are_filled() {
        assert_eq!(render("a.${num}.${ty} {${regs[num]}};").unwrap().0, "a.x2.b16 {r0, r1};");
        assert_eq!(render("${regs[num,ty]} ${%f9..%f11} ${isa}").unwrap().0, "both %f9, %f10, %f11 9.5");
        assert_eq!(render("${regs[num]}").unwrap().1, ["[regs]", "num"]);
        assert_eq!(render("no $ here {x}").unwrap().0, "no $ here {x}");
    }

    #[test]
    fn faults_name_their_line() {
        for (text, line, word) in [
            ("\n\n${nothing}", 3, "nothing"),
            ("${num", 1, "without"),
            ("x\n${num\n}", 2, "without"),
            ("${regs[ty]}", 1, "no entry for `b16`"),
            ("${zz[num]}", 1, "unknown table"),
            ("${regs[zz]}", 1, "unknown axis"),
            ("${r3..r0}", 1, "range"),
            ("${r0..q3}", 1, "range"),
            ("${r0..r9999}", 1, "range"),
            ("${loop[num]}", 1, "refers to itself"),
            ("${}", 1, "unknown placeholder"),
        ] {
            let fault = render(text).unwrap_err();
            assert_eq!(fault.line, line, "{text}");
            assert!(fault.message.contains(word), "{text}: {}", fault.message);
        }
    }
}
