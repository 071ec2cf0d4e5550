//! `finalize_research`: puts the inbox of search results in order.
//!
//! Owns the call around it. Its traces are the overview and every file that leaves the inbox: after a crash they say whether
//! it was done, and what is left is done by doing the same again.

use longhaul_core::json::Json;
use longhaul_core::tool::{EffectClass, Failure, Found, Outcome, Trace};
use longhaul_workspace::{ABSENT, digest_of};
use schemars::JsonSchema;
use serde::Deserialize;

use super::inbox::{Error, Files, Plan, inbox_path};
use crate::arguments::{parse, schema};
use crate::change;
use crate::tool::{BoxFuture, Context, Tool, ToolSpec, blocking, refused};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// The task the research is for, as in `tasks/01/`.
    task_id: String,
}

pub struct FinalizeResearch(ToolSpec);

impl FinalizeResearch {
    pub fn new() -> FinalizeResearch {
        FinalizeResearch(ToolSpec {
            name: "finalize_research".to_owned(),
            description: "Puts new search results in order: lists every source in tasks/ID/research_overview.md, writes its text \
                          to a file beside it, and moves the raw JSON from search_results/ to search_results/processed_json/. \
                          Later iterations read the overview."
                .to_owned(),
            class: EffectClass::Checkable,
            schema: schema::<Args>(),
        })
    }

    async fn traces(&self, context: &Context, args: &Json) -> Result<Vec<Trace>, Outcome> {
        let args: Args = parse(args, &self.0.schema)?;
        let workspace = context.workspace.clone();
        blocking(move || {
            let plan = Plan::of(&workspace, &args.task_id, Files::All).map_err(|error| failed(&error))?;
            if plan.moves.is_empty() {
                return Ok(Vec::new());
            }
            let after = digest_of(plan.writing.overview.as_bytes());
            let mut traces = vec![Trace { target: plan.overview(), before: plan.before, after }];
            traces.extend(plan.moves.into_iter().map(|(name, digest)| Trace {
                target: inbox_path(&name),
                before: digest,
                after: ABSENT.to_owned(),
            }));
            Ok(traces)
        })
        .await?
    }

    async fn make(&self, context: &Context, args: &Json, traces: &[Trace]) -> Result<Outcome, Outcome> {
        let args: Args = parse(args, &self.0.schema)?;
        let (context, traces) = (context.clone(), traces.to_vec());
        blocking(move || {
            let prepared = |name: &str| traces.iter().any(|trace| trace.target == inbox_path(name));
            let files = if traces.is_empty() { Files::All } else { Files::Of(&prepared) };
            let plan = Plan::of(&context.workspace, &args.task_id, files).map_err(|error| failed(&error))?;
            let overview = traces.first().filter(|trace| trace.target == plan.overview());
            if overview.is_some_and(|trace| plan.before != trace.before && plan.before != trace.after) {
                return Err(change::changed_meanwhile(&plan.overview()));
            }
            let done = plan.perform(&context.workspace, &context.key).map_err(|error| failed(&error))?;
            Ok(Outcome::done(done.report()))
        })
        .await?
    }
}

fn failed(error: &Error) -> Outcome {
    match error {
        Error::Workspace(error) => refused(error),
        Error::Task { .. } => Outcome::failed(Failure::InvalidArguments, error.to_string()),
        Error::TooLong { .. } | Error::NotText { .. } => Outcome::failed(Failure::Tool, error.to_string()),
    }
}

impl Default for FinalizeResearch {
    fn default() -> FinalizeResearch {
        FinalizeResearch::new()
    }
}

impl Tool for FinalizeResearch {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn prepare<'a>(
        &'a self,
        context: &'a Context,
        args: &'a Json,
    ) -> BoxFuture<'a, Result<Vec<Trace>, Outcome>> {
        Box::pin(self.traces(context, args))
    }

    fn run<'a>(
        &'a self,
        context: &'a Context,
        args: &'a Json,
        traces: &'a [Trace],
    ) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { self.make(context, args, traces).await.unwrap_or_else(|outcome| outcome) })
    }

    /// Done in part is not done: the next attempt does the rest.
    fn check<'a>(&'a self, context: &'a Context, _: &'a Json, traces: &'a [Trace]) -> BoxFuture<'a, Found> {
        Box::pin(async move {
            let mut all = if traces.is_empty() { Found::NotDone } else { Found::Done };
            for trace in traces {
                let found = change::check(context, trace.target.clone(), std::slice::from_ref(trace)).await;
                all = match (all, found) {
                    (Found::Unknown, _) | (_, Found::Unknown) => Found::Unknown,
                    (Found::NotDone, _) | (_, Found::NotDone) => Found::NotDone,
                    (Found::Done, Found::Done) => Found::Done,
                };
            }
            all
        })
    }
}
