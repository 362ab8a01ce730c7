//! Shadow memory of the race detector: per line of 128 bytes, the access of a whole warp; if parts of a line differ, per chunk of 16,
//! the row of a matrix or the copy of a lane; then per word of four; then per byte.

/// Sizes in bytes of a line, a chunk and a word.
pub(crate) const LINE: usize = 128;
const CHUNK: usize = 16;
pub(crate) const WORD: usize = 4;

/// Bytes of one line that a warp accesses.
pub(crate) trait OfLine {
    /// The line.
    fn line(&self) -> usize;

    /// One bit for each byte of the line.
    fn bytes(&self) -> u128;
}

/// Bytes of one line, parts of words.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct BytesOfLine {
    pub(crate) line: u32,
    pub(crate) bytes: u128,
}

impl OfLine for BytesOfLine {
    #[inline]
    fn line(&self) -> usize {
        self.line as usize
    }

    #[inline]
    fn bytes(&self) -> u128 {
        self.bytes
    }
}

/// Words of one line that a warp accesses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WordsOfLine {
    pub(crate) line: u32,
    /// One bit per word.
    pub(crate) words: u32,
}

impl OfLine for WordsOfLine {
    #[inline]
    fn line(&self) -> usize {
        self.line as usize
    }

    #[inline(always)]
    fn bytes(&self) -> u128 {
        /// The 32 bits of eight words' bytes, by the words.
        const BYTES: [u32; 256] = {
            let mut all = [0; 256];
            let mut n = 0;
            while n < 2048 {
                if (n / 8) >> (n % 8) & 1 == 1 {
                    all[n / 8] |= 0xF << (n % 8 * 4);
                }
                n += 1;
            }
            all
        };
        let [a, b, c, d] = self.words.to_le_bytes().map(|words| u64::from(BYTES[usize::from(words)]));
        u128::from(a | b << 32) | u128::from(c | d << 32) << 64
    }
}

/// The shadow state of a line, a chunk, a word or a byte.
pub(crate) trait Memory: Copy + Default + PartialEq {
    /// Marks a line, a chunk or a word whose parts differ.
    const MIXED: Self;

    /// Whether all of `cells` equal `self`.
    fn alike(self, cells: &[Self]) -> bool;
}

/// Shadow memory of a piece of address space.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shadows<M> {
    lines: Vec<M>,
    /// Chunks of mixed lines; empty until first needed.
    chunks: Vec<M>,
    /// Words of mixed chunks, in blocks of a line.
    words: Blocks<M>,
    /// Bytes of mixed words, in blocks of a line.
    bytes: Blocks<M>,
}

/// Parts of lines, in a block for each line that needs one: most lines never do, and a part is many times its byte.
#[derive(Debug, Clone)]
struct Blocks<M> {
    /// By line, its block, counted from 1; 0 for none. Empty until first needed.
    numbers: Vec<u32>,
    parts: Vec<M>,
}

impl<M> Default for Blocks<M> {
    fn default() -> Self {
        Self { numbers: Vec::new(), parts: Vec::new() }
    }
}

impl<M: Memory> Blocks<M> {
    /// The parts of a line, `size` of them, created if there are none.
    #[inline]
    fn of_line(&mut self, line: usize, lines: usize, size: usize) -> &mut [M] {
        if self.numbers.is_empty() {
            self.numbers = vec![0; lines];
        }
        let Some(block) = self.numbers.get_mut(line) else { return &mut [] };
        if *block == 0 {
            self.parts.resize(self.parts.len() + size, M::default());
            *block = u32::try_from(self.parts.len() / size).unwrap_or_default();
        }
        let end = *block as usize * size;
        self.parts.get_mut(end.saturating_sub(size)..end).unwrap_or_default()
    }
}

impl<M: Memory> Shadows<M> {
    /// The shadow of `len` untouched bytes.
    pub(crate) fn new(len: usize) -> Self {
        Self { lines: vec![M::default(); len.div_ceil(LINE)], ..Self::default() }
    }

    /// The state of a whole line, unless its parts differ.
    #[inline]
    pub(super) fn line(&self, line: usize) -> Option<M> {
        self.lines.get(line).copied().filter(|cell| *cell != M::MIXED)
    }

