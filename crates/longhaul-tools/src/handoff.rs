//! `handoff`: writes down where the work stands, for whoever goes on without this conversation.
//!
//! Owns the tool; what a handoff is and which one is valid is decided in core. Refuses to write one that could not be read back.

use longhaul_core::handoff::{Handoff, PATH};
use longhaul_core::json::Json;
use longhaul_core::tool::{EffectClass, Found, Outcome, Trace};
use longhaul_workspace::{Workspace, digest_of};

use crate::arguments::{invalid, schema};
use crate::change::{self, Change};
use crate::tool::{BoxFuture, Context, Tool, ToolSpec, blocking, refused};

pub struct WriteHandoff(ToolSpec);

impl WriteHandoff {
    pub fn new() -> WriteHandoff {
        WriteHandoff(ToolSpec {
            name: "handoff".to_owned(),
            description: "Writes state/handoff.json: where the work stands, whole each time. After a restart with an empty \
                          context it is all that is known besides the files, so write it whenever a part of the work is done \
                          and before you stop."
                .to_owned(),
            class: EffectClass::Checkable,
            schema: schema::<Handoff>(),
        })
    }

    async fn change(context: &Context, args: &Json) -> Result<Change, Outcome> {
        let handoff = Handoff::parse(args.as_str()).map_err(|bad| invalid(bad.to_string()))?;
        let text = handoff.to_json();
        // As a file it is longer than as arguments.
        Handoff::parse(&text).map_err(|bad| invalid(bad.to_string()))?;
        let workspace = context.workspace.clone();
        blocking(move || {
            let before = workspace.digest(PATH).map_err(|error| refused(&error))?;
            let bytes = text.into_bytes();
            let report = report(&workspace, &handoff);
            Ok(Change { path: PATH.to_owned(), before, after: digest_of(&bytes), bytes, report })
        })
        .await?
    }

    async fn make(context: &Context, args: &Json, trace: Option<&Trace>) -> Result<Outcome, Outcome> {
        let change = WriteHandoff::change(context, args).await?;
        let (context, trace) = (context.clone(), trace.cloned());
        blocking(move || change.make(&context, trace.as_ref())).await
    }
}

/// A file that is named and not there would send the next iteration looking for it.
fn report(workspace: &Workspace, handoff: &Handoff) -> String {
    let is_there = |path: &str| matches!(workspace.metadata(path), Ok(Some(_)));
    let missing: Vec<&str> =
        handoff.critical_files.iter().map(String::as_str).filter(|path| !is_there(path)).collect();
    if missing.is_empty() {
        return format!("wrote {PATH}");
    }
    format!("wrote {PATH}; of its critical_files these are not in the workspace: {}", missing.join(", "))
}

impl Default for WriteHandoff {
    fn default() -> WriteHandoff {
        WriteHandoff::new()
    }
}

impl Tool for WriteHandoff {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn prepare<'a>(
        &'a self,
        context: &'a Context,
        args: &'a Json,
    ) -> BoxFuture<'a, Result<Vec<Trace>, Outcome>> {
        Box::pin(async move { Ok(vec![WriteHandoff::change(context, args).await?.trace()]) })
    }

    fn run<'a>(
        &'a self,
        context: &'a Context,
        args: &'a Json,
        traces: &'a [Trace],
    ) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            WriteHandoff::make(context, args, traces.first()).await.unwrap_or_else(|outcome| outcome)
        })
    }

    fn check<'a>(
        &'a self,
        context: &'a Context,
        _args: &'a Json,
        traces: &'a [Trace],
    ) -> BoxFuture<'a, Found> {
        Box::pin(change::check(context, PATH.to_owned(), traces))
    }
}
