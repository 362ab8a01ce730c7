//! What trials share on the emulator: decoded modules, and values that families compute once.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use emulator::Programs;

/// A value that a family keeps.
type Value = Arc<dyn Any + Send + Sync>;

/// What trials share on the emulator.
#[derive(Default)]
pub struct Memo {
    /// Decoded modules.
    pub programs: Arc<Programs>,
    values: Mutex<HashMap<String, Value>>,
}

impl Memo {
    /// Returns a memo with these modules.
    #[must_use]
    pub fn with(programs: Programs) -> Self {
        Self { programs: Arc::new(programs), ..Self::default() }
    }

    /// Returns the value of a key, made by `make` if there is none. Two callers at once may both make it; one of the values is kept.
    ///
    /// # Errors
    /// Those of `make`, which are not kept.
    pub fn value<T: Send + Sync + 'static, E>(
        &self,
        key: &str,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        let known = |values: &HashMap<String, Value>| values.get(key).cloned()?.downcast::<T>().ok();
        if let Some(value) = known(&self.values.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(value);
        }
        // The lock is not held: making a value takes seconds.
        let made = Arc::new(make()?);
        let kept: Value = made.clone();
        self.values.lock().unwrap_or_else(PoisonError::into_inner).insert(key.to_owned(), kept);
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_made_once_and_an_error_is_not_kept() {
        let memo = Memo::default();
        assert_eq!(memo.value::<u32, _>("a", || Err("no")), Err("no"));
        assert_eq!(memo.value::<_, ()>("a", || Ok(1_u32)).map(|v| *v), Ok(1));
        assert_eq!(memo.value::<_, ()>("a", || Ok(2_u32)).map(|v| *v), Ok(1));
        assert_eq!(memo.value::<_, ()>("b", || Ok(2_u32)).map(|v| *v), Ok(2));
    }
}