    /// Applies `step` to the state of bytes. An error of `step`, which must then leave the state unchanged, is returned with the
    /// byte's offset from `at`; bytes before it may have been updated.
    #[inline]
    pub(crate) fn update<E>(
        &mut self,
        at: usize,
        len: usize,
        step: impl Fn(&mut M) -> Result<(), E>,
    ) -> Result<(), (usize, E)> {
        // The row of a matrix or the copy of a lane, in a mixed line.
        if len == CHUNK
            && at.is_multiple_of(CHUNK)
            && self.lines.get(at / LINE).is_some_and(|line| *line == M::MIXED)
            && let Some(chunk) = self.chunks.get_mut(at / CHUNK)
            && *chunk != M::MIXED
        {
            return step(chunk).map_err(|e| (0, e));
        }
        let end = at + len;
        let mut from = at;
        while from < end {
            let line = from / LINE;
            let to = end.min((line + 1) * LINE);
            match self.lines.get_mut(line) {
                Some(cell) if *cell != M::MIXED && to - from == LINE => {
                    step(cell).map_err(|e| (from - at, e))?;
                }
                Some(_) => self.update_line(from, to - from, &step).map_err(|(n, e)| (from - at + n, e))?,
                None => {}
            }
            from = to;
        }
        Ok(())
    }

    /// Replaces the state of bytes.
    pub(crate) fn set(&mut self, at: usize, len: usize, memory: M) {
        // This step cannot fail.
        let _ = self.update(at, len, |cell| {
            *cell = memory;
            Ok::<(), std::convert::Infallible>(())
        });
    }

    /// Applies `step` to the state of some words of a line, by a mask. An error of `step` ends it; words before may have been updated.
    pub(super) fn update_words<E>(
        &mut self,
        line: usize,
        words: u32,
        step: impl Fn(&mut M) -> Result<(), E>,
    ) -> Result<(), E> {
        let lines = self.lines.len();
        let Some(cell) = self.lines.get_mut(line) else { return Ok(()) };
        if words == !0 && *cell != M::MIXED {
            return step(cell);
        }
        if self.chunks.is_empty() {
            self.chunks = vec![M::default(); lines * (LINE / CHUNK)];
        }
        let first = line * (LINE / CHUNK);
        let Some(chunks) = self.chunks.get_mut(first..first + LINE / CHUNK) else { return Ok(()) };
        if *cell != M::MIXED {
            chunks.fill(*cell);
            *cell = M::MIXED;
        }
        // Neighbours mostly remember the same, and the step makes the same of it.
        let mut last: Option<[M; 2]> = None;
        let mut step = |memory: &mut M| {
            match last {
                Some([before, after]) if before == *memory => *memory = after,
                _ => {
                    let before = *memory;
                    step(memory)?;
                    last = Some([before, *memory]);
                }
            }
            Ok(())
        };
        for (n, chunk) in chunks.iter_mut().enumerate() {
            let part = words >> (n * 4) & 0xF;
            if part == 0 {
                continue;
            }
            if part == 0xF && *chunk != M::MIXED {
                step(chunk)?;
                continue;
            }
            let all = self.words.of_line(line, lines, LINE / WORD);
            let Some(all) = all.get_mut(n * 4..n * 4 + 4) else { continue };
            if *chunk != M::MIXED {
                all.fill(*chunk);
                *chunk = M::MIXED;
            }
            for (bit, word) in all.iter_mut().enumerate().filter(|(bit, _)| part >> bit & 1 == 1) {
                if *word != M::MIXED {
                    step(word)?;
                    continue;
                }
                let at = (n * 4 + bit) * WORD;
                let bytes = self.bytes.of_line(line, lines, LINE);
                let Some(bytes) = bytes.get_mut(at..at + WORD) else { continue };
                bytes.iter_mut().try_for_each(&mut step)?;
                if bytes[0].alike(bytes) {
                    *word = bytes[0];
                }
            }
            if all[0] != M::MIXED && all[0].alike(all) {
                *chunk = all[0];
            }
        }
        if words == !0 {
            self.join(line);
        }
        Ok(())
    }

    /// Updates bytes of one line, which becomes mixed unless all of it is updated to equal states.
    #[inline(never)]
    fn update_line<E>(
        &mut self,
        at: usize,
        len: usize,
        step: &impl Fn(&mut M) -> Result<(), E>,
    ) -> Result<(), (usize, E)> {
        if self.chunks.is_empty() {
            self.chunks = vec![M::default(); self.lines.len() * (LINE / CHUNK)];
        }
        let Some(line) = self.lines.get_mut(at / LINE) else { return Ok(()) };
        let first = at / LINE * (LINE / CHUNK);
        let Some(all) = self.chunks.get_mut(first..first + LINE / CHUNK) else { return Ok(()) };
        if *line != M::MIXED {
            all.fill(*line);
            *line = M::MIXED;
        }
        let end = at + len;
        let mut from = at;
        while from < end {
            let to = end.min((from / CHUNK + 1) * CHUNK);
            match self.chunks.get_mut(from / CHUNK) {
                Some(chunk) if *chunk != M::MIXED && to - from == CHUNK => {
                    step(chunk).map_err(|e| (from - at, e))?;
                }
                _ => self.update_chunk(from, to - from, step).map_err(|(n, e)| (from - at + n, e))?,
            }
            from = to;
        }
        if len == LINE {
            self.join(at / LINE);
        }
        Ok(())
    }

