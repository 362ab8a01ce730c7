//! Formatting of device-side `printf` (CUDA C++ Programming Guide, "Formatted Output").

use std::fmt::Write as _;

/// Source of the values of a format.
pub(crate) trait Values {
    /// The error if a value cannot be read.
    type Error;

    /// The next value of 32 bits.
    fn word(&mut self) -> Result<u32, Self::Error>;

    /// The next value of 64 bits.
    fn long(&mut self) -> Result<u64, Self::Error>;

    /// Reads the string at an address.
    fn string(&mut self, address: u64) -> Result<String, Self::Error>;
}

/// One conversion: flags, width, precision and length.
#[derive(Debug, Default)]
struct Conversion {
    left: bool,
    zeros: bool,
    plus: bool,
    blank: bool,
    alternate: bool,
    width: usize,
    precision: Option<usize>,
    /// Size of an integer in bytes: 1, 2, 4 or 8.
    bytes: u32,
}

/// Formats values; returns the text and the number of values used.
///
/// # Errors
/// Those of `values`.
pub(crate) fn format<V: Values>(pattern: &str, values: &mut V) -> Result<(String, i32), V::Error> {
    let (mut out, mut taken) = (String::new(), 0);
    let mut rest = pattern.chars().peekable();
    while let Some(c) = rest.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        if rest.next_if_eq(&'%').is_some() {
            out.push('%');
            continue;
        }
        let mut conversion = Conversion { bytes: 4, ..Conversion::default() };
        while let Some(flag) = rest.next_if(|c| "-0+ #".contains(*c)) {
            match flag {
                '-' => conversion.left = true,
                '0' => conversion.zeros = true,
                '+' => conversion.plus = true,
                ' ' => conversion.blank = true,
                _ => conversion.alternate = true,
            }
        }
        if rest.next_if_eq(&'*').is_some() {
            let width = values.word()?.cast_signed();
            taken += 1;
            conversion.left |= width < 0;
            conversion.width = width.unsigned_abs() as usize;
        } else {
            conversion.width = number(&mut rest).unwrap_or(0);
        }
        if rest.next_if_eq(&'.').is_some() {
            conversion.precision = if rest.next_if_eq(&'*').is_some() {
                taken += 1;
                usize::try_from(values.word()?.cast_signed()).ok()
            } else {
                Some(number(&mut rest).unwrap_or(0))
            };
        }
        while let Some(length) = rest.next_if(|c| "hlLqjzt".contains(*c)) {
            conversion.bytes = match length {
                'h' => conversion.bytes / 2,
                _ => 8,
            };
        }
        let Some(kind) = rest.next() else { break };
        if let Some(text) = conversion.make(kind, values)? {
            taken += 1;
            conversion.pad(&mut out, &text, kind);
        } else {
            // Not a conversion: copied verbatim.
            out.push('%');
            out.push(kind);
        }
    }
    Ok((out, taken))
}

