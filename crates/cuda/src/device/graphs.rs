//! Graphs: nodes with work and dependencies, and instances, which keep the work in a valid order.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use crate::device::conditionals::{Choice, Condition, Conditional, Conditions};
use crate::device::user_objects::UserObjects;
use crate::device::work::Work;
use crate::status::{Answer, Status};

/// The bytes of the parameters, and the address of each.
pub(crate) type Shown = (Box<[u8]>, Box<[u64]>);

/// A node of a graph.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) graph: u64,
    pub(crate) work: Work,
    /// The nodes it depends on.
    pub(crate) after: Vec<u64>,
    /// The node that this one was copied from.
    original: u64,
    /// The values returned by `cudaGraphKernelNodeGetParams`.
    pub(crate) shown: Option<Shown>,
}

/// A node of an instance.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) node: u64,
    pub(crate) work: Work,
    pub(crate) enabled: bool,
    /// Of a conditional node: the number of steps of each body, which follow this one.
    pub(crate) bodies: Box<[usize]>,
}

/// An instance of a graph.
#[derive(Debug, Clone)]
pub(crate) struct Instance {
    pub(crate) steps: Vec<Step>,
    pub(crate) flags: u64,
    /// The graph of which it is.
    graph: u64,
    conditions: Vec<Condition>,
    /// Whether it has been launched.
    launched: bool,
    /// The step of each node.
    index: HashMap<u64, usize>,
}

/// All graphs of the process, by numbers that are never reused.
#[derive(Debug, Default)]
pub(crate) struct Graphs {
    next: u64,
    /// The nodes of each graph in order of creation.
    graphs: BTreeMap<u64, Vec<u64>>,
    nodes: BTreeMap<u64, Node>,
    instances: BTreeMap<u64, Instance>,
    /// Graphs of which an instance, or another graph, has taken the work.
    taken: BTreeSet<u64>,
    pub(crate) conditions: Conditions,
    pub(crate) objects: UserObjects,
}

/// Why an instance cannot be updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mismatch {
    /// The first node that does not match.
    pub(crate) node: u64,
    /// Whether it is a conditional node of another kind, not another topology.
    pub(crate) is_conditional: bool,
}

/// What a program recorded and never launched: a graph or an instance, and its kernels in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unlaunched {
    what: &'static str,
    kernels: Vec<Arc<str>>,
}

/// The most bodies of a conditional node; CUDA names no bound.
const MOST_BODIES: u32 = 1 << 16;

/// Whether CUDA allows this type of node in the body of a conditional node.
fn may_be_in_body(work: &Work) -> bool {
    match work {
        Work::Launch(_) | Work::Copy(_) | Work::Fill(_) | Work::Library(_) => true,
        Work::Child(_) | Work::Empty | Work::Conditional(_) => true,
        Work::Host { .. } | Work::Wait(_) | Work::Record(_) => false,
        Work::Words(_) | Work::Allocate(..) | Work::Free(_) => false,
    }
}

/// Kernels of a graph that a remark names.
const NAMED: usize = 4;

impl Unlaunched {
    /// `None` if there is no kernel among this work.
    fn from_work<'a>(what: &'static str, work: impl Iterator<Item = &'a Work>) -> Option<Self> {
        let kernels = work.filter_map(|work| match work {
            Work::Launch(kernel) => Some(Arc::clone(&kernel.function.name)),
            _ => None,
        });
        let kernels: Vec<_> = kernels.collect();
        (!kernels.is_empty()).then_some(Self { what, kernels })
    }
}

impl fmt::Display for Unlaunched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, kernels } = self;
        let names = kernels.iter().take(NAMED).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let more = kernels.len().saturating_sub(NAMED);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        write!(f, "{what} with the kernels {names}{more}, so that they did not run")
    }
}

impl Graphs {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Creates an empty graph.
    pub(crate) fn create(&mut self) -> u64 {
        let graph = self.number();
        self.graphs.insert(graph, Vec::new());
        graph
    }

