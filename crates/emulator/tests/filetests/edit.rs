//! The edits that turn a file's PTX into that of a variant.

/// Which occurrences an edit replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Occurrence {
    /// The only one.
    Only,
    /// This one, from 1.
    Nth(usize),
    /// All, at least one.
    All,
}

/// One replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Edit {
    old: String,
    new: String,
    which: Occurrence,
}

impl Edit {
    /// `OLD => NEW`, where OLD occurs once.
    pub(crate) fn once(text: &str) -> Result<Self, String> {
        Self::read(text, Occurrence::Only)
    }

    /// `OLD => NEW`, wherever OLD occurs.
    pub(crate) fn all(text: &str) -> Result<Self, String> {
        Self::read(text, Occurrence::All)
    }

    /// `OLD => NEW` for the `n`-th occurrence, from 1.
    pub(crate) fn nth(n: usize, text: &str) -> Result<Self, String> {
        Self::read(text, Occurrence::Nth(n))
    }

    fn read(text: &str, which: Occurrence) -> Result<Self, String> {
        let (old, new) = text.split_once("=>").ok_or("a replacement is `OLD => NEW`")?;
        let (old, new) = (old.trim().to_owned(), new.trim().to_owned());
        if old.is_empty() || old == new {
            return Err(format!("`{text}` replaces nothing"));
        }
        Ok(Self { old, new, which })
    }

    /// The edited text.
    pub(crate) fn apply(&self, text: &str) -> Result<String, String> {
        let Self { old, new, which } = self;
        let count = text.matches(old.as_str()).count();
        match *which {
            Occurrence::All if count > 0 => Ok(text.replace(old, new)),
            Occurrence::Only if count == 1 => Ok(text.replacen(old, new, 1)),
            Occurrence::Nth(n) if (1..=count).contains(&n) => {
                let at = text.match_indices(old.as_str()).nth(n - 1).map_or(0, |(at, _)| at);
                Ok(format!("{}{new}{}", &text[..at], &text[at + old.len()..]))
            }
            Occurrence::Only if count > 1 => Err(format!(
                "`{old}` occurs {count} times in the PTX; use `replace all` or `replace N`, from 1"
            )),
            _ => Err(format!("`{old}` occurs {count} times in the PTX, so nothing is replaced")),
        }
    }
}
