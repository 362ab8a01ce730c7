//! Conditional nodes of graphs: which of their bodies runs, the handles of their values, and which graphs are inside of others.
//!
//! What CUDA refuses here, and how, was measured on an H200 with driver 580.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::status::{Answer, Status};

/// The type of a conditional node (`cudaGraphNodeTypeConditional`).
pub(crate) const CONDITIONAL: u32 = 13;

/// How a value chooses a body (`cudaGraphConditionalNodeType`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The first body if it is not zero, else the second one, if there is one.
    If,
    /// The body, as long as it is not zero.
    While,
    /// The body with this number.
    Switch,
}

impl Choice {
    /// The choice of a number, if it may be one of so many bodies.
    pub(crate) const fn from_number(number: u32, bodies: u32) -> Result<Self, Status> {
        match (number, bodies) {
            (0, 1 | 2) => Ok(Self::If),
            (1, 1) => Ok(Self::While),
            (2, 1..) => Ok(Self::Switch),
            _ => Err(Status::INVALID_VALUE),
        }
    }

    /// The number of the body that a value chooses, which need not exist.
    pub(crate) fn body(self, value: u32) -> Option<usize> {
        match self {
            Self::If => Some(usize::from(value == 0)),
            Self::While => (value != 0).then_some(0),
            Self::Switch => Some(value as usize),
        }
    }
}

/// A conditional node.
#[derive(Debug, Clone)]
pub(crate) struct Conditional {
    /// The handle of its value.
    pub(crate) handle: u64,
    pub(crate) choice: Choice,
    /// The graphs of which it runs one.
    pub(crate) bodies: Arc<[u64]>,
}

/// The value of a conditional node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Condition {
    /// The address of the word that holds it, with which kernels set it.
    pub(crate) handle: u64,
    /// The context for which the handle was made.
    pub(crate) context: u64,
    /// What it is when a launch begins; undefined if `None`.
    pub(crate) default: Option<u32>,
    /// Whether a node has it.
    pub(crate) used: bool,
}

/// The graph in which another one is.
#[derive(Debug, Clone, Copy)]
struct Owner {
    graph: u64,
    /// Whether it is there as the body of a conditional node, not as a child graph.
    as_body: bool,
}

/// The conditions of all graphs.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    /// Those of each outermost graph, in order of creation.
    of_graph: BTreeMap<u64, Vec<Condition>>,
    owners: BTreeMap<u64, Owner>,
}

impl Conditions {
    /// The graph itself and those in which it is, from the inside out.
    fn around(&self, graph: u64) -> impl Iterator<Item = u64> {
        std::iter::successors(Some(graph), |inner| self.owners.get(inner).map(|owner| owner.graph))
    }

    fn outermost(&self, graph: u64) -> u64 {
        self.around(graph).last().unwrap_or(graph)
    }

    /// Whether a graph belongs to a node of another one.
    pub(crate) fn is_inner(&self, graph: u64) -> bool {
        self.owners.contains_key(&graph)
    }

    /// Whether a graph is a body of a conditional node, or inside of one.
    pub(crate) fn is_in_body(&self, graph: u64) -> bool {
        self.around(graph).any(|inner| self.owners.get(&inner).is_some_and(|owner| owner.as_body))
    }

    /// The conditions that the nodes of a graph may have.
    pub(crate) fn of_graph(&self, graph: u64) -> &[Condition] {
        self.of_graph.get(&self.outermost(graph)).map_or(&[], Vec::as_slice)
    }

    /// Whether the graph has conditions, for which CUDA neither clones it nor makes it a child graph.
    pub(crate) fn concern(&self, graph: u64) -> bool {
        !self.of_graph(graph).is_empty()
    }

    /// Adds a condition for nodes of a graph.
    pub(crate) fn add(&mut self, graph: u64, condition: Condition) {
        let outermost = self.outermost(graph);
        self.of_graph.entry(outermost).or_default().push(condition);
    }

    fn find(&mut self, graph: u64, handle: u64) -> Option<&mut Condition> {
        let outermost = self.outermost(graph);
        self.of_graph.get_mut(&outermost)?.iter_mut().find(|condition| condition.handle == handle)
    }

    /// Gives a condition to a node; a context that is not 0 must be that of the handle. No two nodes have the same condition.
    pub(crate) fn take(&mut self, graph: u64, handle: u64, context: u64) -> Answer {
        let free = |c: &&mut Condition| !c.used && (context == 0 || context == c.context);
        let condition = self.find(graph, handle).filter(free).ok_or(Status::INVALID_VALUE)?;
        condition.used = true;
        Ok(())
    }

    /// The node that had a condition is gone.
    pub(crate) fn give_back(&mut self, graph: u64, handle: u64) {
        if let Some(condition) = self.find(graph, handle) {
            condition.used = false;
        }
    }

    /// Puts a graph into another one.
    pub(crate) fn put_into(&mut self, inner: u64, graph: u64, as_body: bool) {
        self.owners.insert(inner, Owner { graph, as_body });
    }

    /// A graph is gone.
    pub(crate) fn forget(&mut self, graph: u64) {
        self.owners.remove(&graph);
        self.of_graph.remove(&graph);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_choose_bodies() {
        assert_eq!([0, 1, 2].map(|value| Choice::If.body(value)), [Some(1), Some(0), Some(0)]);
        assert_eq!([0, 1, 2].map(|value| Choice::While.body(value)), [None, Some(0), Some(0)]);
        assert_eq!([0, 1, 2].map(|value| Choice::Switch.body(value)), [Some(0), Some(1), Some(2)]);
        let allowed = |number| (0..4).filter(|n| Choice::from_number(number, *n).is_ok()).collect::<Vec<_>>();
        assert_eq!([0, 1, 2, 3].map(allowed), [vec![1, 2], vec![1], vec![1, 2, 3], vec![]]);
    }

    #[test]
    fn inner_graphs_use_the_conditions_of_the_outermost_one() {
        let mut all = Conditions::default();
        all.put_into(2, 1, true);
        all.put_into(3, 2, false);
        all.put_into(4, 1, false);
        all.add(3, Condition { handle: 64, context: 5, default: None, used: false });
        assert_eq!([1, 2, 3, 4, 9].map(|graph| all.of_graph(graph).len()), [1, 1, 1, 1, 0]);
        assert_eq!([1, 2, 3, 4].map(|graph| all.is_in_body(graph)), [false, true, true, false]);
        assert_eq!([1, 2, 4].map(|graph| all.is_inner(graph)), [false, true, true]);
        assert_eq!(all.take(1, 64, 6), Err(Status::INVALID_VALUE));
        assert_eq!(all.take(1, 64, 5), Ok(()));
        assert_eq!(all.take(2, 64, 0), Err(Status::INVALID_VALUE), "no two nodes have one condition");
        all.give_back(2, 64);
        assert_eq!(all.take(2, 64, 0), Ok(()));
        all.forget(1);
        assert!(!all.concern(1));
    }
}
