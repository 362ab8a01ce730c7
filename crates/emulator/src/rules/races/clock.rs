//! Vector clocks: what a warp knows of the other warps of its CTA, and of the warps of other CTAs.

use std::rc::Rc;

use crate::work;

/// Warps of a CTA.
pub(super) const WARPS: usize = 32;

/// A vector clock over the warps of a CTA.
pub(super) type Clock = [u32; WARPS];

pub(super) fn join(to: &mut Clock, from: &Clock) {
    for (t, f) in to.iter_mut().zip(from) {
        *t = (*t).max(*f);
    }
}

/// Children of an inner node, as a power of two.
const FANOUT_BITS: u32 = 4;
const FANOUT: usize = 1 << FANOUT_BITS;

/// A part of the clocks of other CTAs.
#[derive(Debug, Clone)]
enum Node {
    Cta(Clock),
    /// By the next bits of the CTA's number, highest first.
    Inner([Option<Rc<Self>>; FANOUT]),
}

/// The clocks of other CTAs, by number.
///
/// A CTA that takes a ticket or a lock learns what all CTAs before it did, and passes it on with one entry more. Copies therefore
/// share what they have in common: it is a radix tree whose nodes do not change once shared. A join visits only nodes that differ,
/// and where one side knows all that the other does, the result shares the side's node again. N CTAs in a row thus cost N times the
/// height of the tree, not N times N.
#[derive(Debug, Clone, Default)]
pub(super) struct Others {
    root: Option<Rc<Node>>,
    /// Levels of inner nodes: the CTAs below 2^([`FANOUT_BITS`] × height) have a place.
    height: u32,
}

/// How the join of two nodes relates to them.
enum Joined {
    /// They are equal.
    Both,
    /// The first one includes the second.
    First,
    Second,
    Neither(Rc<Node>),
}

impl Others {
    /// The clock of a warp of a CTA; 0 if nothing is known.
    pub(super) fn clock(&self, cta: u32, warp: u32) -> u32 {
        self.cta(cta).map_or(0, |clock| clock[warp as usize % WARPS])
    }

    pub(super) fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    fn cta(&self, cta: u32) -> Option<&Clock> {
        let mut node = self.root.as_ref().filter(|_| has_place(cta, self.height))?;
        let mut height = self.height;
        loop {
            match &**node {
                Node::Cta(clock) => return Some(clock),
                Node::Inner(children) => {
                    height -= 1;
                    node = children[digit(cta, height)].as_ref()?;
                }
            }
        }
    }

    fn add(&mut self, cta: u32, clock: &Clock) {
        let mut height = 0;
        while !has_place(cta, height) {
            height += 1;
        }
        let mut root = Rc::new(Node::Cta(*clock));
        for level in 0..height {
            let mut children = [const { None }; FANOUT];
            children[digit(cta, level)] = Some(root);
            root = Rc::new(Node::Inner(children));
        }
        self.join(&Self { root: Some(root), height });
    }

    pub(super) fn join(&mut self, from: &Self) {
        let Some(source) = &from.root else { return };
        let Some(own) = &self.root else {
            *self = from.clone();
            return;
        };
        let higher = self.height.max(from.height);
        let (own, source) = (raised(own, self.height, higher), raised(source, from.height, higher));
        self.height = higher;
        self.root = Some(match joined(&own, &source) {
            Joined::First => own,
            Joined::Both | Joined::Second => source,
            Joined::Neither(node) => node,
        });
    }
}

/// Whether a CTA has a place in a tree of this height.
fn has_place(cta: u32, height: u32) -> bool {
    cta.checked_shr(FANOUT_BITS * height).unwrap_or(0) == 0
}

/// The index of a CTA among the children of a node at this height above the CTAs.
fn digit(cta: u32, height: u32) -> usize {
    (cta >> (FANOUT_BITS * height)) as usize % FANOUT
}

/// The root of a tree of greater height with the same clocks.
fn raised(root: &Rc<Node>, height: u32, to: u32) -> Rc<Node> {
    let mut root = Rc::clone(root);
    for _ in height..to {
        let mut children = [const { None }; FANOUT];
        children[0] = Some(root);
        root = Rc::new(Node::Inner(children));
    }
    root
}