    /// The nodes of a graph.
    pub(crate) fn nodes(&self, graph: u64) -> Result<&[u64], Status> {
        self.graphs.get(&graph).map(Vec::as_slice).ok_or(Status::INVALID_VALUE)
    }

    pub(crate) fn node(&self, node: u64) -> Result<&Node, Status> {
        self.nodes.get(&node).ok_or(Status::INVALID_VALUE)
    }

    pub(crate) fn node_mut(&mut self, node: u64) -> Result<&mut Node, Status> {
        self.nodes.get_mut(&node).ok_or(Status::INVALID_VALUE)
    }

    /// Adds a node that depends on other nodes of the graph. A child-graph node gets a copy of the child graph.
    pub(crate) fn add(&mut self, graph: u64, work: Work, after: Vec<u64>) -> Result<u64, Status> {
        self.nodes(graph)?;
        if after.iter().any(|node| self.nodes.get(node).is_none_or(|n| n.graph != graph)) {
            return Err(Status::INVALID_VALUE);
        }
        let work = match work {
            Work::Child(child) => {
                let copy = self.clone_graph(child)?;
                self.conditions.put_into(copy, graph, false);
                self.objects.hand_over(copy, graph);
                Work::Child(copy)
            }
            other => other,
        };
        let node = self.number();
        self.nodes.insert(node, Node { graph, work, after, original: node, shown: None });
        self.graphs.entry(graph).or_default().push(node);
        Ok(node)
    }

    /// Adds a conditional node with so many empty bodies, and returns it with them.
    pub(crate) fn add_conditional(
        &mut self,
        graph: u64,
        (handle, context): (u64, u64),
        (choice, bodies): (Choice, u32),
        after: Vec<u64>,
    ) -> Result<(u64, Arc<[u64]>), Status> {
        if bodies > MOST_BODIES {
            return Err(Status::OUT_OF_MEMORY);
        }
        self.nodes(graph)?;
        self.conditions.take(graph, handle, context)?;
        let bodies: Arc<[u64]> = (0..bodies).map(|_| self.create()).collect();
        let work = Work::Conditional(Conditional { handle, choice, bodies: Arc::clone(&bodies) });
        match self.add(graph, work, after) {
            Ok(node) => {
                bodies.iter().for_each(|body| self.conditions.put_into(*body, graph, true));
                Ok((node, bodies))
            }
            Err(status) => {
                bodies.iter().for_each(|body| _ = self.graphs.remove(body));
                self.conditions.give_back(graph, handle);
                Err(status)
            }
        }
    }

    /// Adds or removes an edge.
    pub(crate) fn connect(&mut self, from: u64, to: u64, add: bool) -> Answer {
        let same = self.node(from)?.graph == self.node(to)?.graph && from != to;
        let after = &mut self.node_mut(to)?.after;
        match (add, after.iter().position(|node| *node == from)) {
            (true, None) if same => after.push(from),
            (false, Some(at)) => drop(after.remove(at)),
            _ => return Err(Status::INVALID_VALUE),
        }
        Ok(())
    }

    /// These nodes and all nodes they depend on.
    pub(crate) fn reached(&self, heads: &[u64]) -> BTreeSet<u64> {
        let (mut all, mut open) = (BTreeSet::new(), heads.to_vec());
        while let Some(node) = open.pop() {
            if all.insert(node) {
                open.extend(self.nodes.get(&node).into_iter().flat_map(|n| &n.after));
            }
        }
        all
    }

    /// The nodes that depend on this one.
    pub(crate) fn behind(&self, node: u64) -> Result<Vec<u64>, Status> {
        let all = self.nodes(self.node(node)?.graph)?;
        Ok(all
            .iter()
            .filter(|n| self.nodes.get(n).is_some_and(|n| n.after.contains(&node)))
            .copied()
            .collect())
    }