fn number(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<usize> {
    let mut value = None;
    while let Some(digit) = rest.peek().and_then(|c| c.to_digit(10)) {
        rest.next();
        value = Some((value.unwrap_or(0) * 10 + digit as usize).min(1 << 16));
    }
    value
}

impl Conversion {
    /// Formats the next value; `None` if `kind` is not a conversion.
    fn make<V: Values>(&self, kind: char, values: &mut V) -> Result<Option<String>, V::Error> {
        Ok(Some(match kind {
            'd' | 'i' => {
                let value = self.integer(values)?;
                let shift = 64 - 8 * self.bytes.max(1);
                self.signed((value << shift).cast_signed() >> shift)
            }
            'u' | 'x' | 'X' | 'o' => {
                let shift = 64 - 8 * self.bytes.max(1);
                let value = self.integer(values)? << shift >> shift;
                self.unsigned(value, kind)
            }
            'c' => char::from(values.word()? as u8).to_string(),
            's' => {
                let address = values.long()?;
                let text = if address == 0 { "(null)".to_owned() } else { values.string(address)? };
                text.chars().take(self.precision.unwrap_or(usize::MAX)).collect()
            }
            'p' => format!("{:#x}", values.long()?),
            'f' | 'F' | 'e' | 'E' | 'g' | 'G' | 'a' | 'A' => self.float(f64::from_bits(values.long()?), kind),
            _ => return Ok(None),
        }))
    }

    fn integer<V: Values>(&self, values: &mut V) -> Result<u64, V::Error> {
        if self.bytes == 8 { values.long() } else { values.word().map(u64::from) }
    }

    fn digits(&self, text: String) -> String {
        match self.precision {
            Some(0) if text == "0" => String::new(),
            Some(digits) => format!("{text:0>digits$}"),
            None => text,
        }
    }

    fn sign(&self, negative: bool) -> &'static str {
        match (negative, self.plus, self.blank) {
            (true, ..) => "-",
            (_, true, _) => "+",
            (_, _, true) => " ",
            _ => "",
        }
    }

    fn signed(&self, value: i64) -> String {
        format!("{}{}", self.sign(value < 0), self.digits(value.unsigned_abs().to_string()))
    }

    fn unsigned(&self, value: u64, kind: char) -> String {
        let (prefix, text) = match kind {
            'x' => ("0x", format!("{value:x}")),
            'X' => ("0X", format!("{value:X}")),
            'o' => ("0", format!("{value:o}")),
            _ => ("", value.to_string()),
        };
        let prefix = if self.alternate && value != 0 { prefix } else { "" };
        format!("{prefix}{}", self.digits(text))
    }

    fn float(&self, value: f64, kind: char) -> String {
        let sign = self.sign(value.is_sign_negative() && !value.is_nan());
        let size = value.abs();
        let text = match kind.to_ascii_lowercase() {
            _ if value.is_nan() => "nan".to_owned(),
            _ if value.is_infinite() => "inf".to_owned(),
            'f' => format!("{size:.*}", self.precision.unwrap_or(6)),
            'e' => exponential(size, self.precision.unwrap_or(6)),
            'g' => self.shortest(size),
            _ => hexadecimal(size),
        };
        let text = if kind.is_ascii_uppercase() { text.to_uppercase() } else { text };
        format!("{sign}{text}")
    }

    /// `%g`: the shorter of `%e` and `%f`, without trailing zeros.
    fn shortest(&self, size: f64) -> String {
        let precision = self.precision.unwrap_or(6).max(1);
        let scientific = exponential(size, precision - 1);
        let exponent: i64 = scientific.split_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or(0);
        let trim = |text: &str| match text.contains('.') && !self.alternate {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text.to_owned(),
        };
        if exponent < -4 || exponent >= precision as i64 {
            let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "+00"));
            return format!("{}e{exponent}", trim(mantissa));
        }
        trim(&format!("{size:.*}", (precision as i64 - 1 - exponent) as usize))
    }

    fn pad(&self, out: &mut String, text: &str, kind: char) {
        let missing = self.width.saturating_sub(text.chars().count());
        let integer = "diuxXo".contains(kind);
        // Hexadecimal digits may all be letters.
        let finite = integer || text.bytes().any(|b| b.is_ascii_digit());
        if self.left {
            let _ = write!(out, "{text}{:missing$}", "");
        } else if self.zeros && finite && (!integer || self.precision.is_none()) && !"csp".contains(kind) {
            let signs = text.len() - text.trim_start_matches(['-', '+', ' ']).len();
            let prefix =
                if text[signs..].starts_with("0x") || text[signs..].starts_with("0X") { 2 } else { 0 };
            let (head, tail) = text.split_at(signs + prefix);
            let _ = write!(out, "{head}{:0>missing$}{tail}", "");
        } else {
            let _ = write!(out, "{:missing$}{text}", "");
        }
    }
}