    /// Updates bytes of one chunk, which becomes mixed unless its words become equal.
    #[inline(never)]
    fn update_chunk<E>(
        &mut self,
        at: usize,
        len: usize,
        step: &impl Fn(&mut M) -> Result<(), E>,
    ) -> Result<(), (usize, E)> {
        let (line, lines) = (at / LINE, self.lines.len());
        let Some(chunk) = self.chunks.get_mut(at / CHUNK) else { return Ok(()) };
        let first = at % LINE / CHUNK * (CHUNK / WORD);
        let words = self.words.of_line(line, lines, LINE / WORD);
        let Some(words) = words.get_mut(first..first + CHUNK / WORD) else { return Ok(()) };
        if *chunk != M::MIXED {
            words.fill(*chunk);
            *chunk = M::MIXED;
        }
        let (from, end) = (at % CHUNK, at % CHUNK + len);
        for (n, word) in words.iter_mut().enumerate() {
            let part = from.max(n * WORD)..end.min((n + 1) * WORD);
            if part.is_empty() {
                continue;
            }
            if *word != M::MIXED && part.len() == WORD {
                step(word).map_err(|e| (part.start - from, e))?;
                continue;
            }
            let bytes = self.bytes.of_line(line, lines, LINE);
            let first = at % LINE - from + n * WORD;
            let Some(bytes) = bytes.get_mut(first..).and_then(|rest| rest.first_chunk_mut::<WORD>()) else {
                continue;
            };
            if *word != M::MIXED {
                *bytes = [*word; WORD];
                *word = M::MIXED;
            }
            for place in part {
                step(&mut bytes[place % WORD]).map_err(|e| (place - from, e))?;
            }
            if bytes[0].alike(bytes) {
                *word = bytes[0];
            }
        }
        if let [head, rest @ ..] = &*words
            && *head != M::MIXED
            && head.alike(rest)
        {
            *chunk = *head;
        }
        Ok(())
    }

    /// Merges the chunks of a line if they have become equal.
    fn join(&mut self, line: usize) {
        let chunks = self.chunks.get(line * (LINE / CHUNK)..(line + 1) * (LINE / CHUNK)).unwrap_or_default();
        if let (Some(line), Some(head)) = (self.lines.get_mut(line), chunks.first().copied())
            && head != M::MIXED
            && head.alike(chunks)
        {
            *line = head;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts touches; `u32::MAX` is mixed.
    #[derive(Debug, Clone, Copy, Default, PartialEq)]
    struct Touches(u32);

    impl Memory for Touches {
        const MIXED: Self = Self(u32::MAX);

        fn alike(self, cells: &[Self]) -> bool {
            cells.iter().all(|c| *c == self)
        }
    }

    #[test]
    fn words_have_four_bytes_each() {
        let of = |words| WordsOfLine { line: 0, words }.bytes();
        assert_eq!((of(0), of(1), of(!0), of(1 << 31)), (0, 0xF, !0, 0xF << 124));
        assert_eq!(of(0b1010_0110), 0xF0F0_0FF0);
    }

    #[test]
    fn lines_words_and_bytes_remember_what_bytes_alone_would() {
        const LEN: usize = 300;
        let mut shadows = Shadows::<Touches>::new(LEN);
        let mut plain = [0u32; LEN];
        let mut state = 1u64;
        let mut next = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        for _ in 0..20_000 {
            let size = [1, 2, 4, 8, 16, 64, 128, 256][next(8)];
            let at = next((LEN - size) / size + 1) * size;
            if next(4) == 0 {
                // Words of one line, none of which refuses.
                let (line, words) = (next(LEN / LINE), next(1 << 16) as u32 * 0x1_0001);
                let bytes = (0..LINE).filter(|n| words >> (n / WORD) & 1 == 1).map(|n| line * LINE + n);
                if bytes.clone().all(|n| plain[n] % 61 != 60) {
                    let step = |t: &mut Touches| {
                        t.0 += 1;
                        Ok::<(), ()>(())
                    };
                    assert_eq!(shadows.update_words(line, words, step), Ok(()));
                    bytes.for_each(|n| plain[n] += 1);
                }
                continue;
            }
            // Occasionally a byte refuses.
            let refused = plain[at..at + size].iter().position(|n| *n % 61 == 60);
            let step = |t: &mut Touches| {
                if t.0 % 61 == 60 {
                    return Err(());
                }
                t.0 += 1;
                Ok(())
            };
            match (shadows.update(at, size, step), refused) {
                (Ok(()), None) => plain[at..at + size].iter_mut().for_each(|n| *n += 1),
                (Err((n, ())), Some(byte)) => {
                    assert_eq!(n, byte);
                    shadows.set(at, size, Touches(7));
                    plain[at..at + size].fill(7);
                }
                (got, wanted) => panic!("{got:?} where {wanted:?} is right"),
            }
        }
    }
}