    /// The nodes in topological order: by the longest path that leads to them, then by creation. Every node and every edge is visited
    /// once.
    fn order(&self, graph: u64) -> Result<Vec<u64>, Status> {
        let nodes = self.nodes(graph)?;
        let mut waits: HashMap<u64, usize> = HashMap::with_capacity(nodes.len());
        let mut behind: HashMap<u64, Vec<u64>> = HashMap::new();
        let mut order = Vec::with_capacity(nodes.len());
        for node in nodes {
            let after = &self.node(*node)?.after;
            waits.insert(*node, after.len());
            after.iter().for_each(|before| behind.entry(*before).or_default().push(*node));
            if after.is_empty() {
                order.push(*node);
            }
        }
        let mut layer = 0..order.len();
        while !layer.is_empty() {
            let mut next = Vec::new();
            for at in layer.clone() {
                for node in behind.remove(&order[at]).unwrap_or_default() {
                    if let Some(count) = waits.get_mut(&node) {
                        *count -= 1;
                        if *count == 0 {
                            next.push(node);
                        }
                    }
                }
            }
            // Numbers ascend in order of creation.
            next.sort_unstable();
            layer = order.len()..order.len() + next.len();
            order.append(&mut next);
        }
        // If a node is never ready, the dependencies are cyclic.
        if order.len() == nodes.len() { Ok(order) } else { Err(Status::INVALID_VALUE) }
    }

    /// The steps of a graph, each followed by those of the graphs that its node has.
    fn steps(&self, graph: u64, in_body: bool) -> Result<Vec<Step>, Status> {
        let mut steps = Vec::new();
        for node in self.order(graph)? {
            let work = self.node(node)?.work.clone();
            if in_body && !may_be_in_body(&work) {
                return Err(Status::INVALID_VALUE);
            }
            let is_conditional = matches!(work, Work::Conditional(_));
            let inner = work.inner().iter().map(|inner| self.steps(*inner, in_body || is_conditional));
            let inner: Vec<Vec<Step>> = inner.collect::<Result<_, _>>()?;
            let bodies = if is_conditional { inner.iter().map(Vec::len).collect() } else { Box::default() };
            steps.push(Step { node, work, enabled: true, bodies });
            steps.extend(inner.into_iter().flatten());
        }
        Ok(steps)
    }

    /// Instantiates the current state of a graph.
    ///
    /// # Errors
    /// [`Status::NOT_SUPPORTED`], as in CUDA, for a body of a conditional node, and for a second instance of a graph with conditions.
    pub(crate) fn instantiate(&mut self, graph: u64, flags: u64) -> Result<u64, Status> {
        self.nodes(graph)?;
        let conditions = self.conditions.of_graph(graph).to_vec();
        let again = || self.instances.values().any(|instance| instance.graph == graph);
        if self.conditions.is_in_body(graph)
            || !conditions.is_empty() && (self.conditions.is_inner(graph) || again())
        {
            return Err(Status::NOT_SUPPORTED);
        }
        if self.has_unused_condition(graph) {
            return Err(Status::INVALID_VALUE);
        }
        let steps = self.steps(graph, false)?;
        let instance = self.number();
        // The first step, if a child graph is used twice.
        let index = steps.iter().enumerate().rev().map(|(at, step)| (step.node, at)).collect();
        self.instances.insert(instance, Instance { steps, flags, graph, conditions, launched: false, index });
        self.taken.insert(graph);
        self.objects.keep_too(graph, instance);
        Ok(instance)
    }

    /// Whether a graph has a condition that no node has, so that it cannot be instantiated.
    pub(crate) fn has_unused_condition(&self, graph: u64) -> bool {
        self.conditions.of_graph(graph).iter().any(|condition| !condition.used)
    }

    /// The steps of an instance that is launched, and its conditions.
    pub(crate) fn launched(&mut self, instance: u64) -> Result<(Vec<Step>, Vec<Condition>), Status> {
        let instance = self.instances.get_mut(&instance).ok_or(Status::INVALID_VALUE)?;
        instance.launched = true;
        Ok((instance.steps.clone(), instance.conditions.clone()))
    }

