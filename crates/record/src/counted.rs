//! Numbers and counted nouns, as every report and message writes them.

/// `1,712`.
#[must_use]
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 variant`, `2,000 variants`.
#[must_use]
pub fn counted(number: usize, noun: &str) -> String {
    let plural = match number {
        1 => "",
        _ if noun.ends_with("ch") || noun.ends_with("ss") => "es",
        _ => "s",
    };
    format!("{} {noun}{plural}", grouped(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_three() {
        let got = [0, 999, 1000, 12_345, 1_234_567].map(grouped);
        assert_eq!(got, ["0", "999", "1,000", "12,345", "1,234,567"]);
    }

    #[test]
    fn one_of_something_is_singular() {
        assert_eq!(
            [0, 1, 2, 2000].map(|n| counted(n, "trial")),
            ["0 trials", "1 trial", "2 trials", "2,000 trials"]
        );
        assert_eq!([counted(1, "launch"), counted(2, "launch")], ["1 launch", "2 launches"]);
    }
}