/// `%e`: the exponent has a sign and at least two digits.
fn exponential(size: f64, precision: usize) -> String {
    let text = format!("{size:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i64 = exponent.parse().unwrap_or(0);
    format!("{mantissa}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

/// `%a` with all digits.
fn hexadecimal(size: f64) -> String {
    let bits = size.to_bits();
    let (exponent, fraction) = ((bits >> 52).cast_signed() - 1023, bits & ((1 << 52) - 1));
    let (lead, exponent) = match (exponent, fraction) {
        (-1023, 0) => (0, 0),
        (-1023, _) => (0, -1022),
        (exponent, _) => (1, exponent),
    };
    let digits = format!("{fraction:013x}");
    let digits = digits.trim_end_matches('0');
    let point = if digits.is_empty() { "" } else { "." };
    format!("0x{lead}{point}{digits}p{exponent:+}")
}

#[cfg(test)]
mod tests {
    use super::*;

    struct List(std::vec::IntoIter<u64>);

    impl Values for List {
        type Error = ();

        fn word(&mut self) -> Result<u32, ()> {
            self.long().map(|value| value as u32)
        }

        fn long(&mut self) -> Result<u64, ()> {
            self.0.next().ok_or(())
        }

        fn string(&mut self, address: u64) -> Result<String, ()> {
            Ok(format!("text{address}"))
        }
    }

    #[test]
    fn conversions_are_those_of_c() {
        let minus = u64::from(u32::MAX);
        let f = f64::to_bits;
        for (pattern, values, wanted) in [
            ("plain %% text", vec![], "plain % text"),
            ("%d|%i|%u|%x|%o", vec![minus, 7, minus, 255, 8], "-1|7|4294967295|ff|10"),
            ("%5d|%-5d|%05d|%+d|% d", vec![42, 42, 42, 42, 42], "   42|42   |00042|+42| 42"),
            ("%#x|%#06x|%.3d|%X", vec![255, 255, 7, 0xABC], "0xff|0x00ff|007|ABC"),
            ("%04x|%08X|%#06X|%#04x|%04x", vec![10, 0xABC, 255, 0, 0], "000a|00000ABC|0X00FF|0000|0000"),
            ("%ld|%llu|%lx", vec![u64::MAX, u64::MAX, 1 << 40], "-1|18446744073709551615|10000000000"),
            ("%hhd|%hu", vec![0x1FF, 0x1_0001], "-1|1"),
            ("%c%c|%s|%.2s|%6s", vec![72, 105, 4, 4, 4], "Hi|text4|te| text4"),
            ("%p", vec![0x1000], "0x1000"),
            (
                "%f|%.2f|%8.3f|%-8.1f|",
                vec![f(1.5), f(2.675), f(-1.0), f(3.0)],
                "1.500000|2.67|  -1.000|3.0     |",
            ),
            ("%e|%.1E", vec![f(12345.678), f(0.00012)], "1.234568e+04|1.2E-04"),
            ("%g|%g|%g|%g", vec![f(100_000.0), f(1e6), f(0.0001), f(1e-5)], "100000|1e+06|0.0001|1e-05"),
            ("%g|%f|%5g", vec![f(f64::NAN), f(f64::INFINITY), f(-0.5)], "nan|inf| -0.5"),
            ("%a|%012a", vec![f(1.5), f(1.5)], "0x1.8p+0|0x00001.8p+0"),
            ("%*d|%.*f", vec![4, 1, 1, f(0.25)], "   1|0.2"),
            ("%08.3f|%y", vec![f(-2.5)], "-002.500|%y"),
        ] {
            let made = format(pattern, &mut List(values.into_iter()));
            assert_eq!(made.as_ref().map(|(text, _)| text.as_str()), Ok(wanted), "{pattern}");
        }
        assert_eq!(format("%d", &mut List(Vec::new().into_iter())), Err(()));
    }
}