    /// What is recorded and has not been launched so far: instances, and graphs of which there is no instance.
    pub(crate) fn unlaunched(&self) -> Vec<Unlaunched> {
        let instances = self.instances.keys().filter_map(|instance| self.unlaunched_instance(*instance));
        let graphs = self.graphs.keys().filter(|graph| !self.conditions.is_inner(**graph));
        instances.chain(graphs.filter_map(|graph| self.unlaunched_graph(*graph))).collect()
    }

    /// The instance, if it has kernels and was never launched.
    pub(crate) fn unlaunched_instance(&self, instance: u64) -> Option<Unlaunched> {
        let held = self.instances.get(&instance).filter(|held| !held.launched)?;
        Unlaunched::from_work(
            "a graph was instantiated and never launched",
            held.steps.iter().map(|step| &step.work),
        )
    }

    /// The graph, if it has kernels and nothing has taken its work.
    pub(crate) fn unlaunched_graph(&self, graph: u64) -> Option<Unlaunched> {
        let nodes = self.graphs.get(&graph).filter(|_| !self.taken.contains(&graph))?;
        let work = nodes.iter().filter_map(|node| self.nodes.get(node)).map(|node| &node.work);
        Unlaunched::from_work("a graph was recorded and never instantiated", work)
    }

    pub(crate) fn instance(&self, instance: u64) -> Result<&Instance, Status> {
        self.instances.get(&instance).ok_or(Status::INVALID_VALUE)
    }

    /// The step of an instance, by the node it was created from.
    pub(crate) fn step(&mut self, instance: u64, node: u64) -> Result<&mut Step, Status> {
        let original = self.nodes.get(&node).map_or(node, |n| n.original);
        let instance = self.instances.get_mut(&instance).ok_or(Status::INVALID_VALUE)?;
        let at = instance.index.get(&node).or_else(|| instance.index.get(&original));
        at.and_then(|at| instance.steps.get_mut(*at)).ok_or(Status::INVALID_VALUE)
    }

    /// Copies the work of a graph with the same topology into an instance; returns what does not match.
    pub(crate) fn update(&mut self, instance: u64, graph: u64) -> Result<Option<Mismatch>, Status> {
        let fresh = self.steps(graph, false)?;
        let conditions = self.conditions.of_graph(graph).to_vec();
        self.taken.insert(graph);
        let held = self.instances.get_mut(&instance).ok_or(Status::INVALID_VALUE)?;
        let topology = |step: &Step| Mismatch { node: step.node, is_conditional: false };
        for (old, new) in held.steps.iter().zip(&fresh) {
            if old.work.node_type() != new.work.node_type() {
                return Ok(Some(topology(new)));
            }
            if let (Work::Conditional(was), Work::Conditional(is)) = (&old.work, &new.work) {
                if was.choice != is.choice || was.bodies.len() != is.bodies.len() {
                    return Ok(Some(Mismatch { node: new.node, is_conditional: true }));
                }
                if old.bodies != new.bodies {
                    return Ok(Some(topology(new)));
                }
            }
        }
        if held.steps.len() != fresh.len() {
            let none = Mismatch { node: 0, is_conditional: false };
            return Ok(Some(fresh.last().map_or(none, topology)));
        }
        for (old, new) in held.steps.iter_mut().zip(fresh) {
            old.work = new.work;
        }
        held.conditions = conditions;
        Ok(None)
    }

    /// Copies the work of a graph into the child graph of a node in an instance.
    pub(crate) fn update_child(&mut self, instance: u64, node: u64, graph: u64) -> Answer {
        if self.conditions.concern(graph) {
            return Err(Status::NOT_SUPPORTED);
        }
        let fresh = self.steps(graph, false)?;
        self.taken.insert(graph);
        let held = self.instances.get_mut(&instance).ok_or(Status::INVALID_VALUE)?;
        let at = held.index.get(&node).ok_or(Status::INVALID_VALUE)? + 1;
        let old = held.steps.get_mut(at..at + fresh.len()).ok_or(Status::GRAPH_UPDATE)?;
        if old.iter().zip(&fresh).any(|(a, b)| a.work.node_type() != b.work.node_type()) {
            return Err(Status::GRAPH_UPDATE);
        }
        for (old, new) in old.iter_mut().zip(fresh) {
            old.work = new.work;
        }
        Ok(())
    }

