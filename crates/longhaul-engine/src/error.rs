//! What can go wrong between deciding and doing, apart from what the agent itself is told.

use std::path::PathBuf;

use longhaul_core::codec;
use longhaul_core::decide::Refusal;
use longhaul_core::document;
use longhaul_core::ids::{BadId, RunId};
use longhaul_core::run::Misfit;
use longhaul_core::spec::BadSpec;
use longhaul_core::status::Status;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] longhaul_store::Error),
    #[error("run {run} cannot be read")]
    Journal { run: RunId, source: Unreadable },
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Spec(#[from] BadSpec),
    #[error("cannot open workspace {path}")]
    Workspace { path: PathBuf, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("the workspace of {run} could not be set up: {why}")]
    SetUp { run: RunId, why: String },
    #[error("workspace {path} is gone, and with it what the run had done there")]
    WorkspaceGone { path: PathBuf },
    #[error("model {name} cannot be used")]
    Model { name: String, source: longhaul_model::ResolveError },
    #[error("a limit on cost cannot be kept: what {name} charges is not known")]
    Unpriced { name: String },
    #[error("the run waits for nothing and yet does not end; this is a bug in longhaul")]
    Stuck,
    #[error("the run's driver ended abnormally: {0}")]
    Driver(String),
    #[error("cannot put an answer on record in {path}")]
    Answer { path: PathBuf, source: std::io::Error },
    #[error("cannot move what sub-agents did to {path}")]
    PutAway { path: PathBuf, source: std::io::Error },
    #[error("{0}")]
    Crew(String),
    #[error("{run} works for {parent}, which has ended")]
    ParentEnded { run: RunId, parent: RunId },
    #[error("no randomness for an id")]
    Randomness(#[from] getrandom::Error),
    #[error("{0} has no journal beginning")]
    Empty(RunId),
    #[error(transparent)]
    Document(#[from] document::Error),
    #[error("{path} is not a binary export: {why}")]
    Export { path: String, why: String },
    #[error(transparent)]
    Id(#[from] BadId),
    #[error("run {run} has no checkpoint {point} that can be read; it has {there}")]
    NoCheckpoint { run: RunId, point: String, there: String },
    #[error("run {run} had {status} with checkpoint {point}: there is nothing to go on with")]
    EndedThen { run: RunId, point: String, status: Status },
    #[error("{path}, where {run} worked, is gone: there is nothing to write its files to")]
    PlaceGone { run: RunId, path: PathBuf },
    #[error("run {run} was not rewound, or its rewind can no longer be undone")]
    NotRewound { run: RunId },
    #[error("no files were stored with checkpoint {point} of run {run}")]
    NoFiles { run: RunId, point: String },
    #[error("the files of checkpoint {point} of run {run} are no longer all there")]
    FilesLost { run: RunId, point: String },
    #[error("cannot bring the files in {path} to a checkpoint")]
    Files { path: PathBuf, source: longhaul_workspace::checkpoints::Error },
    #[error("cannot write down in {path} what is about to happen")]
    Note { path: PathBuf, source: std::io::Error },
    #[error("stored files are left as they are while run {run} is at work")]
    AtWork { run: RunId },
    #[error("run {run} cannot be read to its end, so nobody knows which stored files it needs")]
    NeedsUnknown { run: RunId },
    #[error("cannot give back what stored files take in {path}")]
    Prune { path: PathBuf, source: longhaul_workspace::checkpoints::Error },
    #[error("run {run} has a sub-agent at work at checkpoint {point}, which two runs cannot share")]
    ChildAtWork { run: RunId, point: String },
    #[error("{run} works in {whose}, whose files are also other runs'")]
    Shared { run: RunId, whose: String },
    #[error("{run} works where {parent} does, whose files those are")]
    OfParent { run: RunId, parent: RunId },
    #[error("{other} is at work where {run} works")]
    OtherAtWork { run: RunId, other: RunId },
    #[error("run {run} is kept in the fallback database and cannot be taken back there")]
    NotInEngine { run: RunId },
}

/// Why the events of a run do not make a run.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Unreadable {
    #[error(transparent)]
    Codec(#[from] codec::Error),
    #[error(transparent)]
    Misfit(#[from] Misfit),
}
