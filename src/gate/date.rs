//! Calendar dates, for expectations that expire.

use std::fmt;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, de::Error};

/// A date of the Gregorian calendar, written as `2026-11-30`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Date {
    year: u16,
    month: u8,
    day: u8,
}

impl Date {
    /// Returns the current date in UTC.
    #[must_use]
    pub fn today() -> Self {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        Self::of_days(seconds / 86_400)
    }

    /// Returns the date `days` after 1970-01-01.
    #[must_use]
    pub fn of_days(days: u64) -> Self {
        let (mut year, mut left) = (1970_u16, days);
        while left >= u64::from(days_of_year(year)) && year < u16::MAX {
            left -= u64::from(days_of_year(year));
            year += 1;
        }
        let mut month = 1_u8;
        while left >= u64::from(days_of_month(year, month)) && month < 12 {
            left -= u64::from(days_of_month(year, month));
            month += 1;
        }
        Self { year, month, day: u8::try_from(left + 1).unwrap_or(31) }
    }
}

const fn is_leap(year: u16) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

const fn days_of_year(year: u16) -> u16 {
    if is_leap(year) { 366 } else { 365 }
}

const fn days_of_month(year: u16, month: u8) -> u8 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

impl FromStr for Date {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}` is not a date; write it as 2026-11-30");
        let parts: Vec<&str> = text.split('-').collect();
        let [year, month, day] = parts.as_slice() else { return Err(bad()) };
        let digits = text.bytes().all(|b| b.is_ascii_digit() || b == b'-');
        if !digits || year.len() != 4 || month.len() != 2 || day.len() != 2 {
            return Err(bad());
        }
        let (year, month, day): (u16, u8, u8) = (
            year.parse().map_err(|_| bad())?,
            month.parse().map_err(|_| bad())?,
            day.parse().map_err(|_| bad())?,
        );
        if !(1..=12).contains(&month) || day == 0 || day > days_of_month(year, month) {
            return Err(bad());
        }
        Ok(Self { year, month, day })
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

impl<'de> Deserialize<'de> for Date {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_and_read() {
        for (days, text) in [
            (0, "1970-01-01"),
            (58, "1970-02-28"),
            (11_016, "2000-02-29"),
            (20_453, "2025-12-31"),
            (20_454, "2026-01-01"),
        ] {
            assert_eq!(Date::of_days(days).to_string(), text);
            assert_eq!(text.parse::<Date>().unwrap(), Date::of_days(days));
        }
        assert!("2026-01-01".parse::<Date>().unwrap() < "2026-01-02".parse().unwrap());
        for text in
            ["2026-02-29", "2026-13-01", "2026-1-1", "tomorrow", "2026-00-10", "2026-01-00", "+026-01-01"]
        {
            assert!(text.parse::<Date>().is_err(), "{text}");
        }
    }
}