    /// Clones a graph.
    ///
    /// # Errors
    /// [`Status::NOT_SUPPORTED`], as in CUDA, for a graph with conditions.
    pub(crate) fn clone_graph(&mut self, graph: u64) -> Result<u64, Status> {
        let nodes = self.nodes(graph)?.to_vec();
        if self.conditions.concern(graph) {
            return Err(Status::NOT_SUPPORTED);
        }
        // The copy shows whether the work runs.
        self.taken.insert(graph);
        let copy = self.create();
        let mut new = BTreeMap::new();
        for node in &nodes {
            let work = self.node(*node)?.work.clone();
            new.insert(*node, self.add(copy, work, Vec::new())?);
        }
        for node in &nodes {
            let old = self.node(*node)?;
            let (original, after) =
                (old.original, old.after.iter().filter_map(|a| new.get(a).copied()).collect());
            let node = self.node_mut(new[node])?;
            (node.original, node.after) = (original, after);
        }
        self.objects.keep_too(graph, copy);
        Ok(copy)
    }

    /// The copy of a node in a cloned graph.
    pub(crate) fn in_clone(&self, node: u64, graph: u64) -> Result<u64, Status> {
        let original = self.node(node)?.original;
        let found =
            self.nodes(graph)?.iter().find(|n| self.nodes.get(n).is_some_and(|n| n.original == original));
        found.copied().ok_or(Status::INVALID_VALUE)
    }

    /// Destroys a graph with those of its nodes; one that belongs to a node cannot be destroyed alone.
    pub(crate) fn destroy(&mut self, graph: u64) -> Answer {
        if self.conditions.is_inner(graph) { Err(Status::INVALID_VALUE) } else { self.remove(graph) }
    }

    fn remove(&mut self, graph: u64) -> Answer {
        let nodes = self.graphs.remove(&graph).ok_or(Status::INVALID_VALUE)?;
        self.taken.remove(&graph);
        for node in nodes {
            if let Some(gone) = self.nodes.remove(&node) {
                self.remove_work(graph, &gone.work)?;
            }
        }
        self.conditions.forget(graph);
        Ok(())
    }

    /// Removes what belongs to a node with this work.
    fn remove_work(&mut self, graph: u64, work: &Work) -> Answer {
        work.inner().iter().try_for_each(|inner| self.remove(*inner))?;
        if let Work::Conditional(node) = work {
            self.conditions.give_back(graph, node.handle);
        }
        Ok(())
    }

    /// Destroys a node; nodes that depend on it lose the dependency.
    pub(crate) fn destroy_node(&mut self, node: u64) -> Answer {
        let gone = self.nodes.remove(&node).ok_or(Status::INVALID_VALUE)?;
        let left = self.graphs.entry(gone.graph).or_default();
        left.retain(|n| *n != node);
        for other in left.clone() {
            self.node_mut(other)?.after.retain(|n| *n != node);
        }
        self.remove_work(gone.graph, &gone.work)
    }