/// The join of two nodes at the same height.
fn joined(first: &Rc<Node>, second: &Rc<Node>) -> Joined {
    work::count(1);
    if Rc::ptr_eq(first, second) {
        return Joined::Both;
    }
    match (&**first, &**second) {
        (Node::Inner(a), Node::Inner(b)) => {
            let (mut is_first, mut is_second) = (true, true);
            let children = std::array::from_fn(|n| match (&a[n], &b[n]) {
                (None, None) => None,
                (Some(a), None) => {
                    is_second = false;
                    Some(Rc::clone(a))
                }
                (None, Some(b)) => {
                    is_first = false;
                    Some(Rc::clone(b))
                }
                (Some(a), Some(b)) => Some(match joined(a, b) {
                    Joined::Both => Rc::clone(b),
                    Joined::First => {
                        is_second = false;
                        Rc::clone(a)
                    }
                    Joined::Second => {
                        is_first = false;
                        Rc::clone(b)
                    }
                    Joined::Neither(node) => {
                        (is_first, is_second) = (false, false);
                        node
                    }
                }),
            });
            match (is_first, is_second) {
                (true, true) => Joined::Both,
                (true, false) => Joined::First,
                (false, true) => Joined::Second,
                (false, false) => Joined::Neither(Rc::new(Node::Inner(children))),
            }
        }
        (Node::Cta(a), Node::Cta(b)) => {
            let pairs = || a.iter().zip(b);
            match (pairs().all(|(a, b)| a >= b), pairs().all(|(a, b)| a <= b)) {
                (true, true) => Joined::Both,
                (true, false) => Joined::First,
                (false, true) => Joined::Second,
                (false, false) => {
                    let mut clock = *a;
                    join(&mut clock, b);
                    Joined::Neither(Rc::new(Node::Cta(clock)))
                }
            }
        }
        // Nodes of one height are of one kind; the one with more below includes the other.
        (Node::Inner(_), Node::Cta(_)) => Joined::First,
        (Node::Cta(_), Node::Inner(_)) => Joined::Second,
    }
}

/// What a warp knows: the warps of its own CTA, and those of others.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    pub(super) own: Clock,
    pub(super) others: Others,
}

impl Known {
    pub(super) fn join(&mut self, from: &Self) {
        join(&mut self.own, &from.own);
        self.others.join(&from.others);
    }

    /// What is known, as seen from outside every CTA: its own CTA is one of the others.
    pub(super) fn outside(&self, cta: u32) -> Others {
        let mut all = self.others.clone();
        all.add(cta, &self.own);
        all
    }

    /// Learns what another CTA has others.
    pub(super) fn learn(&mut self, others: &Others, cta: u32) {
        if let Some(clock) = others.cta(cta) {
            join(&mut self.own, clock);
        }
        self.others.join(others);
    }
}

/// Joins an optional clock.
pub(super) fn join_some(to: &mut Option<Box<Known>>, from: Option<&Known>) {
    match (to, from) {
        (_, None) => {}
        (Some(to), Some(from)) => to.join(from),
        (to, Some(from)) => *to = Some(Box::new(from.clone())),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::run::random::Random;

    #[test]
    fn joins_keep_the_later_clock_of_every_warp() {
        let mut random = Random(3);
        let mut trees: Vec<(Others, HashMap<u32, Clock>)> = vec![Default::default(); 8];
        for _ in 0..4000 {
            let (to, from) = (random.below(8), random.below(8));
            if random.below(3) == 0 {
                let most = [9, 40, 70_000][random.below(3)];
                let cta = 1 + random.below(most) as u32;
                let mut clock = [0; WARPS];
                clock[random.below(3)] = random.below(50) as u32;
                trees[to].0.add(cta, &clock);
                join(trees[to].1.entry(cta).or_default(), &clock);
            } else {
                let (tree, map) = trees[from].clone();
                trees[to].0.join(&tree);
                map.iter().for_each(|(cta, clock)| join(trees[to].1.entry(*cta).or_default(), clock));
            }
            let (tree, map) = &trees[to];
            for (cta, clock) in map {
                assert_eq!(tree.cta(*cta), Some(clock), "CTA {cta}");
                assert_eq!(tree.clock(cta + 70_000, 1), map.get(&(cta + 70_000)).map_or(0, |c| c[1]));
            }
            assert!(tree.cta(u32::MAX).is_none());
        }
    }
}
