//! The order of runs: A B A B ..., so that a disturbance of the machine affects all tools.

/// One run in a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    /// From 0 up. Runs of one round are neighbours in time, and only those are compared.
    pub(crate) round: usize,
    /// Place in the list of contenders.
    pub(crate) contender: usize,
}

/// Everyone once, then everyone again, in the same order.
pub(crate) fn interleaved(contenders: usize, rounds: usize) -> impl Iterator<Item = Turn> {
    (0..rounds).flat_map(move |round| (0..contenders).map(move |contender| Turn { round, contender }))
}

/// Values by contender and round. A round that did not come to its end is not kept.
#[derive(Clone, Debug)]
pub(crate) struct Rounds {
    by_contender: Vec<Vec<f64>>,
}

impl Rounds {
    /// For so many contenders.
    pub(crate) fn new(contenders: usize) -> Self {
        Self { by_contender: vec![Vec::new(); contenders] }
    }

    /// Notes what a turn gave; turns come in the order of the schedule.
    pub(crate) fn push(&mut self, turn: Turn, value: f64) {
        let values = &mut self.by_contender[turn.contender];
        assert_eq!(values.len(), turn.round, "turns come in order");
        values.push(value);
    }

    /// The values of one contender, whole rounds only.
    pub(crate) fn of(&self, contender: usize) -> &[f64] {
        &self.by_contender[contender][..self.whole()]
    }

    /// Number of rounds in which everyone had a turn.
    pub(crate) fn whole(&self) -> usize {
        self.by_contender.iter().map(Vec::len).min().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contenders_take_turns() {
        let order: Vec<_> = interleaved(3, 2).map(|turn| (turn.round, turn.contender)).collect();
        assert_eq!(order, [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]);
        assert_eq!(interleaved(2, 0).count(), 0);
    }

    #[test]
    fn half_a_round_does_not_count() {
        let mut rounds = Rounds::new(2);
        for (turn, value) in interleaved(2, 9).zip([1.0, 2.0, 3.0, 4.0, 5.0]) {
            rounds.push(turn, value);
        }
        assert_eq!(rounds.whole(), 2);
        assert_eq!((rounds.of(0), rounds.of(1)), (&[1.0, 3.0][..], &[2.0, 4.0][..]));
    }
}
