//! `write`: puts a whole file in place.
//!
//! Owns its arguments and its wording. Refuses to append or to merge; whatever was there is replaced.

use longhaul_core::json::Json;
use longhaul_core::tool::{EffectClass, Found, Outcome, Trace};
use longhaul_workspace::digest_of;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::arguments::{parse, schema};
use crate::change::{self, Change};
use crate::tool::{BoxFuture, Context, Tool, ToolSpec, blocking, refused};
use crate::{really, tag};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Path of the file, relative to the workspace.
    path: String,
    /// The whole new content of the file.
    content: String,
}

pub struct Write(ToolSpec);

impl Write {
    pub fn new() -> Write {
        Write(ToolSpec {
            name: "write".to_owned(),
            description: "Creates a file or replaces its whole content. Missing directories are created. \
                          To change part of an existing file, use edit."
                .to_owned(),
            class: EffectClass::Checkable,
            schema: schema::<Args>(),
        })
    }

    async fn change(&self, context: &Context, args: &Json) -> Result<Change, Outcome> {
        let args: Args = parse(args, &self.0.schema)?;
        let context = context.clone();
        blocking(move || {
            let workspace = &context.workspace;
            really::permitted(&context, "write", &args.path)?;
            let before = workspace.digest(&args.path).map_err(|error| refused(&error))?;
            let bytes = args.content.into_bytes();
            let after = digest_of(&bytes);
            let report = format!("wrote {} bytes to {} (tag {})", bytes.len(), args.path, tag::of(&after));
            Ok(Change { path: args.path, before, after, bytes, report })
        })
        .await?
    }

    async fn make(&self, context: &Context, args: &Json, trace: Option<&Trace>) -> Result<Outcome, Outcome> {
        let change = self.change(context, args).await?;
        let (context, trace) = (context.clone(), trace.cloned());
        blocking(move || change.make(&context, trace.as_ref())).await
    }
}

impl Default for Write {
    fn default() -> Write {
        Write::new()
    }
}

impl Tool for Write {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn prepare<'a>(
        &'a self,
        context: &'a Context,
        args: &'a Json,
    ) -> BoxFuture<'a, Result<Vec<Trace>, Outcome>> {
        Box::pin(async move { Ok(vec![self.change(context, args).await?.trace()]) })
    }

    fn run<'a>(
        &'a self,
        context: &'a Context,
        args: &'a Json,
        traces: &'a [Trace],
    ) -> BoxFuture<'a, Outcome> {
        Box::pin(
            async move { self.make(context, args, traces.first()).await.unwrap_or_else(|outcome| outcome) },
        )
    }

    fn check<'a>(
        &'a self,
        context: &'a Context,
        args: &'a Json,
        traces: &'a [Trace],
    ) -> BoxFuture<'a, Found> {
        Box::pin(async move {
            match parse::<Args>(args, &self.0.schema) {
                Ok(args) => change::check(context, args.path, traces).await,
                Err(_) => Found::Unknown,
            }
        })
    }
}