    /// Destroys an instance.
    pub(crate) fn destroy_instance(&mut self, instance: u64) -> Answer {
        self.instances.remove(&instance).map(drop).ok_or(Status::INVALID_VALUE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::work::{FillWork, Function, KernelWork, Shape};

    fn fill(value: u32) -> Work {
        Work::Fill(FillWork::plain(0, value, 4, 1).unwrap())
    }

    fn values(graphs: &Graphs, instance: u64) -> Vec<u32> {
        let steps = &graphs.instance(instance).unwrap().steps;
        steps.iter().filter_map(|s| if let Work::Fill(f) = &s.work { Some(f.value) } else { None }).collect()
    }

    #[test]
    fn a_long_chain_and_a_wide_graph_are_instantiated_in_one_pass() {
        // In the square of the nodes, this would take hours.
        const NODES: u32 = 200_000;
        let mut all = Graphs::default();
        let graph = all.create();
        let mut last = Vec::new();
        for n in 0..NODES {
            last = vec![all.add(graph, fill(n), last).unwrap()];
        }
        for n in NODES..2 * NODES {
            all.add(graph, fill(n), last.clone()).unwrap();
        }
        let instance = all.instantiate(graph, 0).unwrap();
        assert_eq!(values(&all, instance), (0..2 * NODES).collect::<Vec<_>>());
        let nodes = all.nodes(graph).unwrap().to_vec();
        for node in nodes.iter().rev() {
            assert_eq!(all.step(instance, *node).unwrap().node, *node);
        }
        assert_eq!(all.add(graph, fill(0), vec![u64::MAX]), Err(Status::INVALID_VALUE));
    }

    #[test]
    fn what_is_recorded_and_never_launched_is_named() {
        let mut graphs = Graphs::default();
        let kernel = |name: &str| {
            let function = Function { module: 0, name: name.into() };
            let (shape, params) = (Shape::default(), Arc::from([]));
            Work::Launch(Box::new(KernelWork {
                symbol: 0,
                function,
                gpu: 0,
                shape,
                set_shared: None,
                params,
            }))
        };
        let said = |graphs: &Graphs| graphs.unlaunched().iter().map(ToString::to_string).collect::<Vec<_>>();
        let (graph, child) = (graphs.create(), graphs.create());
        graphs.add(child, kernel("inner"), Vec::new()).unwrap();
        assert_eq!(
            said(&graphs),
            [
                "a graph was recorded and never instantiated with the kernels `inner`, so that they did not run"
            ]
        );
        graphs.add(graph, kernel("outer"), Vec::new()).unwrap();
        graphs.add(graph, Work::Child(child), Vec::new()).unwrap();
        assert_eq!(said(&graphs).len(), 1, "the child's work is in the other graph");
        let instance = graphs.instantiate(graph, 0).unwrap();
        assert_eq!(
            said(&graphs),
            [
                "a graph was instantiated and never launched with the kernels `outer`, `inner`, so that they did not run"
            ]
        );
        assert_eq!(graphs.launched(instance).unwrap().0.len(), 3);
        assert!(said(&graphs).is_empty());
        // Copies and fills are no kernels.
        let copies = graphs.create();
        graphs.add(copies, fill(1), Vec::new()).unwrap();
        assert!(said(&graphs).is_empty());
    }

    #[test]
    fn instances_keep_the_order_of_the_edges() {
        let mut all = Graphs::default();
        let graph = all.create();
        let first = all.add(graph, fill(1), Vec::new()).unwrap();
        let second = all.add(graph, fill(2), Vec::new()).unwrap();
        all.connect(second, first, true).unwrap();
        let child = all.create();
        all.add(child, fill(3), Vec::new()).unwrap();
        let inner = all.add(graph, Work::Child(child), vec![first]).unwrap();
        let instance = all.instantiate(graph, 0).unwrap();
        assert_eq!(values(&all, instance), [2, 1, 3]);
        all.step(instance, first).unwrap().work = fill(9);
        assert_eq!(values(&all, instance), [2, 9, 3]);
        let copy = all.clone_graph(graph).unwrap();
        let there = all.in_clone(second, copy).unwrap();
        all.node_mut(there).unwrap().work = fill(5);
        assert_eq!(all.update(instance, copy), Ok(None));
        assert_eq!(values(&all, instance), [5, 1, 3]);
        all.destroy_node(inner).unwrap();
        assert!(all.update(instance, graph).unwrap().is_some());
        assert_eq!(all.behind(second), Ok(vec![first]));
        all.connect(first, second, true).unwrap();
        assert!(all.instantiate(graph, 0).is_err());
        all.destroy(graph).unwrap();
        assert!(all.nodes(graph).is_err() && all.node(first).is_err());
        assert_eq!(values(&all, instance), [5, 1, 3]);
    }
}
