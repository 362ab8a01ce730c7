//! Objects of the program that graphs keep (`cuUserObjectCreate`): each has references, of the program and of graphs and instances, and when the
//! last one is gone, the program's function destroys it.

use std::collections::BTreeMap;
use std::ffi::c_void;

use crate::device::work::HostFunction;
use crate::status::{Answer, Status};

/// An object.
#[derive(Debug)]
struct Object {
    destroy: HostFunction,
    data: u64,
    references: u64,
}

/// An object without references, which is to be destroyed with the device unlocked: the function may wait for a thread that calls CUDA.
#[derive(Debug)]
#[must_use]
pub(crate) struct Gone {
    destroy: HostFunction,
    data: u64,
}

impl Gone {
    pub(crate) fn destroy(self) {
        if let Some(destroy) = self.destroy {
            destroy(self.data as *mut c_void);
        }
    }
}

/// All objects, by numbers that are never reused, and those that graphs and instances keep.
#[derive(Debug, Default)]
pub(crate) struct UserObjects {
    made: u64,
    known: BTreeMap<u64, Object>,
    /// By the number of a graph or an instance: the references to each object.
    kept: BTreeMap<u64, BTreeMap<u64, u64>>,
}

impl UserObjects {
    /// Makes an object with references of the program.
    pub(crate) fn create(&mut self, destroy: HostFunction, data: u64, references: u32) -> u64 {
        self.made += 1;
        self.known.insert(self.made, Object { destroy, data, references: references.into() });
        self.made
    }

    /// Adds references to an object.
    pub(crate) fn retain(&mut self, object: u64, count: u32) -> Answer {
        self.known.get_mut(&object).ok_or(Status::INVALID_VALUE)?.references += u64::from(count);
        Ok(())
    }

    /// Removes references, of which there must be so many.
    pub(crate) fn release(&mut self, object: u64, count: u64) -> Result<Option<Gone>, Status> {
        let known = self.known.get_mut(&object).ok_or(Status::INVALID_VALUE)?;
        known.references = known.references.checked_sub(count).ok_or(Status::INVALID_VALUE)?;
        if known.references > 0 {
            return Ok(None);
        }
        Ok(self.known.remove(&object).map(|Object { destroy, data, .. }| Gone { destroy, data }))
    }

    /// Gives references to a graph: those of the program (`moved`), or new ones.
    pub(crate) fn give(&mut self, graph: u64, object: u64, count: u32, moved: bool) -> Answer {
        let known = self.known.get_mut(&object).ok_or(Status::INVALID_VALUE)?;
        let kept: u64 = self.kept.values().filter_map(|kept| kept.get(&object)).sum();
        if !moved {
            known.references += u64::from(count);
        } else if known.references - kept < u64::from(count) {
            return Err(Status::INVALID_VALUE);
        }
        *self.kept.entry(graph).or_default().entry(object).or_default() += u64::from(count);
        Ok(())
    }

    /// Takes references from a graph.
    pub(crate) fn take(&mut self, graph: u64, object: u64, count: u32) -> Result<Option<Gone>, Status> {
        let kept = self.kept.get_mut(&graph).and_then(|kept| kept.get_mut(&object));
        let kept = kept.ok_or(Status::INVALID_VALUE)?;
        *kept = kept.checked_sub(count.into()).ok_or(Status::INVALID_VALUE)?;
        self.release(object, count.into())
    }

    /// A copy or an instance of a graph keeps what the graph keeps.
    pub(crate) fn keep_too(&mut self, graph: u64, other: u64) {
        let Some(kept) = self.kept.get(&graph).cloned() else { return };
        for (object, count) in &kept {
            if let Some(known) = self.known.get_mut(object) {
                known.references += count;
            }
        }
        self.kept.insert(other, kept);
    }

    /// A graph keeps what an inner graph kept until now.
    pub(crate) fn hand_over(&mut self, inner: u64, graph: u64) {
        for (object, count) in self.kept.remove(&inner).unwrap_or_default() {
            *self.kept.entry(graph).or_default().entry(object).or_default() += count;
        }
    }

    /// A graph or an instance is gone, and with it its references.
    pub(crate) fn forget(&mut self, graph: u64) -> Vec<Gone> {
        let kept = self.kept.remove(&graph).unwrap_or_default();
        kept.into_iter().filter_map(|(object, count)| self.release(object, count).ok().flatten()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_goes_with_its_last_reference() {
        let mut objects = UserObjects::default();
        let object = objects.create(None, 7, 2);
        objects.give(1, object, 1, true).unwrap();
        assert_eq!(objects.give(1, object, 2, true), Err(Status::INVALID_VALUE));
        objects.keep_too(1, 2);
        assert!(objects.release(object, 1).unwrap().is_none());
        assert!(objects.forget(1).is_empty());
        assert_eq!(objects.forget(2).len(), 1);
        assert_eq!(objects.retain(object, 1), Err(Status::INVALID_VALUE));
    }

    #[test]
    fn a_graph_gives_back_what_it_was_given() {
        let mut objects = UserObjects::default();
        let object = objects.create(None, 7, 1);
        objects.give(3, object, 2, false).unwrap();
        objects.hand_over(3, 4);
        assert_eq!(objects.take(3, object, 1).err(), Some(Status::INVALID_VALUE));
        assert!(objects.take(4, object, 2).unwrap().is_none());
        assert_eq!(objects.take(4, object, 1).err(), Some(Status::INVALID_VALUE));
        assert_eq!(objects.release(object, 2).err(), Some(Status::INVALID_VALUE));
        assert!(objects.release(object, 1).unwrap().is_some());
    }
}
