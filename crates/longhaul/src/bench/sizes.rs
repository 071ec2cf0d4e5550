//! How much is measured. Fewer steps give the same rows with more noise.

/// The counts of one benchmark.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Durable steps of the one long run.
    pub steps: usize,
    pub runs: usize,
    /// Steps of each of the many runs, in each round.
    pub run_steps: usize,
    pub rounds: usize,
    pub kills: usize,
    /// Steps a run has behind it when it is killed.
    pub killed_at: [usize; 2],
    pub events: usize,
    pub suspended: usize,
    pub starts: usize,
    /// Runs that are listed.
    pub listed: usize,
    pub overhead_steps: usize,
}

impl Sizes {
    /// What the targets speak of.
    pub const FULL: Sizes = Sizes {
        steps: 10_000,
        runs: 100,
        run_steps: 100,
        rounds: 9,
        kills: 7,
        killed_at: [1_000, 10_000],
        events: 100_000,
        suspended: 1_000,
        starts: 31,
        listed: 10_000,
        overhead_steps: 10_000,
    };

    /// Enough to see every row.
    pub const QUICK: Sizes = Sizes {
        steps: 500,
        runs: 8,
        run_steps: 20,
        rounds: 1,
        kills: 1,
        killed_at: [20, 100],
        events: 2_000,
        suspended: 20,
        starts: 3,
        listed: 30,
        overhead_steps: 500,
    };
}

/// The counts of the benchmark of models.
#[derive(Clone, Copy, Debug)]
pub struct ModelSizes {
    /// Bytes of one streamed reply.
    pub stream_bytes: usize,
    /// How often it is read.
    pub rounds: usize,
    /// Exchanges of one block.
    pub exchanges: usize,
}

impl ModelSizes {
    /// What the targets speak of.
    pub const FULL: ModelSizes = ModelSizes { stream_bytes: 2_000_000, rounds: 200, exchanges: 200 };

    /// Enough to see every row.
    pub const QUICK: ModelSizes = ModelSizes { stream_bytes: 100_000, rounds: 3, exchanges: 5 };
}
