//! Launch geometry as expressions over values that the host knows: `ceil_div(n, tile_n) * 2`.
//!
//! Expressions have u64 numbers, `+ - * / %`, parentheses, `ceil_div(a, b)`, `min(a, b)` and `max(a, b)`. Overflow, a negative
//! difference and division by zero are errors. There is no name for the rows of an expert: the host would have to synchronize to
//! know them.

use std::collections::BTreeMap;

/// Values by name.
pub type Names = BTreeMap<&'static str, u64>;

/// An expression that cannot be evaluated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}`, column {column}: {message}")]
pub struct ExpressionError {
    /// The expression.
    pub text: String,
    /// The column of the error, from 1.
    pub column: usize,
    /// The error.
    pub message: String,
}

/// Evaluates `text`.
///
/// # Errors
/// [`ExpressionError`] for invalid syntax, unknown names, overflow, negative differences and division by zero.
pub fn evaluate(text: &str, names: &Names) -> Result<u64, ExpressionError> {
    let mut parser = Parser { text, at: 0, names };
    let value = parser.sum()?;
    parser.skip_space();
    if parser.at < text.len() {
        return Err(parser.error("an operator is expected here"));
    }
    Ok(value)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    names: &'a Names,
}

impl Parser<'_> {
    fn error(&self, message: impl Into<String>) -> ExpressionError {
        ExpressionError { text: self.text.to_owned(), column: self.at + 1, message: message.into() }
    }

    fn skip_space(&mut self) {
        while self.text[self.at..].starts_with(' ') {
            self.at += 1;
        }
    }

    /// Consumes and returns the next character if it is one of `any`.
    fn take(&mut self, any: &[char]) -> Option<char> {
        self.skip_space();
        let next = self.text[self.at..].chars().next().filter(|c| any.contains(c))?;
        self.at += 1;
        Some(next)
    }

    fn want(&mut self, c: char) -> Result<(), ExpressionError> {
        self.take(&[c]).map(|_| ()).ok_or_else(|| self.error(format!("`{c}` is expected here")))
    }

    fn sum(&mut self) -> Result<u64, ExpressionError> {
        let mut value = self.product()?;
        while let Some(operator) = self.take(&['+', '-']) {
            let right = self.product()?;
            value = match operator {
                '+' => value.checked_add(right).ok_or_else(|| self.error("the sum overflows"))?,
                _ => value.checked_sub(right).ok_or_else(|| self.error("the difference is below zero"))?,
            };
        }
        Ok(value)
    }

    fn product(&mut self) -> Result<u64, ExpressionError> {
        let mut value = self.atom()?;
        while let Some(operator) = self.take(&['*', '/', '%']) {
            let right = self.atom()?;
            value = match operator {
                '*' => value.checked_mul(right).ok_or_else(|| self.error("the product overflows"))?,
                '/' => value.checked_div(right).ok_or_else(|| self.error("division by zero"))?,
                _ => value.checked_rem(right).ok_or_else(|| self.error("division by zero"))?,
            };
        }
        Ok(value)
    }

    fn atom(&mut self) -> Result<u64, ExpressionError> {
        if self.take(&['(']).is_some() {
            let value = self.sum()?;
            self.want(')')?;
            return Ok(value);
        }
        self.skip_space();
        let rest = &self.text[self.at..];
        let word = &rest[..rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len())];
        if word.is_empty() {
            return Err(self.error("a number, a name or `(` is expected here"));
        }
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            let value = word.parse().map_err(|_| self.error(format!("`{word}` is not a 64-bit number")))?;
            self.at += word.len();
            return Ok(value);
        }
        if matches!(word, "ceil_div" | "min" | "max") {
            self.at += word.len();
            self.want('(')?;
            let a = self.sum()?;
            self.want(',')?;
            let b = self.sum()?;
            let value = match word {
                "min" => a.min(b),
                "max" => a.max(b),
                _ if b == 0 => return Err(self.error("division by zero")),
                _ => a.div_ceil(b),
            };
            self.want(')')?;
            return Ok(value);
        }
        let Some(value) = self.names.get(word) else {
            let known: Vec<&str> = self.names.keys().copied().collect();
            let known = format!("which the host does not know for this kernel; it knows {}", known.join(" "));
            return Err(self.error(format!("`{word}`, {known}")));
        };
        self.at += word.len();
        Ok(*value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_mistakes() {
        let names = Names::from([("n", 10), ("tile_n", 4)]);
        let value = |text| evaluate(text, &names);
        assert_eq!(value("ceil_div(n, tile_n) * 2 + 1"), Ok(7));
        assert_eq!(value("(n - 1) % tile_n + min(3, max(1, 2)) / 2"), Ok(2));
        for (text, column, message) in [
            ("n *", 4, "a number, a name or `(` is expected here"),
            ("n / (tile_n - 4)", 17, "division by zero"),
            ("1 - n", 6, "the difference is below zero"),
            ("n * 18446744073709551615", 25, "the product overflows"),
            ("99999999999999999999", 1, "`99999999999999999999` is not a 64-bit number"),
            ("n n", 3, "an operator is expected here"),
            ("ceil_div(n)", 11, "`,` is expected here"),
        ] {
            let error = value(text).unwrap_err();
            assert_eq!((error.column, error.message.as_str()), (column, message), "{text}");
        }
        let error = value("rows_of_expert * 2").unwrap_err();
        assert!(error.message.ends_with("does not know for this kernel; it knows n tile_n"), "{error}");
    }
}
